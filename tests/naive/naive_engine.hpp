// SPDX-License-Identifier: Apache-2.0
// The semantics of docs/engine.md once more, as plainly as possible: the clock goes from one moment to the
// next, and at each of them everything that can happen is looked for among everything there is. Written
// from that page and the types of a program alone, for tests; footprints and distributions are left out.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/program.hpp"
#include "sim/engine/result.hpp"

namespace gpusim::test {

struct NaiveOp {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::size_t thread = 0;
  std::size_t call = 0;                   ///< Executed instruction of the thread, counted through all steps.
  engine::Index node = engine::no_index;  ///< Of a CUDA graph.
  int stream = 0;
  friend auto operator<=>(const NaiveOp&, const NaiveOp&) = default;
};

struct NaiveRun {
  std::vector<NaiveOp> ops;                         ///< In order of start, thread, call, node.
  std::vector<std::vector<std::int64_t>> call_end;  ///< Of each thread, of each executed instruction.
  engine::Totals totals;
  std::int64_t peak_bytes = 0;
  std::int64_t final_bytes = 0;
  /// Two threads did something, two ops came to a copy engine, or two replays to their CUDA graph in the same
  /// picosecond after the start: which one goes first is not said anywhere.
  bool tie = false;
};

/// `steps` steps from an idle machine. Throws std::runtime_error if nothing can go on.
NaiveRun naive_run(const engine::Program& program, const engine::Machine& machine, std::int64_t steps);

}  // namespace gpusim::test
