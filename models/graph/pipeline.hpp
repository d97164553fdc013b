// SPDX-License-Identifier: Apache-2.0
// One rank's stages of a training step that goes through a pipeline.
#pragma once

#include <cstdint>

#include "models/graph/op_graph.hpp"
#include "models/graph/parallel_plan.hpp"

namespace gpusim {

/// What the rank `rank` of `plan.pipeline` runs of one micro-batch of a training step. Blocks that stand in a
/// `repeat` are shared out evenly, in order, or with `plan.chunks` stages a rank in turn; what stands before
/// them is the first rank's, what stands behind them the last one's, and the optimizer works on the
/// parameters of the rank's own ops. What one stage hands to the next, and gradients back, are sent on the
/// stream "pipeline".
///
/// Throws GraphError where blocks do not divide.
OpGraph pipeline_stage(const OpGraph& step, const ParallelPlan& plan, std::int64_t rank);

/// Micro-batches whose activations a rank keeps at the worst moment: all of them in GPipe; in 1F1B as many as
/// there are stages from it on; interleaved, those of all its stages (Narayanan et al. 2021, section 2.2), in
/// units of what it keeps for one micro-batch.
double passes_in_flight(const ParallelPlan& plan, std::int64_t rank);

}  // namespace gpusim
