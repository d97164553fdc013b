// SPDX-License-Identifier: Apache-2.0
// From a profiler trace to a program that replays it. Starts of GPU ops are derived from host times, launch
// rules and stream state, not copied; docs/trace-replay.md has the rules and how far off they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/engine/result.hpp"
#include "sim/program/build.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// `host_time: auto` uses this where it cannot compare launch calls: what the profiler adds to a launch on an
/// H200 host (docs/trace-replay.md).
inline constexpr double default_host_factor = 0.55;

struct ReplayOptions {
  TraceWorkload::HostTime host_time = TraceWorkload::HostTime::Traced;
  double host_factor = 1;          ///< For HostTime::Factor: of host work and of the calls.
  const HostSpec* host = nullptr;  ///< For HostTime::Model.
  RuleOptions rules;
  // What if? Applied to the program, not to what is learned from the trace.
  double kernel_duration_factor = 1;  ///< Of all GPU ops.
  double launch_latency_factor = 1;   ///< Of the part of a launch's latency that comes after its call.
};

struct ReplayStatistics {
  std::int64_t gpu_ops = 0;
  std::int64_t unlinked_ops = 0;          ///< Without a launch in the trace: pinned at their traced start.
  std::int64_t out_of_order_ops = 0;      ///< Of these: launched in another order than they ran.
  std::int64_t ops_starting_in_call = 0;  ///< Anchored at the traced point of their launch call.
  std::int64_t queued_ops = 0;            ///< Whose gap could be observed.
  std::int64_t gaps_from_pairs = 0;       ///< Gaps by source; of linked ops with a predecessor.
  std::int64_t gaps_from_classes = 0;
  std::int64_t gaps_from_hardware = 0;
  std::int64_t programmatic_ops = 0;
  std::int64_t cuda_graph_launches = 0;
  std::int64_t inferred_waits = 0;  ///< Between streams, guessed from starts that nothing else explains.
  std::int64_t recorded_waits = 0;  ///< Between streams, from records of the trace.
  std::int64_t synchronizations = 0;
  std::int64_t blocking_synchronizations = 0;  ///< Of these: completion came after the call's start.
  std::int64_t blocking_copies = 0;
  std::int64_t blocked_launches = 0;  ///< By a full launch queue, call time capped.
  std::int64_t hand_offs = 0;         ///< Times that the work passed from one host thread to another.
  std::int64_t host_threads = 0;
  std::int64_t independent_threads = 0;  ///< Of these: run beside the others.
  Picoseconds arrival_after_call{0};     ///< Of kernels.
  std::int64_t arrival_samples = 0;      ///< 0: not from the trace.
  Picoseconds wait_latency{0};
  double host_factor = 1;  ///< Used; 0: host model.
};

struct Replay {
  BuiltProgram built;
  /// Traced time of the program's start.
  Picoseconds origin{0};
  /// As Trace::ops: the op of `built.program`, each used once.
  std::vector<engine::Index> op_of;
  ReplayStatistics statistics;
};

/// Throws ConfigError for options that cannot be followed (no host or hardware to model with) and for traces
/// with more streams or threads than the engine has room for.
Replay build_replay(const Trace& trace, const GpuSpec* hardware, const ReplayOptions& options = {});

/// The name by which host files know an op: "aten::mm" is "mm", "AddmmBackward0" of the autograd engine is
/// "addmm" with `backward` set.
std::string host_op_key(std::string_view name, bool& backward);

/// A replayed step beside the trace.
struct ReplayComparison {
  Picoseconds traced_wall{0};  ///< First GPU op's start to the last one's end.
  Picoseconds replayed_wall{0};
  Picoseconds traced_busy{0};  ///< Union of the GPU ops.
  double wall_error = 0;       ///< (replayed - traced) / traced; 0 without GPU ops.
  // |replayed - traced| start of the GPU ops, each counted from the first op's start.
  Picoseconds start_error_median{0};
  Picoseconds start_error_p90{0};
  Picoseconds start_error_max{0};
  std::string worst_op;       ///< Name of the op with the largest error.
  std::int64_t kernels = 0;   ///< Kernels alone, of the trace.
  std::int64_t compared = 0;  ///< GPU ops found in both.
};

/// `timeline` is that of one step of the replay's program.
ReplayComparison compare(const Trace& trace, const Replay& replay, const engine::Timeline& timeline);

}  // namespace gpusim
