// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "models/compiler/recompute.hpp"
#include "models/graph/like_index.hpp"

namespace gpusim {
namespace {

class Applier {
 public:
  Applier(const OpGraph& joint, const RecomputePlan& plan) : joint_(joint), plan_(plan) {
    made_.storages = joint.storages;
    made_.tensors = joint.tensors;
    made_.outputs = joint.outputs;
    made_.calls = joint.calls;
    made_.ops.reserve(joint.ops.size() + plan.run_again.size());
    now_.assign(joint.ops.size(), graph_none);
    saved_.assign(joint.tensors.size(), 0);
    for (const TensorIndex t : plan.saved) saved_[t] = 1;
    again_.assign(joint.tensors.size(), graph_none);
    placed_.assign(joint.ops.size(), 0);
  }

  OpGraph apply() {
    for (OpIndex i = 0; i < joint_.ops.size(); ++i)
      if (joint_.ops[i].phase != Phase::Optimizer && plan_.places[i].forward) place_forward(i);
    for (OpIndex i = 0; i < joint_.ops.size(); ++i)
      if (joint_.ops[i].phase == Phase::Backward && plan_.places[i].backward) place_with_needed(i);
    for (OpIndex i = 0; i < joint_.ops.size(); ++i)
      if (joint_.ops[i].phase == Phase::Optimizer) place(i, joint_.ops[i]);
    find_likes();
    correct_indices();
    compact_tensors();
    return std::move(made_);
  }

 private:
  void place(OpIndex from, Op op) {
    const auto index = static_cast<OpIndex>(made_.ops.size());
    for (const TensorIndex t : op.outputs) made_.tensors[t].producer = index;
    if (now_[from] == graph_none) now_[from] = index;
    like_.push_back(op.like);
    made_.ops.push_back(std::move(op));
  }

  void place_forward(OpIndex i) {
    Op op = joint_.ops[i];
    op.phase = Phase::Forward;
    place(i, std::move(op));
  }

  /// The op that makes a tensor in the backward pass; none: it is there when that begins.
  OpIndex maker(TensorIndex t) const {
    if (t == graph_none || saved_[t] != 0) return graph_none;
    const OpIndex producer = joint_.tensors[t].producer;
    return producer != graph_none && plan_.places[producer].backward ? producer : graph_none;
  }

  /// Places an op of the backward pass behind all that it needs and that is not there yet, in the joint
  /// graph's order.
  void place_with_needed(OpIndex i) {
    open_.assign(1, i);
    needed_.clear();
    while (!open_.empty()) {
      const OpIndex op = open_.back();
      open_.pop_back();
      if (placed_[op] != 0) continue;
      placed_[op] = 1;
      needed_.push_back(op);
      for (const TensorIndex t : joint_.ops[op].inputs)
        if (const OpIndex producer = maker(t); producer != graph_none && placed_[producer] == 0)
          open_.push_back(producer);
    }
    std::sort(needed_.begin(), needed_.end());
    for (const OpIndex op : needed_) place_backward(op);
  }

  void place_backward(OpIndex i) {
    const Op& old = joint_.ops[i];
    Op op = old;
    op.phase = Phase::Backward;
    for (TensorIndex& t : op.inputs)
      if (maker(t) != graph_none && again_[t] != graph_none) t = again_[t];
    if (plan_.places[i].forward) {
      op.recomputed = true;
      op.gradient_of = i;
      op.nodes = 0;
      op.name += ".again";
      for (TensorIndex& t : op.outputs) t = again_[t] = copy(old, op, t);
    } else {
      for (const TensorIndex t : op.outputs)
        if (const TensorIndex base = looks_at(old, op, t); base != graph_none)
          made_.tensors[t].storage = made_.tensors[base].storage;
    }
    place(i, std::move(op));
  }

  /// The input of `now` in whose memory an output of `old` lies; none: in its own.
  TensorIndex looks_at(const Op& old, const Op& now, TensorIndex output) const {
    const StorageIndex storage = joint_.tensors[output].storage;
    const auto base = std::find_if(old.inputs.begin(), old.inputs.end(), [&](TensorIndex in) {
      return in != graph_none && joint_.tensors[in].storage == storage;
    });
    if (base == old.inputs.end()) return graph_none;
    return now.inputs[static_cast<std::size_t>(base - old.inputs.begin())];
  }

  /// A tensor like an output of `old`, which runs again as `now`.
  TensorIndex copy(const Op& old, const Op& now, TensorIndex t) {
    GraphTensor tensor = joint_.tensors[t];
    tensor.name += ".again";
    tensor.named_until = graph_none;
    if (const TensorIndex base = looks_at(old, now, t); base != graph_none) {
      tensor.storage = made_.tensors[base].storage;
      tensor.role = made_.tensors[base].role;
    } else {
      const Bytes bytes = joint_.storages[tensor.storage].bytes;
      tensor.role = Role::Activation;
      tensor.storage = static_cast<StorageIndex>(made_.storages.size());
      made_.storages.push_back({.bytes = bytes, .role = tensor.role});
    }
    made_.tensors.push_back(std::move(tensor));
    return static_cast<TensorIndex>(made_.tensors.size() - 1);
  }

