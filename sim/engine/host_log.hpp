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
    if (end <= start) return;
    // A host that launches and launches does one thing: nothing to write. What continues may be told from its
    // start.
    if (state == latest_.state && start >= latest_.start && start <= latest_.end &&
        signaller == latest_.signaller) {
      if (end > latest_.end) latest_.end = end;
      return;
    }
    while (!older_.empty() && older_.front().end <= busy_until) older_.pop_front();
    if (latest_.end > busy_until) older_.push_back(latest_);
    latest_ = {start, end, state, signaller};
  }
  const HostSegment& latest() const { return latest_; }
  const Ring<HostSegment>& older() const { return older_; }

 private:
  HostSegment latest_;
  Ring<HostSegment> older_;
};

}  // namespace gpusim::engine
