// SPDX-License-Identifier: Apache-2.0
// `gpusim sweep`: a scenario at many points, one row for each point and variant. docs/sweeps.md is its
// manual.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/command_line.hpp"

namespace CLI {
class App;
}

namespace gpusim {

struct SweepArguments {
  std::string file;
  std::vector<std::string> vary;
  bool zip = false;
  std::optional<std::int64_t> random;  ///< So many points of the grid.
  std::string shard;
  std::int64_t jobs = 0;  ///< Threads; 0: as many as there are cores.
  std::string out;        ///< Empty: CSV to standard output.
  bool resume = false;
  std::string html;  ///< Plots; empty: none.
  std::vector<std::string> columns;
  std::vector<std::string> sets;
  std::vector<std::string> variants;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> seed;
};

/// Adds the options of the command to `app`.
void add_sweep_options(CLI::App& app, SweepArguments& arguments);

/// Evaluates the points and writes their rows. Throws ConfigError: bad arguments, a scenario that no point
/// can run, a file that cannot be written.
ExitCode run_sweep(const SweepArguments& arguments, const Surroundings& surroundings);

}  // namespace gpusim
