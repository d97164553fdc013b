// SPDX-License-Identifier: Apache-2.0
#include "models/cost/launch_formulas.hpp"

#include <algorithm>
#include <numeric>

namespace gpusim {

namespace {

double ratio(Picoseconds a, Picoseconds b) {
  return b.count() == 0 ? 0.0 : static_cast<double>(a.count()) / static_cast<double>(b.count());
}

Picoseconds sum(std::span<const Picoseconds> durations) {
  return std::accumulate(durations.begin(), durations.end(), Picoseconds{0});
}

}  // namespace

double StepLength::utilization() const {
  return ratio(busy, length);
}

StepLength isolated_step(std::span<const Picoseconds> durations, Picoseconds launch,
                         std::optional<Picoseconds> graph_launch) {
  if (durations.empty()) return {};
  const Picoseconds busy = sum(durations);
  if (graph_launch) return {.length = *graph_launch + busy, .busy = busy};
  Picoseconds length{0};
  Picoseconds rest = busy;  // of kernel i and all later ones
  Picoseconds issued{0};
  for (const Picoseconds duration : durations) {
    issued += launch;
    length = std::max(length, issued + rest);
    rest -= duration;
  }
  return {.length = length, .busy = busy};
}

StepLength steady_step(std::span<const Picoseconds> durations, Picoseconds launch,
                       std::optional<Picoseconds> graph_launch) {
  if (durations.empty()) return {};
  const Picoseconds busy = sum(durations);
  const Picoseconds host =
      graph_launch ? *graph_launch : launch * static_cast<std::int64_t>(durations.size());
  return {.length = std::max(host, busy), .busy = busy};
}

Picoseconds min_kernel_duration(Picoseconds launch) {
  return launch;
}

double equal_kernel_utilization(std::int64_t kernels, Picoseconds duration, Picoseconds launch) {
  if (kernels <= 0) return 0;
  const Picoseconds busy = kernels * duration;
  return ratio(busy, duration < launch ? kernels * launch + duration : launch + busy);
}

Picoseconds equal_kernel_wait(Picoseconds duration, Picoseconds launch) {
  return std::max(launch - duration, Picoseconds{0});
}

Picoseconds launch_time_saved(std::int64_t launches, Picoseconds launch, std::int64_t cuda_graphs,
                              Picoseconds graph_launch) {
  return launches * launch - cuda_graphs * graph_launch;
}

std::optional<std::int64_t> break_even_calls(Picoseconds one_off, Picoseconds saved_per_call) {
  if (saved_per_call <= Picoseconds{0}) return std::nullopt;
  return (one_off.count() + saved_per_call.count() - 1) / saved_per_call.count();
}

double flops_utilization(Flops work, Picoseconds time, FlopsPerSecond peak) {
  return work.value() / (seconds(time) * peak.value());
}

BytesPerSecond achieved_bandwidth(Bytes bytes, Picoseconds time) {
  return BytesPerSecond(static_cast<double>(bytes.value()) / seconds(time));
}

FlopsPerSecond achieved_flops(Flops flops, Picoseconds time) {
  return FlopsPerSecond(flops.value() / seconds(time));
}

double arithmetic_intensity(Flops flops, Bytes bytes) {
  return flops.value() / static_cast<double>(bytes.value());
}

double ridge_intensity(FlopsPerSecond peak, BytesPerSecond bandwidth) {
  return peak.value() / bandwidth.value();
}

Picoseconds roofline_time(Bytes bytes, BytesPerSecond bandwidth, Flops flops, FlopsPerSecond peak) {
  return std::max(transfer_time(bytes, bandwidth), compute_time(flops, peak));
}

double overall_speedup(double share, double factor) {
  return 1 / (1 - share + share / factor);
}

FirstLook first_look(double sm_utilization, FirstLookLimits limits) {
  if (sm_utilization < limits.overhead_below) return FirstLook::Overhead;
  return sm_utilization > limits.compute_above ? FirstLook::Compute : FirstLook::Memory;
}

}  // namespace gpusim
