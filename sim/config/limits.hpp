// SPDX-License-Identifier: Apache-2.0
// How much one run may ask for. An error that a limit causes names it, and `--limit NAME=VALUE` moves it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace gpusim::config {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

struct Limits {
  // Of one YAML file: a scenario, a network, a GPU, a config.json, or the value of a `--set`.
  std::int64_t file_bytes = std::int64_t{16} << 20;
  std::int64_t depth = 64;          ///< Nested lists and maps.
  std::int64_t values = 1'000'000;  ///< Values in the tree, with every alias counted as often as it is used.
  std::int64_t scalar_bytes = std::int64_t{1} << 16;  ///< Length of one key or value.

  // Of a step and of a run.
  std::int64_t graph_ops_max = 2'000'000;  ///< Ops of a network's forward pass.
  std::int64_t step_instructions_max =
      200'000'000;  ///< The most that a scenario's `instructions_max` may be.
  std::int64_t run_instructions_max = 2'000'000'000;  ///< Host instructions times steps asked for.
  std::int64_t timeline_ops_max = 20'000'000;         ///< GPU ops of a timeline (--trace, --html).
  std::int64_t critical_path_ops_max = 5'000'000;     ///< GPU ops, about 600 bytes each.

  // Of a sweep.
  std::int64_t axis_values_max = 1'000'000;
  std::int64_t points_max = 1'000'000'000;

  // Of a profiler trace.
  std::int64_t trace_file_bytes = std::int64_t{16} << 30;  ///< As stored.
  std::int64_t trace_text_bytes = std::int64_t{16} << 30;  ///< JSON text, unpacked.
  std::int64_t trace_whole_bytes = std::int64_t{3} << 30;  ///< JSON text that has to be in memory as a whole.
  std::int64_t trace_expansion_max = 300;  ///< JSON text to gzip data, from 64 MiB of text on.
  std::int64_t trace_depth = 256;          ///< Nested JSON values.

  std::int64_t memory_bytes = no_limit;  ///< Address space of the process.
};

struct LimitInfo {
  std::string_view name;
  std::int64_t Limits::*value;
  std::int64_t least;  ///< What it may be set to.
  std::int64_t most;
  bool bytes;  ///< Whether it is written as a size ("64 MiB").
  std::string_view help;
};

/// All of them, in the order of Limits.
std::span<const LimitInfo> known_limits();

/// Changes one: `assignment` is "NAME=VALUE", as in "graph_ops_max=1000", "memory_bytes=4 GiB". Throws
/// ConfigError, located at "--limit NAME=VALUE": an unknown name, a value that is none or out of its range.
void set_limit(Limits& limits, std::string_view assignment);

/// A table of names, defaults and what each limits, for people.
std::string limits_text();

}  // namespace gpusim::config
