// SPDX-License-Identifier: Apache-2.0
#include "sim/program/replay_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

namespace gpusim {
namespace {

constexpr Picoseconds us(double value) {
  return Picoseconds(static_cast<std::int64_t>(value * 1e6));
}

// From the study of seven H200 traces (docs/trace-replay.md).
constexpr Picoseconds queued_margin = us(3);    // launch call over so long before the predecessor's end
constexpr Picoseconds gap_sample_max = us(20);  // longer: something unknown was waited for
constexpr Picoseconds idle_margin = us(2);      // stream empty so long before the call: an arrival sample
constexpr Picoseconds arrival_sample_max = us(50);
constexpr std::size_t arrival_samples_min = 3;
constexpr Picoseconds wait_slack = us(4);   // start so long after all that is known: waited for a stream
constexpr Picoseconds wait_gap = us(1.5);   // allowed for the gap in that
constexpr Picoseconds wait_window = us(8);  // what was waited for ended at most so long before
constexpr Picoseconds programmatic_gap_max = us(0.2);
constexpr std::int64_t depth_some = 9;  // launches waiting from which gaps behave differently
constexpr std::int64_t depth_many = 64;
constexpr std::int64_t class_samples_min = 8;

class RuleMaker {
 public:
  RuleMaker(const Trace& trace, const GpuSpec* hardware, const RuleOptions& options)
      : trace_(trace), hardware_(hardware), options_(options) {}

  TraceRules make() {
    rules_.ops.resize(trace_.ops.size());
    link();
    unlink_what_ran_out_of_order();
    make_sequences();
    find_predecessors();
    estimate_arrival();
    find_waits();
    find_samples();
    estimate_gaps();
    return std::move(rules_);
  }

 private:
  const TraceOp& op(std::uint32_t i) const { return trace_.ops[i]; }
  RuledOp& ruled(std::uint32_t i) { return rules_.ops[i]; }
  const TraceCall& call_of(std::uint32_t i) const { return trace_.calls[rules_.ops[i].call]; }
  bool linked(std::uint32_t i) const { return rules_.ops[i].call != trace_none; }

  static bool can_launch(TraceCallKind kind) {
    switch (kind) {
      case TraceCallKind::KernelLaunch:
      case TraceCallKind::GraphLaunch:
      case TraceCallKind::MemcpyCall:
      case TraceCallKind::MemsetCall:
      case TraceCallKind::Other:
        return true;
      default:
        return false;
    }
  }

  bool before(std::uint32_t a, std::uint32_t b) const {
    return std::tuple(op(a).start, op(a).end, a) < std::tuple(op(b).start, op(b).end, b);
  }

  void link() {
    std::map<std::int64_t, std::uint32_t> call_of_correlation;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      const TraceCall& call = trace_.calls[i];
      if (!call.correlation || !can_launch(call.kind)) continue;
      const auto [known, added] = call_of_correlation.emplace(*call.correlation, i);
      if (!added && trace_.calls[known->second].start > call.start) known->second = i;
    }
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      if (!op(i).correlation) continue;
      const auto found = call_of_correlation.find(*op(i).correlation);
      // What ran before it was launched was launched by something else.
      if (found != call_of_correlation.end() && trace_.calls[found->second].start <= op(i).start)
        ruled(i).call = found->second;
    }
    collect_ops_of_calls();
  }

  void collect_ops_of_calls() {
    rules_.ops_of_call.assign(trace_.calls.size(), {});
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (linked(i)) rules_.ops_of_call[ruled(i).call].push_back(i);
    for (std::vector<std::uint32_t>& ops : rules_.ops_of_call)
      std::sort(ops.begin(), ops.end(), [&](std::uint32_t a, std::uint32_t b) { return before(a, b); });
  }

  bool is_graph(std::uint32_t call) const { return trace_.calls[call].kind == TraceCallKind::GraphLaunch; }

  /// The stream whose order an op takes part in: a CUDA graph is one entry of the stream of its first node.
  std::uint32_t stream_of(std::uint32_t i) const {
    if (linked(i) && is_graph(rules_.ops[i].call))
      return op(rules_.ops_of_call[rules_.ops[i].call].front()).stream;
    return op(i).stream;
  }

