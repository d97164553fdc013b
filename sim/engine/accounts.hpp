// SPDX-License-Identifier: Apache-2.0
// Where the time went: busy time, and a cause for every moment in which no GPU op ran.
//
// Ops are reported in order of their starts, host activity in the order in which it is known. An idle
// interval is explained once it is sure which op ended it: of several that start at the same instant, the one
// of the lowest stream, so that the explanation does not depend on the order in which an engine looks at
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/assertion.hpp"
#include "sim/engine/host_log.hpp"
#include "sim/engine/idle_interval.hpp"
#include "sim/engine/result.hpp"

namespace gpusim::engine {

/// What bound the start of an op: what idle time before it is explained with.
struct StartCause {
  enum class Kind : std::uint8_t {
    Gap,
    Launch,      ///< Its launch (or a wait before it) arrived just then.
    Event,       ///< An event it waited for.
    LateRecord,  ///< An event that fired when its record arrived: nothing else held it up.
  };
  Kind kind = Kind::Gap;
  std::uint16_t thread = 0;  ///< That launched, or recorded.
  Picoseconds fire{0};       ///< Of the event.
  Picoseconds call_end{0};   ///< Of the launch or the record.
};

class Accounts {
 public:
  explicit Accounts(std::size_t threads) : logs_(threads) {}

  /// Every piece of idle time is put into `intervals` as well, unless it is told by add().
  void keep_intervals(std::vector<IdleInterval>* intervals) { intervals_ = intervals; }

  /// `thread` did this from `start` to `end`, after everything reported of it before.
  void host(std::size_t thread, Picoseconds start, Picoseconds end, HostState state,
            std::uint16_t signaller = 0) {
    logs_[thread].add(start, end, state, needed_from(), signaller);
  }

  /// An op starts. Not before any op reported earlier.
  void started(std::uint32_t stream, Picoseconds at, const StartCause& cause) {
    if (open_) {
      if (at > open_at_) {
        explain();
      } else if (stream < open_stream_) {
        open_stream_ = stream;
        open_cause_ = cause;
      }
    }
    note_first(at);
    if (at <= busy_until_) return;
    if (running_ > 0) {
      totals.busy += at - busy_until_;
    } else {
      open_ = true;
      open_from_ = busy_until_;
      open_at_ = at;
      open_stream_ = stream;
      open_cause_ = cause;
    }
    busy_until_ = at;
  }

  /// The same where no other stream has ops, so that no other can start at the same instant; `cause()` gives
  /// the StartCause, if it matters.
  template <class Cause>
  void started_alone(Picoseconds at, const Cause& cause) {
    note_first(at);
    if (at <= busy_until_) return;
    explain(busy_until_, at, cause());
    busy_until_ = at;
  }

  /// An op that started ran, or will run, from `start` to `end`.
  void ran(Picoseconds start, Picoseconds end) {
    totals.op_sum += end - start;
    const Picoseconds from = std::max(start, busy_until_);
    if (end > from) {
      totals.busy += end - from;
      busy_until_ = end;
    }
  }

  /// The device is busy until `end`, by ops that are not reported one by one.
  void busy(Picoseconds end) {
    if (end <= busy_until_) return;
    totals.busy += end - busy_until_;
    busy_until_ = end;
  }

  /// For ops whose end is not known when they start: between these two the device is busy.
  void running() { ++running_; }
  void ended(Picoseconds start, Picoseconds end) {
    --running_;
    ran(start, end);
  }

  void count(OpKind kind) {
    switch (kind) {
      case OpKind::Kernel:
        ++totals.counts.kernels;
        break;
      case OpKind::Memcpy:
        ++totals.counts.memcpys;
        break;
      case OpKind::Memset:
        ++totals.counts.memsets;
        break;
    }
  }

  /// What a stretch of ops on one stream adds, for a loop that keeps its sums in registers.
  struct Additions {
    Picoseconds busy_until{0};
    Picoseconds busy{0};
    Picoseconds op_sum{0};
    Picoseconds launch_latency{0};
    Picoseconds gap{0};
    Picoseconds dispatch{0};
  };
  void add(const Additions& sums) {
    busy_until_ = sums.busy_until;
    totals.busy += sums.busy;
    totals.op_sum += sums.op_sum;
    add_idle(IdleCause::LaunchLatency, sums.launch_latency);
    add_idle(IdleCause::Gap, sums.gap);
    add_idle(IdleCause::Dispatch, sums.dispatch);
  }
  /// What `thread` did last.
  const HostSegment& latest(std::size_t thread) const { return logs_[thread].latest(); }
  /// Since when `thread` has worked without a break until `now`.
  Picoseconds working_since(std::size_t thread, Picoseconds now) const {
    const HostSegment& latest = logs_[thread].latest();
    return latest.state == HostState::Working && latest.end == now ? latest.start : now;
  }

  /// Brings the books up to `now`, as far as they can be.
  void settle(Picoseconds now) {
    if (open_ && now > open_at_) explain();
    if (running_ > 0 && now > busy_until_) {
      totals.busy += now - busy_until_;
      busy_until_ = now;
    }
  }

  /// No op will ever explain the time up to `now`: `thread` does.
  void explain_by_host(std::size_t thread, Picoseconds now) {
    if (open_) explain();
    if (now <= busy_until_) return;
    by_host(thread, busy_until_, now);
    busy_until_ = now;
  }

  /// Closes the books: `thread` is the last to end, at `host_end`.
  void finish(std::size_t thread, Picoseconds host_end, Run& run) {
    if (open_) explain();
    run.first_op_start = first_op_start_;
    run.last_op_end = any_op_ ? busy_until_ : Picoseconds(0);
    run.window = totals;
    run.window.wall = run.last_op_end - run.first_op_start;
    for (std::size_t i = 0; i < totals.idle.size(); ++i) run.window.idle[i] -= idle_before_first_op_[i];
    explain_by_host(thread, host_end);
    totals.wall = busy_until_;
    GPUSIM_ASSERT(totals.busy + totals.idle_total() == totals.wall);
    run.totals = totals;
  }

