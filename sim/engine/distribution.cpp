// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/distribution.hpp"

#include <cmath>
#include <numbers>

namespace gpusim::engine {

namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t finalise(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// In (0, 1): never 0, so that its logarithm exists.
double unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// A standard normal draw (Box and Muller; the second of the pair is not used, draws must not depend on each
/// other).
double normal(std::uint64_t bits) {
  const double u = unit(bits);
  const double v = unit(finalise(bits));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

Picoseconds not_negative(double ps) {
  // 2^61 ps are 26 days, the engine's longest duration: a draw beyond that is cut rather than overflowing.
  return Picoseconds(static_cast<std::int64_t>(std::llround(std::fmin(std::fmax(ps, 0.0), 0x1p61))));
}

}  // namespace

std::uint64_t mix(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return finalise(finalise(finalise(finalise(seed) ^ a) ^ b) ^ c);
}

Picoseconds draw(const Distribution& distribution, std::uint64_t bits) {
  const auto a = static_cast<double>(distribution.a.count());
  switch (distribution.kind) {
    case Distribution::Kind::Uniform: {
      const auto width = static_cast<std::uint64_t>((distribution.b - distribution.a).count()) + 1;
      // Lemire's multiply-shift: the bias is below width / 2^64.
      const auto offset = static_cast<std::uint64_t>((static_cast<Wide>(bits) * width) >> 64);
      return distribution.a + Picoseconds(static_cast<std::int64_t>(offset));
    }
    case Distribution::Kind::Normal:
      return not_negative(a + static_cast<double>(distribution.b.count()) * normal(bits));
    case Distribution::Kind::Lognormal:
      return not_negative(a * std::exp(distribution.shape * normal(bits)));
    case Distribution::Kind::Exponential:
      return not_negative(-a * std::log(unit(bits)));
    case Distribution::Kind::Choice: {
      const std::uint64_t n = distribution.choices.size();
      return distribution.choices[static_cast<std::size_t>((static_cast<Wide>(bits) * n) >> 64)];
    }
  }
  return Picoseconds(0);
}

}  // namespace gpusim::engine
