// SPDX-License-Identifier: Apache-2.0
#include "models/graph/op_graph.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>

namespace gpusim {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Optimizer:
      return "optimizer";
  }
  return "?";
}

void Attributes::add(std::string_view name, AttributeValue value) {
  if (values_.use_count() != 1) values_ = std::make_shared<Values>(all());
  values_->emplace_back(name, std::move(value));
}

const Attributes::Values& Attributes::all() const {
  static const Values none;
  return values_ ? *values_ : none;
}

const AttributeValue* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : all())
    if (key == name) return &value;
  return nullptr;
}

bool Attributes::has(std::string_view name) const {
  const AttributeValue* value = find(name);
  return value != nullptr && !std::holds_alternative<std::monostate>(*value);
}

namespace {

/// The catalogue declares what its functions read; anything else is a mistake of ours.
template <class T>
const T& read(const Attributes& attributes, std::string_view name) {
  const AttributeValue* value = attributes.find(name);
  const T* held = value != nullptr ? std::get_if<T>(value) : nullptr;
  if (held == nullptr)
    throw std::logic_error("internal error: attribute '" + std::string(name) + "' is not declared so");
  return *held;
}

}  // namespace

std::int64_t Attributes::integer(std::string_view name) const {
  return read<std::int64_t>(*this, name);
}
double Attributes::number(std::string_view name) const {
  return read<double>(*this, name);
}
bool Attributes::flag(std::string_view name) const {
  return read<bool>(*this, name);
}
const std::string& Attributes::word(std::string_view name) const {
  return read<std::string>(*this, name);
}
const Dims& Attributes::dims(std::string_view name) const {
  return read<Dims>(*this, name);
}

Bytes bytes_of(const OpGraph& graph, Role role) {
  Bytes sum{0};
  for (const Storage& storage : graph.storages)
    if (storage.role == role) sum += storage.bytes;
  return sum;
}

std::int64_t parameter_count(const OpGraph& graph) {
  std::vector<bool> counted(graph.storages.size(), false);
  std::int64_t count = 0;
  for (const GraphTensor& tensor : graph.tensors) {
    if (tensor.role != Role::Parameter || tensor.producer != graph_none || counted[tensor.storage]) continue;
    counted[tensor.storage] = true;
    count += elements(tensor.type);
  }
  return count;
}

std::vector<bool> needed_ops(const OpGraph& graph) {
  // Backwards: an op is needed if someone reads a storage after it that it writes.
  std::vector<bool> storage_needed(graph.storages.size(), false);
  for (const TensorIndex t : graph.outputs) storage_needed[graph.tensors[t].storage] = true;
  for (std::size_t s = 0; s < graph.storages.size(); ++s)
    if (graph.storages[s].role == Role::State) storage_needed[s] = true;
  std::vector<bool> needed(graph.ops.size(), false);
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    needed[i] = op.outputs.empty() || std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorIndex t) {
                  return storage_needed[graph.tensors[t].storage];
                });
    if (!needed[i]) continue;
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) storage_needed[graph.tensors[t].storage] = true;
  }
  return needed;
}

std::size_t depth(const OpGraph& graph) {
  using Dag = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  Dag dag(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    for (const TensorIndex t : graph.ops[i].inputs)
      if (t != graph_none && graph.tensors[t].producer != graph_none)
        boost::add_edge(graph.tensors[t].producer, i, dag);
  std::vector<Dag::vertex_descriptor> backwards;
  boost::topological_sort(dag, std::back_inserter(backwards));
  std::vector<std::size_t> chain(graph.ops.size(), 1);
  std::size_t longest = 0;
  for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
    longest = std::max(longest, chain[*it]);
    for (auto [edge, last] = boost::out_edges(*it, dag); edge != last; ++edge) {
      const auto to = boost::target(*edge, dag);
      chain[to] = std::max(chain[to], chain[*it] + 1);
    }
  }
  return longest;
}

}  // namespace gpusim