  /// The first op of all starts at `at`, if none has started before.
  void note_first(Picoseconds at) {
    if (any_op_) return;
    any_op_ = true;
    first_op_start_ = at;
  }
  bool any_op() const { return any_op_; }
  Picoseconds busy_until() const { return busy_until_; }

  /// What the open idle time will be explained with, for the state of the machine; see full_state.
  template <class Writer>
  void write_state(Picoseconds now, Writer& out) const {
    out.add(open_ ? 1 : 0);
    if (open_) {
      out.add_time(open_from_, Picoseconds::min());
      out.add_time(open_at_, Picoseconds::min());
      out.add(open_stream_);
      out.add(static_cast<std::int64_t>(open_cause_.kind));
      out.add(open_cause_.thread);
      out.add_time(open_cause_.fire, open_from_ - now);
      out.add_time(open_cause_.call_end, open_from_ - now);
    }
    const auto write = [&](const HostSegment& segment) {
      if (segment.end <= needed_from()) return;
      out.add_time(std::max(segment.start, needed_from()), Picoseconds::min());
      out.add_time(segment.end, Picoseconds::min());
      out.add(static_cast<std::int64_t>(segment.state));
      out.add(segment.signaller);
    };
    for (const HostLog& log : logs_) {
      for (std::size_t j = 0; j < log.older().size(); ++j) write(log.older()[j]);
      write(log.latest());
    }
  }

  Totals totals;

 private:
  /// Host activity before this can never be asked for again.
  Picoseconds needed_from() const { return open_ ? open_from_ : busy_until_; }
  void add_idle(IdleCause cause, Picoseconds amount) {
    totals.idle[static_cast<std::size_t>(cause)] += amount;
  }
  void idle(IdleCause cause, Picoseconds from, Picoseconds to) {
    add_idle(cause, to - from);
    if (intervals_ != nullptr && to > from) intervals_->push_back({from, to, cause});
  }

  void explain() {
    open_ = false;
    explain(open_from_, open_at_, open_cause_);
  }

  /// Explains the interval from `from` to `to`, walking back from what bound the op that ended it.
  void explain(Picoseconds from, Picoseconds to, const StartCause& cause) {
    switch (cause.kind) {
      case StartCause::Kind::Gap:
        // The previous op of the stream ended no later than the last one of all: all of it is gap.
        idle(IdleCause::Gap, from, to);
        break;
      case StartCause::Kind::Launch:
        by_launch(cause, from, to);
        break;
      case StartCause::Kind::Event:
        idle(IdleCause::Event, from, to);
        break;
      case StartCause::Kind::LateRecord: {
        const Picoseconds fired = std::max(from, cause.fire);
        idle(IdleCause::Event, fired, to);
        // Nothing ran before the event fired either: its record was late, and so was the host.
        by_launch(cause, from, fired);
        break;
      }
    }
    if (from == Picoseconds(0) && to == first_op_start_) idle_before_first_op_ = totals.idle;
  }

  void by_launch(const StartCause& cause, Picoseconds from, Picoseconds to) {
    const Picoseconds returned = std::clamp(cause.call_end, from, to);
    idle(IdleCause::LaunchLatency, returned, to);
    by_host(cause.thread, from, returned);
  }

  /// Walks back through what `thread` did from `to` to `from`.
  void by_host(std::size_t thread, Picoseconds from, Picoseconds to) {
    const HostSegment& latest = logs_[thread].latest();
    if (from >= latest.start && to <= latest.end && latest.state == HostState::Working) {
      idle(IdleCause::Dispatch, from, to);
      return;
    }
    walk_back(thread, from, to);
  }

  void walk_back(std::size_t thread, Picoseconds from, Picoseconds to) {
    const HostLog* log = &logs_[thread];
    std::size_t at = log->older().size() + 1;
    const auto segment_before = [&](std::size_t i) -> const HostSegment& {
      return i == log->older().size() + 1 ? log->latest() : log->older()[i - 1];
    };
    while (to > from) {
      while (at > 0 && segment_before(at).start >= to) --at;
      GPUSIM_ASSERT(at > 0 && segment_before(at).end >= to);
      const HostSegment& segment = segment_before(at);
      const Picoseconds since = std::max(from, segment.start);
      switch (segment.state) {
        case HostState::Working:
          idle(IdleCause::Dispatch, since, to);
          break;
        case HostState::Input:
          idle(IdleCause::Input, since, to);
          break;
        case HostState::Synchronizing:
          idle(IdleCause::Synchronization, since, to);
          break;
        // A full queue on an idle device: the head of that queue waits for an event.
        case HostState::QueueFull:
          idle(IdleCause::Event, since, to);
          break;
        case HostState::Awaiting:
          log = &logs_[segment.signaller];
          at = log->older().size() + 1;
          continue;
      }
      to = since;
    }
  }

  std::vector<HostLog> logs_;
  std::vector<IdleInterval>* intervals_ = nullptr;
  Picoseconds busy_until_{0};
  std::int64_t running_ = 0;
  // The idle interval that the latest start ended.
  bool open_ = false;
  Picoseconds open_from_{0};
  Picoseconds open_at_{0};
  std::uint32_t open_stream_ = 0;
  StartCause open_cause_;
  bool any_op_ = false;
  Picoseconds first_op_start_{0};
  std::array<Picoseconds, idle_cause_count> idle_before_first_op_{};
};

}  // namespace gpusim::engine
