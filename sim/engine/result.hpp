// SPDX-License-Identifier: Apache-2.0
// What the engine answers: totals, and, if asked, the timeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/large_vector.hpp"
#include "sim/engine/program.hpp"

namespace gpusim::engine {

/// Why no GPU op ran. Ordered as tested: the first that binds wins.
enum class IdleCause : std::uint8_t {
  Event,            ///< Waited for another stream.
  Synchronization,  ///< The host was blocked until the device was done, up to the return of the call.
  LaunchLatency,    ///< Launched, the call has returned, and not yet arrived at the device.
  Gap,              ///< Between two ops of a stream that follow each other, or two nodes of a CUDA graph.
  Dispatch,         ///< The host was still working: launch-bound.
  Input,            ///< The host waited for input, or the program had no more work.
};
inline constexpr int idle_cause_count = 6;
const char* name(
    IdleCause cause);  ///< "event", "synchronization", "launch_latency", "gap", "dispatch", "input".

struct Counts {
  std::int64_t kernels = 0;
  std::int64_t memcpys = 0;
  std::int64_t memsets = 0;
  std::int64_t kernel_launches = 0;  ///< Host calls that launch one kernel each.
  std::int64_t cuda_graph_launches = 0;
  std::int64_t synchronizations = 0;
  std::int64_t gpu_ops() const { return kernels + memcpys + memsets; }
  friend bool operator==(const Counts&, const Counts&) = default;
};

/// Sums over a stretch of simulated time. Always: wall == busy + sum of idle.
struct Totals {
  std::int64_t steps = 0;
  Picoseconds wall{0};
  Picoseconds busy{0};    ///< Union of all GPU op intervals.
  Picoseconds op_sum{0};  ///< Plain sum of their durations.
  std::array<Picoseconds, idle_cause_count> idle{};
  Picoseconds host_work{0};           ///< Of all threads: calls and work, without blocking.
  Picoseconds host_blocked{0};        ///< In synchronisations, blocking copies and awaits.
  Picoseconds host_blocked_queue{0};  ///< Because a launch queue was full.
  Counts counts;

  Picoseconds idle_total() const;
  friend Totals operator-(Totals a, const Totals& b);
  /// a + times * b.
  friend Totals add(Totals a, const Totals& b, std::int64_t times);
  friend bool operator==(const Totals&, const Totals&) = default;
};

/// All simulated steps from an idle machine to the last completion.
struct Run {
  Totals totals;  ///< wall: from the first host instruction to the last completion of anything (makespan).
  Picoseconds first_op_start{0};
  Picoseconds last_op_end{0};
  Totals window;  ///< From the first op's start to the last op's end: what a trace of it would show.
  std::int64_t peak_bytes = 0;        ///< Most device memory allocated at once.
  std::int64_t final_bytes = 0;       ///< Still allocated at the end.
  std::int32_t queue_length_max = 0;  ///< Longest launch queue of any stream.
};

/// The step that repeats for ever.
struct Steady {
  /// The machine's relative state was the same at two step boundaries, so `period` is exact. Otherwise
  /// (random durations, or not repeated within the limit) `period` holds the mean over the simulated steps.
  bool exact = false;
  Totals period;                  ///< Sums over period.steps steps.
  std::int64_t warmup_steps = 0;  ///< Steps before the state was first reached.
  std::int64_t peak_bytes = 0;
};

/// One GPU op as it ran. With the end of its launch call, 32 bytes a kernel.
struct OpRecord {
  Picoseconds start{0};
  Picoseconds end{0};
  Index call = no_index;  ///< The launch: see Timeline::call. Serves as correlation id.
  Index node = no_index;  ///< Node of the CUDA graph, or no_index.
};
static_assert(sizeof(OpRecord) == 24);

/// One host instruction as it ran.
struct CallRecord {
  Picoseconds start{0};
  Picoseconds end{0};
  Index instruction = no_index;  ///< Of the thread.
  std::uint32_t step = 0;
  std::uint16_t thread = 0;
};

struct MemoryRecord {
  Picoseconds at{0};
  std::int64_t bytes = 0;  ///< Allocated from `at` on.
};

/// What happened. Compact, since long runs are written at memory speed: a thread does one thing after the
/// other, so the ends of its calls tell their starts, and an op is told by its launch.
struct Timeline {
  struct Thread {
    LargeVector<Picoseconds> call_end;    ///< Of each executed instruction, in order.
    std::vector<Picoseconds> step_start;  ///< Of each step begun.
    std::size_t per_step = 0;             ///< Instructions of a step.
  };
  /// Of each stream in order of start; those of several streams stand in the order in which the engine came
  /// to know of them, see ops_in_order().
  LargeVector<OpRecord> ops;
  std::vector<Thread> threads;
  std::vector<MemoryRecord> memory;

  /// Calls are numbered through all threads: the k-th executed instruction of thread t is k * threads + t.
  Index call_number(std::size_t thread, std::size_t executed) const {
    return static_cast<Index>(executed * threads.size() + thread);
  }
  CallRecord call(Index number) const;
  /// All calls, in order of start; at equal times by thread.
  std::vector<Index> calls_in_order() const;
  /// Indices of all ops, in order of start; at equal times by call and node.
  std::vector<Index> ops_in_order() const;
  /// Above every call number.
  std::size_t call_limit() const;
};

const Instruction& instruction_of(const Program& program, const CallRecord& call);
/// The launch that `record` came from.
const Instruction& launch_of(const Program& program, const Timeline& timeline, const OpRecord& record);
/// Index of the op, into Program::ops.
Index op_of(const Program& program, const Timeline& timeline, const OpRecord& record);
/// Rows for ops that overlap others of their stream (branches of a CUDA graph, programmatic launches): of
/// each record, the lowest row of its stream that is free at its start.
std::vector<std::uint16_t> lanes(const Program& program, const Timeline& timeline);

}  // namespace gpusim::engine
