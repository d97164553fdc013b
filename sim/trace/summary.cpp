// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/summary.hpp"

#include <fmt/format.h>

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

/// Shortest text that reads back as the same double, as Python writes it: 4.0, 0.001, 1e-05, 1e+16.
std::string number(double value) {
  char text[64];
  const char* const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const std::string_view scientific(text, static_cast<std::size_t>(end - text));
  const int exponent = [&] {
    const std::string_view part = scientific.substr(scientific.find('e') + 1);
    int result = 0;
    std::from_chars(part.data() + (part[0] == '+' ? 1 : 0), part.data() + part.size(), result);
    return result;
  }();
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  char plain[64];
  std::string result(plain, std::to_chars(plain, plain + sizeof plain, value, std::chars_format::fixed).ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}
std::string number(std::int64_t value) {
  return fmt::format("{}", value);
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

/// Calls visit(name, value) for each column of the CSV but the first, in its order.
template <class Visit>
void for_each_column(const Summary& s, Visit visit) {
  visit("events", s.events);
  visit("wall_us", s.wall_us);
  visit("busy_us", s.busy_us);
  visit("sum_us", s.sum_us);
  visit("overlap_us", s.overlap_us);
  visit("utilization", s.utilization);
  visit("largest_gap_us", s.largest_gap_us);
  visit("gaps", s.gaps);
  visit("gpu_ops", s.gpu_ops);
  visit("kernels", s.kernels);
  visit("memcpys", s.memcpys);
  visit("memsets", s.memsets);
  visit("kernel_us", s.kernel_us);
  visit("memcpy_us", s.memcpy_us);
  visit("memset_us", s.memset_us);
  visit("memcpy_bytes", s.memcpy_bytes);
  visit("devices", s.devices);
  visit("streams", s.streams);
  visit("kernel_launches", s.kernel_launches);
  visit("launches_without_kernel", s.launches_without_kernel);
  visit("graph_launches", s.graph_launches);
  visit("kernels_from_graphs", s.kernels_from_graphs);
  visit("gpu_ops_from_graphs", s.gpu_ops_from_graphs);
  visit("unlinked_gpu_ops", s.unlinked_gpu_ops);
  visit("sync_calls", s.sync_calls);
  visit("launch_call_us_median", s.launch_call_us_median);
  visit("launch_delay_us_median", s.launch_delay_us_median);
  visit("launch_delay_us_min", s.launch_delay_us_min);
  visit("graph_launch_call_us_median", s.graph_launch_call_us_median);
  visit("graph_launch_delay_us_median", s.graph_launch_delay_us_median);
  visit("steps", s.steps);
  visit("step_us_median", s.step_us_median);
  visit("overlapping_ops", s.overlapping_ops);
  visit("nested_ops", s.nested_ops);
  visit("same_stream_overlaps", s.same_stream_overlaps);
  visit("max_concurrent", s.max_concurrent);
  visit("zero_duration_ops", s.zero_duration_ops);
  visit("top_kernel_us", s.top_kernel_us);
  visit("top_kernel_count", s.top_kernel_count);
  visit("top_kernel", s.top_kernel);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

// ---- the text report

/// 12,345,678.901
std::string grouped(std::string_view digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && i < point && (point - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}
std::string grouped(std::int64_t value) {
  return grouped(fmt::format("{}", value));
}

std::string time_text(double microseconds) {
  if (microseconds >= 1e6) return grouped(fmt::format("{:.3f}", microseconds * 1e-6)) + " s";
  if (microseconds >= 1e3) return fmt::format("{:.3f} ms", microseconds * 1e-3);
  return fmt::format("{:.3f} us", microseconds);
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value * 1e-9);
  if (value >= 1e6) return fmt::format("{:.2f} MB", value * 1e-6);
  if (value >= 1e3) return fmt::format("{:.2f} kB", value * 1e-3);
  return fmt::format("{} B", bytes);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("-");
}

std::string plural(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

/// At most `width` bytes, cut between characters, without control characters.
std::string shortened(std::string_view text, std::size_t width) {
  std::string out(text.substr(0, width));
  if (text.size() > width) {
    std::size_t end = width - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    out = std::string(text.substr(0, end)) + "...";
  }
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = ' ';
  }
  return out;
}

class Report {
 public:
  void line(const std::string& text = {}) { text_ += text + '\n'; }
  /// Label and value; further pieces of the value that do not fit go on a line of their own.
  void row(std::string_view label, const std::vector<std::string>& pieces) {
    std::string current = fmt::format("  {:<14}", label);
    bool empty = true;
    for (const std::string& piece : pieces) {
      if (piece.empty()) continue;
      if (!empty && current.size() + 2 + piece.size() > width) {
        line(current + ",");
        current = std::string(16, ' ');
        empty = true;
      }
      current += (empty ? "" : ", ") + piece;
      empty = false;
    }
    line(shortened(current, width));
  }
  std::string take() { return std::move(text_); }

  static constexpr std::size_t width = 80;

 private:
  std::string text_;
};

}  // namespace

Summary summarize(const Trace& trace) {
  Summary s;
  s.file = trace.file;
  s.events = static_cast<std::int64_t>(trace.events);
  s.invalid_events = static_cast<std::int64_t>(trace.invalid_events);
  s.repairs = trace.repairs;

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

std::string summary_csv_header() {
  std::string out = "file";
  for_each_column(Summary(), [&](std::string_view name, const auto&) { out.append(",").append(name); });
  return out;
}

std::string summary_csv_row(const Summary& summary) {
  std::string out = csv_field(summary.file);
  for_each_column(summary, [&](std::string_view, const auto& value) {
    out += ',';
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      out += csv_field(value);
    } else {
      out += number(value);
    }
  });
  return out;
}

std::string summary_json(const Summary& s) {
  std::string out = "{\n \"file\": " + json_string(s.file);
  const auto key = [&](std::string_view name) { out.append(",\n ").append(json_string(name)).append(": "); };
  for_each_column(s, [&](std::string_view name, const auto& value) {
    key(name);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      out += json_string(value);
    } else {
      out += number(value);
    }
  });
  key("largest_gap_at_us");
  out += number(s.largest_gap_at_us);
  key("invalid_events");
  out += number(s.invalid_events);
  key("kernel_names");
  out += number(static_cast<std::int64_t>(s.kernel_totals.size()));
  const auto list = [&](char open, char close, const auto& items, const auto& write) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      out += first ? "\n  " : ",\n  ";
      first = false;
      write(item);
    }
    if (!first) out += "\n ";
    out += close;
  };
  key("sync_calls_by_name");
  list('{', '}', s.sync_calls_by_name,
       [&](const auto& item) { out += json_string(item.first) + ": " + number(item.second); });
  key("kernel_groups");
  std::vector<int> groups(kernel_group_count);
  std::iota(groups.begin(), groups.end(), 0);
  list('{', '}', groups, [&](int i) {
    const KernelGroupTotal& total = s.kernel_groups[i];
    constexpr std::string_view names[kernel_group_count] = {"matmul", "attention", "communication", "other"};
    out += fmt::format("{}: {{\"count\": {}, \"total_us\": {}}}", json_string(names[i]), total.count,
                       number(total.total_us));
  });
  key("top_kernels");
  const std::size_t top = std::min<std::size_t>(s.kernel_totals.size(), 10);
  list('[', ']', std::span(s.kernel_totals).first(top), [&](const KernelTotal& kernel) {
    out += fmt::format("{{\"name\": {}, \"count\": {}, \"total_us\": {}}}", json_string(kernel.name),
                       kernel.count, number(kernel.total_us));
  });
  key("device_names");
  list('[', ']', s.device_names, [&](const std::string& name) { out += json_string(name); });
  key("repairs");
  list('[', ']', s.repairs, [&](const std::string& repair) { out += json_string(repair); });
  out += "\n}";
  return out;
}

