// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/trace/kernel_names.hpp"
#include "sim/trace_use/align.hpp"

namespace gpusim {
namespace {

using Span = std::pair<Picoseconds, Picoseconds>;

std::string group_of(const Trace& trace, const TraceOp& op) {
  if (op.kind == TraceOpKind::Memcpy) return "memcpy";
  if (op.kind == TraceOpKind::Memset) return "memset";
  return std::string(kernel_group_name(kernel_group(trace.name_of(op.name))));
}

/// A trace cut into steps, as the device saw them.
class Side {
 public:
  explicit Side(const Trace& t) : trace(t), rules_(derive_rules(t, nullptr)) {
    if (t.ops.empty())
      throw ConfigError(Diagnostic{.where = gpusim::whole(t.file),
                                   .path = "",
                                   .what = "the trace has no GPU op: there is nothing to compare",
                                   .hint = "record it with ProfilerActivity.CUDA"});
    for (const TraceStep& step : t.steps) steps.push_back(step.start);
    std::sort(steps.begin(), steps.end());
    order.resize(t.ops.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
      return std::tuple(t.ops[x].start, t.ops[x].end, x) < std::tuple(t.ops[y].start, t.ops[y].end, y);
    });
    find_steps();
  }

  /// The step of median period: of those that another step follows, where there are such.
  std::size_t median_step() const {
    const std::size_t whole = std::max<std::size_t>(1, first_of_step.size() - 1);
    std::vector<std::size_t> candidates(whole);
    std::iota(candidates.begin(), candidates.end(), std::size_t{0});
    std::sort(candidates.begin(), candidates.end(), [&](std::size_t x, std::size_t y) {
      const auto period = [&](std::size_t s) { return bounds(s).second - bounds(s).first; };
      return std::pair(period(x), x) < std::pair(period(y), y);
    });
    return candidates[candidates.size() / 2];
  }

  /// From a step's first op to the next step's, or to the end.
  Span bounds(std::size_t s) const {
    const Picoseconds from = first_of_step[s];
    return {from, s + 1 < first_of_step.size() ? first_of_step[s + 1] : last_end_};
  }
  Span whole() const { return {trace.ops[order.front()].start, last_end_}; }

  /// Fills wall, sum, overlap and idle of what is between two moments; `ops` are those that start there.
  void account(const Span& span, DiffSide& into) const {
    into.wall = span.second - span.first;
    Picoseconds busy_until = span.first;
    Picoseconds busy{0};
    for (const std::uint32_t i : order) {
      const TraceOp& op = trace.ops[i];
      if (op.start < span.first) {
        // Reaches in from before: covers time here, and is in no row.
        const Picoseconds reach = std::min(op.end, span.second) - busy_until;
        if (reach > Picoseconds(0)) {
          busy += reach;
          busy_until += reach;
        }
        continue;
      }
      if (op.start >= span.second) {
        if (busy_until < span.second) idle(busy_until, span.second, i, into);
        busy_until = std::max(busy_until, span.second);
        break;
      }
      if (op.start > busy_until) {
        idle(busy_until, op.start, i, into);
        busy_until = op.start;
      }
      const Picoseconds end = std::min(op.end, span.second);
      if (end > busy_until) {
        busy += end - busy_until;
        busy_until = end;
      }
      into.sum += op.duration();
    }
    if (busy_until < span.second)
      into.idle[static_cast<std::size_t>(TraceIdle::Unknown)] += span.second - busy_until;
    into.overlap = into.sum - busy;
  }

  bool within(std::uint32_t i, const Span& span) const {
    return trace.ops[i].start >= span.first && trace.ops[i].start < span.second;
  }

  /// The framework's op behind a GPU op: that of the host at top level ("mul" of aten::mul), in a simulated
  /// trace what stands before the kernel ("mul: elementwise"). Empty where unknown.
  std::string op_behind(std::uint32_t i) const {
    const std::string& kernel = trace.name_of(trace.ops[i].name);
    if (const std::size_t colon = kernel.find(": "); colon != std::string::npos)
      return kernel.substr(0, colon);
    const std::uint32_t c = rules_.ops[i].call;
    if (c == trace_none) return {};
    const auto thread = top_level_.find(trace.calls[c].thread);
    if (thread == top_level_.end()) return {};
    const auto after = std::upper_bound(
        thread->second.begin(), thread->second.end(), trace.calls[c].start,
        [&](Picoseconds value, std::uint32_t span) { return value < trace.cpu_ops[span].start; });
    if (after == thread->second.begin()) return {};
    const TraceSpan& span = trace.cpu_ops[*(after - 1)];
    if (span.end < trace.calls[c].start) return {};
    const std::string& name = trace.name_of(span.name);
    return name.starts_with("aten::") ? name.substr(6) : name;
  }

