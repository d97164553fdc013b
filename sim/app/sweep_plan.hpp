// SPDX-License-Identifier: Apache-2.0
// From the arguments of `gpusim sweep` to what its workers need, with everything that is wrong said before
// the first point runs.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/app/sweep_command.hpp"
#include "sim/app/sweep_worker.hpp"
#include "sim/sweep/table.hpp"

namespace gpusim {

/// Reads the scenario, checks that each axis changes something that the scenario has, and picks the columns.
/// Throws ConfigError.
SweepPlan make_sweep_plan(const SweepArguments& arguments, const Surroundings& surroundings);

/// A sweep whose scenario and values do not come from a file and `--vary`.
struct SweepQuestion {
  config::Node tree = config::Node::empty_map();
  sweep::Points points;
  sweep::Format format = sweep::Format::Cells;
};
/// The same for `question`; of `arguments`, `vary`, `zip`, `random`, `shard`, `jobs`, `out` and `resume` do
/// not count, and `file` is only what messages name.
SweepPlan make_sweep_plan(SweepQuestion question, const SweepArguments& arguments,
                          const std::vector<std::filesystem::path>& config_folders,
                          const config::Limits& limits = {});

/// What a file with the rows of `points` belongs to: the digest is of the version, the input and every option
/// that rows depend on.
sweep::Identity identity_of(const SweepPlan& plan, const SweepArguments& arguments,
                            const sweep::Stretch& points);

/// Result columns by the names of `gpusim run --format csv`, with or without their unit; "all" for all.
/// Empty: the main ones. Throws ConfigError, located at --columns.
std::vector<std::string> result_columns(const std::vector<std::string>& wanted);

}  // namespace gpusim
