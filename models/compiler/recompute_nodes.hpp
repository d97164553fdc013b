// SPDX-License-Identifier: Apache-2.0
// An op graph's forward and backward pass as values (JointGraph), and back. Internal to models/compiler.
#pragma once

#include <vector>

#include "models/compiler/recompute.hpp"
#include "models/compiler/recompute_graph.hpp"

namespace gpusim {

struct JointOps {
  JointGraph graph;
  // By node.
  std::vector<TensorIndex> tensor;  ///< graph_none: several, or none.
  std::vector<OpIndex> op;          ///< graph_none: given to the step.
  // By tensor and op; the largest number: has none.
  std::vector<JointIndex> node_of_tensor;
  std::vector<JointIndex> node_of_op;
};

/// A node for each tensor that is given and read before the optimizer, for each op before the optimizer, and
/// for each used output of an op that has several. Bytes are those of all elements, as AOTAutograd counts
/// them; run times are FLOPs or the options' times.
JointOps joint_ops(const OpGraph& graph, const RecomputeOptions& options);

}  // namespace gpusim
