// SPDX-License-Identifier: Apache-2.0
// The event engine: runs a Program on a Machine. See docs/engine.md for the semantics.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/program.hpp"
#include "sim/engine/result.hpp"

namespace gpusim::engine {

/// Runs `steps` steps from an idle machine until everything has completed; keeps what happened in `timeline`
/// if one is given. Steps follow each other without a barrier: the host runs ahead as far as the program lets
/// it. Throws ProgramError, DeadlockError.
Run run(const Program& program, const Machine& machine, std::int64_t steps = 1, Timeline* timeline = nullptr);

/// The same by the event loop alone, without the fast path that `run` takes where it can. Same answer, byte
/// for byte; for tests, and to see what the fast path is worth.
Run run_event_by_event(const Program& program, const Machine& machine, std::int64_t steps = 1,
                       Timeline* timeline = nullptr);

/// The same for many steps: once the state of the machine repeats (see run_steady), whole periods are added
/// without being simulated, so that 10^9 steps cost what warm-up and period cost. Nothing if it has not
/// repeated after `instructions_max` executed instructions, or durations are random. `run` tries this where
/// it pays.
std::optional<Run> run_by_period(const Program& program, const Machine& machine, std::int64_t steps,
                                 std::int64_t instructions_max);

/// Whether `run` takes the fast path: one host thread or several that take turns, and nothing whose order is
/// found out on the way.
bool takes_fast_path(const Program& program, const Machine& machine);

struct SteadyOptions {
  /// Give up looking for a repetition after this many steps or this many executed host instructions,
  /// whichever comes first (but not before 16 steps).
  std::int64_t steps_max = 100'000;
  std::int64_t instructions_max = 500'000;
};

/// The step that repeats. Throws as `run` does.
Steady run_steady(const Program& program, const Machine& machine, SteadyOptions options = {});
/// The same by the event loop alone; for tests.
Steady run_steady_event_by_event(const Program& program, const Machine& machine, SteadyOptions options = {});

}  // namespace gpusim::engine
