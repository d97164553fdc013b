// SPDX-License-Identifier: Apache-2.0
// Which moment of a trace came after which.
#include <algorithm>
#include <numeric>
#include <optional>

#include "sim/trace/kernel_names.hpp"
#include "sim/trace/trace_path.hpp"

namespace gpusim {
namespace {

/// A pause between ops of one stream that is longer is not the stream's own.
constexpr Picoseconds gap_max{10'000'000};
/// A launch that takes longer to reach an idle device has waited for something else.
constexpr Picoseconds launch_latency_max{50'000'000};
/// A host thread without a call or op for longer has been waiting, if another thread was at work.
constexpr Picoseconds idle_thread_min{10'000'000};
/// Launches ahead from which a long call counts as blocked by the launch queue (1024 deep on NVIDIA).
constexpr std::uint32_t queue_full_from = 1000;

bool launches(TraceCallKind kind) {
  return kind == TraceCallKind::KernelLaunch || kind == TraceCallKind::GraphLaunch ||
         kind == TraceCallKind::MemcpyCall || kind == TraceCallKind::MemsetCall;
}

/// When a thread was in a call or op: disjoint, sorted, and how long in all of those before each.
struct Coverage {
  std::vector<Picoseconds> starts, ends, before;

  void add(Picoseconds start, Picoseconds end) {
    if (!ends.empty() && start <= ends.back()) {
      ends.back() = std::max(ends.back(), end);
      return;
    }
    before.push_back(ends.empty() ? Picoseconds(0) : before.back() + ends.back() - starts.back());
    starts.push_back(start);
    ends.push_back(end);
  }
  /// Covered time before `time`.
  Picoseconds until(Picoseconds time) const {
    const auto after = std::upper_bound(starts.begin(), starts.end(), time);
    if (after == starts.begin()) return Picoseconds(0);
    const auto i = static_cast<std::size_t>(after - starts.begin()) - 1;
    return before[i] + std::min(time, ends[i]) - starts[i];
  }
  /// The longest time within [from, to] in which the thread was in nothing.
  std::pair<Picoseconds, Picoseconds> longest_hole(Picoseconds from, Picoseconds to) const {
    std::pair<Picoseconds, Picoseconds> best{from, from};
    Picoseconds at = from;
    auto i = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), from) - ends.begin());
    for (; at < to; ++i) {
      const Picoseconds next = i < starts.size() ? std::min(starts[i], to) : to;
      if (next - at > best.second - best.first) best = {at, next};
      if (i >= starts.size()) break;
      at = std::max(at, ends[i]);
    }
    return best;
  }
};

struct Boundary {
  Picoseconds time;
  std::uint32_t moment;
  int rank;               ///< At equal times: ends, then starts, then ends of calls without duration.
  Picoseconds tie_break;  ///< Outer calls start first and end last.
};

}  // namespace

const char* name(TraceResource resource) {
  constexpr std::array<const char*, trace_resource_count> names = {
      "kernel", "communication",   "copy",   "gap", "event", "launch_latency", "launch_queue", "launch_call",
      "host",   "synchronization", "unknown"};
  return names[static_cast<std::size_t>(resource)];
}

TraceDependencies::TraceDependencies(const Trace& trace, const TraceLinks& links)
    : trace_(trace), links_(links), first_op_(static_cast<std::uint32_t>(2 * trace.calls.size())) {
  times_.reserve(2 * (trace.calls.size() + trace.ops.size()) + 1);
  Picoseconds begin = Picoseconds::max();
  end_ = Picoseconds::min();
  const auto add_moments = [&](const auto& entries) {
    for (const auto& entry : entries) {
      begin = std::min(begin, entry.start);
      times_.push_back(entry.start);
      times_.push_back(entry.end);
      if (entry.end > end_) {
        end_ = entry.end;
        last_ = static_cast<std::uint32_t>(times_.size() - 1);
      }
    }
  };
  add_moments(trace.calls);
  add_moments(trace.ops);
  const bool empty = times_.empty();
  for (const TraceSpan& op : trace.cpu_ops) begin = std::min(begin, op.start);
  if (empty) begin = end_ = Picoseconds(0);
  times_.push_back(begin);
  binding_.assign(times_.size(), trace_none);
  innermost_call_.assign(2 * trace.calls.size(), trace_none);
  if (empty) return;
  add_synchronizations();
  add_threads();
  add_ops();
  sort_edges();
}

