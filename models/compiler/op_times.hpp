// SPDX-License-Identifier: Apache-2.0
// What each op of a graph would take by itself.
#pragma once

#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// By op: the duration of the kernels that eager PyTorch would launch for it, at least 1 ps; inputs are read
/// from memory. What a compiler fuses takes less than that: an estimate for RecomputeOptions::times.
///
/// Throws NoCalibrationError, NoPeakError where the GPU's file cannot price something.
std::vector<Picoseconds> op_times(const OpGraph& graph, const GpuSpec& gpu);

}  // namespace gpusim
