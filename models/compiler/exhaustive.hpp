// SPDX-License-Identifier: Apache-2.0
// The best that fusion can do on a small graph, by trying everything: what a plan is measured against.
#pragma once

#include "models/compiler/legality.hpp"
#include "models/compiler/traffic.hpp"

namespace gpusim {

inline constexpr std::size_t exhaustive_ops_max = 10;

struct ExhaustivePlan {
  OpGroups groups;  ///< In an order in which they can run; views alone, behind.
  Traffic traffic;
};

/// The partition into groups that may be kernels (FusionLegality) and can run one after the other with the
/// least traffic; of several the first that is found. Views do not count as ops.
///
/// Tries every way to go from nothing done to all done by one legal group after the other. What a group moves
/// depends on the group alone, so the best way to each set of done ops is enough. Takes up to 3^ops steps.
/// Throws CompileError for more than exhaustive_ops_max ops.
ExhaustivePlan exhaustive_plan(const FusionLegality& legality);

}  // namespace gpusim