void TraceDependencies::add(std::uint32_t from, std::uint32_t to, Picoseconds weight, TraceResource resource,
                            bool binds) {
  if (binds) binding_[to] = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back({from, to, weight, resource});
}

void TraceDependencies::add_synchronizations() {
  const std::vector<std::uint32_t> awaited = awaited_ops(trace_, links_);
  const QueueLength queue = queue_length(trace_, links_);
  for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
    const TraceCall& call = trace_.calls[i];
    if (awaited[i] != trace_none) {
      const TraceOp& op = trace_.ops[awaited[i]];
      add(op_end(awaited[i]), call_end(i), call.end - op.end, TraceResource::Synchronization, true);
    } else if (queue.at_call[i] >= queue_full_from && call.duration() > gap_max) {
      // The call returned when an op of its stream started and left its place.
      const std::vector<std::uint32_t>& ops =
          links_.stream_ops[trace_.ops[links_.first_op_of_call[i]].stream];
      const auto after = std::partition_point(
          ops.begin(), ops.end(), [&](std::uint32_t op) { return trace_.ops[op].start <= call.end; });
      if (after == ops.begin() || trace_.ops[*(after - 1)].start <= call.start) continue;
      const std::uint32_t op = *(after - 1);
      add(op_start(op), call_end(i), call.end - trace_.ops[op].start, TraceResource::LaunchQueue, true);
    }
  }
}

void TraceDependencies::add_threads() {
  std::vector<Coverage> coverage(trace_.threads.size());
  std::vector<std::vector<Boundary>> boundaries(trace_.threads.size());
  for (std::size_t thread = 0; thread < trace_.threads.size(); ++thread) {
    std::vector<std::pair<Picoseconds, Picoseconds>> spans;
    for (const std::uint32_t i : links_.thread_calls[thread]) {
      const TraceCall& call = trace_.calls[i];
      spans.emplace_back(call.start, call.end);
      boundaries[thread].push_back({call.start, call_start(i), 1, call.start - call.end});
      boundaries[thread].push_back({call.end, call_end(i), call.end > call.start ? 0 : 2,
                                    call.start == call.end ? Picoseconds(0) : -call.start});
    }
    for (const std::uint32_t i : links_.top_ops[thread])
      spans.emplace_back(trace_.cpu_ops[i].start, trace_.cpu_ops[i].end);
    std::sort(spans.begin(), spans.end());
    for (const auto& [start, end] : spans) coverage[thread].add(start, end);
    std::sort(boundaries[thread].begin(), boundaries[thread].end(), [](const Boundary& a, const Boundary& b) {
      if (a.time != b.time) return a.time < b.time;
      if (a.rank != b.rank) return a.rank < b.rank;
      return a.tie_break != b.tie_break ? a.tie_break < b.tie_break : a.moment < b.moment;
    });
  }
  /// The last boundary of the thread that was in most calls and ops of a time in which another was in none.
  /// Much of what a thread does is between its ops; a fifth is more than what threads that only poll are in.
  const auto worker = [&](std::size_t waiting, Picoseconds from, Picoseconds to) {
    std::uint32_t best = trace_none;
    Picoseconds most{(to - from).count() / 5};
    for (std::size_t thread = 0; thread < coverage.size(); ++thread) {
      if (thread == waiting) continue;
      const Picoseconds covered = coverage[thread].until(to) - coverage[thread].until(from);
      if (covered <= most) continue;
      const std::vector<Boundary>& all = boundaries[thread];
      const auto after =
          std::partition_point(all.begin(), all.end(), [&](const Boundary& b) { return b.time <= to; });
      if (after == all.begin() || (after - 1)->time <= from) continue;
      most = covered;
      best = (after - 1)->moment;
    }
    return best;
  };

  for (std::size_t thread = 0; thread < trace_.threads.size(); ++thread) {
    std::uint32_t before = origin();
    std::vector<std::uint32_t> active;  // calls, the innermost last
    for (const Boundary& boundary : boundaries[thread]) {
      const std::uint32_t moment = boundary.moment;
      const Picoseconds length = boundary.time - times_[before];
      TraceResource resource = TraceResource::Host;
      std::uint32_t other = trace_none;
      if (!active.empty()) {
        innermost_call_[moment] = active.back();
        if (launches(trace_.calls[active.back()].kind)) resource = TraceResource::LaunchCall;
      } else if (length > idle_thread_min && trace_.threads.size() > 1) {
        const auto [from, to] = coverage[thread].longest_hole(times_[before], boundary.time);
        if (to - from > idle_thread_min) other = worker(thread, from, to);
      }
      if (other != trace_none) {
        add(other, moment, boundary.time - times_[other], TraceResource::Host, true);
        add(before, moment, Picoseconds(0), TraceResource::Host, false);
      } else {
        // A call that waited for the device would have taken no time of its own.
        const bool waited = binding_[moment] != trace_none;
        add(before, moment, waited ? Picoseconds(0) : length, resource, !waited);
      }
      const std::uint32_t call = moment / 2;
      if (moment % 2 == 0) {
        active.push_back(call);
      } else {
        active.erase(std::find(active.begin(), active.end(), call));
      }
      before = moment;
    }
  }
}