  const Trace& trace;
  std::vector<Picoseconds> steps;
  std::vector<std::uint32_t> order;        ///< Ops by start.
  std::vector<Picoseconds> first_of_step;  ///< Start of the first op of each step that has one.

 private:
  std::size_t marked_step(std::uint32_t i) const {
    const std::uint32_t call = rules_.ops[i].call;
    const Picoseconds at = call == trace_none ? trace.ops[i].start : trace.calls[call].start;
    const auto step = std::upper_bound(steps.begin(), steps.end(), at) - steps.begin();
    return step == 0 ? 0 : static_cast<std::size_t>(step - 1);
  }

  void find_steps() {
    for (std::uint32_t k = 0; k < trace.cpu_ops.size(); ++k)
      if (trace.cpu_ops[k].depth == 0) top_level_[trace.cpu_ops[k].thread].push_back(k);
    for (auto& [thread, spans] : top_level_)
      std::sort(spans.begin(), spans.end(), [&](std::uint32_t x, std::uint32_t y) {
        return std::pair(trace.cpu_ops[x].start, x) < std::pair(trace.cpu_ops[y].start, y);
      });
    std::size_t current = 0;
    for (const std::uint32_t i : order) {
      last_end_ = std::max(last_end_, trace.ops[i].end);
      const std::size_t step = marked_step(i);
      if (first_of_step.empty() || (step > current && trace.ops[i].start > first_of_step.back()))
        first_of_step.push_back(trace.ops[i].start);
      current = std::max(current, step);
    }
    for (const TraceCall& call : trace.calls)
      if (is_synchronization(call.kind)) syncs_.emplace_back(call.start, call.end);
    std::sort(syncs_.begin(), syncs_.end());
    Picoseconds reach = Picoseconds::min();  // One after the other: overlaps of threads count once.
    std::vector<Span> apart;
    for (const Span& sync : syncs_) {
      const Picoseconds from = std::max(sync.first, reach);
      if (sync.second > from) apart.emplace_back(from, sync.second);
      reach = std::max(reach, sync.second);
    }
    syncs_ = std::move(apart);
  }

  Picoseconds in_syncs(Picoseconds from, Picoseconds to) const {
    Picoseconds covered{0};
    auto at = std::lower_bound(syncs_.begin(), syncs_.end(), from,
                               [](const Span& sync, Picoseconds value) { return sync.second <= value; });
    for (; at != syncs_.end() && at->first < to; ++at)
      covered += std::min(to, at->second) - std::max(from, at->first);
    return covered;
  }

  void idle(Picoseconds from, Picoseconds to, std::uint32_t before, DiffSide& into) const {
    const auto add = [&](TraceIdle cause, Picoseconds time) {
      into.idle[static_cast<std::size_t>(cause)] += time;
    };
    const RuledOp& r = rules_.ops[before];
    if (r.call == trace_none) return add(TraceIdle::Unknown, to - from);
    if (r.waits_for != trace_none) return add(TraceIdle::Event, to - from);
    const Picoseconds returned = trace.calls[r.call].end;
    const Picoseconds called = r.node && r.graph ? from : std::clamp(returned, from, to);
    const Picoseconds blocked = in_syncs(from, called);
    add(TraceIdle::Synchronization, blocked);
    add(TraceIdle::Dispatch, called - from - blocked);
    const Picoseconds arrival =
        returned + rules_.arrival_after_call[static_cast<std::size_t>(trace.ops[before].kind)];
    const bool waited =
        (r.node && r.graph) || (r.previous != trace_none && arrival <= trace.ops[r.previous].end);
    add(waited ? TraceIdle::Gap : TraceIdle::LaunchLatency, to - called);
  }

  TraceRules rules_;
  std::vector<Span> syncs_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> top_level_;  ///< By thread: cpu_ops by start.
  Picoseconds last_end_{0};
};

class Differ {
 public:
  Differ(const Trace& a, const Trace& b, const DiffOptions& options) : a_(a), b_(b), options_(options) {}

