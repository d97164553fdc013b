// SPDX-License-Identifier: Apache-2.0
// Idle time piece by piece, for pictures of it; Totals::idle has its sums.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/result.hpp"

namespace gpusim::engine {

/// No GPU op runs from `from` to `to`, for one cause.
struct IdleInterval {
  Picoseconds from{0};
  Picoseconds to{0};
  IdleCause cause = IdleCause::Gap;

  friend bool operator==(const IdleInterval&, const IdleInterval&) = default;
};

/// The idle time of the same run as run() makes, in order of time, neighbours with one cause joined; sums by
/// cause are those of Run::totals. By the event loop: slower than run(). Throws as run() does.
std::vector<IdleInterval> idle_intervals(const Program& program, const Machine& machine,
                                         std::int64_t steps = 1);

}  // namespace gpusim::engine