void TraceDependencies::add_ops() {
  std::vector<std::vector<std::uint32_t>> awaited(trace_.ops.size());
  for (const EventWait& wait : event_waits(trace_, links_))
    awaited[wait.waiting_op].push_back(wait.awaited_op);
  // Where the profiler did not record who waits for which event, an op of another stream that ended just
  // before is taken for it.
  bool infers = std::none_of(trace_.syncs.begin(), trace_.syncs.end(), [](const TraceSync& sync) {
    return sync.kind == TraceSyncKind::StreamWaitEvent;
  });
  infers = infers && trace_.streams.size() > 1;
  std::vector<std::uint32_t> by_end(infers ? trace_.ops.size() : 0);
  std::iota(by_end.begin(), by_end.end(), 0U);
  std::sort(by_end.begin(), by_end.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace_.ops[a].end != trace_.ops[b].end ? trace_.ops[a].end < trace_.ops[b].end : a < b;
  });
  const auto call_start_of = [&](std::uint32_t op) {
    const std::uint32_t call = links_.call_of_op[op];
    return call == trace_none ? trace_.ops[op].start : trace_.calls[call].start;
  };
  /// The op of another stream, launched before, that ended last before `op` started.
  const auto ended_before = [&](std::uint32_t op) {
    auto at = std::partition_point(by_end.begin(), by_end.end(), [&](std::uint32_t i) {
      return trace_.ops[i].end <= trace_.ops[op].start;
    });
    for (int tries = 0; at != by_end.begin() && tries < 64; ++tries) {
      const std::uint32_t other = *--at;
      if (trace_.ops[other].stream != trace_.ops[op].stream && call_start_of(other) <= call_start_of(op))
        return other;
    }
    return trace_none;
  };

  for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
    const TraceOp& op = trace_.ops[i];
    const TraceResource running = op.kind != TraceOpKind::Kernel ? TraceResource::Copy
                                  : kernel_group(trace_.names[op.name]) == KernelGroup::Communication
                                      ? TraceResource::Communication
                                      : TraceResource::Kernel;
    add(op_start(i), op_end(i), op.duration(), running, true);

    // Each candidate: when it would have let the op start.
    const std::uint32_t call = links_.call_of_op[i];
    const std::uint32_t before = links_.previous_op[i];
    const bool same_graph = before != trace_none && call != trace_none && links_.call_of_op[before] == call;
    std::optional<Picoseconds> arrival;
    if (call != trace_none && !same_graph)
      arrival = std::min(trace_.calls[call].end + links_.launch_latency, op.start);
    std::optional<Picoseconds> order;
    if (before != trace_none) order = std::min(trace_.ops[before].end, op.start);
    std::uint32_t event = trace_none;
    for (const std::uint32_t other : awaited[i]) {
      if (event == trace_none || trace_.ops[other].end > trace_.ops[event].end) event = other;
    }
    if (infers && event == trace_none && (arrival || order)) {
      const std::uint32_t other = ended_before(i);
      const Picoseconds known =
          std::max(arrival.value_or(Picoseconds::min()), order.value_or(Picoseconds::min()));
      constexpr Picoseconds unexplained{4'000'000};
      constexpr Picoseconds event_latency_max{8'000'000};
      if (other != trace_none && trace_.ops[other].end > known && op.start - known > unexplained &&
          op.start - trace_.ops[other].end < event_latency_max)
        event = other;
    }
    const Picoseconds event_end = event == trace_none ? Picoseconds::min() : trace_.ops[event].end;

    enum class By { Nothing, Arrival, Order, Event } by = By::Nothing;
    if (event != trace_none && event_end >= arrival.value_or(Picoseconds::min()) &&
        event_end >= order.value_or(Picoseconds::min())) {
      by = By::Event;
    } else if (arrival && *arrival >= order.value_or(Picoseconds::min())) {
      by = By::Arrival;
    } else if (order) {
      by = By::Order;
    }

    if (event != trace_none)
      add(op_end(event), op_start(i), by == By::Event ? op.start - event_end : Picoseconds(0),
          TraceResource::Event, by == By::Event);
    for (const std::uint32_t other : awaited[i])
      if (other != event) add(op_end(other), op_start(i), Picoseconds(0), TraceResource::Event, false);
    if (arrival) {
      const bool binds = by == By::Arrival;
      const bool inside = trace_.calls[call].end > op.start;  // It started before the call had returned.
      const std::uint32_t from = inside ? call_start(call) : call_end(call);
      const Picoseconds observed = op.start - times_[from];
      // Nothing is on its way for that long: work outside of the trace went before.
      const bool late = observed > std::max(launch_latency_max, 4 * links_.launch_latency);
      add(from, op_start(i), binds ? observed : std::min(observed, links_.launch_latency),
          inside ? TraceResource::LaunchCall
          : late ? TraceResource::Unknown
                 : TraceResource::LaunchLatency,
          binds);
    }
    if (before != trace_none) {
      const TraceOp& previous = trace_.ops[before];
      const bool binds = by == By::Order;
      const bool overlaps = previous.end > op.start;
      const Picoseconds observed = op.start - (overlaps ? previous.start : previous.end);
      const TraceResource resource = overlaps              ? TraceResource::Kernel
                                     : observed <= gap_max ? TraceResource::Gap
                                                           : TraceResource::Unknown;
      add(overlaps ? op_start(before) : op_end(before), op_start(i), binds ? observed : Picoseconds(0),
          resource, binds);
    }
    if (by == By::Nothing)
      add(origin(), op_start(i), op.start - times_[origin()], TraceResource::Unknown, true);
  }
}

