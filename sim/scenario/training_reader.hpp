// SPDX-License-Identifier: Apache-2.0
// What a network's workload says about training: `step: training`, `optimizer: adamw_fused` and so on. The
// one place that knows these keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/graph/network.hpp"
#include "models/graph/training.hpp"
#include "sim/config/node.hpp"

namespace gpusim {

/// The keys of a workload that only training steps have.
inline constexpr std::array<std::string_view, 6> training_keys{
    "precision", "optimizer", "loss", "loss_chunks", "accumulation", "checkpointing"};

/// No more micro-batches in a step, or parts of a loss, than this.
inline constexpr std::int64_t accumulation_max = 1'024;
inline constexpr std::int64_t loss_chunks_max = 65'536;

/// The training of a workload with everything laid over; null counts as absent. Nothing for steps of another
/// kind. `dtype` is what the workload says of products. Gathers every mistake, a key of training in another
/// step among them, in the Errors of `fields`.
std::optional<TrainingOptions> read_training(config::Fields& fields, StepKind step, ElementType dtype);

}  // namespace gpusim
