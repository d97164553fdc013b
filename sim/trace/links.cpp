// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/links.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "sim/trace/kernel_names.hpp"

namespace gpusim {
namespace {

/// Call by correlation id; of several with one id, the first that launches something, else the first.
std::unordered_map<std::int64_t, std::uint32_t> calls_by_correlation(const Trace& trace) {
  const auto launches = [](const TraceCall& call) {
    return call.kind == TraceCallKind::KernelLaunch || call.kind == TraceCallKind::GraphLaunch ||
           call.kind == TraceCallKind::MemcpyCall || call.kind == TraceCallKind::MemsetCall;
  };
  std::unordered_map<std::int64_t, std::uint32_t> result;
  result.reserve(trace.calls.size());
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    const TraceCall& call = trace.calls[i];
    if (!call.correlation) continue;
    const auto [at, added] = result.try_emplace(*call.correlation, i);
    if (!added && launches(call) && !launches(trace.calls[at->second])) at->second = i;
  }
  return result;
}

Picoseconds median_of(std::vector<Picoseconds> values) {
  if (values.empty()) return Picoseconds(0);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The last op of a stream whose call began before `time`.
std::uint32_t last_launched_before(const Trace& trace, const TraceLinks& links, std::uint32_t stream,
                                   Picoseconds time) {
  const std::vector<std::uint32_t>& ops = links.stream_ops[stream];
  // Ops of a stream run in the order of their launches.
  const auto after = std::partition_point(ops.begin(), ops.end(), [&](std::uint32_t op) {
    const std::uint32_t call = links.call_of_op[op];
    return (call == trace_none ? trace.ops[op].start : trace.calls[call].start) < time;
  });
  return after == ops.begin() ? trace_none : *(after - 1);
}

}  // namespace

TraceLinks::TraceLinks(const Trace& trace)
    : call_of_op(trace.ops.size(), trace_none),
      previous_op(trace.ops.size(), trace_none),
      stream_ops(trace.streams.size()),
      first_op_of_call(trace.calls.size(), trace_none),
      ops_of_call(trace.calls.size(), 0),
      thread_calls(trace.threads.size()),
      top_ops(trace.threads.size()) {
  const auto by_correlation = calls_by_correlation(trace);
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    stream_ops[op.stream].push_back(i);
    if (!op.correlation) continue;
    const auto at = by_correlation.find(*op.correlation);
    if (at == by_correlation.end() || trace.calls[at->second].start > op.start) continue;
    call_of_op[i] = at->second;
    ++ops_of_call[at->second];
    std::uint32_t& first = first_op_of_call[at->second];
    if (first == trace_none || op.start < trace.ops[first].start) first = i;
  }
  for (std::vector<std::uint32_t>& ops : stream_ops) {
    std::sort(ops.begin(), ops.end(), [&](std::uint32_t a, std::uint32_t b) {
      const TraceOp& x = trace.ops[a];
      const TraceOp& y = trace.ops[b];
      return x.start != y.start ? x.start < y.start : x.end != y.end ? x.end < y.end : a < b;
    });
    for (std::size_t i = 1; i < ops.size(); ++i) previous_op[ops[i]] = ops[i - 1];
  }
  const auto longest_first = [](const auto& entries) {
    return [&entries](std::uint32_t a, std::uint32_t b) {
      const auto& x = entries[a];
      const auto& y = entries[b];
      return x.start != y.start ? x.start < y.start : x.end != y.end ? x.end > y.end : a < b;
    };
  };
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) thread_calls[trace.calls[i].thread].push_back(i);
  for (auto& calls : thread_calls) std::sort(calls.begin(), calls.end(), longest_first(trace.calls));
  for (std::uint32_t i = 0; i < trace.cpu_ops.size(); ++i) {
    if (trace.cpu_ops[i].depth == 0) top_ops[trace.cpu_ops[i].thread].push_back(i);
  }
  for (auto& ops : top_ops) std::sort(ops.begin(), ops.end(), longest_first(trace.cpu_ops));

  std::vector<Picoseconds> latencies;
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    if (!launched(i) || trace.calls[call_of_op[i]].kind != TraceCallKind::KernelLaunch) continue;
    const TraceCall& call = trace.calls[call_of_op[i]];
    const std::uint32_t before = previous_op[i];
    if (before == trace_none || trace.ops[before].end >= call.start) continue;
    latencies.push_back(std::max(trace.ops[i].start - call.end, Picoseconds(0)));
  }
  launch_latency = median_of(std::move(latencies));
}

std::uint32_t TraceLinks::top_op_at(const Trace& trace, std::uint32_t thread, Picoseconds time) const {
  const std::vector<std::uint32_t>& ops = top_ops[thread];
  const auto after = std::partition_point(ops.begin(), ops.end(),
                                          [&](std::uint32_t op) { return trace.cpu_ops[op].start <= time; });
  if (after == ops.begin()) return trace_none;
  const std::uint32_t op = *(after - 1);
  return trace.cpu_ops[op].end > time ? op : trace_none;
}

bool is_graph_op(const Trace& trace, const TraceLinks& links, std::uint32_t op) {
  if (trace.ops[op].graph && *trace.ops[op].graph != 0) return true;
  return links.launched(op) && trace.calls[links.call_of_op[op]].kind == TraceCallKind::GraphLaunch;
}

