// SPDX-License-Identifier: Apache-2.0
// A summary as CSV, JSON and text for people.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "sim/trace/summary.hpp"

namespace gpusim {
namespace {

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
      if (!empty && current.size() + 3 + piece.size() > width) {
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

std::string summary_json(const Summary& s, std::string_view more) {
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
  key("dropped_spans");
  out += number(s.dropped_spans);
  key("lost_bytes");
  out += number(s.lost_bytes);
  key("lost_at");
  out += number(s.lost_at);
  key("text_bytes");
  out += number(s.text_bytes);
  key("repairs");
  list('[', ']', s.repairs, [&](const std::string& repair) { out += json_string(repair); });
  out.append(more).append("\n}");
  return out;
}

std::string json_list(std::span<const std::string> objects) {
  if (objects.size() == 1) return objects.front();
  std::string out = "[";
  for (const std::string& object : objects) {
    if (out.size() > 1) out += ",";
    out += '\n';
    out += object;
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
  if (s.dropped_spans > 0) {
    report.row("dropped", {plural(s.dropped_spans, "host op or record", "host ops and records") +
                           " without a usable time"});
  }
  if (!s.repairs.empty()) report.row("repaired", s.repairs);
  if (s.text_bytes > 0) {
    const bool truncated = std::find(s.repairs.begin(), s.repairs.end(), "truncated") != s.repairs.end();
    report.row("damaged", {fmt::format("{} of {} of text belong to no whole event", bytes_text(s.lost_bytes),
                                       bytes_text(s.text_bytes)),
                           s.lost_bytes > 0 ? "the first at byte " + grouped(s.lost_at) : "",
                           truncated ? "what was cut off behind it is not known" : ""});
  }

  return report.take();
}

}  // namespace gpusim
