// SPDX-License-Identifier: Apache-2.0
// What a training step may be had for: step time against peak memory, over all ways to keep or make again.
#pragma once

#include <functional>
#include <vector>

#include "models/compiler/recompute.hpp"

namespace gpusim {

/// What a step with a plan costs, as whoever runs it says.
struct StepCost {
  Picoseconds time{0};
  Bytes peak{0};
};

struct CurvePoint {
  RecomputePolicy policy = RecomputePolicy::MinCut;
  double budget = 1;  ///< Of MemoryBudget.
  BudgetStep step = BudgetStep::Default;
  Bytes saved_bytes{0};
  Flops flops_again{0};
  StepCost cost;
  /// No other point is better in time or in peak without being worse in the other one. Of points with equal
  /// costs the first is on the front.
  bool on_front = false;
};

/// Asks `cost` once for each plan that keeps other tensors than those before: min_cut, store_all, selective,
/// blocks and recompute_all, then memory_budget from 95 % down to 0 % in steps of 5 %. `joint` and `options`
/// as of plan_recompute(); policy and memory_budget of the options do not matter.
///
/// What the points show need not be a curve: a plan that keeps less may need more memory at its peak, where
/// all that it makes again is alive at once.
std::vector<CurvePoint> recompute_curve(const OpGraph& joint, const RecomputeOptions& options,
                                        const std::function<StepCost(const RecomputePlan&)>& cost);

/// The points on the front, the fastest first.
std::vector<CurvePoint> front_of(const std::vector<CurvePoint>& points);

}  // namespace gpusim
