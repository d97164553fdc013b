// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/summary.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace gpusim {
namespace {

/// Sums of many durations of days do not fit 64 bits.
__extension__ typedef __int128 Wide;

/// The double nearest to value / 10^decimals. Dividing doubles would round twice.
double scaled(Wide value, int decimals) {
  const bool negative = value < 0;
  if (negative) value = -value;
  char text[64];
  char* const last = text + sizeof text;
  char* first = last;
  for (int i = 0; i <= decimals || value > 0; ++i) {
    if (i == decimals) *--first = '.';
    *--first = static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  }
  double result = 0;
  std::from_chars(first, last, result);
  return negative ? -result : result;
}

double us(Wide picoseconds) {
  return scaled(picoseconds, 6);
}
double us(Picoseconds time) {
  return us(Wide{time.count()});
}

double median_us(std::vector<Picoseconds> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  Wide twice = Wide{middle->count()} * 2;
  if (times.size() % 2 == 0) twice = Wide{middle->count()} + std::max_element(times.begin(), middle)->count();
  return scaled(twice * 5, 7);
}

double ratio(Wide part, Wide whole) {
  if (whole == 0) return 0;
  // Correctly rounded where both fit a double's 53 bits: traces of up to two hours.
  const double value = static_cast<double>(part) / static_cast<double>(whole);
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 9);
  double rounded = value;
  if (error == std::errc()) std::from_chars(text, end, rounded);
  return rounded;
}

struct Interval {
  Picoseconds start;
  Picoseconds end;
};

/// Sorted disjoint intervals that cover the same points; touching ones are joined.
std::vector<Interval> cover(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  std::vector<Interval> result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.start <= result.back().end) {
      result.back().end = std::max(result.back().end, next.end);
    } else {
      result.push_back(next);
    }
  }
  return result;
}

void count_overlaps(const Trace& trace, Summary& summary) {
  std::vector<const TraceOp*> ops;
  for (const TraceOp& op : trace.ops) {
    if (op.end > op.start) ops.push_back(&op);
  }
  std::stable_sort(ops.begin(), ops.end(), [](const TraceOp* a, const TraceOp* b) {
    return a->start != b->start ? a->start < b->start : a->end > b->end;
  });
  constexpr Picoseconds never = Picoseconds::min();
  Picoseconds latest = never;
  std::vector<Picoseconds> latest_of(trace.streams.size(), never);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const TraceOp& op = *ops[i];
    const bool before = latest > op.start;
    const bool after = i + 1 < ops.size() && ops[i + 1]->start < op.end;
    Picoseconds& own = latest_of[op.stream];
    summary.overlapping_ops += before || after ? 1 : 0;
    summary.nested_ops += latest >= op.end ? 1 : 0;
    summary.same_stream_overlaps += own > op.start ? 1 : 0;
    latest = std::max(latest, op.end);
    own = std::max(own, op.end);
  }
  std::vector<Picoseconds> ends;
  ends.reserve(ops.size());
  for (const TraceOp* op : ops) ends.push_back(op->end);
  std::sort(ends.begin(), ends.end());
  std::size_t ended = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    while (ended < ends.size() && ends[ended] <= ops[i]->start) ++ended;  // an end comes before a start
    summary.max_concurrent = std::max(summary.max_concurrent, static_cast<std::int64_t>(i + 1 - ended));
  }
}

