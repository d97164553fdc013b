// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph_parts.hpp"

#include <algorithm>
#include <utility>

#include "models/graph/graph_writer.hpp"
#include "models/graph/like_index.hpp"

namespace gpusim {
namespace {

/// What a tensor that another part makes is to the part that it is given to.
Role given_role(const OpGraph& whole, TensorIndex t) {
  const GraphTensor& tensor = whole.tensors[t];
  const Role memory = whole.storages[tensor.storage].role;
  if (tensor.producer == graph_none) return tensor.role;
  if (whole.ops[tensor.producer].phase == Phase::Backward) return Role::Gradient;
  return memory == Role::Activation ? Role::Input : memory;
}

}  // namespace

GraphPart take_part(const OpGraph& whole, const std::vector<OpIndex>& ops) {
  GraphPart part;
  OpGraph& graph = part.graph;
  std::vector<std::uint8_t> inside(whole.ops.size(), 0);
  for (const OpIndex i : ops) inside[i] = 1;
  std::vector<std::uint8_t> leaves(whole.tensors.size(), 0);
  for (const TensorIndex t : whole.outputs) leaves[t] = 1;
  for (OpIndex i = 0; i < whole.ops.size(); ++i)
    if (inside[i] == 0)
      for (const TensorIndex t : whole.ops[i].inputs)
        if (t != graph_none) leaves[t] = 1;

  std::vector<TensorIndex> tensor_now(whole.tensors.size(), graph_none);
  std::vector<StorageIndex> storage_now(whole.storages.size(), graph_none);
  std::vector<OpIndex> op_now(whole.ops.size(), graph_none);
  // How many of the part's ops stand before an op of the whole graph.
  std::vector<OpIndex> before(whole.ops.size() + 1, 0);
  for (OpIndex i = 0; i < whole.ops.size(); ++i) before[i + 1] = before[i] + inside[i];
  const auto take = [&](TensorIndex t, OpIndex producer) {
    if (t == graph_none) return graph_none;
    if (tensor_now[t] != graph_none) return tensor_now[t];
    GraphTensor tensor = whole.tensors[t];
    const bool given = producer == graph_none;
    if (given) tensor.role = given_role(whole, t);
    StorageIndex& storage = storage_now[tensor.storage];
    if (storage == graph_none) {
      storage = static_cast<StorageIndex>(graph.storages.size());
      graph.storages.push_back(whole.storages[tensor.storage]);
      if (given) graph.storages.back().role = tensor.role;
    }
    tensor.storage = storage;
    tensor.producer = producer;
    if (tensor.named_until != graph_none) {
      const OpIndex end = before[tensor.named_until + 1];
      tensor.named_until = end > 0 ? end - 1 : graph_none;
    }
    if (given) part.given.emplace(tensor.name, t);
    tensor_now[t] = static_cast<TensorIndex>(graph.tensors.size());
    graph.tensors.push_back(std::move(tensor));
    return tensor_now[t];
  };
  std::vector<OpIndex> likes(whole.ops.size(), graph_none);  // By Op::like of the whole graph.
  graph.ops.reserve(ops.size());
  for (const OpIndex i : ops) {
    const auto index = static_cast<OpIndex>(graph.ops.size());
    op_now[i] = index;
    Op op = whole.ops[i];
    for (TensorIndex& t : op.inputs) t = take(t, graph_none);
    for (TensorIndex& t : op.outputs) {
      const TensorIndex now = take(t, index);
      if (leaves[t] != 0) {
        graph.outputs.push_back(now);
        part.outputs.push_back(t);
      }
      t = now;
    }
    OpIndex& like = likes[op.like];
    if (like == graph_none) like = index;
    op.like = like;
    if (op.gradient_of != graph_none) op.gradient_of = op_now[op.gradient_of];
    graph.ops.push_back(std::move(op));
  }
  graph.calls = whole.calls;
  for (BlockCall& call : graph.calls) {
    call.first = before[std::min<std::size_t>(call.first, whole.ops.size())];
    call.last = before[std::min<std::size_t>(call.last, whole.ops.size())];
  }
  return part;
}

GraphJoiner::GraphJoiner(const OpGraph& whole) : whole_(whole) {
  GraphWriter writer;
  now_ = writer.copy_given(whole);
  made_ = std::move(writer.graph);
  made_.calls = whole.calls;
}

/// Tensors that are given and there by now: views that the part takes of them lie in their memory.
void GraphJoiner::find_given(Progress& at) {
  const GraphPart& part = at.part;
  const OpGraph& graph = part.graph;
  for (TensorIndex t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].producer != graph_none || at.tensor_now[t] != graph_none) continue;
    const auto found = part.given.find(graph.tensors[t].name);
    if (found == part.given.end() || now_[found->second] == graph_none) continue;
    at.tensor_now[t] = now_[found->second];
    at.storage_now[graph.tensors[t].storage] = made_.tensors[now_[found->second]].storage;
  }
}

