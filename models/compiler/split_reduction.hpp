// SPDX-License-Identifier: Apache-2.0
// Reductions of few outputs, cut so that they fill the device.
#pragma once

#include <cstdint>

namespace gpusim {

/// In how many parts Inductor cuts a reduction of `reduced` values to each of `outputs` numbers; 1: one
/// kernel, more: one over the parts and one that joins them. `inner`: the reduced values lie next to each
/// other. Rules: torch/_inductor/choices.py, reduction_split_factor, and ir.py, num_splits.
std::int64_t reduction_splits(std::int64_t outputs, std::int64_t reduced, bool inner, std::int64_t sms);

/// Whether a block keeps its whole row (a persistent reduction) or loops over it: up to 1024 values that lie
/// next to each other, up to 64 others (choices.py, should_use_persistent_reduction).
bool is_persistent(std::int64_t reduced, bool inner);

}  // namespace gpusim
