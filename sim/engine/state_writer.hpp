// SPDX-License-Identifier: Apache-2.0
// The state of the machine, relative to now: two that are equal go on in the same way. Internal to the
// engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/time.hpp"

namespace gpusim::engine {

class StateWriter {
 public:
  StateWriter(std::vector<std::int64_t>& state, Picoseconds now) : state_(state), now_(now) {}
  void add(std::int64_t value) { state_.push_back(value); }
  /// A time that matters only while it is later than `from` now.
  void add_time(Picoseconds time, Picoseconds from = Picoseconds(0)) {
    // Held to `from` before the difference: a time that never was is min(), from which nothing can be taken.
    state_.push_back((std::max(time, from + now_) - now_).count());
  }

 private:
  std::vector<std::int64_t>& state_;
  Picoseconds now_;
};

}  // namespace gpusim::engine
