// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/graph_edit.hpp"

#include <iterator>
#include <numeric>

#include "models/graph/like_index.hpp"

namespace gpusim {

GraphEdit::GraphEdit(OpGraph edited, const SimplifyOptions& options)
    : graph(std::move(edited)), regions_(options.regions) {
  const std::size_t ops = graph.ops.size();
  ops_at_first_ = ops;
  removed.assign(ops, 0);
  retyped.assign(ops, 0);
  origin.resize(ops);
  std::iota(origin.begin(), origin.end(), OpIndex{0});
  region.assign(ops, 0);
  compiled_.assign(std::max<std::size_t>(regions_.size(), 1), 1);
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    compiled_[r] = regions_[r].compiled ? 1 : 0;
    for (OpIndex i = regions_[r].first; i < regions_[r].last; ++i) region[i] = r;
  }
  find_written();
  given.assign(graph.tensors.size(), 0);
  for (const TensorIndex t : graph.outputs) given[t] = 1;
  dropped.assign(graph.tensors.size(), 0);
  handed.assign(graph.tensors.size(), 0);
  for (std::size_t i = 0; regions() > 1 && i < ops; ++i)
    for (const TensorIndex t : graph.ops[i].inputs) {
      const OpIndex maker = t != graph_none ? graph.tensors[t].producer : graph_none;
      if (maker != graph_none && region[maker] != region[i]) handed[t] = 1;
    }
  same_as_.resize(graph.tensors.size());
  std::iota(same_as_.begin(), same_as_.end(), TensorIndex{0});
  same_memory_.resize(graph.storages.size());
  std::iota(same_memory_.begin(), same_memory_.end(), StorageIndex{0});
}

void GraphEdit::find_written() {
  written.assign(graph.storages.size(), 0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (removed[i] == 0) visit_written(graph, graph.ops[i], [&](StorageIndex s) { written[s] = 1; });
}

void GraphEdit::replace(TensorIndex tensor, TensorIndex other) {
  same_as_[tensor] = other;
  same_memory_[graph.tensors[tensor].storage] = graph.tensors[other].storage;
  replaced_ = true;
  given[other] |= given[tensor];
  handed[other] |= handed[tensor];
  const OpIndex until = graph.tensors[tensor].named_until;
  OpIndex& named_until = graph.tensors[other].named_until;
  if (until != graph_none && (named_until == graph_none || until > named_until)) named_until = until;
}

void GraphEdit::resolve(Op& op) {
  if (!replaced_) return;
  for (TensorIndex& t : op.inputs)
    if (t != graph_none) t = same_as(t);
  for (const TensorIndex t : op.outputs) {
    GraphTensor& out = graph.tensors[t];
    if (same_memory_[out.storage] == out.storage) continue;
    out.storage = same_memory_[out.storage];
    out.role = graph.storages[out.storage].role;
  }
}

void GraphEdit::remove(OpIndex index, Simplification& report) {
  constexpr std::size_t examples_max = 3;
  removed[index] = 1;
  any_removed_ = true;
  const Op& op = graph.ops[index];
  ++report.ops_removed;
  report.saved += eager_bytes(graph, op);
  if (report.examples.size() < examples_max) report.examples.push_back(op.name);
}

void GraphEdit::add(Op op, OpIndex before, OpIndex from, Simplification& report) {
  ++report.ops_added;
  report.saved -= eager_bytes(graph, op);
  op.phase = graph.ops[from].phase;
  added_.push_back({std::move(op), before, origin[from], region[from]});
}

StorageIndex GraphEdit::add_storage(Bytes bytes, Role role) {
  const auto storage = static_cast<StorageIndex>(graph.storages.size());
  graph.storages.push_back({.bytes = bytes, .role = role});
  written.push_back(0);
  same_memory_.push_back(storage);
  return storage;
}

TensorIndex GraphEdit::add_tensor(std::string name, const TensorType& type, Role role) {
  const auto tensor = static_cast<TensorIndex>(graph.tensors.size());
  graph.tensors.push_back(
      {.name = std::move(name), .type = type, .role = role, .storage = add_storage(dense_bytes(type), role)});
  given.push_back(0);
  dropped.push_back(0);
  handed.push_back(0);
  same_as_.push_back(tensor);
  return tensor;
}

void GraphEdit::settle() {
  if (!any_removed_ && added_.empty()) return;
  // What is added at the end of a region stands before the first op of the next one.
  std::stable_sort(added_.begin(), added_.end(), [](const Added& a, const Added& b) {
    return std::pair(a.before, a.region) < std::pair(b.before, b.region);
  });
  const std::size_t before = graph.ops.size();
  // Up to here nothing moves.
  std::size_t same = static_cast<std::size_t>(std::find(removed.begin(), removed.end(), 1) - removed.begin());
  if (!added_.empty()) same = std::min(same, static_cast<std::size_t>(added_.front().before));
  std::vector<OpIndex> now(before);  // Where an op that is left stands, or the last one left before it.
  std::iota(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(same), OpIndex{0});
  if (added_.empty())
    take_out(same, now);
  else
    rebuild(same, now);
  for (GraphTensor& tensor : graph.tensors)
    if (tensor.named_until != graph_none) tensor.named_until = now[tensor.named_until];
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    resolve(graph.ops[i]);
    OpIndex& gradient_of = graph.ops[i].gradient_of;
    if (gradient_of != graph_none) gradient_of = now[gradient_of];
    if (i >= same)
      for (const TensorIndex t : graph.ops[i].outputs) graph.tensors[t].producer = static_cast<OpIndex>(i);
  }
  removed.assign(graph.ops.size(), 0);
  any_removed_ = false;
  changed_ = true;
  added_.clear();
}

