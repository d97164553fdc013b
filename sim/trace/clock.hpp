// SPDX-License-Identifier: Apache-2.0
// Decimal text to exact times. No double takes part: a ts has up to 19 significant digits before the last
// picosecond, four more than a double holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim {

/// A JSON number without unit is in microseconds. What lies below a picosecond is rounded half to even.
/// Nothing for text that is no number and for magnitudes from 10^18 us on.
std::optional<TraceClock> clock_from_number(std::string_view text);

/// A JSON string: a number, white space around it, and one of us, µs, ns, ps, ms, s or no unit
/// (microseconds).
std::optional<TraceClock> clock_from_text(std::string_view text);

/// `later - earlier`, or nothing where that exceeds 2^62 ps (53 days).
std::optional<Picoseconds> clock_difference(TraceClock later, TraceClock earlier);

}  // namespace gpusim
