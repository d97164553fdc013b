// SPDX-License-Identifier: Apache-2.0
// A network's step built for a variant, and what a report says of it beyond what the engine finds.
#pragma once

#include <array>

#include "sim/app/run_variant.hpp"
#include "sim/program/build.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// FLOPs of the products, convolutions and attention of a step's graph, each op as often as it runs. Causal
/// attention counts half of its square of scores with AttentionFlops::Causal.
Flops executed_flops(const OpGraph& graph, AttentionFlops attention, std::int64_t accumulation = 1);

/// FLOPs of the model in one step, as MFU counts them: in training three times those of the forward pass
/// (PaLM, appendix B), for backward takes two products for each of forward's; what is computed again, by
/// checkpointing or in flash attention's backward, is not counted.
Flops model_flops(const NetworkWorkload& workload);

/// Builds the step and fills in the result what is known of it without simulating: FLOPs, tokens, memory,
/// breaks, gains, shapes. `cuda_graph` becomes None where the batch is above those that are recorded.
BuiltProgram build_network(const NetworkWorkload& workload, const Variant& variant, const RunOptions& options,
                           report::VariantResult& result, CudaGraphMode& cuda_graph);

/// Three steps that follow each other from an idle machine: the first two fill the queues, the last is read.
struct ThreeSteps {
  engine::Timeline timeline;
  std::vector<engine::Index> order;  ///< Of its ops, by start.
  static constexpr std::uint32_t last = 2;
};
ThreeSteps three_steps(const BuiltProgram& built);

/// What each phase of a training step takes: of the last of `steps`, so that the spans add up to the time
/// between the ends of two steps. All zero for a step without marks.
std::array<report::PhaseTime, 3> phase_times(const BuiltProgram& built, const ThreeSteps& steps);

}  // namespace gpusim
