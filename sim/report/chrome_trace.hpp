// SPDX-License-Identifier: Apache-2.0
// The timeline as a Chrome trace with the fields that PyTorch's profiler writes, for Perfetto,
// chrome://tracing and tools made for PyTorch traces.
//
//   host rows     pid `host_pid`, one tid per host thread. Launches, copies, event calls and synchronisations
//   under
//                 the names of the CUDA runtime (category cuda_runtime), host work as cpu_op, each step as
//                 user_annotation ProfilerStep#N.
//   stream rows   pid = device, tid = stream number (7, 8, ... unless the stream's name is a number); ops
//   that overlap
//                 others of their stream on a row of their own below it, args.stream still naming the stream.
//   arrows        ac2g, from the launch to its GPU ops.
//   counters      launched but not started ops of each stream; allocated device memory; of a network, what
//                 its memory is taken for, from the host call of each op or kernel on (the framework's
//                 allocator knows of calls, not of what the device has done).
//
// args.correlation, one more than the index of the call in the timeline, joins a launch and its GPU ops; all
// ops of a replayed CUDA graph carry that of its launch. Times are exact: microseconds with three to six
// decimals.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/engine/program.hpp"
#include "sim/engine/result.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

struct ChromeTraceOptions {
  std::string title = {};                ///< Shown as the name of the host process.
  std::string device_name = {};          ///< For deviceProperties; may be empty.
  std::int64_t device_memory_bytes = 0;  ///< 0: unknown, left out.
  int sms = 0;                           ///< 0: unknown, left out.
  /// A traced window may hold several steps. Without their bounds the window is marked as such, not as a
  /// ProfilerStep.
  std::int64_t steps_per_program = 1;
  /// Instructions of the first host thread that begin a step of the user, in order; one fewer than steps
  /// where the first one begins with the program. Empty: the program is one step.
  std::vector<engine::Index> step_starts = {};
  /// Of each thread in order; at the instruction that they name, memory in use changes.
  std::vector<MemoryMark> memory = {};
  std::string version = {};  ///< Of gpusim; empty: left out.
  std::string input = {};    ///< Digest of what the timeline was worked out from; empty: left out.
};

inline constexpr int host_pid = 1000;

/// Writes in pieces; memory for it does not grow with the trace but for the counters.
void write_chrome_trace(std::ostream& out, const engine::Program& program, const engine::Timeline& timeline,
                        const ChromeTraceOptions& options = {});

}  // namespace gpusim::report
