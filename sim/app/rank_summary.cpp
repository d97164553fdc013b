// SPDX-License-Identifier: Apache-2.0
#include "sim/app/rank_summary.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"

namespace gpusim {
namespace {

/// Of a kernel called "all_to_all: ncclDevKernel_SendRecv"; nothing if it is no collective.
std::optional<CollectiveKind> kind_of(std::string_view kernel) {
  if (kernel.find("nccl") == std::string_view::npos) return std::nullopt;
  const std::string_view op = kernel.substr(0, kernel.find(':'));
  if (const auto named = find_collective_kind(op)) return named;
  constexpr std::pair<std::string_view, CollectiveKind> names[]{
      {"AllReduce", CollectiveKind::AllReduce},
      {"AllGather", CollectiveKind::AllGather},
      {"ReduceScatter", CollectiveKind::ReduceScatter},
      {"Broadcast", CollectiveKind::Broadcast}};
  for (const auto& [part, kind] : names)
    if (kernel.find(part) != std::string_view::npos) return kind;
  return CollectiveKind::SendReceive;
}

struct Interval {
  Picoseconds start{0};
  Picoseconds end{0};
};

/// Intervals in order of start become ones that do not meet.
std::vector<Interval> joined(const std::vector<Interval>& intervals) {
  std::vector<Interval> result;
  for (const Interval& i : intervals) {
    if (!result.empty() && i.start <= result.back().end)
      result.back().end = std::max(result.back().end, i.end);
    else
      result.push_back(i);
  }
  return result;
}

/// How much of `interval` lies in `others`, which do not meet.
Picoseconds covered(const Interval& interval, const std::vector<Interval>& others) {
  auto other = std::lower_bound(others.begin(), others.end(), interval.start,
                                [](const Interval& i, Picoseconds at) { return i.end <= at; });
  Picoseconds sum{0};
  for (; other != others.end() && other->start < interval.end; ++other)
    sum += std::min(other->end, interval.end) - std::max(other->start, interval.start);
  return sum;
}

}  // namespace

report::RankSummary rank_summary(const ParallelPlan& plan, const BuiltProgram& built, const ThreeSteps& steps,
                                 double bubble) {
  report::RankSummary summary;
  summary.ranks = plan.ranks();
  summary.data = plan.data;
  summary.tensor = plan.tensor;
  summary.pipeline = plan.pipeline;
  summary.bubble = bubble;
  summary.straggling = plan.stragglers * expected_maximum(plan.ranks());
  const engine::Program& program = built.program;
  std::vector<std::optional<CollectiveKind>> kinds;  // By name.
  for (const std::string& name : program.names) kinds.push_back(kind_of(name));
  const engine::Timeline& timeline = steps.timeline;
  std::vector<Interval> others;
  std::vector<Interval> collectives;
  std::vector<std::pair<Interval, CollectiveKind>> each;
  for (const engine::Index i : steps.order) {
    const engine::OpRecord& record = timeline.ops[i];
    const engine::Index name = program.info[engine::op_of(program, timeline, record)].name;
    const std::optional<CollectiveKind> kind = name == engine::no_index ? std::nullopt : kinds[name];
    const Interval interval{record.start, record.end};
    if (!kind) {
      others.push_back(interval);
    } else if (timeline.call(record.call).step == ThreeSteps::last) {
      collectives.push_back(interval);
      each.emplace_back(interval, *kind);
    }
  }
  others = joined(others);
  for (const auto& [interval, kind] : each) {
    report::CommunicationTime& time = summary.kinds[static_cast<std::size_t>(kind)];
    const Picoseconds busy = interval.end - interval.start;
    time.busy += busy;
    time.exposed += busy - covered(interval, others);
    ++time.count;
  }
  for (const Interval& interval : joined(collectives)) {
    summary.busy += interval.end - interval.start;
    summary.exposed += interval.end - interval.start - covered(interval, others);
  }
  return summary;
}

}  // namespace gpusim
