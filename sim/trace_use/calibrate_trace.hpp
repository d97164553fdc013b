// SPDX-License-Identifier: Apache-2.0
// What traces say about the host and the device they were taken on: CPU time per op of the framework, and how
// kernels whose work is known fare against the kernel formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/calibrate/fit.hpp"
#include "sim/calibrate/kernel_table.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// CPU time of one kind of op in one mode, without the profiler's share.
struct HostOpSample {
  std::string key;  ///< As in host files: "mm".
  HostOpMode mode = HostOpMode::NoGrad;
  std::int64_t count = 0;
  double launches = 0;  ///< Of an op.
  Picoseconds mean{0};
  Picoseconds p10{0};
  Picoseconds p90{0};
  std::optional<Picoseconds> base;  ///< What the base host's file says.
};

struct HostFit {
  HostSpec host;                      ///< The base's costs at `speed`, those of the traces over them.
  std::vector<HostOpSample> samples;  ///< Most time first.
  std::vector<double> factors;        ///< By trace: share of the traced host time that is not the profiler's.
  /// Mean over the ops of the base's costs at `speed` against the traces': how far the base's proportions
  /// hold.
  double residual = 0;
};

/// From each top-level op's start to the next one's on its thread: op, launches, and Python around it. Left
/// out are ops around which the host waited (a synchronisation, a blocking copy, a full queue), the last of a
/// step, and, of each kind, what took more than five times its median (first uses, other processes).
HostFit fit_host(const std::vector<Trace>& traces, const std::vector<std::optional<GpuSpec>>& gpus,
                 const HostSpec& base);

/// A host file: `base:`, `speed:` and the ops.
std::string host_yaml(const HostFit& fit, const HostSpec& base, const std::vector<std::string>& sources);

/// Kernels whose work is known: elementwise ones by name and grid; products by the shapes of their op, where
/// the trace has them. One case per kernel and size, with its mean duration.
calibrate::KernelTable kernels_of(const std::vector<Trace>& traces);

}  // namespace gpusim
