// SPDX-License-Identifier: Apache-2.0
// The points of a sweep that differ only in times of one and the same program.
#pragma once

#include "sim/app/sweep_worker.hpp"

namespace gpusim {

/// Finds variants whose points all run one program with other times, and gives the plan what sets them: each
/// value of each axis is read and built once, then points are put together from these. Variants that are not
/// of that kind are left to be read at each point: those of networks and traces, sweeps with columns beyond
/// report::time_figures(), and axes whose effects do not stand side by side. `base`: values that the scenario
/// takes, by axis.
///
/// An explicit kernel list is built so that each time in the program is a value of the scenario, or a sum or
/// quotient of such: two axes that change it both change it alone. The exceptions are looked for by hand:
/// prices that depend on several figures of the hardware, minimum periods by number of blocks, CUDA graphs
/// that cost what the median launch does, and the footprints of kernels that share the device. Some points
/// are built in both ways and compared.
void find_knobs(SweepPlan& plan, const std::vector<std::uint32_t>& base);

}  // namespace gpusim