  TraceDiff run() {
    result_.a.file = a_.trace.file;
    result_.b.file = b_.trace.file;
    result_.a.steps = static_cast<std::int64_t>(a_.trace.steps.size());
    result_.b.steps = static_cast<std::int64_t>(b_.trace.steps.size());
    match_streams();
    const bool one = options_.one_step.value_or(a_.first_of_step.size() != b_.first_of_step.size());
    if (one) {
      const std::size_t step_a = a_.median_step();
      const std::size_t step_b = b_.median_step();
      result_.a.step = static_cast<std::int64_t>(step_a);
      result_.b.step = static_cast<std::int64_t>(step_b);
      a_.account(a_.bounds(step_a), result_.a);
      b_.account(b_.bounds(step_b), result_.b);
      compare(a_.bounds(step_a), b_.bounds(step_b));
    } else {
      a_.account(a_.whole(), result_.a);
      b_.account(b_.whole(), result_.b);
      const std::size_t steps = std::min(a_.first_of_step.size(), b_.first_of_step.size());
      for (std::size_t s = 0; s < steps; ++s) {
        Span x = a_.bounds(s);
        Span y = b_.bounds(s);
        // The last step takes what is left; ops that start as the last one ends are its too.
        if (s + 1 == steps) x.second = y.second = Picoseconds::max();
        compare(x, y);
      }
    }
    for (auto& [key, row] : rows_) result_.rows.push_back(std::move(row));
    std::sort(result_.rows.begin(), result_.rows.end(), [](const DiffRow& x, const DiffRow& y) {
      const auto size = [](const DiffRow& row) {
        return row.difference() < Picoseconds(0) ? row.difference() : -row.difference();
      };
      return std::tuple(size(x), x.change, x.name_a, x.name_b) <
             std::tuple(size(y), y.change, y.name_a, y.name_b);
    });
    return std::move(result_);
  }

 private:
  /// stream_of_b_[i] and stream_of_a_[i] get a common number for streams that correspond.
  void match_streams() {
    const auto ranked = [](const Trace& trace) {
      std::vector<Picoseconds> time(trace.streams.size(), Picoseconds(0));
      for (const TraceOp& op : trace.ops) time[op.stream] += op.duration();
      std::vector<std::uint32_t> streams(trace.streams.size());
      std::iota(streams.begin(), streams.end(), 0U);
      std::sort(streams.begin(), streams.end(), [&](std::uint32_t x, std::uint32_t y) {
        return std::pair(-time[x], x) < std::pair(-time[y], y);
      });
      return streams;
    };
    std::vector<std::uint32_t> left_a = ranked(a_.trace);
    std::vector<std::uint32_t> left_b = ranked(b_.trace);
    stream_of_a_.assign(a_.trace.streams.size(), 0);
    stream_of_b_.assign(b_.trace.streams.size(), 0);
    std::uint32_t next = 0;
    for (auto at = left_a.begin(); at != left_a.end();) {
      const TraceStream& stream = a_.trace.streams[*at];
      const auto same = std::find_if(left_b.begin(), left_b.end(), [&](std::uint32_t other) {
        return b_.trace.streams[other].name == stream.name &&
               b_.trace.streams[other].device_index == stream.device_index;
      });
      if (same == left_b.end()) {
        ++at;
        continue;
      }
      stream_of_a_[*at] = stream_of_b_[*same] = next++;
      left_b.erase(same);
      at = left_a.erase(at);
    }
    for (std::size_t k = 0; k < std::max(left_a.size(), left_b.size()); ++k, ++next) {
      if (k < left_a.size()) stream_of_a_[left_a[k]] = next;
      if (k < left_b.size()) stream_of_b_[left_b[k]] = next;
    }
    streams_ = next;
  }

  void compare(const Span& x, const Span& y) {
    std::vector<std::vector<std::uint32_t>> ops_a(streams_);
    std::vector<std::vector<std::uint32_t>> ops_b(streams_);
    for (const std::uint32_t i : a_.order)
      if (a_.within(i, x)) ops_a[stream_of_a_[a_.trace.ops[i].stream]].push_back(i);
    for (const std::uint32_t i : b_.order)
      if (b_.within(i, y)) ops_b[stream_of_b_[b_.trace.ops[i].stream]].push_back(i);
    for (std::size_t s = 0; s < streams_; ++s) compare(ops_a[s], ops_b[s]);
  }

  using Ops = std::vector<std::uint32_t>;
  /// What ops are taken for by one way of aligning; empty: like no other.
  using KeyOf = std::function<std::string(const Side& side, std::uint32_t op)>;