/// Orders the edges by where they lead, and those places such that each comes after all that it came after.
void TraceDependencies::sort_edges() {
  std::vector<std::uint32_t> waits(times_.size(), 0);
  std::vector<std::uint32_t> first_out(times_.size() + 1, 0);
  for (const Edge& edge : edges_) {
    ++waits[edge.to];
    ++first_out[edge.from + 1];
  }
  std::partial_sum(first_out.begin(), first_out.end(), first_out.begin());
  std::vector<std::uint32_t> out(edges_.size());
  {
    std::vector<std::uint32_t> next(first_out.begin(), first_out.end() - 1);
    for (std::uint32_t i = 0; i < edges_.size(); ++i) out[next[edges_[i].from]++] = i;
  }
  std::vector<std::uint32_t> rank(times_.size(), trace_none);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t moment = 0; moment < times_.size(); ++moment) {
    if (waits[moment] == 0) ready.push_back(moment);
  }
  std::uint32_t ranked = 0;
  while (!ready.empty()) {
    const std::uint32_t moment = ready.back();
    ready.pop_back();
    rank[moment] = ranked++;
    for (std::uint32_t i = first_out[moment]; i < first_out[moment + 1]; ++i) {
      if (--waits[edges_[out[i]].to] == 0) ready.push_back(edges_[out[i]].to);
    }
  }
  // Moments of equal time may stand in a circle where a trace contradicts itself. Edges of a circle go.
  std::vector<std::uint32_t> order;
  order.reserve(edges_.size());
  for (std::uint32_t i = 0; i < edges_.size(); ++i) {
    if (rank[edges_[i].from] != trace_none && rank[edges_[i].to] != trace_none) order.push_back(i);
  }
  for (std::uint32_t moment = 0; moment < times_.size(); ++moment) {
    if (rank[moment] != trace_none) continue;
    rank[moment] = ranked++;
    edges_.push_back({origin(), moment, times_[moment] - times_[origin()], TraceResource::Unknown});
    binding_[moment] = static_cast<std::uint32_t>(edges_.size() - 1);
    order.push_back(binding_[moment]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank[edges_[a].to] < rank[edges_[b].to]; });
  std::vector<std::uint32_t> place(edges_.size(), trace_none);
  std::vector<Edge> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t i : order) {
    place[i] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(edges_[i]);
  }
  for (std::uint32_t& edge : binding_) {
    if (edge != trace_none) edge = place[edge];
  }
  edges_ = std::move(sorted);
}

