// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/rotation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "models/cost/measurement_formulas.hpp"

namespace gpusim::calibrate {

constexpr double never = 1e18;  // bytes since a touch that was not

Reuse reuse(const Rotation& r) {
  const int sets = static_cast<int>(r.sets);
  double clock = 0;
  std::vector<double> in(static_cast<std::size_t>(sets));
  std::vector<double> out(static_cast<std::size_t>(sets), -never);
  for (int i = 0; i < sets; ++i) in[static_cast<std::size_t>(i)] = clock += r.in;
  const double shared_out = r.own_out ? 0 : r.out;
  std::vector<double> reads;
  std::vector<double> writes;
  for (int run = -2; run < r.runs; ++run) {
    const auto set = static_cast<std::size_t>(run < 0 ? std::min(run + 2, sets - 1) : run % sets);
    if (run >= 0) {
      reads.push_back(clock - in[set] + r.in + shared_out);
      writes.push_back(r.own_out ? clock - out[set] + r.in + r.out : r.in + r.out);
    }
    clock += r.in;
    in[set] = clock;
    if (r.own_out) {
      clock += r.out;
      out[set] = clock;
    }
  }
  return {median(reads), median(writes)};
}

CacheState cache_state(const Reuse& r, const GpuSpec& gpu) {
  const auto share = [&](double bytes) {
    return bytes >= 1e15 ? 1.0 : cold_share(Bytes(std::llround(bytes)), gpu);
  };
  return {share(r.reads), share(r.writes)};
}

double rotated_sets(double bytes) {
  if (bytes >= static_cast<double>(1 << 28)) return 2;
  return std::clamp(std::floor(static_cast<double>(120 << 20) / std::max(bytes, 1.0)) + 2, 1.0, 24.0);
}

}  // namespace gpusim::calibrate
