// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/ranks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/trace/kernel_names.hpp"

namespace gpusim {
namespace {

using Intervals = std::vector<std::pair<Picoseconds, Picoseconds>>;

Picoseconds covered(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Picoseconds sum{0};
  Picoseconds end = Picoseconds::min();
  for (const auto& [from, to] : intervals) {
    const Picoseconds start = std::max(from, end);
    if (to > start) sum += to - start;
    end = std::max(end, to);
  }
  return sum;
}

}  // namespace

RankTrace::RankTrace(const Trace& trace) : file(trace.file), rank(trace.rank), world_size(trace.world_size) {
  Intervals all;
  Intervals collective;
  Intervals other;
  std::vector<std::uint32_t> found;
  Picoseconds first = Picoseconds::max();
  Picoseconds last = Picoseconds::min();
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const bool communicates =
        op.kind == TraceOpKind::Kernel && kernel_group(trace.name_of(op.name)) == KernelGroup::Communication;
    all.emplace_back(op.start, op.end);
    (communicates ? collective : other).emplace_back(op.start, op.end);
    if (communicates) found.push_back(i);
    first = std::min(first, op.start);
    last = std::max(last, op.end);
  }
  if (!trace.ops.empty()) wall = last - first;
  busy = covered(std::move(all));
  communicating = covered(std::move(collective));
  computing = covered(std::move(other));
  std::stable_sort(found.begin(), found.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return trace.ops[a].start < trace.ops[b].start; });
  for (const std::uint32_t i : found) {
    const TraceOp& op = trace.ops[i];
    const std::string group =
        op.collective == trace_none ? std::string() : trace.collectives[op.collective].group;
    collectives.push_back({trace.name_of(op.name), group, op.duration()});
  }
}

RankSkew compare_ranks(std::span<const RankTrace> ranks) {
  RankSkew result;
  result.ranks.resize(ranks.size());
  // By group: the collectives of each rank in their order.
  std::map<std::string, std::vector<std::vector<const RankTrace::Collective*>>> groups;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const RankTrace::Collective& collective : ranks[rank].collectives) {
      auto& of_group = groups[collective.group];
      of_group.resize(ranks.size());
      of_group[rank].push_back(&collective);
    }
  }
  for (const auto& [group, lists] : groups) {
    std::size_t common = lists.front().size();
    for (const auto& list : lists) common = std::min(common, list.size());
    for (std::size_t i = 0; i < common; ++i) {
      const std::string& name = lists.front()[i]->name;
      const bool same =
          std::all_of(lists.begin(), lists.end(), [&](const auto& list) { return list[i]->name == name; });
      if (!same) continue;
      ++result.matched;
      std::size_t last = 0;
      for (std::size_t rank = 1; rank < lists.size(); ++rank)
        if (lists[rank][i]->duration < lists[last][i]->duration) last = rank;
      ++result.ranks[last].last;
      for (std::size_t rank = 0; rank < lists.size(); ++rank)
        result.ranks[rank].waited += lists[rank][i]->duration - lists[last][i]->duration;
    }
  }
  return result;
}

bool are_ranks_of_one_run(std::span<const RankTrace> ranks) {
  if (ranks.size() < 2) return false;
  std::set<std::int64_t> numbers;
  for (const RankTrace& rank : ranks) {
    if (rank.rank < 0 || rank.world_size != ranks.front().world_size || !numbers.insert(rank.rank).second)
      return false;
  }
  return true;
}

}  // namespace gpusim
