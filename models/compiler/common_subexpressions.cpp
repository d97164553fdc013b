// SPDX-License-Identifier: Apache-2.0
// What was computed before is not computed again: of ops of one kind with equal inputs and attributes, the
// first one stands for all of its region.
#include <functional>
#include <string>
#include <variant>

#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

class Hash {
 public:
  void mix(std::uint64_t v) { value_ = (value_ ^ v) * 0x9E3779B97F4A7C15ULL + (value_ >> 29); }
  void operator()(std::monostate) { mix(1); }
  void operator()(bool v) { mix(v ? 3 : 2); }
  void operator()(std::int64_t v) { mix(static_cast<std::uint64_t>(v)); }
  void operator()(double v) { mix(std::hash<double>{}(v)); }
  void operator()(const std::string& v) { mix(std::hash<std::string>{}(v)); }
  void operator()(const Dims& v) {
    for (const std::int64_t d : v) mix(static_cast<std::uint64_t>(d));
  }
  std::size_t value() const { return value_ ^ value_ >> 32; }

 private:
  std::uint64_t value_ = 0;
};

/// Finds an op that was entered before, by its hash. Which one is found depends on the order of entering
/// alone.
class OpTable {
 public:
  explicit OpTable(std::size_t ops) {
    while (places_.size() < 2 * ops) places_.resize(2 * places_.size());
    std::fill(places_.begin(), places_.end(), graph_none);
  }
  /// The first op that `equal` holds for; `op` is entered and given back if there is none.
  template <class Equal>
  OpIndex find_or_enter(std::size_t hash, OpIndex op, Equal equal) {
    for (std::size_t at = hash & (places_.size() - 1);; at = (at + 1) & (places_.size() - 1)) {
      if (places_[at] == graph_none) return places_[at] = op;
      if (equal(places_[at])) return places_[at];
    }
  }

 private:
  std::vector<OpIndex> places_ = std::vector<OpIndex>(16);
};

}  // namespace

void share_common_subexpressions(GraphEdit& edit, Simplification& report) {
  OpGraph& graph = edit.graph;
  OpTable table(graph.ops.size());
  // How often each storage has been changed: an op that reads it later reads something else.
  std::vector<std::uint32_t> version(graph.storages.size(), 0);
  const auto version_of = [&](TensorIndex t) {
    return t == graph_none ? 0 : version[graph.tensors[t].storage];
  };
  // Of the op that was entered, when it ran; storages that are never written need none.
  std::vector<std::uint32_t> versions_read(graph.ops.size(), 0);
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    edit.resolve(op);
    if (edit.removed[i] != 0) continue;
    bool writes = false;
    visit_written(graph, op, [&](StorageIndex s) {
      ++version[s];
      writes = true;
    });
    const RecomputeClass recompute = op.kind->recompute;
    if (writes || !edit.compiled(i) || op.outputs.empty() || recompute == RecomputeClass::Never ||
        recompute == RecomputeClass::Random)
      continue;
    // What is changed later must not be shared; views of it may.
    bool shareable = op.kind->name != "empty";
    for (const TensorIndex t : op.outputs)
      shareable =
          shareable &&
          (edit.written[graph.tensors[t].storage] == 0 ||
           (!op.inputs.empty() && graph.tensors[t].storage == graph.tensors[op.inputs.front()].storage));
    if (!shareable) continue;
    Hash hash;
    hash.mix(reinterpret_cast<std::uintptr_t>(op.kind));
    hash.mix(edit.region[i]);
    for (const TensorIndex t : op.inputs) {
      hash.mix(t);
      versions_read[i] += version_of(t);
    }
    hash.mix(versions_read[i]);
    for (const auto& [name, value] : op.attributes.all()) std::visit(hash, value);
    const OpIndex first = table.find_or_enter(hash.value(), i, [&](OpIndex other) {
      const Op& known = graph.ops[other];
      // Versions only grow, so equal sums are equal versions.
      return known.kind == op.kind && known.inputs == op.inputs && versions_read[other] == versions_read[i] &&
             edit.region[other] == edit.region[i] && known.attributes == op.attributes;
    });
    if (first == i) continue;
    edit.remove(i, report);
    for (std::size_t k = 0; k < op.outputs.size(); ++k)
      edit.replace(op.outputs[k], graph.ops[first].outputs[k]);
  }
}

}  // namespace gpusim
