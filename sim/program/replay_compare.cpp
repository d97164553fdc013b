// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sim/program/replay.hpp"

namespace gpusim {

ReplayComparison compare(const Trace& trace, const Replay& replay, const engine::Timeline& timeline) {
  ReplayComparison c;
  const engine::Program& program = replay.built.program;
  std::vector<std::uint32_t> traced_op(program.ops.size(), trace_none);
  for (std::uint32_t i = 0; i < replay.op_of.size(); ++i)
    if (replay.op_of[i] != engine::no_index) traced_op[replay.op_of[i]] = i;
  std::vector<std::pair<std::uint32_t, Picoseconds>> starts;  // traced op, replayed start
  Picoseconds traced_first = Picoseconds::max();
  Picoseconds traced_last = Picoseconds::min();
  Picoseconds first = Picoseconds::max();
  Picoseconds last = Picoseconds::min();
  std::vector<std::pair<Picoseconds, Picoseconds>> intervals;
  for (const TraceOp& op : trace.ops) {
    traced_first = std::min(traced_first, op.start);
    traced_last = std::max(traced_last, op.end);
    intervals.emplace_back(op.start, op.end);
    if (op.kind == TraceOpKind::Kernel) ++c.kernels;
  }
  for (const engine::OpRecord& record : timeline.ops) {
    const engine::Index op = engine::op_of(program, timeline, record);
    if (op >= traced_op.size() || traced_op[op] == trace_none) continue;
    first = std::min(first, record.start);
    last = std::max(last, record.end);
    starts.emplace_back(traced_op[op], record.start);
  }
  if (starts.empty()) return c;
  c.compared = static_cast<std::int64_t>(starts.size());
  c.traced_wall = traced_last - traced_first;
  c.replayed_wall = last - first;
  if (c.traced_wall > Picoseconds(0))
    c.wall_error = static_cast<double>((c.replayed_wall - c.traced_wall).count()) /
                   static_cast<double>(c.traced_wall.count());
  std::sort(intervals.begin(), intervals.end());
  Picoseconds until = Picoseconds::min();
  for (const auto& [start, end] : intervals) {
    const Picoseconds from = std::max(start, until);
    if (end > from) c.traced_busy += end - from;
    until = std::max(until, end);
  }
  std::vector<Picoseconds> errors;
  for (const auto& [i, start] : starts) {
    const Picoseconds difference = (start - first) - (trace.ops[i].start - traced_first);
    const Picoseconds error = std::max(difference, -difference);
    if (errors.empty() || error > c.start_error_max) {
      c.start_error_max = error;
      c.worst_op = trace.name_of(trace.ops[i].name);
    }
    errors.push_back(error);
  }
  std::sort(errors.begin(), errors.end());
  c.start_error_median = errors[errors.size() / 2];
  c.start_error_p90 = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
  return c;
}

}  // namespace gpusim
