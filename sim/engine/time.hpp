// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace gpusim {

/// Simulated time and durations. Same type as in models/units: the engine knows std::chrono and nothing else.
using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;

}  // namespace gpusim