  void make_sequences() {
    rules_.sequences.assign(trace_.streams.size(), {});
    std::vector<std::uint32_t> order(trace_.ops.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return before(a, b); });
    for (const std::uint32_t i : order) {
      if (linked(i) && is_graph(ruled(i).call)) {
        const std::vector<std::uint32_t>& nodes = rules_.ops_of_call[ruled(i).call];
        if (nodes.front() != i) continue;
        for (const std::uint32_t node : nodes) append(stream_of(i), node);
      } else {
        append(op(i).stream, i);
      }
    }
  }
  void append(std::uint32_t stream, std::uint32_t i) {
    ruled(i).sequence = stream;
    ruled(i).position = static_cast<std::uint32_t>(rules_.sequences[stream].size());
    rules_.sequences[stream].push_back(i);
  }

  /// A stream runs ops as they were launched. Where the trace contradicts (wrong correlations, clocks that
  /// differ), the fewest possible launches are taken as unknown.
  void unlink_what_ran_out_of_order() {
    make_sequences();
    bool changed = false;
    for (const std::vector<std::uint32_t>& sequence : rules_.sequences) {
      // Longest run of non-decreasing call starts: tails[k] ends the best one of length k + 1.
      std::vector<std::uint32_t> linked_ops;
      for (const std::uint32_t i : sequence)
        if (linked(i)) linked_ops.push_back(i);
      std::vector<std::size_t> tails;
      std::vector<std::size_t> parent(linked_ops.size());
      for (std::size_t k = 0; k < linked_ops.size(); ++k) {
        const Picoseconds start = call_of(linked_ops[k]).start;
        const auto at = std::upper_bound(
            tails.begin(), tails.end(), start,
            [&](Picoseconds value, std::size_t t) { return value < call_of(linked_ops[t]).start; });
        parent[k] = at == tails.begin() ? k : *(at - 1);
        if (at == tails.end()) {
          tails.push_back(k);
        } else {
          *at = k;
        }
      }
      if (tails.size() == linked_ops.size()) continue;
      std::set<std::uint32_t> kept;
      for (std::size_t k = tails.back();; k = parent[k]) {
        kept.insert(linked_ops[k]);
        if (parent[k] == k) break;
      }
      for (const std::uint32_t i : linked_ops)
        if (kept.count(i) == 0) {
          // All ops of the launch: they cannot be told apart.
          for (const std::uint32_t other : std::vector<std::uint32_t>(rules_.ops_of_call[ruled(i).call])) {
            ruled(other).out_of_order = true;
            changed = true;
          }
        }
    }
    if (!changed) return;
    for (RuledOp& r : rules_.ops)
      if (r.out_of_order) r.call = trace_none;
    collect_ops_of_calls();
  }

  void find_predecessors() {
    for (const std::vector<std::uint32_t>& sequence : rules_.sequences) {
      std::uint32_t latest = trace_none;  // ended last so far
      bool any_linked = false;
      for (const std::uint32_t i : sequence) {
        RuledOp& r = ruled(i);
        if (linked(i)) {
          r.graph = is_graph(r.call);
          r.node = rules_.ops_of_call[r.call].front() != i;
          r.starts_in_call = op(i).start < call_of(i).end;
          r.first = !any_linked;
          any_linked = true;
        }
        r.previous = r.node && r.graph ? node_before(i) : latest;
        if (r.previous != trace_none) r.observed_gap = op(i).start - op(r.previous).end;
        if (latest == trace_none || op(i).end >= op(latest).end) latest = i;
      }
    }
  }

  /// Within a CUDA graph: the node before in the same stream; else, and where that ended long ago, the node
  /// of another stream that ended last before.
  std::uint32_t node_before(std::uint32_t i) const {
    const std::vector<std::uint32_t>& nodes = rules_.ops_of_call[rules_.ops[i].call];
    std::uint32_t same = trace_none;
    std::uint32_t other = trace_none;
    for (const std::uint32_t node : nodes) {
      if (node == i) break;
      if (op(node).stream == op(i).stream) {
        same = node;
      } else if (op(node).end <= op(i).start && (other == trace_none || op(node).end >= op(other).end)) {
        other = node;
      }
    }
    if (same == trace_none) return other;
    if (other == trace_none || op(other).end <= op(same).end) return same;
    return op(i).start - op(same).end > gap_sample_max ? other : same;
  }

  void estimate_arrival() {
    std::array<std::vector<Picoseconds>, 3> by_kind;
    std::vector<Picoseconds> samples;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      if (!linked(i) || rules_.ops_of_call[ruled(i).call].size() != 1 || ruled(i).graph) continue;
      const TraceCall& call = call_of(i);
      const std::uint32_t previous = ruled(i).previous;
      if (previous != trace_none && op(previous).end >= call.start - idle_margin) continue;
      const Picoseconds latency = op(i).start - call.end;
      if (latency < Picoseconds(0) || latency >= arrival_sample_max) continue;
      samples.push_back(latency);
      by_kind[static_cast<std::size_t>(op(i).kind)].push_back(latency);
    }
    Picoseconds any =
        hardware_ != nullptr ? hardware_->launch.arrival_after_call : default_arrival_after_call;
    if (samples.size() >= arrival_samples_min) {
      rules_.arrival_samples = static_cast<std::int64_t>(samples.size());
      any = median(std::move(samples));
    }
    for (std::size_t kind = 0; kind < by_kind.size(); ++kind)
      rules_.arrival_after_call[kind] =
          by_kind[kind].size() >= arrival_samples_min ? median(std::move(by_kind[kind])) : any;
  }

  Picoseconds arrival(std::uint32_t i) const {
    if (!linked(i) || rules_.ops[i].starts_in_call) return op(i).start;
    const TraceCall& call = call_of(i);
    if (rules_.ops[i].graph) return call.start + call.duration() / 2;
    return call.end + rules_.arrival_after_call[static_cast<std::size_t>(op(i).kind)];
  }

  /// An op that starts long after its launch arrived and its stream was free waited for something. If an op
  /// of another stream has just ended, it was that.
  void find_waits() {
    if (trace_.streams.size() < 2) return;
    std::vector<std::uint32_t> by_end(trace_.ops.size());
    std::iota(by_end.begin(), by_end.end(), 0U);
    std::sort(by_end.begin(), by_end.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(op(a).end, a) < std::tuple(op(b).end, b);
    });
    std::vector<Picoseconds> latencies;
    for (const std::vector<std::uint32_t>& sequence : rules_.sequences)
      for (const std::uint32_t i : sequence) {
        RuledOp& r = ruled(i);
        if (!linked(i) || r.node || r.first) continue;
        Picoseconds earliest = arrival(i);
        if (r.previous != trace_none) earliest = std::max(earliest, op(r.previous).end + wait_gap);
        if (op(i).start < earliest + wait_slack) continue;
        auto at = std::upper_bound(by_end.begin(), by_end.end(), op(i).start,
                                   [&](Picoseconds value, std::uint32_t b) { return value < op(b).end; });
        while (at != by_end.begin()) {
          const std::uint32_t b = *--at;
          if (op(b).end <= op(i).start - wait_window) break;
          if (ruled(b).sequence == r.sequence || !can_be_awaited(b)) continue;
          if (linked(b) && call_of(b).start >= call_of(i).start) continue;
          r.waits_for = b;
          ++rules_.waits;
          latencies.push_back(op(i).start - op(b).end);
          break;
        }
      }
    rules_.wait_latency = median(std::move(latencies));
  }

  /// An event recorded after a CUDA graph fires when all of it has ended.
  bool can_be_awaited(std::uint32_t i) const {
    if (!linked(i)) return true;
    for (const std::uint32_t other : rules_.ops_of_call[rules_.ops[i].call])
      if (op(other).end > op(i).end) return false;
    return true;
  }

  void find_samples() {
    std::set<std::tuple<std::uint32_t, std::uint32_t>> programmatic_kernels;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      RuledOp& r = ruled(i);
      if (!linked(i) || r.previous == trace_none || r.waits_for != trace_none) continue;
      const bool waiting = r.node && r.graph ? op(i).start > call_of(i).end
                                             : call_of(i).end + queued_margin < op(r.previous).end;
      r.queued = waiting && r.observed_gap <= gap_sample_max;
      if (r.queued && !r.graph && r.observed_gap < programmatic_gap_max &&
          op(i).kind == TraceOpKind::Kernel && is_programmatic_api(r.call))
        programmatic_kernels.emplace(op(i).name, trace_.calls[r.call].name);
    }
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (linked(i) && !ruled(i).graph && op(i).kind == TraceOpKind::Kernel)
        ruled(i).programmatic = programmatic_kernels.count({op(i).name, call_of(i).name}) != 0;
  }

  bool is_programmatic_api(std::uint32_t call) const {
    // Also with a suffix: cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC_v11060.
    return std::string_view(trace_.name_of(trace_.calls[call].name)).starts_with("cudaLaunchKernelExC");
  }

  // Gaps.

  using Key = std::array<std::int64_t, 6>;
  struct Sum {
    std::int64_t gap = 0;
    std::int64_t count = 0;
  };
  /// Everything that the gap of an op may depend on.
  struct Situation {
    std::int64_t before = 0;  ///< Signatures.
    std::int64_t after = 0;
    std::int64_t kinds = 0;
    std::int64_t state = 0;  ///< 0, 1, 2: few, some, many launches waiting; 4 more while another stream runs.
    bool node = false;
    bool short_before = false;
    std::int64_t mode = -1;  ///< 0 fast, 1 slow; -1: not seen, or not asked for.
  };
  enum Level : std::int64_t {
    PairMode,
    PairKernelsMode,
    ClassMode,
    Pair,
    PairQueued,
    PairKernels,
    Class,
    Kinds
  };
  static constexpr int level_count = 8;

  Key key(std::int64_t level, const Situation& s) const {
    switch (level) {
      case PairMode:
        return {level, s.before, s.after, s.state, s.node, s.mode};
      case PairKernelsMode:
        return {level, s.before, s.after, s.node, s.mode, 0};
      case ClassMode:
        return {level, s.kinds, s.short_before, s.state, s.node, s.mode};
      case Pair:
        return {level, s.before, s.after, s.state, s.node, 0};
      case PairQueued:
        return {level, s.before, s.after, s.state & 4, (s.state & 3) != 0, s.node};
      case PairKernels:
        return {level, s.before, s.after, s.node, 0, 0};
      case Class:
        return {level, s.kinds, s.short_before, s.state, s.node, 0};
      default:
        return {level, s.kinds, s.node, 0, 0, 0};
    }
  }
  static std::int64_t samples_min(std::int64_t level) {
    switch (level) {
      case ClassMode:
        return 2;
      case Class:
      case Kinds:
        return class_samples_min;
      default:
        return 1;
    }
  }

  std::int64_t signature(std::uint32_t i) {
    const TraceOp& o = op(i);
    const std::int64_t bytes = o.kind == TraceOpKind::Kernel ? 0 : o.bytes;
    const auto added = signatures_.emplace(std::tuple(o.kind, o.name, o.grid, o.block, bytes),
                                           static_cast<std::int64_t>(signatures_.size()));
    return added.first->second;
  }

  std::vector<Situation> situations() {
    std::vector<Situation> result(trace_.ops.size());
    // Intervals in which each stream runs, by start.
    for (std::uint32_t stream = 0; stream < rules_.sequences.size(); ++stream) {
      const std::vector<std::uint32_t>& sequence = rules_.sequences[stream];
      std::vector<Picoseconds> call_ends;
      call_ends.reserve(sequence.size());
      for (const std::uint32_t i : sequence) call_ends.push_back(linked(i) ? call_of(i).end : op(i).start);
      std::sort(call_ends.begin(), call_ends.end());
      for (const std::uint32_t i : sequence) {
        const RuledOp& r = ruled(i);
        if (r.previous == trace_none) continue;
        Situation& s = result[i];
        const Picoseconds end = op(r.previous).end;
        const std::int64_t called =
            std::upper_bound(call_ends.begin(), call_ends.end(), end) - call_ends.begin();
        const std::int64_t depth = called - static_cast<std::int64_t>(r.position);
        s.before = signature(r.previous);
        s.after = signature(i);
        s.kinds = 3 * static_cast<std::int64_t>(op(r.previous).kind) + static_cast<std::int64_t>(op(i).kind);
        s.node = r.node && r.graph;
        s.short_before = op(r.previous).duration() < short_kernel_limit;
        if (!s.node)
          s.state = (depth >= depth_some) + (depth >= depth_many) + (another_runs(stream, end) ? 4 : 0);
        if (options_.gap_modes && r.queued && !s.node)
          s.mode = r.observed_gap > mode_limit(op(r.previous).kind, op(i).kind) ? 1 : 0;
      }
    }
    return result;
  }

  bool another_runs(std::uint32_t stream, Picoseconds time) const {
    for (std::uint32_t other = 0; other < rules_.sequences.size(); ++other) {
      if (other == stream) continue;
      const std::vector<std::uint32_t>& sequence = rules_.sequences[other];
      const auto after =
          std::upper_bound(sequence.begin(), sequence.end(), time,
                           [&](Picoseconds value, std::uint32_t i) { return value < op(i).start; });
      if (after != sequence.begin() && op(*(after - 1)).end > time) return true;
    }
    return false;
  }

  /// Gaps come in two lengths (H200: about 1.15 and 2.1 us between kernels): what lies between them.
  static Picoseconds mode_limit(TraceOpKind before, TraceOpKind after) {
    if (after == TraceOpKind::Memset && before == TraceOpKind::Kernel) return us(1.15);
    if (before == TraceOpKind::Memset && after == TraceOpKind::Kernel) return us(2.0);
    return us(1.65);
  }

  void estimate_gaps() {
    const std::vector<Situation> all = situations();
    std::map<Key, Sum> sums;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      if (!ruled(i).queued) continue;
      for (std::int64_t level = 0; level < level_count; ++level) {
        Sum& sum = sums[key(level, all[i])];
        sum.gap += ruled(i).observed_gap.count();
        ++sum.count;
      }
    }
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      RuledOp& r = ruled(i);
      if (!linked(i) || r.previous == trace_none) continue;
      for (std::int64_t level = all[i].mode < 0 ? Pair : PairMode; level < level_count; ++level) {
        const auto found = sums.find(key(level, all[i]));
        if (found == sums.end()) continue;
        Sum others = found->second;
        if (r.queued) {
          others.gap -= r.observed_gap.count();
          --others.count;
        }
        if (others.count < samples_min(level)) continue;
        r.gap =
            Picoseconds(std::llround(static_cast<double>(others.gap) / static_cast<double>(others.count)));
        r.source =
            level == Class || level == Kinds || level == ClassMode ? GapSource::Class : GapSource::Pair;
        break;
      }
      if (r.source != GapSource::None) continue;
      r.source = GapSource::Hardware;
      if (hardware_ == nullptr) continue;
      const GapTable& table = r.node && r.graph ? hardware_->launch.graph_gap : hardware_->launch.gap;
      const bool starts_graph = r.graph && !r.node;
      const GapClass before = ruled(r.previous).graph && !(r.node && r.graph)
                                  ? GapClass::CudaGraph
                                  : gap_class_of(trace_, op(r.previous), false);
      r.gap =
          table.at(before, starts_graph ? GapClass::CudaGraph : gap_class_of(trace_, op(i), r.programmatic));
    }
  }

  const Trace& trace_;
  const GpuSpec* hardware_;
  const RuleOptions& options_;
  TraceRules rules_;
  std::map<std::tuple<TraceOpKind, std::uint32_t, std::array<std::int64_t, 3>, std::array<std::int64_t, 3>,
                      std::int64_t>,
           std::int64_t>
      signatures_;
};

}  // namespace

TraceRules derive_rules(const Trace& trace, const GpuSpec* hardware, const RuleOptions& options) {
  return RuleMaker(trace, hardware, options).make();
}

GapClass gap_class_of(const Trace& trace, const TraceOp& op, bool programmatic) {
  switch (op.kind) {
    case TraceOpKind::Kernel:
      return gap_class(LaunchedOp::Kernel, op.duration(), programmatic);
    case TraceOpKind::Memset:
      return gap_class(LaunchedOp::Memset, op.duration());
    case TraceOpKind::Memcpy:
      break;
  }
  const std::string& name = trace.name_of(op.name);
  const bool on_device =
      name.find("DtoD") != std::string::npos || name.find("Device -> Device") != std::string::npos;
  return gap_class(on_device ? LaunchedOp::DeviceCopy : LaunchedOp::HostCopy, op.duration());
}

Picoseconds median(std::vector<Picoseconds> values) {
  if (values.empty()) return Picoseconds(0);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace gpusim
