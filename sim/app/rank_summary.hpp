// SPDX-License-Identifier: Apache-2.0
// What one of several ranks does with the others, read off its timeline.
#pragma once

#include "models/graph/parallel_plan.hpp"
#include "sim/app/network_run.hpp"
#include "sim/program/build.hpp"
#include "sim/report/result.hpp"

namespace gpusim {

/// Of the last of `steps`. `bubble`: share of the pipeline's bubble.
report::RankSummary rank_summary(const ParallelPlan& plan, const BuiltProgram& built, const ThreeSteps& steps,
                                 double bubble);

}  // namespace gpusim
