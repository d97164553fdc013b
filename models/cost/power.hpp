// SPDX-License-Identifier: Apache-2.0
// How much slower a device computes when it may not draw more power.
//
// Kernels are measured in short bursts. In a step that repeats for seconds, an H200 at its limit of 700 W
// lowers its clock: measured 1365 MHz in a stack of large products, 1620 MHz in a Llama prefill, 1980 MHz in
// everything that waits for memory (validation/h200/steps-networks.csv, sm_mhz).
#pragma once

#include "models/hardware/gpu_spec.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// One step that repeats, at the clock at which its kernels were measured.
struct StepWork {
  Picoseconds compute{0};  ///< Time of kernels that the clock bounds.
  Picoseconds other{0};    ///< The rest of the step: memory-bound kernels, gaps, waiting for the host.
  Flops flops{0};          ///< On tensor cores.
  Bytes bytes{0};          ///< Memory traffic.
};

/// The factor s >= 1 by which the compute time grows, so that the power is within the limit:
///
///   idle + (flops * per_flop + bytes * per_byte) / s^2 / (other + s * compute) <= limit
///
/// Energy falls with the square of the clock, for the voltage falls with it. At most 4; 1 for a step without
/// work or a device without a limit.
double clock_slowdown(const GpuSpec& gpu, const StepWork& step);

}  // namespace gpusim
