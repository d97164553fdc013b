// SPDX-License-Identifier: Apache-2.0
#include "sim/program/replay_host.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace gpusim {
namespace {

class HostViewer {
 public:
  HostViewer(const Trace& trace, const TraceRules& rules) : trace_(trace), rules_(rules) {}

  HostView view() {
    index_syncs();
    index_completions();
    collect();
    resolve_nesting();
    choose_threads();
    bound_window();
    return std::move(view_);
  }

 private:
  const TraceOp& op(std::uint32_t i) const { return trace_.ops[i]; }
  const TraceCall& call(std::uint32_t i) const { return trace_.calls[i]; }

  void index_syncs() {
    for (std::uint32_t i = 0; i < trace_.syncs.size(); ++i)
      if (trace_.syncs[i].correlation) sync_of_correlation_.emplace(*trace_.syncs[i].correlation, i);
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i)
      if (call(i).kind == TraceCallKind::EventRecord && call(i).correlation)
        record_of_correlation_.emplace(*call(i).correlation, i);
  }
  const TraceSync* sync_of(std::uint32_t i) const {
    if (!call(i).correlation) return nullptr;
    const auto found = sync_of_correlation_.find(*call(i).correlation);
    return found == sync_of_correlation_.end() ? nullptr : &trace_.syncs[found->second];
  }

  /// Launch times of a stream's ops in order, and the latest end of all launched until then.
  struct Completions {
    std::vector<Picoseconds> launched;
    std::vector<Picoseconds> ended;
    Picoseconds of_all_before(Picoseconds time) const {
      const auto at = std::lower_bound(launched.begin(), launched.end(), time) - launched.begin();
      return at == 0 ? Picoseconds(0) : ended[static_cast<std::size_t>(at) - 1];
    }
  };

