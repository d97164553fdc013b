// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/residency.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/assertion.hpp"
#include "sim/engine/sharing_block.hpp"

namespace gpusim::engine {

Residency residency(const Footprint& footprint, const SharingMachine& machine) {
  GPUSIM_ASSERT(machine.sms > 0);
  constexpr double threads_per_warp = 32;
  constexpr double waves_with_a_tail = 4;
  const SharingLimits limits(machine);
  const BlockModel block(footprint, Picoseconds(1), limits);
  const double blocks = static_cast<double>(std::max<std::int64_t>(footprint.blocks, 1));
  const double per_sm = std::max(block.per_sm, 1);
  const double slots = per_sm * machine.sms;
  const double warps = std::ceil(block.need.threads / threads_per_warp);
  const double room = std::max(std::floor(limits.sm.threads / threads_per_warp), 1.0);
  const double filled = blocks / slots;
  Residency result;
  if (filled > waves_with_a_tail) {
    result.sm_active = 1;
    result.occupancy = per_sm * warps / room;
  } else {
    const double waves = std::ceil(filled);
    const double tail = blocks - (waves - 1) * slots;
    result.sm_active = (waves - 1 + std::min(tail / machine.sms, 1.0)) / waves;
    result.occupancy = blocks * warps / (waves * machine.sms * room);
  }
  result.occupancy = std::min(result.occupancy, result.sm_active);
  return result;
}

Residency transfer_residency(std::int64_t bytes, const SharingMachine& machine) {
  constexpr std::int32_t threads = 256;
  constexpr std::int64_t bytes_per_block = 16 * threads;
  const std::int64_t most = std::int64_t{8} * machine.sms;
  return residency(
      {.blocks = std::clamp<std::int64_t>(bytes / bytes_per_block, 1, most), .threads_per_block = threads},
      machine);
}

}  // namespace gpusim::engine
