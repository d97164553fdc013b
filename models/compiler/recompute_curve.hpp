// SPDX-License-Identifier: Apache-2.0
// What a training step may be had for: step time against peak memory, over all ways to keep or make again.
#pragma once

#include <vector>

#include "models/compiler/recompute.hpp"

namespace gpusim {

struct RecomputeSetting {
  RecomputePolicy policy = RecomputePolicy::MinCut;
  double budget = 1;  ///< Of MemoryBudget.
};

/// Each policy, then memory_budget from 95 % down to 0 % in steps of 5 %.
std::vector<RecomputeSetting> curve_settings();
/// The options with a setting.
RecomputeOptions with_setting(RecomputeOptions options, const RecomputeSetting& setting);

/// A step with a setting. What such points show need not be a curve: a plan that keeps less may need more
/// memory at its peak, where all that it makes again is alive at once.
struct CurvePoint {
  RecomputeSetting setting;
  Bytes saved{0};  ///< RecomputePlan::saved_bytes of all regions.
  Flops flops_again{0};
  Picoseconds time{0};
  Bytes peak{0};
  bool on_front = false;  ///< No other point is better in time or in peak without being worse in the other.
};

/// Finds out which points are on the front. Of several with equal times and peaks it is the first.
void mark_front(std::vector<CurvePoint>& points);

}  // namespace gpusim
