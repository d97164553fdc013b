// SPDX-License-Identifier: Apache-2.0
#include "models/graph/like_index.hpp"

#include <cstdint>

#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

std::size_t hash_of(const OpGraph& graph, const Op& op) {
  auto hash = static_cast<std::size_t>(op.kind - op_catalogue().data());
  const auto mix = [&hash](std::uint64_t v) { hash = (hash ^ v) * 0x9E3779B97F4A7C15ULL + (hash >> 29); };
  for (const TensorIndex t : op.inputs) {
    if (t == graph_none) {
      mix(1);
      continue;
    }
    const TensorType& type = graph.tensors[t].type;
    for (const std::int64_t d : type.shape) mix(static_cast<std::uint64_t>(d));
    for (const std::int64_t d : type.strides) mix(static_cast<std::uint64_t>(d));
    mix(static_cast<std::uint64_t>(type.element));
  }
  return hash;
}

bool cost_the_same(const OpGraph& graph, const Op& a, const Op& b) {
  if (a.kind != b.kind || a.phase != b.phase || a.recomputed != b.recomputed ||
      a.inputs.size() != b.inputs.size() || !(a.attributes == b.attributes))
    return false;
  for (std::size_t k = 0; k < a.inputs.size(); ++k) {
    const TensorIndex x = a.inputs[k];
    const TensorIndex y = b.inputs[k];
    if (x == graph_none || y == graph_none ? x != y : !(graph.tensors[x].type == graph.tensors[y].type))
      return false;
  }
  return true;
}

}  // namespace

OpIndex LikeIndex::first_like(const OpGraph& graph, const Op& op, OpIndex index) {
  // The hash only finds candidates; what is alike is decided by comparing, first come first served.
  std::vector<OpIndex>& candidates = by_hash_[hash_of(graph, op)];
  for (const OpIndex i : candidates)
    if (cost_the_same(graph, graph.ops[i], op)) return i;
  candidates.push_back(index);
  return index;
}

}  // namespace gpusim
