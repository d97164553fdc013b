// SPDX-License-Identifier: Apache-2.0
// What a traced run was waiting for, moment by moment: the longest path through launches, kernels, events,
// synchronisations and host work of a trace. docs/traces.md has it in words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/trace/links.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// What a stretch of a traced run is spent on.
enum class TraceResource : std::uint8_t {
  Kernel,
  Communication,    ///< A collective's kernel.
  Copy,             ///< A copy or memset.
  Gap,              ///< Between ops of one stream.
  Event,            ///< From the end of an op to the start of one in another stream that waited for it.
  LaunchLatency,    ///< From a launch call to the start of its op on an idle stream.
  LaunchQueue,      ///< A launch call blocked by a full queue, from the start of an op to the call's return.
  LaunchCall,       ///< Calls that launch kernels, CUDA graphs, copies.
  Host,             ///< All other calls and work of host threads.
  Synchronization,  ///< From the end of an op to the return of the call that waited for it.
  Unknown,          ///< The trace does not say what was waited for.
};
inline constexpr std::size_t trace_resource_count = 11;
/// "kernel", "communication", "copy", "gap", "event", "launch_latency", "launch_queue", "launch_call",
/// "host", "synchronization", "unknown".
const char* name(TraceResource resource);

/// A piece of the path. Times are after Trace::base.
struct TracePathPiece {
  Picoseconds from{0};
  Picoseconds to{0};
  TraceResource resource = TraceResource::Unknown;
  std::uint32_t op = trace_none;      ///< The op that runs, or whose start is delayed.
  std::uint32_t call = trace_none;    ///< The call that runs.
  std::uint32_t thread = trace_none;  ///< Of pieces on the host.
  std::uint32_t host_op =
      trace_none;  ///< Into Trace::cpu_ops: the op of depth 0 that runs; none: between ops.

  Picoseconds duration() const { return to - from; }
};

/// The moments of a trace and what each came after. Moments: 2 * i and 2 * i + 1 are start and end of call i,
/// behind them those of the ops, then the beginning.
class TraceDependencies {
 public:
  TraceDependencies(const Trace& trace, const TraceLinks& links);

  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    Picoseconds weight{0};  ///< `to` is never earlier than `from` plus this.
    TraceResource resource = TraceResource::Unknown;
  };

  std::uint32_t call_start(std::uint32_t call) const { return 2 * call; }
  std::uint32_t call_end(std::uint32_t call) const { return 2 * call + 1; }
  std::uint32_t op_start(std::uint32_t op) const { return first_op_ + 2 * op; }
  std::uint32_t op_end(std::uint32_t op) const { return first_op_ + 2 * op + 1; }
  std::uint32_t origin() const { return static_cast<std::uint32_t>(times_.size() - 1); }
  bool is_op(std::uint32_t moment) const { return moment >= first_op_ && moment != origin(); }
  bool is_call(std::uint32_t moment) const { return moment < first_op_; }

  Picoseconds begin() const { return times_.back(); }  ///< Of the span: the first host op, call or GPU op.
  Picoseconds end() const { return end_; }             ///< The last end of a call or GPU op.
  std::uint32_t last() const { return last_; }         ///< The moment at `end()`.
  Picoseconds time(std::uint32_t moment) const { return times_[moment]; }
  std::size_t size() const { return times_.size(); }

  /// Edges, those into one moment together, moments in an order in which each comes after all it came after.
  const std::vector<Edge>& edges() const { return edges_; }
  /// The edge that bound the moment: it reaches it exactly. The origin has none.
  const Edge& binding(std::uint32_t moment) const { return edges_[binding_[moment]]; }

  /// The pieces that lie behind a moment back to `until`, last first, without a hole.
  std::vector<TracePathPiece> walk_back(std::uint32_t moment, Picoseconds until) const;

 private:
  void add_threads();
  void add_ops();
  void add_synchronizations();
  void sort_edges();
  void add(std::uint32_t from, std::uint32_t to, Picoseconds weight, TraceResource resource, bool binds);
  void split_host(const TracePathPiece& piece, std::vector<TracePathPiece>& into) const;

  const Trace& trace_;
  const TraceLinks& links_;
  std::uint32_t first_op_ = 0;
  std::uint32_t last_ = 0;
  Picoseconds end_{0};
  std::vector<Picoseconds> times_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> binding_;         ///< By moment, into edges_.
  std::vector<std::uint32_t> innermost_call_;  ///< By moment of a call: the call that runs just before it.
};

/// Sums over ops of one name.
struct TracePathKernel {
  std::uint32_t name = trace_none;  ///< Into Trace::names.
  std::int64_t count = 0;
  Picoseconds total{0};
  std::int64_t on_path = 0;  ///< Pieces of the path.
  Picoseconds path{0};       ///< Their time on it.
  Picoseconds gain{0};       ///< The most that the run would be shorter if ops of this name took no time.
  Picoseconds least_slack{0};
  Picoseconds median_slack{0};
};

struct TracePath {
  Picoseconds begin{0};
  Picoseconds end{0};
  /// From `begin` to `end` without a hole, none empty.
  std::vector<TracePathPiece> pieces;
  std::array<Picoseconds, trace_resource_count> by_resource{};
  /// By op: how much later it could end, all else as it was, without lengthening the run. 0 on the path.
  std::vector<Picoseconds> op_slack;
  /// By falling time on the path, then by falling total, then by name.
  std::vector<TracePathKernel> kernels;
  /// The most that the run would be shorter if a resource took no time, the order of all else as it was.
  std::array<Picoseconds, trace_resource_count> gain{};

  Picoseconds span() const { return end - begin; }
  Picoseconds of(TraceResource resource) const { return by_resource[static_cast<std::size_t>(resource)]; }
};

/// `gains`: of how many names of kernels the gain is worked out, those with the most time on the path. The
/// others' gain is their time on the path, which is never less.
TracePath trace_path(const Trace& trace, std::size_t gains = 10);

}  // namespace gpusim
