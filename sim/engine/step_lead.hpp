// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpusim::engine {

/// Host threads that nothing couples keep within so many steps of each other: a step is what all of them do
/// once.
inline constexpr std::int64_t step_lead_max = 8;

}  // namespace gpusim::engine
