// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph_writer.hpp"

#include <utility>

namespace gpusim {

Attributes attributes_of(const OpKind& kind,
                         std::initializer_list<std::pair<std::string_view, AttributeValue>> values) {
  Attributes attributes;
  for (const OpAttribute& attribute : kind.attributes) {
    AttributeValue value = attribute.fallback;
    for (const auto& [name, given] : values)
      if (name == attribute.name) value = given;
    attributes.add(attribute.name, std::move(value));
  }
  return attributes;
}

Attributes with_attribute(const Attributes& attributes, std::string_view name, AttributeValue value) {
  Attributes changed;
  for (const auto& [known, old] : attributes.all()) changed.add(known, known == name ? value : old);
  return changed;
}

TensorIndex GraphWriter::add_tensor(std::string name, const TensorType& type, Role role) {
  graph.storages.push_back({.bytes = dense_bytes(type), .role = role});
  graph.tensors.push_back({.name = std::move(name),
                           .type = type,
                           .role = role,
                           .storage = static_cast<StorageIndex>(graph.storages.size() - 1)});
  return static_cast<TensorIndex>(graph.tensors.size() - 1);
}

GraphWriter::Where GraphWriter::where_of(const Op& op) {
  return {.phase = op.phase,
          .call = op.call,
          .in_repeat = op.in_repeat,
          .recomputed = op.recomputed,
          .accumulates = op.accumulates,
          .place = op.place,
          .gradient_of = graph_none};
}

std::vector<TensorIndex> GraphWriter::copy_given(const OpGraph& from) {
  std::vector<TensorIndex> now(from.tensors.size(), graph_none);
  std::vector<StorageIndex> storages(from.storages.size(), graph_none);
  for (std::size_t t = 0; t < from.tensors.size(); ++t) {
    if (from.tensors[t].producer != graph_none) continue;
    GraphTensor tensor = from.tensors[t];
    StorageIndex& storage = storages[tensor.storage];
    if (storage == graph_none) {
      storage = static_cast<StorageIndex>(graph.storages.size());
      graph.storages.push_back(from.storages[tensor.storage]);
    }
    tensor.storage = storage;
    tensor.named_until = graph_none;
    now[t] = static_cast<TensorIndex>(graph.tensors.size());
    graph.tensors.push_back(std::move(tensor));
  }
  return now;
}

void GraphWriter::copy_frames(const OpGraph& from, const std::vector<OpIndex>& begin,
                              const std::vector<TensorIndex>& now) {
  graph.calls = from.calls;
  for (BlockCall& call : graph.calls) {
    call.first = begin[call.first];
    call.last = begin[call.last];
  }
  for (std::size_t t = 0; t < from.tensors.size(); ++t) {
    const OpIndex until = from.tensors[t].named_until;
    if (until == graph_none || now[t] == graph_none || begin[until + 1] == 0) continue;
    graph.tensors[now[t]].named_until = begin[until + 1] - 1;
  }
}

std::vector<TensorIndex> GraphWriter::add(const OpKind& kind, std::string name,
                                          std::vector<TensorIndex> inputs, Attributes attributes) {
  Op op;
  op.kind = &kind;
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.attributes = std::move(attributes);
  op.place = where.place;
  op.phase = where.phase;
  op.call = where.call;
  op.in_repeat = where.in_repeat;
  op.recomputed = where.recomputed;
  op.accumulates = where.accumulates;
  op.gradient_of = where.gradient_of;
  op.module_calls = std::exchange(module_calls, 0);
  op.nodes = std::exchange(nodes, 0);
  const auto index = static_cast<OpIndex>(graph.ops.size());
  // What an op makes follows from its kind, attributes and types: it is worked out for the first of equals.
  op.like = likes_.first_like(graph, op, index);
  std::vector<MadeTensor>& made = made_[op.like];
  if (op.like == index) {
    try {
      const OpTypes types(graph, op);
      made = kind.infer(types.view(op));
    } catch (const ShapeError& error) {
      throw GraphError(where.place, op.name + ": " + std::string(kind.name) + ": " + error.what(),
                       error.hint());
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
  graph.ops.push_back(std::move(op));
  return graph.ops.back().outputs;
}

TensorIndex GraphWriter::add(std::string_view kind, std::string name, std::vector<TensorIndex> inputs,
                             std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes) {
  const OpKind& found = *find_op(kind);
  const std::vector<TensorIndex> made =
      add(found, std::move(name), std::move(inputs), attributes_of(found, attributes));
  return made.empty() ? graph_none : made.front();
}

}  // namespace gpusim
