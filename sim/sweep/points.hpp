// SPDX-License-Identifier: Apache-2.0
// Which points a sweep has, in which order: the values of its axes, combined.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/limits.hpp"
#include "sim/sweep/axis.hpp"

namespace gpusim::sweep {

enum class Combine : std::uint8_t {
  Grid,    ///< Every combination; the last axis changes fastest.
  Zip,     ///< The k-th value of every axis; all have as many.
  Random,  ///< Points of the grid, drawn without repeats.
};

struct Drawing {
  Combine combine = Combine::Grid;
  std::int64_t count = 0;  ///< Random: how many; at most as many as the grid has are drawn.
  std::uint64_t seed = 0;
};

/// A stretch of points: [first, end).
struct Stretch {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - first; }
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

class Points {
 public:
  /// Throws ConfigError: axes of different lengths zipped, one path twice, more than `points_max`.
  Points(std::vector<Axis> axes, const Drawing& drawing,
         std::int64_t points_max = config::Limits{}.points_max);

  const std::vector<Axis>& axes() const { return axes_; }
  std::int64_t count() const { return count_; }
  /// Which value each axis has at `point`, from 0; `into` has as many entries as there are axes.
  void at(std::int64_t point, std::span<std::uint32_t> into) const;

 private:
  std::int64_t drawn(std::int64_t point) const;

  std::vector<Axis> axes_;
  Drawing drawing_;
  std::int64_t grid_ = 1;
  std::int64_t count_ = 1;
  int half_bits_ = 1;
};

/// Part k of n of a sweep, 1 <= k <= n: the k-th of n stretches that differ by one point at most. In order
/// they are the whole.
struct Shard {
  std::int64_t k = 1;
  std::int64_t n = 1;
  Stretch of(std::int64_t points) const;
};

/// Reads "k/n". Throws ConfigError, located at "--shard ...".
Shard parse_shard(std::string_view text);

}  // namespace gpusim::sweep
