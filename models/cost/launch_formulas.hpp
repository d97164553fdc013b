// SPDX-License-Identifier: Apache-2.0
// Closed forms of launch, utilisation and roofs: what can be said about a step with pencil and paper.
//
// They know nothing of queues' depth, gaps or several streams; the engine does. Where both apply they must
// agree to the picosecond, which is what tests/formula holds them to. Source of each formula:
// docs/seed-coverage.md names the figures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/units/quantity.hpp"

namespace gpusim {

/// How long a step took and how long the GPU worked in it.
struct StepLength {
  Picoseconds length{0};
  Picoseconds busy{0};
  /// busy / length; 0 for an empty step.
  double utilization() const;
  friend bool operator==(const StepLength&, const StepLength&) = default;
};

/// One step of kernels on one stream, from an idle machine: time 0 is when the host begins the first launch.
///
/// Eager: launch i is issued at (i + 1) * launch, kernel i starts at the later of that and the end of kernel
/// i - 1, so the length is max over i of (i + 1) * launch + (sum of the durations from i on). With
/// `graph_launch` the kernels are one CUDA graph: graph_launch + sum of the durations (zero counts as given).
/// No kernels: nothing is launched, (0, 0).
StepLength isolated_step(std::span<const Picoseconds> durations, Picoseconds launch,
                         std::optional<Picoseconds> graph_launch = std::nullopt);

/// The same step repeated without a barrier: the host and the device each need their time, the longer one
/// sets the period. max(n * launch, sum); with a CUDA graph max(graph_launch, sum).
StepLength steady_step(std::span<const Picoseconds> durations, Picoseconds launch,
                       std::optional<Picoseconds> graph_launch = std::nullopt);

/// The shortest duration of equal kernels at which the GPU never waits after its first one: that of the
/// launch.
Picoseconds min_kernel_duration(Picoseconds launch);

/// Utilisation of `kernels` equal kernels in an isolated eager step: n d / (n launch + d) for d below the
/// launch, n d / (launch + n d) from there on. 0 for no kernels.
double equal_kernel_utilization(std::int64_t kernels, Picoseconds duration, Picoseconds launch);

/// How long the GPU waits before each but the first of equal kernels: launch - duration, or 0.
Picoseconds equal_kernel_wait(Picoseconds duration, Picoseconds launch);

/// Host time that `cuda_graphs` replays save in place of `launches` single launches, both at the given call
/// times. Negative where the replays cost more.
Picoseconds launch_time_saved(std::int64_t launches, Picoseconds launch, std::int64_t cuda_graphs,
                              Picoseconds graph_launch);

/// Calls after which a one-off cost (compiling, capturing) is repaid; nothing if a call saves nothing.
std::optional<std::int64_t> break_even_calls(Picoseconds one_off, Picoseconds saved_per_call);

/// FLOPs utilisation: work / (time * peak). Model FLOPs give MFU, executed FLOPs (with recomputation) HFU.
double flops_utilization(Flops work, Picoseconds time, FlopsPerSecond peak);

BytesPerSecond achieved_bandwidth(Bytes bytes, Picoseconds time);
FlopsPerSecond achieved_flops(Flops flops, Picoseconds time);

/// FLOPs per byte of memory traffic.
double arithmetic_intensity(Flops flops, Bytes bytes);

/// The intensity at which the memory roof meets the compute roof: below it a kernel is memory-bound.
double ridge_intensity(FlopsPerSecond peak, BytesPerSecond bandwidth);

/// The plain roofline: max(bytes / bandwidth, flops / peak).
Picoseconds roofline_time(Bytes bytes, BytesPerSecond bandwidth, Flops flops, FlopsPerSecond peak);

/// Overall speed-up when a `share` of the time (0 to 1) gets `factor` times faster (Amdahl).
double overall_speedup(double share, double factor);

/// What a first look at SM utilisation (0 to 1) suggests.
enum class FirstLook { Overhead, Memory, Compute };

/// A rule of thumb: below 30 % launches and dispatch, up to 80 % memory, above it arithmetic. The limits are
/// parameters because they are nobody's measurement.
struct FirstLookLimits {
  double overhead_below = 0.30;
  double compute_above = 0.80;
};
FirstLook first_look(double sm_utilization, FirstLookLimits limits = {});

}  // namespace gpusim
