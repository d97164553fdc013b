// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/exhaustive.hpp"

#include <algorithm>
#include <optional>

namespace gpusim {
namespace {

using Set = std::uint32_t;  ///< Of ops, a bit each: their places among those that move something.

struct SmallGraph {
  std::vector<OpIndex> ops;
  std::vector<Set> before;  ///< Per op.
};

SmallGraph small_graph(const FusionLegality& legality) {
  SmallGraph small;
  const std::size_t count = legality.traffic().ops.size();
  std::vector<std::size_t> place(count, 0);
  for (OpIndex op = 0; op < count; ++op) {
    if (!legality.traffic().moves(op)) continue;
    if (small.ops.size() == exhaustive_ops_max)
      throw CompileError("more than " + std::to_string(exhaustive_ops_max) +
                         " ops (exhaustive_ops_max) are too many to try all ways of fusing them");
    place[op] = small.ops.size();
    Set before = 0;
    for (const OpIndex b : legality.before(op)) before |= Set{1} << place[b];
    small.ops.push_back(op);
    small.before.push_back(before);
  }
  return small;
}

std::vector<OpIndex> ops_of(const SmallGraph& small, Set set) {
  std::vector<OpIndex> ops;
  for (std::size_t i = 0; i < small.ops.size(); ++i)
    if ((set >> i & 1U) != 0) ops.push_back(small.ops[i]);
  return ops;
}

/// What a group moves, however the others are grouped.
Bytes bytes_of_group(const TrafficGraph& traffic, const std::vector<OpIndex>& group) {
  OpGroups groups{group};
  for (OpIndex op = 0; op < traffic.ops.size(); ++op)
    if (std::find(group.begin(), group.end(), op) == group.end()) groups.push_back({op});
  return plan_traffic(traffic, groups).groups.front().total();
}

/// The best way to have done a set of ops.
struct Way {
  Bytes bytes{0};
  Set last = 0;  ///< The group that came last.
};

}  // namespace

ExhaustivePlan exhaustive_plan(const FusionLegality& legality) {
  const SmallGraph small = small_graph(legality);
  const Set all = (Set{1} << small.ops.size()) - 1;
  std::vector<std::optional<Bytes>> group_bytes(all + 1);  // None: no kernel.
  for (Set group = 1; group <= all; ++group)
    if (const std::vector<OpIndex> ops = ops_of(small, group); !legality.refusal(ops))
      group_bytes[group] = bytes_of_group(legality.traffic(), ops);

  std::vector<std::optional<Way>> best(all + 1);
  best[0] = Way{};
  for (Set done = 0; done < all; ++done) {
    if (!best[done]) continue;
    const Set left = all & ~done;
    for (Set group = left; group != 0; group = (group - 1) & left) {
      if (!group_bytes[group]) continue;
      bool ready = true;
      for (std::size_t i = 0; i < small.ops.size(); ++i)
        if ((group >> i & 1U) != 0) ready = ready && (small.before[i] & ~(done | group)) == 0;
      if (!ready) continue;
      const Way way{best[done]->bytes + *group_bytes[group], group};
      std::optional<Way>& other = best[done | group];
      if (!other || way.bytes < other->bytes) other = way;
    }
  }

  ExhaustivePlan plan;
  for (Set done = all; done != 0; done &= ~best[done]->last)
    plan.groups.push_back(ops_of(small, best[done]->last));
  std::reverse(plan.groups.begin(), plan.groups.end());
  for (OpIndex op = 0; op < legality.traffic().ops.size(); ++op)
    if (!legality.traffic().moves(op)) plan.groups.push_back({op});
  plan.traffic = plan_traffic(legality.traffic(), plan.groups);
  return plan;
}

}  // namespace gpusim
