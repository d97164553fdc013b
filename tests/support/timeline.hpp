// SPDX-License-Identifier: Apache-2.0
// What tests ask of a timeline.
#pragma once

#include <vector>

#include "sim/engine/result.hpp"

namespace gpusim::test {

/// All calls, in order of start; at equal times by thread.
inline std::vector<engine::CallRecord> calls_of(const engine::Timeline& timeline) {
  std::vector<engine::CallRecord> calls;
  for (const engine::Index number : timeline.calls_in_order()) calls.push_back(timeline.call(number));
  return calls;
}

}  // namespace gpusim::test