/// Work between calls is split where ops of the framework begin and end.
void TraceDependencies::split_host(const TracePathPiece& piece, std::vector<TracePathPiece>& into) const {
  const std::vector<std::uint32_t>& ops = links_.top_ops[piece.thread];
  auto after = std::partition_point(ops.begin(), ops.end(),
                                    [&](std::uint32_t op) { return trace_.cpu_ops[op].start < piece.to; });
  Picoseconds at = piece.to;
  const auto put = [&](Picoseconds from, std::uint32_t op) {
    if (from >= at) return;
    TracePathPiece part = piece;
    part.from = from;
    part.to = at;
    part.host_op = op;
    into.push_back(part);
    at = from;
  };
  while (after != ops.begin()) {
    const std::uint32_t op = *--after;
    const TraceSpan& span = trace_.cpu_ops[op];
    if (span.end <= piece.from) break;
    put(std::max(span.end, piece.from), trace_none);
    put(std::max(span.start, piece.from), op);
  }
  put(piece.from, trace_none);
}

std::vector<TracePathPiece> TraceDependencies::walk_back(std::uint32_t moment, Picoseconds until) const {
  std::vector<TracePathPiece> pieces;
  while (moment != origin() && times_[moment] > until) {
    const Edge& edge = binding(moment);
    TracePathPiece piece;
    piece.from = std::max(times_[edge.from], until);
    piece.to = times_[moment];
    piece.resource = edge.resource;
    if (is_op(moment)) {
      piece.op = (moment - first_op_) / 2;
      // The pause is before this op; what still runs is the one before.
      if (edge.resource == TraceResource::Kernel && is_op(edge.from)) piece.op = (edge.from - first_op_) / 2;
    }
    if (is_call(moment)) {
      piece.thread = trace_.calls[moment / 2].thread;
      piece.call = innermost_call_[moment];
      if (edge.resource == TraceResource::Synchronization || edge.resource == TraceResource::LaunchQueue)
        piece.call = moment / 2;
    } else if (edge.resource == TraceResource::LaunchCall) {
      piece.call = edge.from / 2;
      piece.thread = trace_.calls[piece.call].thread;
    }
    if (piece.to > piece.from) {
      if (piece.resource == TraceResource::Host && piece.call == trace_none) {
        split_host(piece, pieces);
      } else {
        pieces.push_back(piece);
      }
    }
    moment = edge.from;
  }
  return pieces;
}

}  // namespace gpusim
