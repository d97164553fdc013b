// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/result.hpp"

#include <numeric>

namespace gpusim::engine {

const char* name(IdleCause cause) {
  switch (cause) {
    case IdleCause::Event:
      return "event";
    case IdleCause::Synchronization:
      return "synchronization";
    case IdleCause::LaunchLatency:
      return "launch_latency";
    case IdleCause::Gap:
      return "gap";
    case IdleCause::Dispatch:
      return "dispatch";
    case IdleCause::Input:
      return "input";
  }
  return "unknown";
}

Picoseconds Totals::idle_total() const {
  return std::accumulate(idle.begin(), idle.end(), Picoseconds(0));
}

}  // namespace gpusim::engine