void count_launches(const Trace& trace, Summary& summary) {
  std::unordered_map<std::int64_t, Picoseconds> first_op;
  std::unordered_map<std::int64_t, Picoseconds> first_kernel;
  const auto keep_first = [](auto& map, std::int64_t key, Picoseconds start) {
    const auto [at, added] = map.try_emplace(key, start);
    if (!added) at->second = std::min(at->second, start);
  };
  for (const TraceOp& op : trace.ops) {
    if (!op.correlation) continue;
    keep_first(first_op, *op.correlation, op.start);
    if (op.kind == TraceOpKind::Kernel) keep_first(first_kernel, *op.correlation, op.start);
  }

  std::unordered_set<std::int64_t> call_ids;
  std::unordered_set<std::int64_t> graph_ids;
  std::vector<Picoseconds> calls, delays, graph_calls, graph_delays;
  std::map<std::string, std::int64_t> syncs;
  for (const TraceCall& call : trace.calls) {
    if (call.correlation) call_ids.insert(*call.correlation);
    if (call.kind == TraceCallKind::KernelLaunch) {
      calls.push_back(call.duration());
      const auto at = call.correlation ? first_kernel.find(*call.correlation) : first_kernel.end();
      if (at == first_kernel.end()) {
        ++summary.launches_without_kernel;
      } else {
        delays.push_back(at->second - call.start);
      }
    } else if (call.kind == TraceCallKind::GraphLaunch) {
      graph_calls.push_back(call.duration());
      if (call.correlation) graph_ids.insert(*call.correlation);
      const auto at = call.correlation ? first_op.find(*call.correlation) : first_op.end();
      if (at != first_op.end()) graph_delays.push_back(at->second - call.start);
    } else if (is_synchronization(call.kind)) {
      ++syncs[trace.names[call.name]];
      ++summary.sync_calls;
    }
  }
  for (const TraceOp& op : trace.ops) {
    if (!op.correlation || !call_ids.contains(*op.correlation)) ++summary.unlinked_gpu_ops;
    if (op.correlation && graph_ids.contains(*op.correlation)) {
      ++summary.gpu_ops_from_graphs;
      if (op.kind == TraceOpKind::Kernel) ++summary.kernels_from_graphs;
    }
  }
  summary.kernel_launches = static_cast<std::int64_t>(calls.size());
  summary.graph_launches = static_cast<std::int64_t>(graph_calls.size());
  if (!delays.empty()) summary.launch_delay_us_min = us(*std::min_element(delays.begin(), delays.end()));
  summary.launch_call_us_median = median_us(std::move(calls));
  summary.launch_delay_us_median = median_us(std::move(delays));
  summary.graph_launch_call_us_median = median_us(std::move(graph_calls));
  summary.graph_launch_delay_us_median = median_us(std::move(graph_delays));
  summary.sync_calls_by_name.assign(syncs.begin(), syncs.end());
}

void rank_kernels(const Trace& trace, Summary& summary) {
  struct Total {
    std::uint32_t name;
    std::int64_t count = 0;
    Wide time = 0;
  };
  std::vector<Total> totals(trace.names.size());
  for (std::uint32_t i = 0; i < totals.size(); ++i) totals[i].name = i;
  for (const TraceOp& op : trace.ops) {
    if (op.kind != TraceOpKind::Kernel) continue;
    ++totals[op.name].count;
    totals[op.name].time += op.duration().count();
  }
  std::erase_if(totals, [](const Total& total) { return total.count == 0; });
  std::sort(totals.begin(), totals.end(), [&](const Total& a, const Total& b) {
    return a.time != b.time ? a.time > b.time : trace.names[a.name] < trace.names[b.name];
  });
  Wide group_time[kernel_group_count] = {};
  for (const Total& total : totals) {
    const std::string& name = trace.names[total.name];
    const KernelGroup group = kernel_group(name);
    summary.kernel_totals.push_back({name, total.count, us(total.time), group});
    summary.kernel_groups[static_cast<std::size_t>(group)].count += total.count;
    group_time[static_cast<std::size_t>(group)] += total.time;
  }
  for (std::size_t i = 0; i < kernel_group_count; ++i) summary.kernel_groups[i].total_us = us(group_time[i]);
  if (!summary.kernel_totals.empty()) {
    const KernelTotal& top = summary.kernel_totals.front();
    summary.top_kernel = top.name;
    summary.top_kernel_count = top.count;
    summary.top_kernel_us = top.total_us;
  }
}

}  // namespace

