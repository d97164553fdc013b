// SPDX-License-Identifier: Apache-2.0
// From a scenario file to a Scenario. The one place that knows the keys of docs/scenarios.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/names.hpp"
#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/workload_store.hpp"

namespace gpusim {

/// What the command line adds to a file.
struct ScenarioOptions {
  std::vector<std::string> sets;  ///< "path=value", applied in order before variants are laid over the base.
  std::vector<std::string> variants;  ///< Only these; empty: all.
  std::optional<std::int64_t> steps;  ///< Replaces what the file says.
  std::optional<std::uint64_t> seed;
  /// JSON paths of the figures that `expect` may name ("step_time_us", "idle_us.dispatch").
  std::vector<std::string> metrics;
  /// Where names of hardware, hosts and backends are looked up, beside the scenario's own folder.
  std::vector<std::filesystem::path> config_folders;
  /// Configurations that scenarios read before have left; none: each scenario reads its own.
  std::shared_ptr<config::FileStore> files;
  /// Is told what the scenario says and which files it reads; none: nobody asks.
  std::shared_ptr<config::InputDigest> inputs{};
  config::Limits limits{};
  /// Networks' workloads that scenarios read before have left; none: each builds its op graphs.
  std::shared_ptr<WorkloadStore> workloads{};
};

/// Whether a file is a profiler trace, by its name: .json, .json.gz, .gz.
bool is_trace_file(const std::filesystem::path& file);

/// The tree of a scenario file, or of the question that a bare trace asks (see trace_scenario()), for
/// read_scenario_tree(). Throws ConfigError.
config::Node scenario_tree(const std::filesystem::path& file, const config::Limits& limits = {});

/// Reads a scenario from its tree, whose file is `file`: for one that is read again and again with other
/// `sets`.
Scenario read_scenario_tree(const config::Node& root, const std::filesystem::path& file,
                            const ScenarioOptions& options = {});

/// Reads a scenario file. Throws ConfigError with every mistake found.
Scenario read_scenario(const std::filesystem::path& file, const ScenarioOptions& options = {});

/// The same for text that came from elsewhere; `name` stands for the file, names are looked up beside it.
Scenario read_scenario_text(std::string_view text, const std::string& name,
                            const ScenarioOptions& options = {});

/// The question that a bare trace asks: its step without what the profiler adds to the host's work
/// ("unprofiled"), the same GPU ops as CUDA graphs ("cuda_graph"), and the trace as it is ("traced"), to be
/// held against it.
/// `--set` works on it as on the file that would say the same.
Scenario trace_scenario(const std::filesystem::path& trace, const ScenarioOptions& options = {});

}  // namespace gpusim
