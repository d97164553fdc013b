// SPDX-License-Identifier: Apache-2.0
// The engine's semantics (docs/engine.md) as one writes them down at first: events in a priority queue,
// entries of streams in deques. The peer of sim/engine in the benchmarks; of it, it uses the plain data of
// program.hpp only.
#pragma once

#include <cstdint>

#include "sim/engine/program.hpp"

namespace gpusim::bench {

struct PlainResult {
  std::int64_t finish = 0;       ///< ps: the end of the last op.
  std::int64_t busy = 0;         ///< ps: the union of all ops.
  std::int64_t idle = 0;         ///< ps: finish - busy. Its causes are not looked for.
  std::int64_t op_sum = 0;       ///< ps: the sum of their durations.
  std::uint64_t sum_end = 0;     ///< ps: the sum of their ends.
  std::uint64_t sum_end_ns = 0;  ///< The same, each cut to whole ns.
  std::int64_t host_end = 0;     ///< ps: the end of the last call.
  std::int64_t ops = 0;
};

/// One step from an idle machine. One host thread with launches of kernels and of CUDA graphs of kernels,
/// records, waits of streams (attached or not) and work; gaps, event latency, launch-queue depth, any number
/// of streams and devices, sharing. Throws std::invalid_argument at anything else (copy engines, negative
/// gaps, minimum periods, random durations, blocking calls, several threads), std::runtime_error at a
/// deadlock.
PlainResult run_plain(const engine::Program& program, const engine::Machine& machine);

}  // namespace gpusim::bench