StorageIndex GraphJoiner::storage(Progress& at, StorageIndex s) {
  StorageIndex& now = at.storage_now[s];
  if (now == graph_none) {
    now = static_cast<StorageIndex>(made_.storages.size());
    made_.storages.push_back(at.part.graph.storages[s]);
  }
  return now;
}

TensorIndex GraphJoiner::tensor(Progress& at, TensorIndex t) {
  if (at.tensor_now[t] != graph_none) return at.tensor_now[t];
  GraphTensor tensor = std::move(at.part.graph.tensors[t]);
  tensor.storage = storage(at, tensor.storage);
  tensor.role = made_.storages[tensor.storage].role;  // A view has that of what it looks at.
  tensor.producer = graph_none;
  tensor.named_until = graph_none;
  const auto now = static_cast<TensorIndex>(made_.tensors.size());
  made_.tensors.push_back(std::move(tensor));
  return at.tensor_now[t] = now;
}

std::size_t GraphJoiner::add(GraphPart part) {
  Progress& at = parts_.emplace_back();
  at.tensor_now.assign(part.graph.tensors.size(), graph_none);
  at.storage_now.assign(part.graph.storages.size(), graph_none);
  at.op_now.assign(part.graph.ops.size(), graph_none);
  at.part = std::move(part);
  return parts_.size() - 1;
}

void GraphJoiner::append(std::size_t index, OpIndex first, OpIndex last) {
  Progress& at = parts_[index];
  GraphPart& part = at.part;
  find_given(at);
  for (OpIndex i = first; i < last; ++i) {
    Op op = std::move(part.graph.ops[i]);
    at.op_now[i] = size();
    for (TensorIndex& t : op.inputs)
      if (t != graph_none) t = tensor(at, t);
    for (TensorIndex& t : op.outputs) {
      t = tensor(at, t);
      made_.tensors[t].producer = size();
    }
    if (op.gradient_of != graph_none) op.gradient_of = at.op_now[op.gradient_of];
    made_.ops.push_back(std::move(op));
  }
  for (std::size_t k = 0; k < part.outputs.size(); ++k) {
    const TensorIndex made = at.tensor_now[part.graph.outputs[k]];
    TensorIndex& there = now_[part.outputs[k]];
    if (made == graph_none || there != graph_none) continue;
    there = made;
    if (whole_.tensors[part.outputs[k]].role != Role::Gradient) continue;
    made_.tensors[made].role = Role::Gradient;
    made_.storages[made_.tensors[made].storage].role = Role::Gradient;
  }
}

void GraphJoiner::find_calls() {
  for (BlockCall& call : made_.calls) call.first = call.last = 0;
  for (OpIndex i = 0; i < size(); ++i) {
    if (made_.ops[i].phase != Phase::Forward) continue;
    for (CallIndex c = made_.ops[i].call; c != graph_none && c < made_.calls.size();
         c = made_.calls[c].parent) {
      BlockCall& call = made_.calls[c];
      if (call.first == call.last) call.first = i;
      call.last = i + 1;
    }
  }
}

OpGraph GraphJoiner::finish() && {
  LikeIndex likes;
  for (OpIndex i = 0; i < size(); ++i) made_.ops[i].like = likes.first_like(made_, made_.ops[i], i);
  find_calls();
  for (const TensorIndex t : whole_.outputs) made_.outputs.push_back(now_[t]);
  // A variable of the text lives as long as the frame of it runs: the last op that stands for one at or
  // before its end.
  for (const Progress& at : parts_) {
    std::vector<OpIndex> reached(at.op_now.size() + 1, graph_none);
    for (std::size_t i = 0; i < at.op_now.size(); ++i)
      reached[i + 1] = at.op_now[i] == graph_none || made_.ops[at.op_now[i]].phase != Phase::Forward
                           ? reached[i]
                           : at.op_now[i];
    for (std::size_t t = 0; t < at.tensor_now.size(); ++t) {
      const OpIndex until = at.part.graph.tensors[t].named_until;
      if (at.tensor_now[t] == graph_none || until == graph_none || until >= at.op_now.size()) continue;
      const OpIndex end = reached[until + 1];
      OpIndex& now = made_.tensors[at.tensor_now[t]].named_until;
      if (end != graph_none && (now == graph_none || now < end)) now = end;
    }
  }
  return std::move(made_);
}

}  // namespace gpusim
