// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/legality.hpp"

#include <algorithm>

#include "models/compiler/fusion_candidate.hpp"
#include "models/compiler/lower.hpp"

namespace gpusim {

FusionLegality::FusionLegality(const OpGraph& graph, const Backend& backend, const BackendMode& mode)
    : graph_(graph),
      backend_(backend),
      mode_(mode),
      traffic_(traffic_graph(graph)),
      makers_(producers(traffic_)),
      before_(graph.ops.size()),
      readers_(traffic_.tensors.size()),
      is_result_(traffic_.tensors.size(), false),
      offsets_(view_offsets(graph)) {
  for (OpIndex op = 0; op < traffic_.ops.size(); ++op) {
    before_[op] = traffic_.ops[op].after;
    for (const TensorIndex t : traffic_.ops[op].inputs) {
      const TensorIndex root = traffic_.root(t);
      if (makers_[root] != graph_none) before_[op].push_back(makers_[root]);
      readers_[root].push_back(op);
    }
  }
  for (const TensorIndex t : traffic_.outputs) is_result_[traffic_.root(t)] = true;
}

std::optional<std::string> FusionLegality::refusal(std::span<const OpIndex> ops) const {
  return FusionCandidate(*this, ops).refusal();
}

std::optional<std::string> kernel_refusal(const OpGraph& graph, std::span<const OpIndex> ops,
                                          const Backend& backend, const BackendMode& mode) {
  return FusionLegality(graph, backend, mode).refusal(ops);
}

void check_plan(const FusionLegality& legality, const OpGroups& groups) {
  check_groups(legality.traffic(), groups);
  for (const std::vector<OpIndex>& group : groups) {
    const std::optional<std::string> reason = legality.refusal(group);
    if (!reason) continue;
    std::string names;
    for (const OpIndex op : group)
      names += (names.empty() ? "'" : ", '") + legality.graph().ops[op].name + "'";
    throw CompileError("the group of " + names + " cannot be one kernel: " + *reason);
  }
}

}  // namespace gpusim
