// SPDX-License-Identifier: Apache-2.0
// What is the same in every step is worked out while compiling and kept as a buffer.
#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

/// Whether the op gives the same for the same inputs and does nothing else. `empty` gives anything.
bool is_function(const Op& op, const ConstantRules& rules) {
  if (!rules.ranges && op.kind->name == "arange") return false;
  return !op.outputs.empty() && op.kind->recompute != RecomputeClass::Never &&
         op.kind->recompute != RecomputeClass::Random && op.kind->name != "empty";
}

}  // namespace

void fold_constants(GraphEdit& edit, const ConstantRules& rules, Simplification& report) {
  OpGraph& graph = edit.graph;
  std::vector<std::uint8_t> constant(graph.tensors.size(), 0);
  bool any = false;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    edit.resolve(graph.ops[i]);
    any = any || (graph.ops[i].inputs.empty() && edit.works(i));
  }
  if (rules.parameters)
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const GraphTensor& tensor = graph.tensors[t];
      if (tensor.producer != graph_none || edit.written[tensor.storage] != 0) continue;
      constant[t] = tensor.role == Role::Parameter || tensor.role == Role::Buffer ? 1 : 0;
      any = any || constant[t] != 0;
    }
  if (!any) return;

  const auto foldable = [&](OpIndex i, const Op& op) {
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && constant[t] == 0) return false;
    if (!edit.works(i) || !is_function(op, rules)) return false;
    Bytes made{0};
    for (const TensorIndex t : op.outputs) {
      const GraphTensor& out = graph.tensors[t];
      // Whoever gets it may change it.
      if (edit.given[t] != 0 || edit.handed[t] != 0 || edit.written[out.storage] != 0) return false;
      if (out.role == Role::Activation) made += dense_bytes(out.type);
    }
    return rules.parameters || made <= rules.bytes_max;
  };
  std::vector<OpIndex> folded;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    if (!foldable(i, graph.ops[i])) continue;
    for (const TensorIndex t : graph.ops[i].outputs) constant[t] = 1;
    folded.push_back(i);
  }
  for (const OpIndex i : folded) edit.remove(i, report);
  // Of the constants those are kept that somebody reads who is not one.
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    if (edit.removed[i] != 0) continue;
    for (const TensorIndex t : graph.ops[i].inputs) {
      if (t == graph_none || constant[t] == 0) continue;
      GraphTensor& tensor = graph.tensors[t];
      tensor.producer = graph_none;
      if (tensor.role != Role::Activation) continue;  // A look at a parameter.
      tensor.role = Role::Buffer;
      graph.storages[tensor.storage].role = Role::Buffer;
    }
    // A look at a constant is one, too.
    for (const TensorIndex t : graph.ops[i].outputs)
      if (graph.storages[graph.tensors[t].storage].role == Role::Buffer) graph.tensors[t].role = Role::Buffer;
  }
}

}  // namespace gpusim
