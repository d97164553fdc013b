// SPDX-License-Identifier: Apache-2.0
// An op graph while passes change it. Internal to models/compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/compiler/simplify.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/graph_writer.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Whether the op changes its first tensor: by the catalogue's rule its name ends so.
inline bool in_place(const OpKind& kind) {
  return kind.name.back() == '_';
}

/// Calls `visit` with each storage that was there before the op and that the op writes.
template <class Visit>
void visit_written(const OpGraph& graph, const Op& op, Visit visit) {
  if (op.kind->recompute == RecomputeClass::Never) {
    if (in_place(*op.kind)) {
      visit(graph.tensors[op.inputs.front()].storage);
    } else if (op.outputs.empty()) {
      // An optimizer writes what it is given.
      for (const TensorIndex t : op.inputs)
        if (t != graph_none) visit(graph.tensors[t].storage);
    }
  } else if (op.kind->name == "batch_norm" && op.attributes.flag("training")) {
    for (std::size_t i = 3; i < op.inputs.size(); ++i)  // The running statistics.
      if (op.inputs[i] != graph_none) visit(graph.tensors[op.inputs[i]].storage);
  }
}

/// Passes go over `graph.ops` from the front, mark ops as removed, say which tensor stands for another, and
/// add ops; settle() then brings the ops into order, finish() leaves a graph like any other.
///
/// While passes run, an op's inputs may be tensors that another stands for (see resolve()), and Op::like is
/// what it was at the start: equal for ops that cost the same, unless they are `retyped`.
class GraphEdit {
 public:
  GraphEdit(OpGraph graph, const SimplifyOptions& options);

  OpGraph graph;

  // By op.
  std::vector<std::uint8_t> removed;
  std::vector<std::uint8_t> retyped;  ///< It costs something else than its `like` says.
  std::vector<OpIndex> origin;
  std::vector<std::size_t> region;  ///< Index of SimplifyOptions::regions; 0 where there are none.
  // By storage.
  std::vector<std::uint8_t> written;  ///< An op changes it after it was made.
  // By tensor.
  std::vector<std::uint8_t> given;    ///< The step returns it.
  std::vector<std::uint8_t> handed;   ///< A region makes it and another one reads it.
  std::vector<std::uint8_t> dropped;  ///< Nothing is left of it.

  std::size_t regions() const { return compiled_.size(); }
  bool compiled(OpIndex op) const { return compiled_[region[op]] != 0; }
  bool works(OpIndex op) const { return removed[op] == 0 && compiled(op); }

  /// Looks anew which storages are changed, by the ops that are left.
  void find_written();

  /// From now on `other` stands for `tensor`, and its memory for that of `tensor`.
  void replace(TensorIndex tensor, TensorIndex other);
  /// Makes an op read the tensors that stand for its inputs, and its views look at their memory. Each pass
  /// does so with each op, in order.
  void resolve(Op& op);
  TensorIndex same_as(TensorIndex tensor) const {
    while (same_as_[tensor] != tensor) tensor = same_as_[tensor];
    return tensor;
  }

  /// Marks an op as removed and counts it.
  void remove(OpIndex op, Simplification& report);
  /// Adds an op that stands for `origin`, before the op `before` (or the end of its region).
  void add(Op op, OpIndex before, OpIndex origin, Simplification& report);
  StorageIndex add_storage(Bytes bytes, Role role);
  TensorIndex add_tensor(std::string name, const TensorType& type, Role role);

  /// Puts added ops into their places and takes removed ones out.
  void settle();
  Simplified finish() &&;

 private:
  struct Added {
    Op op;
    OpIndex before = 0;
    OpIndex origin = 0;
    std::size_t region = 0;
  };
  void drop_outputs(std::size_t op);
  void take_out(std::size_t same, std::vector<OpIndex>& now);
  void rebuild(std::size_t same, std::vector<OpIndex>& now);
  void compact_tensors();
  void find_likes();

  std::vector<Region> regions_;
  std::vector<std::uint8_t> compiled_;     ///< By region.
  std::vector<TensorIndex> same_as_;       ///< By tensor: what stands for it, in the end.
  std::vector<StorageIndex> same_memory_;  ///< By storage, in the same way.
  bool replaced_ = false;
  bool any_removed_ = false;
  bool changed_ = false;  ///< Ops have gone or come.
  std::size_t ops_at_first_ = 0;
  std::vector<Added> added_;
};

/// Whether `source` may stand for `copy`, a tensor of the same type and values in memory of its own: neither
/// is changed, and what leaves the step is neither what was there before nor the same as what leaves beside
/// it (the rule of TorchInductor's remove_noop_ops).
bool may_stand_for(const GraphEdit& edit, TensorIndex source, TensorIndex copy);

/// Memory traffic of an op in eager execution, from its tensors alone: nothing for views.
Bytes eager_bytes(const OpGraph& graph, const Op& op);

}  // namespace gpusim
