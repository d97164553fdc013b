// SPDX-License-Identifier: Apache-2.0
// A time that depends on a count (blocks of a grid, nodes of a CUDA graph), as measured at a few counts.
#pragma once

#include <cstdint>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim {

/// Points in rising order of count, straight lines between them.
struct TimeTable {
  struct Point {
    std::int64_t count = 0;
    Picoseconds time{0};
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;

  /// Below the first point its time; beyond the last one the last slope goes on, never below zero. One point:
  /// that time everywhere. No points: zero.
  Picoseconds at(std::int64_t count) const;

  bool operator==(const TimeTable&) const = default;
};

}  // namespace gpusim