Summary summarize(const Trace& trace) {
  Summary s;
  s.file = trace.file;
  s.events = static_cast<std::int64_t>(trace.events);
  s.invalid_events = static_cast<std::int64_t>(trace.invalid_events);
  s.dropped_spans = static_cast<std::int64_t>(trace.dropped_spans);
  s.repairs = trace.repairs;
  s.lost_bytes = static_cast<std::int64_t>(trace.lost_bytes);
  s.lost_at = static_cast<std::int64_t>(trace.lost_at);
  s.text_bytes = static_cast<std::int64_t>(trace.text_bytes);

  std::vector<Interval> intervals;
  intervals.reserve(trace.ops.size());
  Wide time[3] = {};
  std::int64_t count[3] = {};
  Wide copied = 0;
  std::vector<char> stream_used(trace.streams.size(), 0);
  std::vector<char> device_used(trace.devices.size(), 0);
  for (const TraceOp& op : trace.ops) {
    intervals.push_back({op.start, op.end});
    time[static_cast<std::size_t>(op.kind)] += op.duration().count();
    ++count[static_cast<std::size_t>(op.kind)];
    if (op.kind == TraceOpKind::Memcpy) copied += op.bytes;
    if (op.start == op.end) ++s.zero_duration_ops;
    stream_used[op.stream] = 1;
    device_used[trace.streams[op.stream].device_index] = 1;
  }
  const std::vector<Interval> busy = cover(std::move(intervals));
  const Wide sum = time[0] + time[1] + time[2];
  Wide length = 0;
  for (const Interval& interval : busy) length += (interval.end - interval.start).count();
  const Picoseconds wall = busy.empty() ? Picoseconds(0) : busy.back().end - busy.front().start;
  Picoseconds gap{0};
  Picoseconds gap_at{0};
  for (std::size_t i = 1; i < busy.size(); ++i) {
    if (busy[i].start - busy[i - 1].end > gap) {
      gap = busy[i].start - busy[i - 1].end;
      gap_at = busy[i - 1].end - busy.front().start;
    }
  }
  s.wall_us = us(wall);
  s.busy_us = us(length);
  s.sum_us = us(sum);
  s.overlap_us = us(sum - length);
  s.utilization = ratio(length, wall.count());
  s.largest_gap_us = us(gap);
  s.largest_gap_at_us = us(gap_at);
  s.gaps = busy.empty() ? 0 : static_cast<std::int64_t>(busy.size() - 1);
  s.gpu_ops = static_cast<std::int64_t>(trace.ops.size());
  s.kernels = count[0];
  s.memcpys = count[1];
  s.memsets = count[2];
  s.kernel_us = us(time[0]);
  s.memcpy_us = us(time[1]);
  s.memset_us = us(time[2]);
  constexpr Wide most = std::numeric_limits<std::int64_t>::max();
  s.memcpy_bytes = static_cast<std::int64_t>(std::clamp(copied, -most, most));
  s.devices = std::count(device_used.begin(), device_used.end(), 1);
  s.streams = std::count(stream_used.begin(), stream_used.end(), 1);
  for (std::size_t i = 0; i < trace.devices.size(); ++i) {
    if (device_used[i] == 0) continue;
    for (const TraceDevice& device : trace.device_properties) {
      if (device.id == trace.devices[i] && !device.name.empty() &&
          std::find(s.device_names.begin(), s.device_names.end(), device.name) == s.device_names.end()) {
        s.device_names.push_back(device.name);
      }
    }
  }

  count_launches(trace, s);
  count_overlaps(trace, s);
  rank_kernels(trace, s);

  std::vector<Picoseconds> steps;
  for (const TraceStep& step : trace.steps) steps.push_back(step.duration());
  s.steps = static_cast<std::int64_t>(steps.size());
  s.step_us_median = median_us(std::move(steps));
  return s;
}

}  // namespace gpusim
