// SPDX-License-Identifier: Apache-2.0
// A training step that goes through a pipeline, seen from its slowest rank.
#pragma once

#include "sim/app/run_variant.hpp"
#include "sim/program/build.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// The program of the slowest rank: its micro-batches, and at their end the bubble, as a wait for input. The
/// step of m micro-batches takes (m - 1) times the slowest rank's and once each rank's (all schedules here;
/// interleaved: the others' share is divided by the stages of a rank). First, last and one rank in between
/// are simulated. Fills `result` as build_network() does; activations of passes in flight count in its
/// memory. Throws ConfigError.
BuiltProgram build_pipeline(const NetworkWorkload& workload, const Variant& variant,
                            const RunOptions& options, report::VariantResult& result,
                            CudaGraphMode& cuda_graph);

}  // namespace gpusim
