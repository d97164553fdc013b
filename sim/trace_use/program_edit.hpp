// SPDX-License-Identifier: Apache-2.0
// Changes to the program of a replayed trace: kernels joined, host work replaced, synchronisations removed.
#pragma once

#include <functional>
#include <vector>

#include "sim/program/build.hpp"
#include "sim/trace_use/fusion_groups.hpp"

namespace gpusim {

/// A replayed trace that is being changed.
struct EditedReplay {
  BuiltProgram built;
  std::vector<engine::Index> op_of;  ///< As Trace::ops: the op of the program; no_index: joined with another.
};

/// The group's first launch launches the joined kernel; the others vanish with the host work directly before
/// them.
void join_kernels(EditedReplay& replay, const std::vector<FusedGroup>& groups);

/// What the host spends on code that a compiler has written.
struct CompiledHost {
  /// Before the first launch of a region, given what it launches.
  std::function<Picoseconds(const std::vector<engine::Index>& launched, bool backward)> region;
  /// Before the launch of one kernel, the call itself apart.
  std::function<Picoseconds(engine::Index op)> kernel;
  /// Whether an op belongs to code that is compiled (else its host work stays).
  std::function<bool(engine::Index op)> compiled;
  /// Of the host work before an op's launch, what does not belong to compiled code.
  std::function<Picoseconds(engine::Index op)> kept;
  /// Whether a launch begins another step than the one before.
  std::function<bool(engine::Index before, engine::Index op)> new_step;
};

/// Each stretch of compiled launches of one host thread becomes a region: its host work is replaced.
void compile_host(EditedReplay& replay, const CompiledHost& costs);

/// Removes every call that blocks the host on the device, but for those behind the last launch of the
/// program. Copies stay and block no more. Gives how many were removed.
std::int64_t remove_synchronizations(EditedReplay& replay);

/// Host work and calls take `factor` times as long; what comes after a call (arrival, waking up) does not.
void scale_host(EditedReplay& replay, double factor);

}  // namespace gpusim