  /// Aligns by `key`; pairs become rows, and what lies between two pairs goes to `rest`.
  void align_by(const Ops& ops_a, const Ops& ops_b, const KeyOf& key, DiffRow::Change change,
                const std::function<void(const Ops&, const Ops&)>& rest) {
    std::map<std::string, std::uint32_t> known;
    std::uint32_t alone = trace_none;
    const auto tokens = [&](const Side& side, const Ops& ops) {
      std::vector<std::uint32_t> result;
      for (const std::uint32_t i : ops) {
        const std::string text = key(side, i);
        result.push_back(text.empty()
                             ? alone--
                             : known.emplace(text, static_cast<std::uint32_t>(known.size())).first->second);
      }
      return result;
    };
    const auto pairs = align(tokens(a_, ops_a), tokens(b_, ops_b));
    const auto part = [](const Ops& ops, std::size_t from, std::size_t to) {
      return Ops(ops.begin() + static_cast<std::ptrdiff_t>(from),
                 ops.begin() + static_cast<std::ptrdiff_t>(to));
    };
    std::size_t i = 0;
    std::size_t j = 0;
    for (const auto& [x, y] : pairs) {
      if (x > i || y > j) rest(part(ops_a, i, x), part(ops_b, j, y));
      add(change, ops_a[x], ops_b[y]);
      i = x + 1;
      j = y + 1;
    }
    if (i < ops_a.size() || j < ops_b.size())
      rest(part(ops_a, i, ops_a.size()), part(ops_b, j, ops_b.size()));
  }

  void compare(const Ops& ops_a, const Ops& ops_b) {
    const KeyOf name = [](const Side& side, std::uint32_t i) {
      return side.trace.name_of(side.trace.ops[i].name);
    };
    const KeyOf op = [](const Side& side, std::uint32_t i) { return side.op_behind(i); };
    align_by(ops_a, ops_b, name, DiffRow::Change::Matched, [&](const Ops& left_a, const Ops& left_b) {
      align_by(left_a, left_b, op, DiffRow::Change::Renamed,
               [&](const Ops& x, const Ops& y) { align_by_kind(x, y); });
    });
  }

  void align_by_kind(const Ops& ops_a, const Ops& ops_b) {
    const std::string other(kernel_group_name(KernelGroup::Other));
    const auto count = [&](const Side& side, const Ops& ops) {
      return std::count_if(ops.begin(), ops.end(),
                           [&](std::uint32_t i) { return group_of(side.trace, side.trace.ops[i]) == other; });
    };
    const bool pair_others = count(a_, ops_a) == count(b_, ops_b);
    const KeyOf kind = [&](const Side& side, std::uint32_t i) {
      std::string group = group_of(side.trace, side.trace.ops[i]);
      return group == other && !pair_others ? std::string() : group;
    };
    align_by(ops_a, ops_b, kind, DiffRow::Change::Renamed, [&](const Ops& left_a, const Ops& left_b) {
      for (const std::uint32_t i : left_a) add(DiffRow::Change::Vanished, i, std::nullopt);
      for (const std::uint32_t i : left_b) add(DiffRow::Change::Appeared, std::nullopt, i);
    });
  }

  void add(DiffRow::Change change, std::optional<std::uint32_t> in_a, std::optional<std::uint32_t> in_b) {
    const std::string name_a = in_a ? a_.trace.name_of(a_.trace.ops[*in_a].name) : std::string();
    const std::string name_b = in_b ? b_.trace.name_of(b_.trace.ops[*in_b].name) : std::string();
    if (change == DiffRow::Change::Renamed && name_a == name_b) change = DiffRow::Change::Matched;
    DiffRow& row = rows_[{change, name_a, name_b}];
    row.change = change;
    row.name_a = name_a;
    row.name_b = name_b;
    if (in_a) {
      row.group = group_of(a_.trace, a_.trace.ops[*in_a]);
      ++row.count_a;
      row.time_a += a_.trace.ops[*in_a].duration();
    }
    if (in_b) {
      if (!in_a) row.group = group_of(b_.trace, b_.trace.ops[*in_b]);
      ++row.count_b;
      row.time_b += b_.trace.ops[*in_b].duration();
    }
  }

  const Side a_;
  const Side b_;
  const DiffOptions& options_;
  TraceDiff result_;
  std::vector<std::uint32_t> stream_of_a_;
  std::vector<std::uint32_t> stream_of_b_;
  std::uint32_t streams_ = 0;
  std::map<std::tuple<DiffRow::Change, std::string, std::string>, DiffRow> rows_;
};

}  // namespace

const char* name(TraceIdle cause) {
  switch (cause) {
    case TraceIdle::Dispatch:
      return "dispatch";
    case TraceIdle::Synchronization:
      return "synchronization";
    case TraceIdle::LaunchLatency:
      return "launch_latency";
    case TraceIdle::Gap:
      return "gap";
    case TraceIdle::Event:
      return "event";
    case TraceIdle::Unknown:
      return "unknown";
  }
  return "unknown";
}

TraceDiff diff_traces(const Trace& a, const Trace& b, const DiffOptions& options) {
  return Differ(a, b, options).run();
}

}  // namespace gpusim