std::string summary_json(std::span<const Summary> summaries) {
  if (summaries.size() == 1) return summary_json(summaries.front());
  std::string out = "[";
  for (const Summary& summary : summaries) {
    if (out.size() > 1) out += ",";
    out += '\n';
    out += summary_json(summary);
  }
  out += "\n]";
  return out;
}

std::string summary_text(const Summary& s) {
  Report report;
  report.line(shortened(s.file, Report::width));
  const auto devices = [&] {
    std::string names;
    for (const std::string& name : s.device_names) names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? plural(s.devices, "device", "devices") : names;
  }();
  if (s.gpu_ops == 0) {
    report.row("events", {grouped(s.events), "no GPU op among them"});
  } else {
    report.row("events", {grouped(s.events)});
    report.row("device",
               {shortened(devices, 60), s.device_names.empty() ? "" : plural(s.devices, "device", "devices"),
                plural(s.streams, "stream", "streams")});
    report.row("wall", {time_text(s.wall_us) + " from the first GPU op to the last"});
    report.row("busy", {time_text(s.busy_us), percent(s.busy_us, s.wall_us) + " of the wall"});
    report.row("idle", {time_text(s.wall_us - s.busy_us), "in " + plural(s.gaps, "gap", "gaps"),
                        s.gaps == 0 ? ""
                                    : fmt::format("the largest {} at {}", time_text(s.largest_gap_us),
                                                  time_text(s.largest_gap_at_us))});
    if (s.overlapping_ops > 0) {
      report.row("overlap", {time_text(s.overlap_us), plural(s.overlapping_ops, "GPU op", "GPU ops"),
                             fmt::format("{} within their own stream", s.same_stream_overlaps),
                             fmt::format("at most {} at once", s.max_concurrent)});
    }
    report.row("GPU ops",
               {grouped(s.gpu_ops), plural(s.kernels, "kernel", "kernels") + " " + time_text(s.kernel_us),
                s.memcpys == 0 ? ""
                               : plural(s.memcpys, "copy", "copies") + " " + time_text(s.memcpy_us) +
                                     (s.memcpy_bytes > 0 ? " for " + bytes_text(s.memcpy_bytes) : ""),
                s.memsets == 0 ? "" : plural(s.memsets, "memset", "memsets") + " " + time_text(s.memset_us)});
  }
  if (s.kernel_launches > 0) {
    report.row(
        "launches",
        {plural(s.kernel_launches, "kernel launch", "kernel launches"),
         "call " + time_text(s.launch_call_us_median) + " in the median",
         s.launches_without_kernel == s.kernel_launches
             ? ""
             : fmt::format("to its kernel {}, at least {}", time_text(s.launch_delay_us_median),
                           time_text(s.launch_delay_us_min)),
         s.launches_without_kernel == 0 ? "" : grouped(s.launches_without_kernel) + " without a kernel"});
  }
  if (s.graph_launches > 0) {
    report.row("CUDA graphs", {plural(s.graph_launches, "launch", "launches") + " of " +
                                   plural(s.gpu_ops_from_graphs, "GPU op", "GPU ops"),
                               "call " + time_text(s.graph_launch_call_us_median) + " in the median",
                               "to the first op " + time_text(s.graph_launch_delay_us_median)});
  }
  if (s.unlinked_gpu_ops > 0) {
    report.row("unlinked",
               {plural(s.unlinked_gpu_ops, "GPU op", "GPU ops") + " without a launch call in the trace"});
  }
  if (s.sync_calls > 0) {
    std::vector<std::string> pieces;
    for (const auto& [name, count] : s.sync_calls_by_name) pieces.push_back(grouped(count) + " " + name);
    report.row("sync calls", pieces);
  }
  if (s.steps > 0) {
    report.row("steps", {grouped(s.steps), time_text(s.step_us_median) + " in the median, on the host"});
  }
  if (s.invalid_events > 0) {
    report.row("invalid", {plural(s.invalid_events, "event", "events") + " without a usable time, left out"});
  }
  if (!s.repairs.empty()) report.row("repaired", s.repairs);

  if (s.kernels > 0) {
    report.line();
    report.line(
        fmt::format("  {:<33} {:>10} {:>9} {:>14}", "kernels by what they do", "share", "count", "total"));
    std::vector<int> order(kernel_group_count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return s.kernel_groups[a].total_us > s.kernel_groups[b].total_us; });
    for (const int i : order) {
      const KernelGroupTotal& total = s.kernel_groups[i];
      if (total.count == 0) continue;
      report.line(fmt::format("  {:<33} {:>10} {:>9} {:>14}", kernel_group_name(static_cast<KernelGroup>(i)),
                              percent(total.total_us, s.kernel_us), grouped(total.count),
                              time_text(total.total_us)));
    }
    report.line();
    const std::size_t top = std::min<std::size_t>(s.kernel_totals.size(), 10);
    report.line(fmt::format(
        "  {:<33} {:>10} {:>9} {:>14}",
        top < s.kernel_totals.size()
            ? fmt::format("top {} of {} kernel names", top, grouped(std::int64_t(s.kernel_totals.size())))
            : std::string("kernel names"),
        "share", "count", "total"));
    for (std::size_t i = 0; i < top; ++i) {
      const KernelTotal& kernel = s.kernel_totals[i];
      report.line(fmt::format("  {:<33} {:>10} {:>9} {:>14}", shortened(kernel.name, 33),
                              percent(kernel.total_us, s.kernel_us), grouped(kernel.count),
                              time_text(kernel.total_us)));
    }
  }
  return report.take();
}

}  // namespace gpusim
