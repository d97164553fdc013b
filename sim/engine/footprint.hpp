// SPDX-License-Identifier: Apache-2.0
// What decides how kernels of several streams share one GPU. The rule: sharing.hpp.
#pragma once

#include <cstdint>

#include "sim/engine/time.hpp"

namespace gpusim::engine {

/// What a kernel needs of a GPU, all of it known from the kernel alone.
struct Footprint {
  std::int64_t blocks = 1;
  std::int32_t threads_per_block = 128;
  std::int32_t registers_per_thread = 32;
  std::int64_t shared_memory_per_block = 0;  ///< Bytes.
  std::int64_t bytes = 0;                    ///< HBM traffic of the whole kernel; 0: none.
  double arithmetic = 0;       ///< Share of the issue slots of the SMs it sits on when alone: 0 to 1.
  bool memory_hidden = false;  ///< Its memory traffic hides behind other work (tensor products).
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

/// What of a GPU matters for sharing it. No SMs: kernels overlap without slowing each other down.
struct SharingMachine {
  std::int32_t sms = 0;
  std::int32_t threads_per_sm = 2048;
  std::int64_t registers_per_sm = 65536;
  std::int64_t shared_memory_per_sm = 233472;  ///< Bytes.
  std::int32_t blocks_per_sm = 32;
  double bandwidth_top = 0;     ///< Bytes per second: the most that any kernel alone draws.
  double bandwidth_per_sm = 0;  ///< Bytes per second: the most that one SM can ask for; 0: no limit.
  Picoseconds long_block{20'000'000};
};

}  // namespace gpusim::engine
