// SPDX-License-Identifier: Apache-2.0
// What a host thread did lately, so that idle time can be walked back through it.
#pragma once

#include "sim/engine/ring.hpp"
#include "sim/engine/time.hpp"

namespace gpusim::engine {

enum class HostState : std::uint8_t {
  Working,        ///< Instructions and calls.
  Input,          ///< Waiting for input.
  Synchronizing,  ///< Blocked until the device was done, up to the return of the call.
  QueueFull,      ///< Blocked by a full launch queue.
  Awaiting,       ///< Blocked until another thread signalled.
};

struct HostSegment {
  Picoseconds start{0};
  Picoseconds end{0};
  HostState state = HostState::Working;
  std::uint16_t signaller = 0;  ///< Awaiting: the thread that ended the wait.
};

/// Contiguous segments of one thread, oldest first. Only what ends after the last GPU op so far is kept:
/// older time can never be found idle.
class HostLog {
 public:
  void add(Picoseconds start, Picoseconds end, HostState state, Picoseconds busy_until,
           std::uint16_t signaller = 0) {
    if (end <= busy_until || end <= start) return;
    forget_until(busy_until);
    if (!segments_.empty()) {
      HostSegment& last = segments_.back();
      if (last.state == state && last.end == start &&
          (state != HostState::Awaiting || last.signaller == signaller)) {
        last.end = end;
        return;
      }
    }
    segments_.push_back({start, end, state, signaller});
  }
  void forget_until(Picoseconds time) {
    while (!segments_.empty() && segments_.front().end <= time) segments_.pop_front();
  }
  const Ring<HostSegment>& segments() const { return segments_; }

 private:
  Ring<HostSegment> segments_;
};

}  // namespace gpusim::engine
