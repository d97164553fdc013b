// SPDX-License-Identifier: Apache-2.0
// Closed forms about compiling: what can be said with pencil and paper.
#pragma once

#include <span>

#include "models/compiler/traffic.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// Time of a grouping by the roofs: the sum over the groups of max(bytes / bandwidth, FLOPs / peak). `flops`
/// is per group. Throws std::invalid_argument where there are not as many of them as groups.
Picoseconds roofline_plan_time(const Traffic& traffic, std::span<const Flops> flops, BytesPerSecond bandwidth,
                               FlopsPerSecond peak);

/// What is left of a compiler's gain when a share of the ops (0 to 1) is hit by graph breaks: 1 - 1.5 x
/// share, at least 0. A rule of thumb (seed figure S4-72), not a prediction.
double gain_left_by_breaks(double share_of_ops);

}  // namespace gpusim
