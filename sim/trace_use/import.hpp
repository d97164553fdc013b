// SPDX-License-Identifier: Apache-2.0
// A trace as a scenario file: explicit kernels with durations and gaps, what the host does before each,
// calls, streams, events and synchronisations, repeated blocks folded into loops. `gpusim run` reads it back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/hardware/gpu_spec.hpp"
#include "sim/program/replay.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

struct ImportOptions {
  std::optional<GpuSpec> gpu;  ///< Written as `hardware: KEY`.
  /// Host times: absent as traced, else times this; 0: as `host_time: {factor: auto}`.
  std::optional<double> host_factor;
  /// Whether repeats become loops, with the mean times of what they repeat, as long as the whole takes as
  /// long to 0.8 %.
  bool fold = true;
};

struct ImportedScenario {
  std::string yaml;
  std::int64_t items = 0;         ///< Written, loops and their bodies included.
  std::int64_t instructions = 0;  ///< Of the program that they stand for.
};

/// The replay of `trace` as a scenario with the variants `traced` and, on one device, `cuda_graph`. Throws
/// ConfigError for a trace with neither GPU ops nor calls.
ImportedScenario import_trace(const Trace& trace, const ImportOptions& options = {});

}  // namespace gpusim
