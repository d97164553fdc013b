// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/formulas.hpp"

#include <algorithm>
#include <stdexcept>

#include "models/cost/launch_formulas.hpp"

namespace gpusim {

Picoseconds roofline_plan_time(const Traffic& traffic, std::span<const Flops> flops, BytesPerSecond bandwidth,
                               FlopsPerSecond peak) {
  if (flops.size() != traffic.groups.size())
    throw std::invalid_argument("FLOPs are needed for each of the groups");
  Picoseconds time{0};
  for (std::size_t g = 0; g < flops.size(); ++g)
    time += roofline_time(traffic.groups[g].total(), bandwidth, flops[g], peak);
  return time;
}

double gain_left_by_breaks(double share_of_ops) {
  return std::max(0.0, 1 - 1.5 * share_of_ops);
}

}  // namespace gpusim