  void index_completions() {
    completions_.resize(trace_.streams.size());
    for (std::size_t stream = 0; stream < completions_.size(); ++stream) {
      std::vector<std::pair<Picoseconds, Picoseconds>> ops;
      for (const std::uint32_t i : rules_.sequences[stream]) {
        const std::uint32_t launch = rules_.ops[i].call;
        ops.emplace_back(launch == trace_none ? op(i).start : call(launch).start, op(i).end);
      }
      std::sort(ops.begin(), ops.end());
      Picoseconds latest{0};
      for (const auto& [launched, ended] : ops) {
        latest = std::max(latest, ended);
        completions_[stream].launched.push_back(launched);
        completions_[stream].ended.push_back(latest);
      }
    }
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (rules_.ops[i].call != trace_none) linked_by_end_.push_back(i);
    std::sort(linked_by_end_.begin(), linked_by_end_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(op(a).end, a) < std::tuple(op(b).end, b);
    });
  }

  /// The linked op that ended last within the call and was launched before it: what a synchronisation waited
  /// for of which the trace does not say so.
  std::uint32_t ended_last_within(const TraceCall& c) const {
    auto at = std::upper_bound(linked_by_end_.begin(), linked_by_end_.end(), c.end,
                               [&](Picoseconds value, std::uint32_t i) { return value < op(i).end; });
    while (at != linked_by_end_.begin()) {
      const std::uint32_t i = *--at;
      if (op(i).end <= c.start) break;
      if (call(rules_.ops[i].call).start < c.start) return i;
    }
    return trace_none;
  }

  void collect() {
    std::vector<std::uint32_t> order(trace_.calls.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(call(a).start, -call(a).end, a) < std::tuple(call(b).start, -call(b).end, b);
    });
    collect_events(order);
    std::map<std::uint32_t, std::uint32_t> last_stream;  // by thread: that of its last launch
    for (const std::uint32_t i : order) {
      const TraceCall& c = call(i);
      HostCall h;
      h.call = i;
      h.thread = c.thread;
      h.start = c.start;
      h.end = c.end;
      if (!rules_.ops_of_call[i].empty()) {
        last_stream[c.thread] = rules_.ops[rules_.ops_of_call[i].front()].sequence;
        view_.calls.push_back(h);
        continue;
      }
      const auto event = event_of_record_.find(i);
      if (event != event_of_record_.end()) {
        h.action = HostAction::Record;
        h.event = event->second.event;
        h.stream = event->second.stream;
        view_.calls.push_back(h);
        continue;
      }
      const auto record = record_waited_for_.find(i);
      switch (c.kind) {
        case TraceCallKind::StreamWaitEvent:
          if (record == record_waited_for_.end()) continue;
          h.action = HostAction::StreamWait;
          h.event = event_of_record_.at(record->second).event;
          h.stream = sync_of(i)->stream;
          ++view_.recorded_waits;
          break;
        case TraceCallKind::SynchronizeDevice:
          h.device = true;
          h.device_index =
              last_stream.count(c.thread) != 0 ? trace_.streams[last_stream.at(c.thread)].device_index : 0;
          for (std::size_t stream = 0; stream < completions_.size(); ++stream)
            if (trace_.streams[stream].device_index == h.device_index)
              h.completion = std::max(h.completion, completions_[stream].of_all_before(c.start));
          break;
        case TraceCallKind::SynchronizeStream:
          h.stream = stream_waited_for(i, last_stream);
          if (h.stream == trace_none) continue;
          h.completion = completions_[h.stream].of_all_before(c.start);
          break;
        case TraceCallKind::SynchronizeEvent:
          if (record != record_waited_for_.end()) {
            const Event& e = event_of_record_.at(record->second);
            h.event = e.event;
            h.completion = completions_[e.stream].of_all_before(call(record->second).start);
          } else {
            h.waits_for = ended_last_within(c);
            if (h.waits_for == trace_none) continue;
            h.completion = op(h.waits_for).end;
          }
          break;
        default:
          continue;
      }
      if (c.kind != TraceCallKind::StreamWaitEvent) {
        h.action = HostAction::Synchronize;
        h.blocked = h.completion > c.start;
        if (h.blocked && h.completion > c.end) {
          ++view_.ignored_synchronizations;
          continue;
        }
      }
      view_.calls.push_back(h);
    }
  }

  struct Event {
    std::uint32_t event = 0;
    std::uint32_t stream = 0;
  };

  /// Waits that name the recording call and the streams of both.
  void collect_events(const std::vector<std::uint32_t>& order) {
    std::map<std::uint32_t, std::uint32_t> stream_of_record;
    for (const std::uint32_t i : order) {
      if (call(i).kind != TraceCallKind::StreamWaitEvent && call(i).kind != TraceCallKind::SynchronizeEvent)
        continue;
      const TraceSync* sync = sync_of(i);
      if (sync == nullptr || !sync->record_correlation || sync->wait_on_stream == trace_none) continue;
      if (call(i).kind == TraceCallKind::StreamWaitEvent && sync->stream == trace_none) continue;
      const auto record = record_of_correlation_.find(*sync->record_correlation);
      // Only what was recorded before: a wait can then never be part of a circle.
      if (record == record_of_correlation_.end() || call(record->second).end > call(i).start) continue;
      if (!stream_of_record.emplace(record->second, sync->wait_on_stream).second &&
          stream_of_record.at(record->second) != sync->wait_on_stream)
        continue;
      record_waited_for_.emplace(i, record->second);
    }
    for (const auto& [record, stream] : stream_of_record)
      event_of_record_.emplace(record, Event{view_.recorded_events++, stream});
  }

  std::uint32_t stream_waited_for(std::uint32_t i,
                                  const std::map<std::uint32_t, std::uint32_t>& last_stream) const {
    const TraceSync* sync = sync_of(i);
    if (sync != nullptr && sync->kind == TraceSyncKind::Stream && sync->stream != trace_none)
      return sync->stream;
    const std::uint32_t ended = ended_last_within(call(i));
    if (ended != trace_none) return rules_.ops[ended].sequence;
    const auto last = last_stream.find(call(i).thread);
    return last == last_stream.end() ? trace_none : last->second;
  }

  /// A call of the driver within one of the runtime, both with a meaning: the outer one gives way.
  void resolve_nesting() {
    std::map<std::uint32_t, std::size_t> last_of_thread;
    std::vector<bool> dropped(view_.calls.size(), false);
    for (std::size_t i = 0; i < view_.calls.size(); ++i) {
      const auto [last, added] = last_of_thread.emplace(view_.calls[i].thread, i);
      if (added) continue;
      HostCall& outer = view_.calls[last->second];
      if (outer.end > view_.calls[i].start) {
        outer.end = view_.calls[i].start;
        if (outer.action == HostAction::Synchronize) dropped[last->second] = true;
      }
      last->second = i;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < view_.calls.size(); ++i)
      if (!dropped[i]) view_.calls[kept++] = view_.calls[i];
    view_.calls.resize(kept);
  }

  void choose_threads() {
    struct Weight {
      std::int64_t steps = 0;
      std::int64_t launches = 0;
      std::int64_t calls = 0;
    };
    std::map<std::uint32_t, Weight> weights;
    for (const HostCall& h : view_.calls) {
      ++weights[h.thread].calls;
      if (h.action == HostAction::Launch) ++weights[h.thread].launches;
    }
    for (const TraceStep& step : trace_.steps) ++weights[step.thread].steps;
    if (weights.empty())  // Nothing touches the GPU: the thread with most to do.
      for (const TraceSpan& span : trace_.cpu_ops)
        if (span.depth == 0) ++weights[span.thread].calls;
    if (weights.empty())
      for (const TraceSpan& span : trace_.annotations) ++weights[span.thread].calls;
    if (weights.empty()) weights[0];
    std::vector<std::uint32_t> threads;
    for (const auto& [thread, weight] : weights) threads.push_back(thread);
    std::stable_sort(threads.begin(), threads.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Weight& x = weights.at(a);
      const Weight& y = weights.at(b);
      return std::tuple(-x.steps, -x.launches, -x.calls) < std::tuple(-y.steps, -y.launches, -y.calls);
    });
    for (const TraceStep& step : trace_.steps)
      if (step.thread == threads.front()) view_.steps.push_back(step.start);
    std::sort(view_.steps.begin(), view_.steps.end());

    // Greedy: a thread joins if none of its calls overlaps one of those that have joined.
    std::vector<const HostCall*> joined;
    for (const std::uint32_t thread : threads) {
      std::vector<const HostCall*> merged = joined;
      for (const HostCall& h : view_.calls)
        if (h.thread == thread) merged.push_back(&h);
      if (merged.size() == joined.size() && !view_.chained.empty()) continue;
      std::stable_sort(merged.begin(), merged.end(),
                       [](const HostCall* a, const HostCall* b) { return a->start < b->start; });
      bool overlaps = false;
      for (std::size_t i = 1; i < merged.size() && !overlaps; ++i)
        overlaps = merged[i - 1]->thread != merged[i]->thread && merged[i - 1]->end > merged[i]->start;
      if (overlaps) {
        view_.independent.push_back(thread);
      } else {
        view_.chained.push_back(thread);
        joined = std::move(merged);
      }
    }
  }

  /// From the first step, or call, to the last. What the profiler itself does before and after is left out.
  void bound_window() {
    std::optional<Picoseconds> start;
    Picoseconds end{0};
    const auto include = [&](Picoseconds from, Picoseconds to) {
      start = start ? std::min(*start, from) : from;
      end = std::max(end, to);
    };
    for (const TraceStep& step : trace_.steps)
      if (step.thread == view_.chained.front()) include(step.start, step.end);
    // Stopping the profiler synchronises once more.
    while (start && !view_.calls.empty() && view_.calls.back().action == HostAction::Synchronize &&
           !view_.calls.back().blocked && view_.calls.back().start >= end)
      view_.calls.pop_back();
    for (const HostCall& h : view_.calls) include(h.start, h.end);
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (rules_.ops[i].call == trace_none) include(op(i).start, op(i).start);
    if (!start) {
      for (const TraceSpan& span : trace_.cpu_ops)
        if (span.thread == view_.chained.front()) include(span.start, span.end);
      for (const TraceSpan& span : trace_.annotations)
        if (span.thread == view_.chained.front()) include(span.start, span.end);
    }
    view_.start = start.value_or(Picoseconds(0));
    view_.end = std::max(end, view_.start);
    leave_out_warm_up();
  }

  /// The first step under the profiler may take milliseconds to its first call that the others do not take:
  /// it waits for that no longer than they do.
  void leave_out_warm_up() {
    if (view_.steps.size() < 2 || view_.calls.empty() || view_.start != view_.steps.front()) return;
    std::vector<Picoseconds> heads;
    std::size_t next = 0;
    for (const Picoseconds step : view_.steps) {
      while (next < view_.calls.size() && view_.calls[next].start < step) ++next;
      if (next < view_.calls.size()) heads.push_back(view_.calls[next].start - step);
    }
    if (heads.size() < 2) return;
    const Picoseconds excess = heads.front() - *std::max_element(heads.begin() + 1, heads.end());
    if (excess <= Picoseconds(0)) return;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (rules_.ops[i].call == trace_none && op(i).start < view_.start + excess) return;
    view_.warm_up = excess;
    view_.start += excess;
  }

  const Trace& trace_;
  const TraceRules& rules_;
  HostView view_;
  std::map<std::int64_t, std::uint32_t> sync_of_correlation_;
  std::map<std::int64_t, std::uint32_t> record_of_correlation_;
  std::map<std::uint32_t, std::uint32_t> record_waited_for_;  ///< By waiting call.
  std::map<std::uint32_t, Event> event_of_record_;            ///< By recording call.
  std::vector<Completions> completions_;
  std::vector<std::uint32_t> linked_by_end_;
};

}  // namespace

HostView view_host(const Trace& trace, const TraceRules& rules) {
  return HostViewer(trace, rules).view();
}

}  // namespace gpusim
