// SPDX-License-Identifier: Apache-2.0
// Times worked out from figures that a user gives: a rate of 1 B/s makes a kernel of weeks, one of 1e-30 B/s
// none that 64 bits of picoseconds hold.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "models/units/quantity.hpp"

namespace gpusim {

/// A time that is too long to be simulated. The user's figures are to blame.
class TimeRangeError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The longest time of one kernel, copy, call or piece of host work that is worked out: a day, as the longest
/// that a scenario may give. A hundred of them still fit into 64 bits.
inline constexpr std::int64_t worked_out_ps_max = std::int64_t{86'400} * 1'000'000'000'000;

/// Nearest picosecond. Throws TimeRangeError for more than a day, and for what is no number.
inline Picoseconds time_in_range(double picoseconds) {
  if (!(std::abs(picoseconds) <= static_cast<double>(worked_out_ps_max)))
    throw TimeRangeError(
        "a kernel, copy or host call would take more than a day, which is the most that is "
        "simulated (duration_max)");
  return Picoseconds(static_cast<std::int64_t>(std::llround(picoseconds)));
}

}  // namespace gpusim
