// SPDX-License-Identifier: Apache-2.0
// Ops that nothing needs go. Needed is what leaves the step (given tensors; whatever is written into memory
// that outlives it), what acts on the host, and what those read.
#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

/// Memory that outlives the step, or that somebody outside looks at.
bool outlives(Role role) {
  return role != Role::Activation;
}

}  // namespace

void remove_dead_code(GraphEdit& edit, bool training, Simplification& report) {
  OpGraph& graph = edit.graph;
  std::vector<std::uint8_t> tensor_needed(graph.tensors.size(), 0);
  // By storage: somebody reads it later, in whatever tensor, so ops that change it are needed.
  std::vector<std::uint8_t> content_needed(graph.storages.size(), 0);
  for (std::size_t s = 0; s < graph.storages.size(); ++s)
    content_needed[s] = outlives(graph.storages[s].role) ? 1 : 0;
  const auto need = [&](TensorIndex t) {
    tensor_needed[t] = 1;
    content_needed[graph.tensors[t].storage] = 1;
  };
  for (const TensorIndex t : graph.outputs) need(edit.same_as(t));
  // What a region hands over it computes whether or not the other one needs it.
  for (TensorIndex t = 0; t < graph.tensors.size(); ++t)
    if (edit.handed[t] != 0) need(edit.same_as(t));
  for (Op& op : graph.ops) edit.resolve(op);
  for (OpIndex i = static_cast<OpIndex>(graph.ops.size()); i-- > 0;) {
    const Op& op = graph.ops[i];
    if (edit.removed[i] != 0) continue;
    bool needed = !edit.compiled(i);
    // Acts on the host, or waits for it; a random number drawn changes those that follow.
    needed = needed || (op.kind->recompute == RecomputeClass::Never && !in_place(*op.kind));
    needed = needed || (training && op.kind->recompute == RecomputeClass::Random);
    visit_written(graph, op, [&](StorageIndex s) { needed = needed || content_needed[s] != 0; });
    for (const TensorIndex t : op.outputs) {
      const GraphTensor& out = graph.tensors[t];
      needed = needed || tensor_needed[t] != 0;
      // A gradient that is made, not a look at a parameter.
      needed = needed || (outlives(out.role) && op.kind->fusion != FusionClass::View &&
                          (op.inputs.empty() || op.inputs.front() == graph_none ||
                           graph.tensors[op.inputs.front()].storage != out.storage));
    }
    if (!needed) {
      edit.remove(i, report);
      continue;
    }
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) need(t);
  }
}

}  // namespace gpusim
