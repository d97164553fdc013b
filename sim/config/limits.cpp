// SPDX-License-Identifier: Apache-2.0
#include "sim/config/limits.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/units/text.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim::config {
namespace {

// yaml-cpp gives up at 500 levels without saying why; ops and instructions have indices of 32 bits, a graph
// several tensors for each op.
constexpr std::array<LimitInfo, 17> table{{
    {"file_bytes", &Limits::file_bytes, 1, std::int64_t{1} << 40, true, "one YAML file"},
    {"depth", &Limits::depth, 1, 400, false, "lists and maps in each other, in a YAML file"},
    {"values", &Limits::values, 1, 1'000'000'000, false, "values of a YAML file, aliases expanded"},
    {"scalar_bytes", &Limits::scalar_bytes, 1, std::int64_t{1} << 40, true,
     "one key or value of a YAML file"},
    {"graph_ops_max", &Limits::graph_ops_max, 1, 100'000'000, false, "ops of a network's forward pass"},
    {"step_instructions_max", &Limits::step_instructions_max, 1, 2'000'000'000, false,
     "what a scenario may set instructions_max to"},
    {"run_instructions_max", &Limits::run_instructions_max, 1, no_limit, false,
     "host instructions of all steps asked for"},
    {"timeline_ops_max", &Limits::timeline_ops_max, 1, 2'000'000'000, false, "GPU ops of --trace and --html"},
    {"critical_path_ops_max", &Limits::critical_path_ops_max, 1, 2'000'000'000, false,
     "GPU ops of --critical-path"},
    {"axis_values_max", &Limits::axis_values_max, 1, 1'000'000'000, false, "values of one --vary"},
    {"points_max", &Limits::points_max, 1, 1'000'000'000'000'000, false, "points of a sweep"},
    {"trace_file_bytes", &Limits::trace_file_bytes, 1, no_limit, true, "a trace as stored"},
    {"trace_text_bytes", &Limits::trace_text_bytes, 1, no_limit, true, "a trace's JSON text, unpacked"},
    {"trace_whole_bytes", &Limits::trace_whole_bytes, 1, no_limit, true,
     "the text of a trace that is damaged, or comes through a pipe"},
    {"trace_expansion_max", &Limits::trace_expansion_max, 1, 1'000'000, false,
     "a trace's text to its gzip data, from 64 MiB of text on"},
    {"trace_depth", &Limits::trace_depth, 1, 1000, false, "JSON values in each other, in a trace"},
    {"memory_bytes", &Limits::memory_bytes, std::int64_t{64} << 20, no_limit, true,
     "address space of the process"},
}};

template <class T>
T read(std::string_view text, const Location& where) {
  const auto value = parse_quantity<T>(text);
  if (!value)
    throw ConfigError(
        Diagnostic{.where = where, .path = {}, .what = value.error().what, .hint = value.error().hint});
  return value.value();
}

std::string shown(const LimitInfo& limit, std::int64_t value) {
  if (value == no_limit) return "none";
  return limit.bytes ? format_quantity(Bytes(value)) : std::to_string(value);
}

}  // namespace

std::span<const LimitInfo> known_limits() {
  return table;
}

void set_limit(Limits& limits, std::string_view assignment) {
  const Location where = whole("--limit " + std::string(assignment));
  const auto refuse = [&](std::string what, std::string hint) {
    throw ConfigError(
        Diagnostic{.where = where, .path = {}, .what = std::move(what), .hint = std::move(hint)});
  };
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) refuse("is not an assignment", "write --limit NAME=VALUE");
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  const auto limit = std::ranges::find(table, name, &LimitInfo::name);
  if (limit == table.end()) {
    std::vector<std::string> names;
    for (const LimitInfo& known : table) names.emplace_back(known.name);
    refuse("unknown limit " + in_quotes(name), name_hint(name, names, "limits"));
  }
  if (text == "none" && limit->most == no_limit) {
    limits.*limit->value = no_limit;
    return;
  }
  const std::int64_t value =
      limit->bytes ? read<Bytes>(text, where).value() : read<std::int64_t>(text, where);
  if (value < limit->least || value > limit->most)
    refuse("must be " + shown(*limit, limit->least) + " to " +
               (limit->most == no_limit ? "2^63 - 1" : shown(*limit, limit->most)) + ", not " +
               std::string(text),
           limit->most == no_limit ? "write 'none' for no limit" : "");
  limits.*limit->value = value;
}

std::string limits_text() {
  const Limits defaults;
  const auto padded = [](std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
  };
  std::string text;
  for (const LimitInfo& limit : table)
    text += padded(std::string(limit.name), 23) + padded(shown(limit, defaults.*limit.value), 15) +
            std::string(limit.help) + '\n';
  return text;
}

}  // namespace gpusim::config
