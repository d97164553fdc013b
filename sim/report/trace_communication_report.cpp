// SPDX-License-Identifier: Apache-2.0
// Collectives of a trace, for people and programs.
#include <fmt/format.h>

#include <algorithm>

#include "models/units/text.hpp"
#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t kinds_listed = 10;
constexpr std::size_t kinds_in_json = 100;

std::string line(std::string_view text, const std::string& count, const std::string& total,
                 const std::string& exposed, const std::string& hidden, const std::string& bus) {
  std::string out = left(shorten(text, 29), 30) + right(count, 6) + right(total, 11) + right(exposed, 11) +
                    right(hidden, 11) + right(bus, 11);
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

std::string label(const TraceCommunication& kind) {
  std::string text = printable(kind.name);
  if (kind.bytes > 0) text += " " + format_quantity(Bytes(kind.bytes));
  if (!kind.dtype.empty()) text += " " + printable(kind.dtype);
  if (kind.group_size > 0) text += fmt::format(" x{}", kind.group_size);
  return text;
}

}  // namespace

std::string trace_communication_text(const TraceCommunications& communication) {
  if (communication.kinds.empty()) return "";
  const auto time = [&](Picoseconds part) { return time_text(part, communication.total); };
  std::string out = "\n" + line("communication", "count", "time", "exposed", "hidden", "bus");
  out += std::string(80, '-') + "\n";
  const std::size_t listed = std::min(communication.kinds.size(), kinds_listed);
  for (std::size_t i = 0; i < listed; ++i) {
    const TraceCommunication& kind = communication.kinds[i];
    const double bus = kind.bus_bytes_per_second();
    out += line(label(kind), fmt::format("{}", kind.count), time(kind.total), time(kind.exposed),
                time(kind.hidden()), bus > 0 ? fmt::format("{:.0f} GB/s", bus / 1e9) : "-");
  }
  if (listed < communication.kinds.size())
    out += fmt::format("{} more kinds\n", communication.kinds.size() - listed);
  for (const TraceStepCommunication& step : communication.steps)
    if (step.count > 0)
      out += line(step.number >= 0 ? fmt::format("step {}", step.number) : std::string("step"),
                  fmt::format("{}", step.count), time(step.total), time(step.exposed),
                  time(step.total - step.exposed), "");
  out +=
      "Exposed: no other GPU op of the device ran. A collective also waits for the\n"
      "ranks that come later, so the bus is that of the shortest one.\n";
  return out;
}

std::string trace_communication_json(const TraceCommunications& communication) {
  std::string out = ",\n \"communication\": [";
  for (std::size_t i = 0; i < std::min(communication.kinds.size(), kinds_in_json); ++i) {
    const TraceCommunication& kind = communication.kinds[i];
    out += fmt::format(
        "{}{{\"name\": {}, \"dtype\": {}, \"bytes\": {}, \"group_size\": {}, \"count\": {}, \"total_us\": "
        "{}, "
        "\"exposed_us\": {}, \"shortest_us\": {}, \"bus_bytes_per_second\": {}}}",
        i == 0 ? "\n  " : ",\n  ", json_string(kind.name), json_string(kind.dtype), kind.bytes,
        kind.group_size, kind.count, exact_microseconds(kind.total), exact_microseconds(kind.exposed),
        exact_microseconds(kind.shortest), exact_number(kind.bus_bytes_per_second()));
  }
  out += communication.kinds.empty() ? "]" : "\n ]";
  out += ",\n \"communication_steps\": [";
  bool first = true;
  for (const TraceStepCommunication& step : communication.steps) {
    if (step.count == 0) continue;
    out += fmt::format("{}{{\"number\": {}, \"count\": {}, \"total_us\": {}, \"exposed_us\": {}}}",
                       first ? "\n  " : ",\n  ", step.number, step.count, exact_microseconds(step.total),
                       exact_microseconds(step.exposed));
    first = false;
  }
  return out + (first ? "]" : "\n ]");
}

}  // namespace gpusim::report
