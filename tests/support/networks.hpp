// SPDX-License-Identifier: Apache-2.0
// Networks and op graphs for tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/network.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"

namespace gpusim::test {

inline NetworkSizes sizes(std::int64_t batch, std::int64_t sequence, StepKind step = StepKind::Inference,
                          std::initializer_list<std::pair<std::string_view, NetworkValue>> parameters = {},
                          ElementType dtype = ElementType::Bf16) {
  NetworkSizes result{.batch = batch, .sequence = sequence, .step = step, .dtype = dtype, .parameters = {}};
  for (const auto& [name, value] : parameters) result.parameters.emplace(name, value);
  return result;
}

/// A network of configs/networks.
inline Network shipped_network(const std::string& name) {
  return config::read_network_file(
      config::load_file(std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs/networks" / (name + ".yaml")),
      name);
}

inline Network network_of(const std::string& yaml) {
  return config::read_network_file(config::load_text(yaml, "n.yaml"), "n");
}

/// A network whose body is these lines over the inputs x [2, 3, 4] and y [3, 4], both of the network's dtype,
/// and i [5] of int64; it gives `z`.
inline std::string small_network(const std::string& lines) {
  return "name: small\ninputs:\n  x: {shape: [2, 3, 4]}\n  y: {shape: [3, 4]}\n  i: {shape: [5], dtype: "
         "int64}\n"
         "body:\n" +
         lines + "gives: [z]\n";
}

inline OpGraph small_graph(const std::string& lines, const NetworkSizes& s = sizes(1, 1)) {
  return build_graph(network_of(small_network(lines)), s);
}

/// The tensor that a network gives.
inline const TensorType& given(const OpGraph& graph, std::size_t index = 0) {
  return graph.tensors[graph.outputs[index]].type;
}

inline GpuSpec h200() {
  const config::SearchPath search;
  return config::read_hardware(
      config::load_file(std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs/hardware/h200.yaml"), search);
}

/// The op as the functions of its kind see it; holds what the view points to.
struct Seen {
  Seen(const OpGraph& graph, const Op& op) : attributes(op.attributes) {
    for (const TensorIndex t : op.inputs) in.push_back(t == graph_none ? nullptr : &graph.tensors[t].type);
    for (const TensorIndex t : op.outputs) out.push_back(&graph.tensors[t].type);
  }
  OpView view() const { return {in, attributes, out}; }
  std::vector<const TensorType*> in;
  std::vector<const TensorType*> out;
  const Attributes& attributes;
};

inline double model_flops(const OpGraph& graph) {
  double sum = 0;
  for (const Op& op : graph.ops)
    if (op.kind->flops != nullptr) sum += op.kind->flops(Seen(graph, op).view()).value();
  return sum;
}

/// All GPU ops that eager PyTorch runs, by their names, in order.
inline std::vector<std::string> eager_gpu_ops(const OpGraph& graph, const GpuSpec& gpu) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops)
    for (const EagerCall& call : op.kind->eager(Seen(graph, op).view(), gpu))
      for (const KernelWork& work : call.work)
        for (const GpuOpEstimate& one : gpu_ops(work, gpu)) names.emplace_back(one.name);
  return names;
}

/// How many works (and so, products and reductions apart, kernels) the framework asks for.
inline std::size_t eager_works(const OpGraph& graph, const GpuSpec& gpu) {
  std::size_t count = 0;
  for (const Op& op : graph.ops)
    for (const EagerCall& call : op.kind->eager(Seen(graph, op).view(), gpu)) count += call.work.size();
  return count;
}

}  // namespace gpusim::test
