// SPDX-License-Identifier: Apache-2.0
// Who launched what, and what stands in which order: the joins of a trace's tables.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/trace/trace.hpp"

namespace gpusim {

struct TraceLinks {
  explicit TraceLinks(const Trace& trace);

  /// By op: the call that launched it, into Trace::calls. The one with its correlation id, unless that call
  /// began after the op; trace_none where there is none.
  std::vector<std::uint32_t> call_of_op;
  /// By op: the op before it in its stream, in the order of starts.
  std::vector<std::uint32_t> previous_op;
  /// By stream: its ops in the order of starts; equal starts: by end, then as in the file.
  std::vector<std::vector<std::uint32_t>> stream_ops;
  /// By call: the op that it launched, of several the one that started first.
  std::vector<std::uint32_t> first_op_of_call;
  /// By call: how many ops it launched.
  std::vector<std::uint32_t> ops_of_call;
  /// By thread: its calls in the order of starts; of equal starts the longest first.
  std::vector<std::vector<std::uint32_t>> thread_calls;
  /// By thread: its cpu_ops of depth 0 in the order of starts.
  std::vector<std::vector<std::uint32_t>> top_ops;
  /// From the end of a launch call to the start of its kernel where nothing else held the kernel up: the
  /// median over launches into a stream that had been idle when the call began. 0 without any.
  Picoseconds launch_latency{0};

  bool launched(std::uint32_t op) const { return call_of_op[op] != trace_none; }
  /// The cpu_op of depth 0 in which a thread is at a time; trace_none: in none.
  std::uint32_t top_op_at(const Trace& trace, std::uint32_t thread, Picoseconds time) const;
};

/// Whether the op belongs to a CUDA graph: its call launches one, or it says so itself.
bool is_graph_op(const Trace& trace, const TraceLinks& links, std::uint32_t op);

/// Waits of streams for events, from cuda_sync records: for each the op that the event stands behind, and the
/// first op that had to wait. Those whose event or op is not in the trace are left out.
struct EventWait {
  std::uint32_t waiting_op = trace_none;
  std::uint32_t awaited_op = trace_none;
};
std::vector<EventWait> event_waits(const Trace& trace, const TraceLinks& links);

/// By call: the op whose end let a call of the host return, which had begun before that. Synchronisations,
/// and copies whose call returned only after the copy had ended. trace_none: the call waited for no GPU op.
std::vector<std::uint32_t> awaited_ops(const Trace& trace, const TraceLinks& links);

/// The launched but not started ops of all streams over time, as one sees them when a launch call returns.
struct QueueLength {
  std::vector<std::uint32_t>
      at_call;  ///< By call: of the call's stream, the call's op included; 0 for others.
  std::uint32_t longest = 0;
  double median = 0;  ///< Over launch calls.
};
QueueLength queue_length(const Trace& trace, const TraceLinks& links);

}  // namespace gpusim
