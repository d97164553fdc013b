// SPDX-License-Identifier: Apache-2.0
// What would a traced step take if something were changed? Each change alone, and all of them together, with
// how far off such predictions were where they could be checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

struct TraceChange {
  enum class Kind : std::uint8_t {
    Gpu,              ///< `name`.
    Batch,            ///< `factor` times the batch.
    Kernel,           ///< Kernels that match `pattern`: `factor` times their time, or `duration`.
    Fuse,             ///< Neighbours that match `pattern`; empty: all that may be.
    Compile,          ///< Fuse all, and the host runs compiled code.
    RemoveSyncs,      ///< No call waits for the device inside the window.
    Host,             ///< `factor` times the host's time.
    CudaGraph,        ///< One CUDA graph a step.
    PiecewiseGraphs,  ///< CUDA graphs between the kernels that match `pattern`; empty: between attention.
  };
  Kind kind = Kind::CudaGraph;
  std::string text;  ///< As the user wrote it.
  std::string pattern;
  std::string name;
  double factor = 1;
  std::optional<Picoseconds> duration;
};

/// "cuda_graph", "cuda_graph=piecewise", "cuda_graph=around:PATTERN", "fuse", "fuse=PATTERN", "compile",
/// "kernel=PATTERN:2x", "kernel=PATTERN:30us", "host=2x", "gpu=NAME", "no_sync", "batch=2x". Throws
/// ConfigError located at "--change TEXT".
TraceChange parse_change(std::string_view text);

/// How far off predictions of one kind were.
struct PredictionRecord {
  double worst = 0;  ///< Largest |predicted / measured - 1|.
  std::int64_t cases = 0;
  const char* measured = "";  ///< What they were held against; a literal.
};

/// Of the unchanged replay without the profiler.
PredictionRecord record_of_baseline();
/// Of changes of a kind; nothing where none could be measured.
std::optional<PredictionRecord> record_of(TraceChange::Kind kind);

/// Nine in ten of the compiled kernels that were held out of the kernel model's fit are within this share
/// (docs/accuracy.md, family "inductor").
inline constexpr double fused_kernel_error = 0.22;

struct PredictedStep {
  std::string change;  ///< "unprofiled", "as traced", the change's text, "all together".
  Picoseconds step_time{0};
  Picoseconds gpu_busy{0};  ///< Of a step.
  double gpu_ops = 0;       ///< Of a step.
  double launches = 0;      ///< Calls of the host that launch something, of a step.
  /// Half of the error bar, as a share of the step time: the worst errors seen for the replay and for each
  /// kind of change, and `fused_kernel_error` of the joined kernels' share, added as squares. Nothing if a
  /// kind of change has never been measured.
  std::optional<double> error;
  std::vector<std::string> notes;
};

struct WhatIf {
  std::string trace;
  std::string gpu;  ///< Name of the hardware; empty: unknown.
  PredictedStep traced;
  PredictedStep baseline;
  std::vector<PredictedStep> alone;       ///< In the order given.
  std::optional<PredictedStep> together;  ///< Of two changes or more.
  std::vector<std::string> notes;
};

struct WhatIfOptions {
  std::optional<GpuSpec> gpu;         ///< That of the trace, where known.
  std::optional<HostSpec> host;       ///< What compiled code costs the host.
  std::optional<double> host_factor;  ///< Of the traced host times; absent: as `host_time: {factor: auto}`.
  std::function<GpuSpec(const std::string& name, const std::string& change)> find_gpu;
};

/// Throws ConfigError: a trace without GPU ops, a pattern that no kernel has (with the nearest), a change
/// that needs hardware or a host that is not known; and engine::DeadlockError.
WhatIf what_if(const Trace& trace, const std::vector<TraceChange>& changes, const WhatIfOptions& options);

}  // namespace gpusim
