// SPDX-License-Identifier: Apache-2.0
// How much of a GPU a kernel has blocks on while it runs.
#pragma once

#include <cstdint>

#include "sim/engine/footprint.hpp"

namespace gpusim::engine {

/// Means over the time of a kernel that has the device to itself, both 0 to 1. What NVIDIA's DCGM counts as
/// SM active and SM occupancy, before idle time.
struct Residency {
  double sm_active = 0;  ///< SMs with at least one block, of all.
  double occupancy = 0;  ///< Warps on the SMs, of all that they have room for.
};

/// Blocks run in waves of as many as fit at once, the last wave with what is left; where there are more than
/// four waves, a block that ends is replaced at once and no tail is seen (the engine's rule, too:
/// sharing.hpp). A block of which not even one fits counts as filling an SM. machine.sms > 0.
Residency residency(const Footprint& footprint, const SharingMachine& machine);

/// The same of a memset or a copy within the device, which reads and writes `bytes`: a kernel of 256 threads
/// a block that take 16 bytes each, of at most 8 blocks an SM (measured with 1 GiB).
Residency transfer_residency(std::int64_t bytes, const SharingMachine& machine);

}  // namespace gpusim::engine