void GraphEdit::drop_outputs(std::size_t op) {
  for (const TensorIndex t : graph.ops[op].outputs)
    if (graph.tensors[t].producer == op) dropped[t] = 1;
}

void GraphEdit::take_out(std::size_t same, std::vector<OpIndex>& now) {
  std::size_t to = same;
  for (std::size_t i = same; i < now.size(); ++i) {
    if (removed[i] != 0) {
      drop_outputs(i);
    } else {
      if (to != i) graph.ops[to] = std::move(graph.ops[i]);
      retyped[to] = retyped[i];
      origin[to] = origin[i];
      region[to] = region[i];
      ++to;
    }
    now[i] = to > 0 ? static_cast<OpIndex>(to - 1) : graph_none;
  }
  graph.ops.resize(to);
  retyped.resize(to);
  origin.resize(to);
  region.resize(to);
}

void GraphEdit::rebuild(std::size_t same, std::vector<OpIndex>& now) {
  const std::size_t room = now.size() + added_.size();
  std::vector<Op> ops;
  ops.reserve(room);
  std::move(graph.ops.begin(), graph.ops.begin() + static_cast<std::ptrdiff_t>(same),
            std::back_inserter(ops));
  const auto copied = [&](auto values) {
    values.resize(same);
    values.reserve(room);
    return values;
  };
  auto now_retyped = copied(retyped);
  auto now_origin = copied(origin);
  auto now_region = copied(region);
  const auto place = [&](Op&& op, std::uint8_t types, OpIndex from, std::size_t where) {
    ops.push_back(std::move(op));
    now_retyped.push_back(types);
    now_origin.push_back(from);
    now_region.push_back(where);
  };
  auto next = added_.begin();
  for (std::size_t i = same; i <= now.size(); ++i) {
    for (; next != added_.end() && next->before == i; ++next)
      place(std::move(next->op), 1, next->origin, next->region);
    if (i == now.size()) break;
    if (removed[i] != 0)
      drop_outputs(i);
    else
      place(std::move(graph.ops[i]), retyped[i], origin[i], region[i]);
    now[i] = ops.empty() ? graph_none : static_cast<OpIndex>(ops.size() - 1);
  }
  graph.ops = std::move(ops);
  retyped = std::move(now_retyped);
  origin = std::move(now_origin);
  region = std::move(now_region);
}

