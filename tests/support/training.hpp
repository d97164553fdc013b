// SPDX-License-Identifier: Apache-2.0
// Training steps of networks for tests, and what their backward passes read of the forward passes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "models/graph/training.hpp"
#include "tests/support/networks.hpp"

namespace gpusim::test {

/// As a compiler traces it, the optimizer left out.
inline TrainingOptions joint_options(TrainingPrecision precision = TrainingPrecision::Pure,
                                     LossKind loss = LossKind::Mean) {
  TrainingOptions options;
  options.precision = precision;
  options.loss = loss;
  options.optimizer.kind = OptimizerKind::None;
  options.functional = true;
  return options;
}

/// The mean of `z` as the loss, everything in fp32.
inline OpGraph joint_of(const std::string& yaml, const TrainingOptions& options = joint_options()) {
  return training_graph(build_graph(network_of(yaml), sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)),
                        options);
}

/// "a, b": names of tensors.
inline std::string named(const OpGraph& graph, std::vector<TensorIndex> tensors) {
  std::sort(tensors.begin(), tensors.end());
  std::string text;
  for (const TensorIndex t : tensors) text += (text.empty() ? "" : ", ") + graph.tensors[t].name;
  return text;
}
inline std::string named_ops(const OpGraph& graph, const std::vector<OpIndex>& ops) {
  std::string text;
  for (const OpIndex i : ops) text += (text.empty() ? "" : ", ") + graph.ops[i].name;
  return text;
}

/// What ops of the forward pass make and ops of the backward pass read.
inline std::vector<TensorIndex> read_of_forward(const OpGraph& graph) {
  std::vector<TensorIndex> read;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Backward)
      for (const TensorIndex t : op.inputs) {
        if (t == graph_none || graph.tensors[t].producer == graph_none) continue;
        if (graph.ops[graph.tensors[t].producer].phase == Phase::Forward) read.push_back(t);
      }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  return read;
}

}  // namespace gpusim::test
