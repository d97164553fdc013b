// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "models/units/text.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim::sweep {
namespace {

[[noreturn]] void fail(const std::string& option, std::string what, std::string hint = {}) {
  throw ConfigError(
      Diagnostic{.where = whole(option), .path = {}, .what = std::move(what), .hint = std::move(hint)});
}

/// Scrambles 64 bits (the finalizer of MurmurHash3).
std::uint64_t scrambled(std::uint64_t x) {
  x ^= x >> 33U;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33U;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33U;
  return x;
}

}  // namespace

Points::Points(std::vector<Axis> axes, const Drawing& drawing, std::int64_t points_max)
    : axes_(std::move(axes)), drawing_(drawing) {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (axes_[i].path == axes_[j].path)
        fail("--vary " + axes_[i].path, "is varied twice",
             "put all values behind one --vary, with commas between them");
  const bool zip = drawing.combine == Combine::Zip;
  for (const Axis& axis : axes_) {
    const auto size = static_cast<std::int64_t>(axis.values.size());
    if (zip) {
      if (axes_.front().values.size() != axis.values.size())
        fail("--zip",
             fmt::format("{} has {} values, {} has {}", axes_.front().path, axes_.front().values.size(),
                         axis.path, size),
             "zipped axes go side by side: give all the same number of values");
      grid_ = size;
      continue;
    }
    if (__builtin_mul_overflow(grid_, size, &grid_)) grid_ = std::numeric_limits<std::int64_t>::max();
    // A drawing may come from a grid that is too large to be run.
    if (drawing.combine == Combine::Grid && grid_ > points_max)
      fail("--vary", fmt::format("the axes make more than {} points (points_max)", points_max),
           "take fewer values, or --random N of the points");
    if (grid_ > (std::int64_t{1} << 60))
      fail("--vary", "the axes make more than 2^60 points", "take fewer values");
  }
  count_ = grid_;
  if (drawing.combine != Combine::Random) return;
  if (drawing.count < 1) fail("--random", fmt::format("must be at least 1, not {}", drawing.count));
  if (drawing.count > points_max)
    fail("--random", fmt::format("asks for more than {} points (points_max)", points_max));
  count_ = std::min(grid_, drawing.count);
  while ((std::int64_t{1} << (2 * half_bits_)) < grid_) ++half_bits_;
}

/// The point of the grid that is drawn as number `point`: a permutation of the grid by a Feistel network of
/// four rounds over the next power of four, walked on until it falls into the grid.
std::int64_t Points::drawn(std::int64_t point) const {
  const std::uint64_t mask = (std::uint64_t{1} << static_cast<unsigned>(half_bits_)) - 1;
  auto x = static_cast<std::uint64_t>(point);
  do {
    std::uint64_t left = x >> static_cast<unsigned>(half_bits_);
    std::uint64_t right = x & mask;
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const std::uint64_t next = left ^ (scrambled(right ^ scrambled(drawing_.seed * 4 + round)) & mask);
      left = right;
      right = next;
    }
    x = (left << static_cast<unsigned>(half_bits_)) | right;
  } while (x >= static_cast<std::uint64_t>(grid_));
  return static_cast<std::int64_t>(x);
}

void Points::at(std::int64_t point, std::span<std::uint32_t> into) const {
  if (drawing_.combine == Combine::Zip) {
    for (std::uint32_t& value : into) value = static_cast<std::uint32_t>(point);
    return;
  }
  std::int64_t rest = drawing_.combine == Combine::Random ? drawn(point) : point;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const auto size = static_cast<std::int64_t>(axes_[i].values.size());
    into[i] = static_cast<std::uint32_t>(rest % size);
    rest /= size;
  }
}

Stretch Shard::of(std::int64_t points) const {
  const auto begin = [&](std::int64_t i) {
    // points * i / n without overflow: n is below 2^31, and so is the remainder.
    return points / n * i + points % n * i / n;
  };
  return {begin(k - 1), begin(k)};
}

Shard parse_shard(std::string_view text) {
  Shard shard;
  const std::size_t slash = text.find('/');
  const auto number = [&](std::string_view part, std::int64_t& into) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), into);
    return error == std::errc() && end == part.data() + part.size();
  };
  const std::string option = "--shard " + std::string(text);
  if (slash == std::string_view::npos || !number(text.substr(0, slash), shard.k) ||
      !number(text.substr(slash + 1), shard.n))
    fail(option, fmt::format("{} is not a part of a sweep", in_quotes(text)),
         "write k/n, as in 1/8 for the first of eight");
  if (shard.n < 1 || shard.n > 1'000'000) fail(option, "a sweep has 1 to 1000000 parts");
  if (shard.k < 1 || shard.k > shard.n)
    fail(option, fmt::format("parts are counted from 1 to {}", shard.n),
         "of a scheduler that counts from 0, add 1: --shard $((SLURM_ARRAY_TASK_ID + 1))/" +
             std::to_string(shard.n));
  return shard;
}

}  // namespace gpusim::sweep