void GraphEdit::compact_tensors() {
  if (std::find(dropped.begin(), dropped.end(), 1) == dropped.end()) return;
  std::vector<TensorIndex> tensor_now(graph.tensors.size(), graph_none);
  std::vector<StorageIndex> storage_now(graph.storages.size(), graph_none);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t)
    if (dropped[t] == 0) storage_now[graph.tensors[t].storage] = 0;
  StorageIndex storages = 0;
  for (std::size_t s = 0; s < storage_now.size(); ++s) {
    if (storage_now[s] == graph_none) continue;
    storage_now[s] = storages;
    graph.storages[storages++] = graph.storages[s];
  }
  graph.storages.resize(storages);
  TensorIndex tensors = 0;
  for (std::size_t t = 0; t < tensor_now.size(); ++t) {
    if (dropped[t] != 0) continue;
    tensor_now[t] = tensors;
    graph.tensors[t].storage = storage_now[graph.tensors[t].storage];
    if (t != tensors) graph.tensors[tensors] = std::move(graph.tensors[t]);
    ++tensors;
  }
  graph.tensors.resize(tensors);
  for (Op& op : graph.ops) {
    for (TensorIndex& t : op.inputs)
      if (t != graph_none) t = tensor_now[t];
    for (TensorIndex& t : op.outputs) t = tensor_now[t];
  }
  for (TensorIndex& t : graph.outputs) t = tensor_now[t];
}

void GraphEdit::find_likes() {
  // Ops that nobody touched are alike as they were; the first one of each kind stands for them all.
  const bool any_retyped = std::find(retyped.begin(), retyped.end(), 1) != retyped.end();
  std::vector<OpIndex> first(ops_at_first_, graph_none);
  LikeIndex likes;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    const auto index = static_cast<OpIndex>(i);
    if (retyped[i] != 0) {
      op.like = likes.first_like(graph, op, index);
      continue;
    }
    OpIndex& known = first[op.like];
    if (known == graph_none) known = any_retyped ? likes.first_like(graph, op, index) : index;
    op.like = known;
  }
}

Simplified GraphEdit::finish() && {
  settle();
  if (replaced_)
    for (TensorIndex& t : graph.outputs) t = same_as(t);
  if (changed_) {
    compact_tensors();
    find_likes();
  }
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    const auto first = std::lower_bound(region.begin(), region.end(), r);
    const auto last = std::upper_bound(first, region.end(), r);
    regions_[r].first = static_cast<OpIndex>(first - region.begin());
    regions_[r].last = static_cast<OpIndex>(last - region.begin());
  }
  return {
      .graph = std::move(graph), .origin = std::move(origin), .regions = std::move(regions_), .passes = {}};
}

bool may_stand_for(const GraphEdit& edit, TensorIndex source, TensorIndex copy) {
  const GraphTensor& from = edit.graph.tensors[source];
  if (edit.written[from.storage] != 0 || edit.written[edit.graph.tensors[copy].storage] != 0) return false;
  return edit.given[copy] == 0 || (from.role == Role::Activation && edit.given[source] == 0);
}

Bytes eager_bytes(const OpGraph& graph, const Op& op) {
  Bytes sum{0};
  const auto storage = [&](TensorIndex t) { return graph.tensors[t].storage; };
  bool makes = op.outputs.empty();
  Bytes written{0};
  for (const TensorIndex out : op.outputs) {
    const bool view = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex in) {
      return in != graph_none && storage(in) == storage(out);
    });
    if (view && !in_place(*op.kind)) continue;
    makes = true;
    written += dense_bytes(graph.tensors[out].type);
  }
  if (!makes) return sum;
  for (const TensorIndex in : op.inputs) {
    if (in == graph_none) continue;
    const Bytes read = stored_bytes(graph.tensors[in].type);
    // A lookup reads the rows it finds, not the whole table.
    sum += op.kind->fusion == FusionClass::Gather ? std::min(read, written) : read;
  }
  return sum + written;
}

}  // namespace gpusim
