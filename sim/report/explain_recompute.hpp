// SPDX-License-Identifier: Apache-2.0
// What a training step keeps for its backward pass and why, for people and programs: parts of
// `gpusim explain`. Internal to sim/report.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/compiler/recompute_curve.hpp"
#include "models/compiler/training_regions.hpp"

namespace gpusim::report {

/// What a region keeps, by op, size and reason, the largest first; what runs again. At most 80 columns.
std::string recompute_text(const RegionRecompute& region);
/// {"region", "policy", "saved_bytes", "stored_bytes", "saved": [{"tensor", "op", "bytes", "reason",
/// "distance"}], "run_again": [op names], "flops_again", "random_states"}; under a budget also "memory_ratio"
/// and "step".
nlohmann::ordered_json recompute_json(const RegionRecompute& region);

/// A table of steps, one a line.
std::string curve_text(const std::vector<CurvePoint>& points);
/// [{"policy", "memory_budget", "saved_bytes", "flops_again", "step_time_us", "peak_memory_bytes",
/// "on_front"}].
nlohmann::ordered_json curve_json(const std::vector<CurvePoint>& points);

}  // namespace gpusim::report
