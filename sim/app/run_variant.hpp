// SPDX-License-Identifier: Apache-2.0
// One variant simulated: build, capture if asked, run, and collect what reports need.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/config/limits.hpp"
#include "sim/program/build.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

class PlanStore;
namespace config {
class InputDigest;
}

/// Traces that several variants replay are read once.
class TraceStore {
 public:
  explicit TraceStore(const config::Limits& limits = {}) : limits_(limits) {}
  /// Throws TraceError.
  std::shared_ptr<const Trace> read(const std::string& path);

 private:
  config::Limits limits_;
  std::map<std::string, std::shared_ptr<const Trace>> traces_;
};

struct RunOptions {
  bool timeline = false;               ///< Keep the timeline of the isolated run.
  bool idle_intervals = false;         ///< Tell its idle time piece by piece.
  bool critical_path = false;          ///< Explain the isolated run moment by moment.
  bool one_cuda_graph = true;          ///< Also find out what CUDA graphs would change, for the advice.
  bool fit_memory = true;              ///< Look for a setting that fits, where a network does not.
  bool steady = true;                  ///< Look for the steady step; else only the isolated run is simulated.
  bool phases = true;                  ///< Find out what the phases of a training step take.
  bool shapes = true;                  ///< Run the steps of a sequence of shapes.
  std::shared_ptr<PlanStore> plans{};  ///< What variants run before have left; none: each is planned anew.
  /// Is told of the hardware that is looked up for a trace; none: nobody asks.
  std::shared_ptr<config::InputDigest> inputs{};
  /// Beside the project's own: where the device of a trace is looked up if the scenario names no hardware.
  std::vector<std::filesystem::path> config_folders;
  config::Limits limits{};
};

/// The kernel list of `variant` as a program, captured into CUDA graphs if it asks for that. Throws
/// ConfigError.
BuiltProgram build_kernels(const Variant& variant);

/// Throws ConfigError (nothing can be built), TraceError, and engine::DeadlockError.
report::VariantResult run_variant(const Variant& variant, TraceStore& traces, const RunOptions& options = {});

/// All variants, and whether they are as expected.
report::ScenarioReport run_scenario(const Scenario& scenario, TraceStore& traces,
                                    const RunOptions& options = {});

}  // namespace gpusim