std::vector<EventWait> event_waits(const Trace& trace, const TraceLinks& links) {
  std::unordered_map<std::int64_t, std::uint32_t> by_correlation;
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    const TraceCall& call = trace.calls[i];
    if (call.correlation &&
        (call.kind == TraceCallKind::StreamWaitEvent || call.kind == TraceCallKind::EventRecord))
      by_correlation.try_emplace(*call.correlation, i);
  }
  const auto call_of = [&](const std::optional<std::int64_t>& correlation) {
    const auto at = correlation ? by_correlation.find(*correlation) : by_correlation.end();
    return at == by_correlation.end() ? trace_none : at->second;
  };
  std::vector<EventWait> result;
  for (const TraceSync& sync : trace.syncs) {
    if (sync.kind != TraceSyncKind::StreamWaitEvent || sync.stream == trace_none ||
        sync.wait_on_stream == trace_none)
      continue;
    const std::uint32_t wait = call_of(sync.correlation);
    if (wait == trace_none) continue;
    // Where the recording call is not known, the event was recorded just before the wait.
    const std::uint32_t record = call_of(sync.record_correlation);
    const Picoseconds recorded = trace.calls[record == trace_none ? wait : record].start;
    const std::uint32_t awaited = last_launched_before(trace, links, sync.wait_on_stream, recorded);
    if (awaited == trace_none) continue;
    const std::vector<std::uint32_t>& ops = links.stream_ops[sync.stream];
    const auto first = std::partition_point(ops.begin(), ops.end(), [&](std::uint32_t op) {
      const std::uint32_t call = links.call_of_op[op];
      return (call == trace_none ? trace.ops[op].start : trace.calls[call].start) < trace.calls[wait].start;
    });
    if (first == ops.end() || *first == awaited || trace.ops[awaited].end > trace.ops[*first].start) continue;
    result.push_back({*first, awaited});
  }
  return result;
}

std::vector<std::uint32_t> awaited_ops(const Trace& trace, const TraceLinks& links) {
  std::vector<std::uint32_t> result(trace.calls.size(), trace_none);
  std::vector<std::uint32_t> by_end(trace.ops.size());
  std::iota(by_end.begin(), by_end.end(), 0U);
  std::sort(by_end.begin(), by_end.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.ops[a].end != trace.ops[b].end ? trace.ops[a].end < trace.ops[b].end : a < b;
  });
  // What cuda_sync records say of a call: which stream it waited for.
  std::unordered_map<std::int64_t, std::uint32_t> stream_of_wait;
  for (const TraceSync& sync : trace.syncs) {
    if (!sync.correlation) continue;
    if (sync.kind == TraceSyncKind::Stream && sync.stream != trace_none)
      stream_of_wait[*sync.correlation] = sync.stream;
    if (sync.kind == TraceSyncKind::Event && sync.wait_on_stream != trace_none)
      stream_of_wait[*sync.correlation] = sync.wait_on_stream;
  }
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    const TraceCall& call = trace.calls[i];
    if (call.kind == TraceCallKind::MemcpyCall) {
      const std::uint32_t copy = links.first_op_of_call[i];
      if (copy != trace_none && trace.ops[copy].end <= call.end) result[i] = copy;
      continue;
    }
    if (!is_synchronization(call.kind)) continue;
    std::uint32_t stream = trace_none;
    if (call.kind != TraceCallKind::SynchronizeDevice && call.correlation) {
      if (const auto at = stream_of_wait.find(*call.correlation); at != stream_of_wait.end())
        stream = at->second;
    }
    auto after = std::partition_point(by_end.begin(), by_end.end(),
                                      [&](std::uint32_t op) { return trace.ops[op].end <= call.end; });
    while (after != by_end.begin()) {
      const std::uint32_t op = *--after;
      if (trace.ops[op].end <= call.start) break;
      const std::uint32_t launch = links.call_of_op[op];
      if (launch != trace_none && trace.calls[launch].start >= call.start) continue;
      if (stream != trace_none && trace.ops[op].stream != stream) continue;
      result[i] = op;
      break;
    }
  }
  return result;
}

QueueLength queue_length(const Trace& trace, const TraceLinks& links) {
  QueueLength result;
  result.at_call.assign(trace.calls.size(), 0);
  std::vector<std::uint32_t> lengths;
  for (const std::vector<std::uint32_t>& ops : links.stream_ops) {
    // A CUDA graph is one entry of the queue, which leaves it when its first op starts.
    std::vector<std::uint32_t> calls;
    std::vector<Picoseconds> starts;
    for (const std::uint32_t op : ops) {
      const std::uint32_t call = links.call_of_op[op];
      if (call == trace_none || links.first_op_of_call[call] != op) continue;
      calls.push_back(call);
      starts.push_back(trace.ops[op].start);
    }
    std::sort(calls.begin(), calls.end(), [&](std::uint32_t a, std::uint32_t b) {
      return trace.calls[a].start != trace.calls[b].start ? trace.calls[a].start < trace.calls[b].start
                                                          : a < b;
    });
    std::size_t started = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      while (started < starts.size() && starts[started] <= trace.calls[calls[i]].end) ++started;
      const std::size_t length = i + 1 > started ? i + 1 - started : 0;
      result.at_call[calls[i]] = static_cast<std::uint32_t>(length);
      result.longest = std::max(result.longest, static_cast<std::uint32_t>(length));
      lengths.push_back(static_cast<std::uint32_t>(length));
    }
  }
  if (!lengths.empty()) {
    std::sort(lengths.begin(), lengths.end());
    const std::size_t n = lengths.size();
    result.median = n % 2 ? lengths[n / 2] : (lengths[n / 2 - 1] + lengths[n / 2]) / 2.0;
  }
  return result;
}

}  // namespace gpusim
