// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph_inserter.hpp"

#include <algorithm>

namespace gpusim {

GraphInserter::GraphInserter(OpGraph given) : size_(static_cast<OpIndex>(given.ops.size())) {
  graph = std::move(given);
}

void GraphInserter::remove(OpIndex op) {
  removed_.resize(size_, false);
  removed_[op] = true;
}

std::vector<TensorIndex> GraphInserter::insert(
    OpIndex before, std::string_view kind, std::string name, std::vector<TensorIndex> inputs,
    std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes, Phase phase) {
  const OpKind& found = *find_op(kind);
  where = {.phase = phase, .place = {}};
  std::vector<TensorIndex> made =
      add(found, std::move(name), std::move(inputs), attributes_of(found, attributes));
  before_.push_back(before);
  return made;
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
