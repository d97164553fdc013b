// SPDX-License-Identifier: Apache-2.0
// The ops of a network as traffic sees them: views resolved, memory that changes its contents followed.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "models/compiler/traffic.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

/// What a piece of memory holds as ops go by.
struct Contents {
  TensorIndex root = graph_none;     ///< Whose contents it has.
  std::vector<TensorIndex> changes;  ///< Parts that were written since.
  std::vector<OpIndex> readers;      ///< Since the last write.
  bool before = false;               ///< It was there before the step.
};

/// Ops in place that do not look at what they overwrite.
bool stores(const OpKind& kind) {
  constexpr std::array<std::string_view, 4> names{"copy_", "index_put_", "index_copy_", "scatter_"};
  return std::find(names.begin(), names.end(), kind.name) != names.end();
}

class Converter {
 public:
  explicit Converter(const OpGraph& graph) : graph_(graph), memory_(graph.storages.size()) {
    traffic_.ops.reserve(graph.ops.size());
    traffic_.tensors.reserve(graph.tensors.size());
    for (TensorIndex t = 0; t < graph.tensors.size(); ++t) {
      const GraphTensor& tensor = graph.tensors[t];
      const Bytes bytes = stored_bytes(tensor.type);
      traffic_.tensors.push_back({.read = bytes, .written = bytes});
      Contents& contents = memory_[tensor.storage];
      if (tensor.producer != graph_none || contents.root != graph_none) continue;
      contents.root = t;
      contents.before = true;
    }
  }

  TrafficGraph convert() {
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) add(i);
    for (const TensorIndex t : graph_.outputs) give(memory_[graph_.tensors[t].storage]);
    for (const Contents& contents : memory_)
      if (contents.before) give(contents);
    std::sort(traffic_.outputs.begin(), traffic_.outputs.end());
    traffic_.outputs.erase(std::unique(traffic_.outputs.begin(), traffic_.outputs.end()),
                           traffic_.outputs.end());
    return std::move(traffic_);
  }

 private:
  Contents& memory_of(TensorIndex t) { return memory_[graph_.tensors[t].storage]; }

  void add(OpIndex index) {
    const Op& op = graph_.ops[index];
    MovingOp moving{.name = op.name};
    if (is_view(op)) {
      for (const TensorIndex t : op.outputs) traffic_.tensors[t].whole = memory_of(t).root;
      traffic_.ops.push_back(std::move(moving));
      return;
    }
    const bool in_place = !op.outputs.empty() && shares_memory(op.outputs.front(), op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == graph_none) continue;
      if (i == 0 && in_place && stores(*op.kind)) continue;
      read(index, op.inputs[i], bytes_read(op, i), moving);
    }
    if (in_place)
      overwrite(op, moving);
    else
      for (const TensorIndex t : op.outputs) make(op, t, moving);
    std::sort(moving.after.begin(), moving.after.end());
    moving.after.erase(std::unique(moving.after.begin(), moving.after.end()), moving.after.end());
    moving.after.erase(std::remove(moving.after.begin(), moving.after.end(), index), moving.after.end());
    traffic_.ops.push_back(std::move(moving));
  }

  bool shares_memory(TensorIndex output, const Op& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex t) {
      return t != graph_none && graph_.tensors[t].storage == graph_.tensors[output].storage;
    });
  }
  /// All it gives is memory that it was given, unchanged. (Reshapes and casts that have to copy are none.)
  bool is_view(const Op& op) const {
    if (op.outputs.empty() || op.kind->recompute == RecomputeClass::Never) return false;
    return std::all_of(op.outputs.begin(), op.outputs.end(),
                       [&](TensorIndex t) { return shares_memory(t, op); });
  }

  Bytes bytes_read(const Op& op, std::size_t input) const {
    const Bytes all = stored_bytes(graph_.tensors[op.inputs[input]].type);
    // The table comes first, but for an embedding, where the indices do.
    const std::size_t table = op.kind->name == "embedding" ? 1 : 0;
    if (op.kind->fusion == FusionClass::Gather && input == table)
      return std::min(all, dense_bytes(graph_.tensors[op.outputs.front()].type));
    if (op.kind->name == "index_add_" && input == 0) return changed_bytes(op);
    return all;
  }
  /// What an op in place writes: as much as it is given, where it stores at chosen places.
  Bytes changed_bytes(const Op& op) const {
    const Bytes all = dense_bytes(graph_.tensors[op.outputs.front()].type);
    if (op.kind->fusion != FusionClass::Scatter) return all;
    return std::min(all, dense_bytes(graph_.tensors[op.inputs.back()].type));
  }

  void read(OpIndex index, TensorIndex t, Bytes bytes, MovingOp& moving) {
    Contents& contents = memory_of(t);
    contents.readers.push_back(index);
    moving.inputs.push_back(look(t, contents.root, bytes));
    moving.inputs.insert(moving.inputs.end(), contents.changes.begin(), contents.changes.end());
  }

  /// The tensor to read `t` by, now that its memory has the contents of `root`.
  TensorIndex look(TensorIndex t, TensorIndex root, Bytes bytes) {
    const MovedTensor& own = traffic_.tensors[t];
    if (own.read == bytes && (t == root || own.whole == root)) return t;
    traffic_.tensors.push_back({.read = bytes, .written = Bytes(0), .whole = root});
    return static_cast<TensorIndex>(traffic_.tensors.size() - 1);
  }

  void make(const Op& op, TensorIndex t, MovingOp& moving) {
    const Bytes bytes = dense_bytes(graph_.tensors[t].type);
    traffic_.tensors[t] = {.read = bytes, .written = op.kind->name == "empty" ? Bytes(0) : bytes};
    memory_of(t).root = t;
    moving.outputs.push_back(t);
  }

  void overwrite(const Op& op, MovingOp& moving) {
    const TensorIndex t = op.outputs.front();
    Contents& contents = memory_of(t);
    // What it replaces has to be there, and those that want it have to be done.
    moving.after.insert(moving.after.end(), contents.readers.begin(), contents.readers.end());
    contents.readers.clear();
    for (const TensorIndex old : contents.changes) moving.after.push_back(graph_.tensors[old].producer);
    if (const OpIndex maker = graph_.tensors[contents.root].producer; maker != graph_none)
      moving.after.push_back(maker);
    const Bytes bytes = changed_bytes(op);
    moving.outputs.push_back(t);
    if (bytes >= graph_.storages[graph_.tensors[t].storage].bytes) {
      traffic_.tensors[t] = {.read = bytes, .written = bytes};
      contents.root = t;
      contents.changes.clear();
      return;
    }
    // A part: who reads the memory from now on reads it as before, and waits for the change.
    traffic_.tensors[t] = {.read = Bytes(0), .written = bytes};
    contents.changes.push_back(t);
  }

  void give(const Contents& contents) {
    if (graph_.tensors[contents.root].producer != graph_none) traffic_.outputs.push_back(contents.root);
    traffic_.outputs.insert(traffic_.outputs.end(), contents.changes.begin(), contents.changes.end());
  }

  const OpGraph& graph_;
  std::vector<Contents> memory_;
  TrafficGraph traffic_;
};

}  // namespace

TrafficGraph traffic_graph(const OpGraph& graph) {
  return Converter(graph).convert();
}

}  // namespace gpusim