  /// Ops that were alike are still where they have the same phase and are copies or not.
  void find_likes() {
    LikeIndex likes;
    constexpr std::size_t forms = 6;  // Phases, each as it is or run again.
    std::vector<OpIndex> first(forms * joint_.ops.size(), graph_none);
    for (OpIndex i = 0; i < made_.ops.size(); ++i) {
      Op& op = made_.ops[i];
      const std::size_t form = 2 * static_cast<std::size_t>(op.phase) + (op.recomputed ? 1 : 0);
      OpIndex& known = first[forms * like_[i] + form];
      if (known == graph_none) known = likes.first_like(made_, op, i);
      op.like = known;
    }
  }

  void correct_indices() {
    for (Op& op : made_.ops)
      if (op.gradient_of != graph_none) op.gradient_of = now_[op.gradient_of];
    // The last op placed in the forward pass at or before one that is gone, or runs in backward alone.
    std::vector<OpIndex> behind(joint_.ops.size() + 1, 0);
    for (OpIndex i = 0; i < joint_.ops.size(); ++i) {
      const bool stays = now_[i] != graph_none && made_.ops[now_[i]].phase == joint_.ops[i].phase;
      behind[i + 1] = stays ? now_[i] + 1 : behind[i];
    }
    for (GraphTensor& tensor : made_.tensors)
      if (tensor.named_until != graph_none) {
        const OpIndex end = behind[tensor.named_until + 1];
        tensor.named_until = end > 0 ? end - 1 : graph_none;
      }
    for (BlockCall& call : made_.calls) {
      const auto last = static_cast<OpIndex>(joint_.ops.size());
      call.first = behind[std::min(call.first, last)];
      call.last = behind[std::min(call.last, last)];
    }
  }

  void compact_tensors() {
    std::vector<std::uint8_t> used(made_.tensors.size(), 0);
    for (TensorIndex t = 0; t < joint_.tensors.size(); ++t)
      used[t] = joint_.tensors[t].producer == graph_none ? 1 : 0;
    for (const Op& op : made_.ops)
      for (const TensorIndex t : op.outputs) used[t] = 1;
    if (std::find(used.begin(), used.end(), 0) == used.end()) return;
    std::vector<StorageIndex> storage_now(made_.storages.size(), graph_none);
    for (std::size_t t = 0; t < used.size(); ++t)
      if (used[t] != 0) storage_now[made_.tensors[t].storage] = 0;
    StorageIndex storages = 0;
    for (std::size_t s = 0; s < storage_now.size(); ++s) {
      if (storage_now[s] == graph_none) continue;
      storage_now[s] = storages;
      made_.storages[storages++] = made_.storages[s];
    }
    made_.storages.resize(storages);
    std::vector<TensorIndex> tensor_now(used.size(), graph_none);
    TensorIndex tensors = 0;
    for (std::size_t t = 0; t < used.size(); ++t) {
      if (used[t] == 0) continue;
      tensor_now[t] = tensors;
      made_.tensors[t].storage = storage_now[made_.tensors[t].storage];
      if (t != tensors) made_.tensors[tensors] = std::move(made_.tensors[t]);
      ++tensors;
    }
    made_.tensors.resize(tensors);
    for (Op& op : made_.ops) {
      for (TensorIndex& t : op.inputs)
        if (t != graph_none) t = tensor_now[t];
      for (TensorIndex& t : op.outputs) t = tensor_now[t];
    }
    for (TensorIndex& t : made_.outputs) t = tensor_now[t];
  }

  const OpGraph& joint_;
  const RecomputePlan& plan_;
  OpGraph made_;
  std::vector<OpIndex> like_;         ///< By op: what it was like in the joint graph.
  std::vector<OpIndex> now_;          ///< By op of the joint graph: where it stands first.
  std::vector<std::uint8_t> saved_;   ///< By tensor of the joint graph.
  std::vector<TensorIndex> again_;    ///< By tensor of the joint graph: what backward makes again.
  std::vector<std::uint8_t> placed_;  ///< By op of the joint graph: in backward.
  std::vector<OpIndex> open_;         ///< Of place_with_needed().
  std::vector<OpIndex> needed_;
};

}  // namespace

OpGraph apply_recompute(const OpGraph& joint, const RecomputePlan& plan) {
  return Applier(joint, plan).apply();
}

}  // namespace gpusim
