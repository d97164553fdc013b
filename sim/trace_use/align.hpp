// SPDX-License-Identifier: Apache-2.0
// Which entries of two sequences correspond to each other, as programs that compare texts find it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gpusim {

/// Pairs (place in `a`, place in `b`) of equal tokens, rising in both: a longest such list where the
/// differing middle is at most `exact_cells` cells of a table; beyond that, tokens that are in both middles
/// once hold the list together (patience), and where there are none, their n-th appearances.
std::vector<std::pair<std::uint32_t, std::uint32_t>> align(const std::vector<std::uint32_t>& a,
                                                           const std::vector<std::uint32_t>& b,
                                                           std::uint64_t exact_cells = 16'000'000);

}  // namespace gpusim
