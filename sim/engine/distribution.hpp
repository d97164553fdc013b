// SPDX-License-Identifier: Apache-2.0
// Named random durations. A draw depends on (seed, step, thread, instruction, node) alone, not on how many
// draws came before: two programs that share a kernel share its durations, and no order of evaluation can
// change them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/time.hpp"

namespace gpusim::engine {

struct Distribution {
  enum class Kind : std::uint8_t {
    Uniform,      ///< Between `a` and `b`, both included.
    Normal,       ///< Mean `a`, standard deviation `b`; negative draws become 0.
    Lognormal,    ///< Median `a`; `shape` is the standard deviation of the logarithm.
    Exponential,  ///< Mean `a`.
    Choice,       ///< One of `choices`, equally likely.
  };
  std::string name;
  Kind kind = Kind::Uniform;
  Picoseconds a{0};
  Picoseconds b{0};
  double shape = 0;
  std::vector<Picoseconds> choices;
};

/// 64 well-mixed bits of a key (splitmix64 finaliser over the parts).
std::uint64_t mix(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c);

/// The duration that `distribution` gives for the random bits of one execution. Never negative.
Picoseconds draw(const Distribution& distribution, std::uint64_t bits);

}  // namespace gpusim::engine
