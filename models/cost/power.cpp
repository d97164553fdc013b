// SPDX-License-Identifier: Apache-2.0
#include "models/cost/power.hpp"

namespace gpusim {

double clock_slowdown(const GpuSpec& gpu, const StepWork& step) {
  constexpr double most = 4;
  if (!gpu.power || step.compute <= Picoseconds{0}) return 1;
  const double energy = step.flops.value() * gpu.power->flop.value() +
                        static_cast<double>(step.bytes.value()) * gpu.power->byte.value();
  const double allowed = gpu.power->limit.value() - gpu.power->idle.value();
  const auto within = [&](double s) {
    return energy / (s * s) <= allowed * (seconds(step.other) + s * seconds(step.compute));
  };
  if (within(1)) return 1;
  double low = 1;
  double high = most;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (within(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace gpusim
