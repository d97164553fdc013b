// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph_inserter.hpp"

#include <algorithm>

#include "models/graph/graph_writer.hpp"

namespace gpusim {

GraphInserter::GraphInserter(OpGraph given)
    : graph(std::move(given)), size_(static_cast<OpIndex>(graph.ops.size())) {}

TensorIndex GraphInserter::add_tensor(std::string name, const TensorType& type, Role role) {
  graph.storages.push_back({.bytes = dense_bytes(type), .role = role});
  graph.tensors.push_back({.name = std::move(name),
                           .type = type,
                           .role = role,
                           .storage = static_cast<StorageIndex>(graph.storages.size() - 1)});
  return static_cast<TensorIndex>(graph.tensors.size() - 1);
}

void GraphInserter::remove(OpIndex op) {
  removed_.resize(size_, false);
  removed_[op] = true;
}

std::vector<TensorIndex> GraphInserter::insert(
    OpIndex before, std::string_view kind, std::string name, std::vector<TensorIndex> inputs,
    std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes, Phase phase) {
  const OpKind& found = *find_op(kind);
  Op op;
  op.kind = &found;
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.attributes = attributes_of(found, attributes);
  op.phase = phase;
  const auto index = static_cast<OpIndex>(graph.ops.size());
  op.like = likes_.first_like(graph, op, index);
  std::vector<MadeTensor>& made = made_[op.like];
  if (op.like == index) {
    try {
      const OpTypes types(graph, op);
      made = found.infer(types.view(op));
    } catch (const ShapeError& error) {
      throw GraphError({}, op.name + ": " + std::string(kind) + ": " + error.what(), error.hint());
    }
  } else {
    op.attributes = graph.ops[op.like].attributes;  // One copy for all.
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    std::string tensor = made.size() == 1 ? op.name : op.name + "[" + std::to_string(i) + "]";
    TensorIndex t = graph_none;
    if (made[i].view_of >= 0) {
      const GraphTensor& base = graph.tensors[op.inputs[static_cast<std::size_t>(made[i].view_of)]];
      GraphTensor view{
          .name = std::move(tensor), .type = made[i].type, .role = base.role, .storage = base.storage};
      t = static_cast<TensorIndex>(graph.tensors.size());
      graph.tensors.push_back(std::move(view));
    } else {
      t = add_tensor(std::move(tensor), made[i].type, Role::Activation);
    }
    graph.tensors[t].producer = index;
    op.outputs.push_back(t);
  }
  before_.push_back(before);
  graph.ops.push_back(std::move(op));
  return graph.ops.back().outputs;
}

OpGraph GraphInserter::finish() && {
  const std::size_t count = graph.ops.size();
  // In the order of inserting, those before an op stand right before it.
  std::vector<std::pair<std::uint64_t, OpIndex>> order;
  order.reserve(count);
  for (OpIndex i = 0; i < count; ++i)
    order.emplace_back(i < size_ ? std::uint64_t{i} * 2 + 1 : std::uint64_t{before_[i - size_]} * 2, i);
  std::sort(order.begin(), order.end());
  std::vector<OpIndex> place(count);  // Of what is removed: where the next op stands.
  OpIndex next = 0;
  for (const auto& [key, i] : order) {
    place[i] = next;
    if (i >= size_ || removed_.empty() || !removed_[i]) ++next;
  }
  std::vector<Op> ops(next);
  std::vector<OpIndex> first(count, graph_none);  // Of equal ops, by the first one before.
  for (const auto& [key, i] : order) {
    if (i < size_ && !removed_.empty() && removed_[i]) continue;
    Op& op = ops[place[i]] = std::move(graph.ops[i]);
    OpIndex& like = first[op.like];
    if (like == graph_none) like = place[i];
    op.like = like;
    if (op.gradient_of != graph_none) op.gradient_of = place[op.gradient_of];
  }
  for (GraphTensor& tensor : graph.tensors) {
    if (tensor.producer != graph_none) tensor.producer = place[tensor.producer];
    if (tensor.named_until != graph_none) tensor.named_until = place[tensor.named_until];
  }
  for (BlockCall& call : graph.calls) {
    const bool empty = call.first == call.last;
    const OpIndex last = empty ? call.first : call.last - 1;
    call.first = call.first < size_ ? place[call.first] : next;
    call.last = empty ? call.first : place[last] + 1;
  }
  graph.ops = std::move(ops);
  return std::move(graph);
}

}  // namespace gpusim
