// SPDX-License-Identifier: Apache-2.0
#include "tests/naive/naive_engine.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace gpusim::test {
namespace {

using namespace engine;
using Time = std::int64_t;
constexpr Time never = std::numeric_limits<Time>::max();
constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

/// What a thread did from one moment to the next.
struct Stretch {
  enum class Kind : std::uint8_t { Work, Input, Synchronization, Queue, Await, Ahead };
  Kind kind = Kind::Work;
  Time begin = 0;
  Time end = never;
  std::size_t by = nobody;  ///< Await: the thread that gave the signal.
};

/// One record of an event, from its call on.
struct Record {
  Time fired = never;
  std::size_t entry = nobody;  ///< Its entry, or that of the CUDA graph that it is part of.
  bool in_graph = false;
};

/// One thing in a stream: an op, a CUDA graph, a record or a wait.
struct Entry {
  const Instruction* instruction = nullptr;
  int stream = 0;
  std::size_t thread = 0;
  std::size_t call = 0;
  Time arrival = never;               ///< Not known while the queue is full.
  Time call_end = never;              ///< Of the host's own work in the call.
  bool place = false;                 ///< Holds a place in the launch queue.
  std::size_t record = nobody;        ///< Record: the one it makes; wait: the one it waits for.
  std::vector<std::size_t> attached;  ///< Waits that share the place of this launch.
  Time ready = never;                 ///< All is there but copy engines or the graph's last replay.
  Time start = never;
  Time end = never;
  struct Node {
    Time ready = never;
    Time start = never;
    Time end = never;
    std::size_t record = nobody;
  };
  std::vector<Node> nodes;
};

class Naive {
 public:
  Naive(const Program& program, const Machine& machine, std::int64_t steps)
      : program_(program),
        machine_(machine),
        steps_(steps),
        threads_(program.threads.size()),
        in_stream_(program.streams.size()),
        signals_(program.signals.size()),
        latest_(program.events.size(), nobody),
        first_awaited_(program.events.size(), nobody),
        recorded_by_(program.events.size()),
        replays_(program.graphs.size()),
        last_replay_(program.graphs.size(), -1) {
    for (std::size_t t = 0; t < threads_.size(); ++t)
      for (const Instruction& in : program.threads[t].instructions) {
        if (in.call == Call::Record) recorded_by_[in.object].push_back(t);
        if (in.call == Call::LaunchGraph)
          for (const CudaGraph::Node& node : program.graphs[in.object].nodes)
            if (node.kind == CudaGraph::NodeKind::Record) recorded_by_[node.op].push_back(t);
      }
  }

  NaiveRun run() {
    while (true) {
      while (something_happens()) {
      }
      Time next = never;
      for (const Time t : moments_)
        if (t > now_) next = std::min(next, t);
      std::erase_if(moments_, [&](Time t) { return t <= now_; });
      if (next == never) break;
      now_ = next;
    }
    for (const Thread& thread : threads_)
      if (thread.step < steps_) throw std::runtime_error("nothing can go on");
    for (const Entry& entry : entries_)
      if (entry.end == never && entry.instruction->call != Call::StreamWait)
        throw std::runtime_error("a stream can't go on");
    return answer();
  }

 private:
  enum class State : std::uint8_t { Free, Putting, Working, Synchronizing, Awaiting, QueueFull, Ahead };
  struct Thread {
    State state = State::Free;
    std::int64_t turn = 0;  ///< When it came to this state, among all threads.
    std::size_t next = 0;
    std::int64_t step = 0;
    std::size_t executed = 0;
    Time until = 0;                    ///< Working: till then.
    bool put_later = false;            ///< The queue was full when the call began.
    std::vector<std::size_t> riding;   ///< Attached waits whose launch is still to come.
    std::size_t last_put = nobody;     ///< Entry.
    std::vector<std::size_t> entries;  ///< Synchronizing: with these,
    std::size_t record = nobody;       ///< or with this.
    std::vector<Stretch> did;
    std::vector<Time> call_end;
  };
  struct Signal {
    std::deque<std::size_t> given;    ///< By which threads.
    std::deque<std::size_t> waiting;  ///< Threads.
  };

  void at(Time moment) { moments_.push_back(moment); }
  const GpuOp& op(Index i) const { return program_.ops[i]; }

  // --- the host

  const Instruction& instruction(std::size_t t) const {
    return program_.threads[t].instructions[threads_[t].next];
  }

  void did(std::size_t t, Stretch::Kind kind, Time begin, Time end, std::size_t by = nobody) {
    if (begin < end) threads_[t].did.push_back({kind, begin, end, by});
  }

  bool something_happens() {
    for (std::size_t e = 0; e < entries_.size(); ++e)
      if (entry_goes_on(e)) return true;
    // Who has come to where it is first goes first.
    std::vector<std::size_t> order(threads_.size());
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(threads_[a].turn, a) < std::pair(threads_[b].turn, b);
    });
    for (const std::size_t t : order)
      if (thread_goes_on(t)) {
        tie_ = tie_ || (now_ > 0 && last_acted_ == now_ && last_actor_ != t);
        last_acted_ = now_;
        last_actor_ = t;
        threads_[t].turn = ++turns_;
        return true;
      }
    return false;
  }

  bool thread_goes_on(std::size_t t) {
    Thread& thread = threads_[t];
    switch (thread.state) {
      case State::Free:
      case State::Ahead:
        return begins(t);
      case State::Putting:
      case State::QueueFull:
        return thread.until <= now_ && puts(t);
      case State::Working:
        return thread.until <= now_ && works_no_more(t);
      case State::Synchronizing: {
        Time done = thread.record != nobody ? records_[thread.record].fired : Time{0};
        for (const std::size_t e : thread.entries) done = std::max(done, entries_[e].end);
        if (done > now_) return false;
        const Time back = std::max(blocked_since_[t], done + instruction(t).return_latency.count());
        at(back);
        if (back > now_) return false;
        did(t, Stretch::Kind::Synchronization, blocked_since_[t], back);
        totals_.host_blocked += Picoseconds(back - blocked_since_[t]);
        returns(t);
        return true;
      }
      case State::Awaiting: {
        Signal& signal = signals_[instruction(t).object];
        if (signal.given.empty() || signal.waiting.front() != t) return false;
        did(t, Stretch::Kind::Await, blocked_since_[t], now_, signal.given.front());
        totals_.host_blocked += Picoseconds(now_ - blocked_since_[t]);
        signal.given.pop_front();
        signal.waiting.pop_front();
        returns(t);
        return true;
      }
    }
    return false;
  }

  static bool holds_place(Call call) {
    return call == Call::Launch || call == Call::LaunchGraph || call == Call::StreamWait;
  }

  bool begins(std::size_t t) {
    Thread& thread = threads_[t];
    if (thread.step == steps_) return false;
    if (thread.next == 0) {
      for (const Thread& other : threads_)
        if (thread.step - other.step >= 8) {
          if (thread.state != State::Ahead) blocked_since_[t] = now_;
          thread.state = State::Ahead;
          return false;
        }
      if (thread.state == State::Ahead) did(t, Stretch::Kind::Ahead, blocked_since_[t], now_);
    }
    const Instruction& in = instruction(t);
    const bool streams = holds_place(in.call) || in.call == Call::Record;
    thread.state = streams ? State::Putting : State::Working;
    thread.until = now_ + (streams ? std::min(in.duration, in.latency) : in.duration).count();
    at(thread.until);
    const bool synchronizes = in.call == Call::SynchronizeStream || in.call == Call::SynchronizeEvent ||
                              in.call == Call::SynchronizeDevice;
    did(t,
        in.call == Call::Input ? Stretch::Kind::Input
        : synchronizes         ? Stretch::Kind::Synchronization
                               : Stretch::Kind::Work,
        now_, thread.until);
    totals_.host_work += in.duration;
    thread.entries.clear();
    thread.record = nobody;
    switch (in.call) {
      case Call::Launch:
      case Call::LaunchGraph:
      case Call::Record:
      case Call::StreamWait:
        thread.put_later = is_full(in);
        if (!thread.put_later) put(t, in);
        break;
      case Call::SynchronizeStream:
        thread.entries = in_stream_[in.stream];
        break;
      case Call::SynchronizeDevice:
        for (std::size_t s = 0; s < in_stream_.size(); ++s)
          if (static_cast<Index>(program_.streams[s].device) == in.object)
            thread.entries.insert(thread.entries.end(), in_stream_[s].begin(), in_stream_[s].end());
        break;
      case Call::SynchronizeEvent:
        thread.record = record_to_wait_for(t, in.object);
        break;
      default:
        break;
    }
    return true;
  }

  /// Nobody: there is nothing to wait for.
  std::size_t record_to_wait_for(std::size_t t, Index event) {
    if (latest_[event] != nobody) return latest_[event];
    const std::vector<std::size_t>& by = recorded_by_[event];
    if (std::find(by.begin(), by.end(), t) != by.end()) return nobody;
    if (first_awaited_[event] == nobody) {
      first_awaited_[event] = records_.size();
      records_.push_back({});
    }
    return first_awaited_[event];
  }

  std::size_t new_record(Index event, std::size_t entry, bool in_graph) {
    std::size_t record = records_.size();
    if (latest_[event] == nobody && first_awaited_[event] != nobody)
      record = first_awaited_[event];
    else
      records_.push_back({});
    records_[record].entry = entry;
    records_[record].in_graph = in_graph;
    latest_[event] = record;
    return record;
  }

  void put(std::size_t t, const Instruction& in) {
    const std::size_t index = entries_.size();
    Entry entry;
    entry.instruction = &in;
    entry.stream = in.stream;
    entry.thread = t;
    entry.call = threads_[t].executed;
    entry.place = holds_place(in.call) && !(in.call == Call::StreamWait && in.attached);
    totals_.counts.kernel_launches += in.call == Call::Launch && op(in.object).kind == OpKind::Kernel ? 1 : 0;
    totals_.counts.cuda_graph_launches += in.call == Call::LaunchGraph ? 1 : 0;
    if (in.call == Call::Record) entry.record = new_record(in.object, index, false);
    if (in.call == Call::StreamWait) entry.record = record_to_wait_for(t, in.object);
    if (in.call == Call::LaunchGraph) {
      const CudaGraph& graph = program_.graphs[in.object];
      entry.nodes.resize(graph.nodes.size());
      // Waits first: what the graph itself records is not yet there.
      for (const auto kind : {CudaGraph::NodeKind::Wait, CudaGraph::NodeKind::Record})
        for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
          if (graph.nodes[n].kind != kind) continue;
          entry.nodes[n].record = kind == CudaGraph::NodeKind::Wait
                                      ? record_to_wait_for(t, graph.nodes[n].op)
                                      : new_record(graph.nodes[n].op, index, true);
        }
    }
    threads_[t].last_put = index;
    if (in.call == Call::StreamWait && in.attached) {
      entries_.push_back(entry);
      threads_[t].riding.push_back(index);
      return;
    }
    if (is_work(entry)) {
      std::vector<std::size_t>& riding = threads_[t].riding;
      for (const std::size_t wait : riding)
        if (entries_[wait].stream == entry.stream) entry.attached.push_back(wait);
      std::erase_if(riding, [&](std::size_t wait) { return entries_[wait].stream == entry.stream; });
    }
    entries_.push_back(entry);
    in_stream_[in.stream].push_back(index);
    // A short op that overlaps its predecessor may end first: it is done when both are.
    if (in.blocking) threads_[t].entries = in_stream_[in.stream];
  }

  bool is_full(const Instruction& in) const {
    if (!holds_place(in.call) || (in.call == Call::StreamWait && in.attached)) return false;
    std::int32_t places = 0;
    for (const std::size_t e : in_stream_[in.stream]) places += entries_[e].place ? 1 : 0;
    return places >= machine_.launch_queue_depth;
  }

  /// A call puts its entry in at its start. Where the queue is full then, it looks again when the entry would
  /// arrive, or at the end of its own work if that comes first; if it still is, it blocks until it is not,
  /// and does the rest of its work afterwards.
  bool puts(std::size_t t) {
    Thread& thread = threads_[t];
    const Instruction& in = instruction(t);
    if (thread.put_later) {
      if (is_full(in)) {
        if (thread.state != State::QueueFull) {
          blocked_since_[t] = now_;
          thread.turn = ++turns_;
        }
        thread.state = State::QueueFull;
        return false;
      }
      if (thread.state == State::QueueFull) {
        did(t, Stretch::Kind::Queue, blocked_since_[t], now_);
        totals_.host_blocked_queue += Picoseconds(now_ - blocked_since_[t]);
      }
    }
    const Time before = std::min(in.duration, in.latency).count();
    thread.until = now_ + in.duration.count() - before;
    at(thread.until);
    did(t, Stretch::Kind::Work, now_, thread.until);
    if (thread.put_later) put(t, in);
    Entry& entry = entries_[thread.last_put];
    entry.arrival = now_ + in.latency.count() - before;
    entry.call_end = thread.until;
    at(entry.arrival);
    thread.state = State::Working;
    return true;
  }

  bool works_no_more(std::size_t t) {
    Thread& thread = threads_[t];
    const Instruction& in = instruction(t);
    switch (in.call) {
      case Call::SynchronizeStream:
      case Call::SynchronizeDevice:
      case Call::SynchronizeEvent:
        ++totals_.counts.synchronizations;
        if (thread.entries.empty() && thread.record == nobody) break;
        blocked_since_[t] = now_;
        thread.state = State::Synchronizing;
        return true;
      case Call::Launch:
      case Call::LaunchGraph:
        if (!in.blocking) break;
        blocked_since_[t] = now_;
        thread.state = State::Synchronizing;
        return true;
      case Call::Allocate:
        bytes_ += program_.sizes[in.object];
        peak_ = std::max(peak_, bytes_);
        break;
      case Call::Free:
        bytes_ -= program_.sizes[in.object];
        break;
      case Call::Signal:
        signals_[in.object].given.push_back(t);
        // Who waits for it goes on before its giver does.
        if (!signals_[in.object].waiting.empty()) {
          const std::size_t woken = signals_[in.object].waiting.front();
          if (thread_goes_on(woken)) threads_[woken].turn = ++turns_;
          last_acted_ = -1;  // That one of them goes first is said.
        }
        break;
      case Call::Await:
        blocked_since_[t] = now_;
        signals_[in.object].waiting.push_back(t);
        thread.state = State::Awaiting;
        return true;
      default:
        break;
    }
    returns(t);
    return true;
  }

  void returns(std::size_t t) {
    Thread& thread = threads_[t];
    thread.call_end.push_back(now_);
    thread.state = State::Free;
    ++thread.executed;
    if (++thread.next == program_.threads[t].instructions.size()) {
      thread.next = 0;
      ++thread.step;
    }
  }

  // --- streams

  /// When all earlier entries of its stream have come to their end; `never` if some have not.
  Time earlier_end(std::size_t e) const {
    Time end = 0;
    for (const std::size_t before : in_stream_[static_cast<std::size_t>(entries_[e].stream)]) {
      if (before == e) return end;
      if (entries_[before].end == never) return never;
      end = std::max(end, entries_[before].end);
    }
    return end;
  }

  /// The op or CUDA graph before `e` in its stream.
  std::size_t previous_work(std::size_t e) const {
    std::size_t previous = nobody;
    for (const std::size_t before : in_stream_[static_cast<std::size_t>(entries_[e].stream)]) {
      if (before == e) break;
      if (is_work(entries_[before])) previous = before;
    }
    return previous;
  }
  static bool is_work(const Entry& entry) {
    return entry.instruction->call == Call::Launch || entry.instruction->call == Call::LaunchGraph;
  }

  void give_place_back(Entry& entry) { entry.place = false; }

  bool entry_goes_on(std::size_t e) {
    Entry& entry = entries_[e];
    switch (entry.instruction->call) {
      case Call::Record:
        return record_fires(e);
      case Call::StreamWait:
        return wait_ends(e);
      case Call::Launch:
        return op_starts(e);
      default:
        return entry.start == never ? graph_starts(e) : graph_goes_on(e);
    }
  }

  bool record_fires(std::size_t e) {
    Entry& entry = entries_[e];
    if (entry.end != never) return false;
    const Time when = std::max(entry.arrival, earlier_end(e));
    if (when > now_) return false;
    entry.start = entry.end = when;
    records_[entry.record].fired = when;
    return true;
  }

  /// The stream takes a wait when what came before has ended; it ends when the event has fired, too.
  bool wait_ends(std::size_t e) {
    Entry& entry = entries_[e];
    if (entry.end != never) return false;
    const Time fired = entry.record == nobody ? 0 : records_[entry.record].fired;
    if (entry.instruction->attached) return false;  // Its launch does it.
    const Time taken = std::max(entry.arrival, earlier_end(e));
    if (entry.place && taken <= now_) {
      give_place_back(entry);
      return true;
    }
    const Time when = std::max(taken, fired);
    if (when > now_) return false;
    entry.start = entry.end = when;
    return true;
  }

  GapClass class_of(const Entry& entry) const {
    return entry.instruction->call == Call::Launch ? op(entry.instruction->object).gap_class
                                                   : machine_.graph_class;
  }

  /// Gap before an op or a CUDA graph.
  Time gap(const Entry& before, const Entry& entry) const {
    Index first = entry.instruction->object;
    if (entry.instruction->call == Call::LaunchGraph) {
      const CudaGraph& graph = program_.graphs[first];
      first = graph.nodes[0].kind == CudaGraph::NodeKind::Op ? graph.nodes[0].op : no_index;
    }
    if (first != no_index && op(first).gap_before != gap_from_table) return op(first).gap_before.count();
    return machine_.gap[class_of(before)][class_of(entry)].count();
  }

  /// The latest of all that an op or graph of a stream waits for but copy engines; `never` if not known yet.
  Time stream_lets(std::size_t e) const {
    Time when = stream_takes(e);
    if (when == never) return never;
    for (const std::size_t wait : waits_before(e, previous_work(e))) {
      const std::size_t record = entries_[wait].record;
      if (record == nobody) continue;
      if (records_[record].fired == never) return never;
      when = std::max(when, records_[record].fired + machine_.event_latency.count());
    }
    return when;
  }

  /// The same without events waited for.
  Time stream_takes(std::size_t e) const {
    const Entry& entry = entries_[e];
    Time when = entry.arrival;
    const std::size_t previous = previous_work(e);
    if (previous != nobody) {
      const Entry& before = entries_[previous];
      if (before.start == never || before.end == never) return never;
      when = std::max({when, before.start, end_of_work(previous) + gap(before, entry)});
      if (before.instruction->call == Call::Launch)
        when = std::max(when, before.start + op(before.instruction->object).min_period.count());
    }
    for (const std::size_t wait : waits_before(e, previous)) {
      if (entries_[wait].instruction->attached) continue;
      if (entries_[wait].end == never) return never;
      when = std::max(when, entries_[wait].end);
      if (entries_[wait].record != nobody)
        when = std::max(when, records_[entries_[wait].record].fired + machine_.event_latency.count());
    }
    return when;
  }

  /// A short op may start late into its predecessor and end first; then it is done when that is.
  Time end_of_work(std::size_t e) const {
    Time end = 0;
    for (const std::size_t other : in_stream_[static_cast<std::size_t>(entries_[e].stream)])
      if (other <= e && is_work(entries_[other])) end = std::max(end, entries_[other].end);
    return end;
  }

  std::vector<std::size_t> waits_before(std::size_t e, std::size_t previous) const {
    std::vector<std::size_t> waits;
    for (const std::size_t before : in_stream_[static_cast<std::size_t>(entries_[e].stream)]) {
      if (before == e) break;
      if (previous != nobody && before <= previous) continue;
      if (entries_[before].instruction->call == Call::StreamWait) waits.push_back(before);
    }
    waits.insert(waits.end(), entries_[e].attached.begin(), entries_[e].attached.end());
    return waits;
  }

  bool op_starts(std::size_t e) {
    Entry& entry = entries_[e];
    if (entry.start != never) return false;
    if (entry.ready == never) {
      const Time when = stream_lets(e);
      if (when != never) at(when);
      if (when > now_) return attached_is_taken(e);
      entry.ready = when;
      give_place_back(entry);
      join(entry.stream, op(entry.instruction->object), e, no_index);
    }
    const GpuOp& what = op(entry.instruction->object);
    if (!first_in_line(entry.stream, what, e, no_index)) return false;
    start(entry.stream, what, e, no_index);
    entry.start = now_;
    entry.end = now_ + what.duration.count();
    at(entry.end);
    return true;
  }

  /// The place of a launch with an attached wait is freed when the stream takes the launch.
  bool attached_is_taken(std::size_t e) {
    Entry& entry = entries_[e];
    if (!entry.place || entry.attached.empty()) return false;
    const Time when = stream_takes(e);
    if (when != never) at(when);
    if (when > now_) return false;
    give_place_back(entry);
    return true;
  }

  // --- copy engines

  struct Engine {
    Time free = 0;
    Time last_came = -1;
    std::deque<std::pair<std::size_t, Index>> line;
  };
  std::vector<Engine*> engines_of(int stream, const GpuOp& what) {
    const int device = program_.streams[static_cast<std::size_t>(stream)].device;
    const auto engine = [&](int d, int kind) {
      return &engines_[static_cast<std::size_t>(d)][static_cast<std::size_t>(kind)];
    };
    if (what.copy_engine == CopyEngine::None) return {};
    if (what.copy_engine != CopyEngine::Peer) return {engine(device, static_cast<int>(what.copy_engine))};
    return {engine(device, 6), engine(what.peer, 7)};
  }
  void join(int stream, const GpuOp& what, std::size_t e, Index node) {
    for (Engine* engine : engines_of(stream, what)) {
      engine->line.emplace_back(e, node);
      tie_ = tie_ || engine->last_came == now_;
      engine->last_came = now_;
    }
  }
  bool first_in_line(int stream, const GpuOp& what, std::size_t e, Index node) {
    for (const Engine* engine : engines_of(stream, what))
      if (engine->line.front() != std::pair(e, node) || engine->free > now_) return false;
    return true;
  }
  void start(int stream, const GpuOp& what, std::size_t e, Index node) {
    for (Engine* engine : engines_of(stream, what)) {
      engine->line.pop_front();
      engine->free = now_ + what.duration.count();
    }
    ops_.push_back({now_, now_ + what.duration.count(), entries_[e].thread, entries_[e].call, node, stream});
    totals_.counts.kernels += what.kind == OpKind::Kernel ? 1 : 0;
    totals_.counts.memcpys += what.kind == OpKind::Memcpy ? 1 : 0;
    totals_.counts.memsets += what.kind == OpKind::Memset ? 1 : 0;
    totals_.op_sum += what.duration;
    origin_.push_back({e, node});
  }

  // --- CUDA graphs

  bool graph_starts(std::size_t e) {
    Entry& entry = entries_[e];
    std::deque<std::size_t>& line = replays_[entry.instruction->object];
    if (entry.ready == never) {
      const Time when = stream_lets(e);
      if (when != never) at(when);
      if (when > now_) return attached_is_taken(e);
      entry.ready = when;
      give_place_back(entry);
      // Coming at the very moment when another's turn is over, or together with one.
      Time& last = last_replay_[entry.instruction->object];
      tie_ = tie_ || last == now_ || (!line.empty() && entries_[line.front()].end <= now_);
      last = now_;
      line.push_back(e);
    }
    if (line.front() != e) return false;
    entry.start = now_;
    return true;
  }

  bool graph_goes_on(std::size_t e) {
    Entry& entry = entries_[e];
    if (entry.end == never) {
      for (std::size_t n = 0; n < entry.nodes.size(); ++n)
        if (node_goes_on(e, n)) return true;
      Time end = entry.start;
      for (const Entry::Node& node : entry.nodes) end = node.end == never ? never : std::max(end, node.end);
      if (std::any_of(entry.nodes.begin(), entry.nodes.end(),
                      [](const Entry::Node& node) { return node.end == never; }))
        return false;
      entry.end = end;
      at(end);
      return true;
    }
    std::deque<std::size_t>& line = replays_[entry.instruction->object];
    if (entry.end > now_ || line.empty() || line.front() != e) return false;
    line.pop_front();
    if (!line.empty()) last_replay_[entry.instruction->object] = now_;
    return true;
  }

  bool node_goes_on(std::size_t e, std::size_t n) {
    Entry& entry = entries_[e];
    Entry::Node& node = entry.nodes[n];
    if (node.end != never) return false;
    const CudaGraph& graph = program_.graphs[entry.instruction->object];
    const CudaGraph::Node& recipe = graph.nodes[n];
    const bool is_op = recipe.kind == CudaGraph::NodeKind::Op;
    if (node.ready == never) {
      Time when = entry.start;
      for (const Index before : recipe.after) {
        const Entry::Node& earlier = entry.nodes[before];
        if (earlier.end == never) return false;
        Time from = earlier.end;
        const bool both = is_op && graph.nodes[before].kind == CudaGraph::NodeKind::Op;
        if (both) {
          const GpuOp& a = op(graph.nodes[before].op);
          const GpuOp& b = op(recipe.op);
          from += b.gap_before != gap_from_table ? b.gap_before.count()
                                                 : machine_.graph_gap[a.gap_class][b.gap_class].count();
          from =
              std::max({from, earlier.start,
                        earlier.start + program_.info[graph.nodes[before].op].min_period_in_graph.count()});
        }
        when = std::max(when, from);
      }
      if (recipe.kind == CudaGraph::NodeKind::Wait && node.record != nobody) {
        if (records_[node.record].fired == never) return false;
        when = std::max(when, records_[node.record].fired + machine_.event_latency.count());
      }
      at(when);
      if (when > now_) return false;
      node.ready = when;
      if (is_op) join(entry.stream, op(recipe.op), e, static_cast<Index>(n));
    }
    if (!is_op) {
      node.start = node.end = now_;
      if (recipe.kind == CudaGraph::NodeKind::Record) records_[node.record].fired = now_;
      return true;
    }
    const GpuOp& what = op(recipe.op);
    if (!first_in_line(entry.stream, what, e, static_cast<Index>(n))) return false;
    start(entry.stream, what, e, static_cast<Index>(n));
    node.start = now_;
    node.end = now_ + what.duration.count();
    at(node.end);
    return true;
  }

  // --- idle time

  Time& idle(IdleCause cause) { return idle_[static_cast<std::size_t>(cause)]; }

  /// Gives what lies between `from` and `to` to `cause`; what is left ends at `to`'s new place.
  void charge(IdleCause cause, Time from, Time begin, Time& to) {
    const Time start = std::max(from, begin);
    if (start >= to) return;
    idle(cause) += to - start;
    to = start;
  }

  /// What the thread did before `to`, back to `begin`.
  void explain_host(std::size_t t, Time begin, Time to) {
    const std::vector<Stretch>& did = threads_[t].did;
    for (std::size_t i = did.size(); i-- > 0 && begin < to;) {
      if (did[i].begin >= to) continue;
      switch (did[i].kind) {
        case Stretch::Kind::Input:
          charge(IdleCause::Input, did[i].begin, begin, to);
          break;
        case Stretch::Kind::Synchronization:
          charge(IdleCause::Synchronization, did[i].begin, begin, to);
          break;
        case Stretch::Kind::Queue:  // Nothing starts in an idle interval: a wait kept the queue full.
          charge(IdleCause::Event, did[i].begin, begin, to);
          break;
        case Stretch::Kind::Await:
          explain_host(did[i].by, std::max(begin, did[i].begin), to);
          to = did[i].begin;
          break;
        default:
          charge(IdleCause::Dispatch, did[i].begin, begin, to);
      }
    }
    charge(IdleCause::Dispatch, begin, begin, to);
  }

  void explain_launch(std::size_t e, Time begin, Time to) {
    const Entry& entry = entries_[e];
    charge(IdleCause::LaunchLatency, entry.call_end, begin, to);
    explain_host(entry.thread, begin, to);
  }

  void explain_record(std::size_t record, Time begin, Time to) {
    if (begin >= to) return;
    const std::size_t e = records_[record].entry;
    if (records_[record].in_graph) {
      charge(IdleCause::Gap, begin, begin, to);
      return;
    }
    if (entries_[e].arrival >= to) {
      explain_launch(e, begin, to);
      return;
    }
    // Another wait before it, or work that has ended long ago.
    for (const std::size_t wait : waits_before(e, previous_work(e)))
      if (entries_[wait].record != nobody && records_[entries_[wait].record].fired >= to) {
        explain_record(entries_[wait].record, begin, to);
        return;
      }
    charge(IdleCause::Event, begin, begin, to);  // An earlier record or wait that arrived late.
  }

  void explain(std::size_t e, Index node, Time begin, Time to) {
    const Entry& entry = entries_[e];
    if (node != no_index && entry.start < to) {
      charge(IdleCause::Gap, std::max(begin, entry.start), begin, to);
      if (begin >= to) return;
    }
    const Time latency = machine_.event_latency.count();
    for (const std::size_t wait : waits_before(e, previous_work(e))) {
      const std::size_t record = entries_[wait].record;
      if (record == nobody || records_[record].fired + latency < to) continue;
      charge(IdleCause::Event, records_[record].fired, begin, to);
      explain_record(record, begin, to);
      return;
    }
    if (entry.arrival >= to) {
      explain_launch(e, begin, to);
      return;
    }
    // A wait that came late holds back those behind it: the last of them is what the op waited for.
    std::size_t last = nobody;
    bool late = false;
    for (const std::size_t wait : waits_before(e, previous_work(e)))
      if (!entries_[wait].instruction->attached) {
        last = wait;
        late = late || entries_[wait].arrival >= to;
      }
    if (late) {
      explain_launch(last, begin, to);
      return;
    }
    charge(IdleCause::Gap, begin, begin, to);
  }

  NaiveRun answer() {
    std::vector<std::size_t> order(ops_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(ops_[a].start, ops_[a].stream, origin_[a].first, ops_[a].node) <
             std::tie(ops_[b].start, ops_[b].stream, origin_[b].first, ops_[b].node);
    });
    Time covered = 0;
    for (const std::size_t i : order) {
      const NaiveOp& ran = ops_[i];
      if (ran.start > covered) explain(origin_[i].first, origin_[i].second, covered, ran.start);
      totals_.busy += Picoseconds(std::max<Time>(0, ran.end - std::max(covered, ran.start)));
      covered = std::max(covered, ran.end);
    }
    Time wall = covered;
    std::size_t last = nobody;
    for (std::size_t t = 0; t < threads_.size(); ++t)
      if (!threads_[t].call_end.empty() && threads_[t].call_end.back() > wall) {
        wall = threads_[t].call_end.back();
        last = t;
      }
    if (last != nobody) explain_host(last, covered, threads_[last].call_end.back());
    totals_.steps = steps_;
    totals_.wall = Picoseconds(wall);
    for (std::size_t i = 0; i < idle_.size(); ++i) totals_.idle[i] = Picoseconds(idle_[i]);
    NaiveRun run;
    run.ops = ops_;
    std::sort(run.ops.begin(), run.ops.end());
    for (const Thread& thread : threads_) run.call_end.push_back(thread.call_end);
    run.totals = totals_;
    run.peak_bytes = peak_;
    run.tie = tie_;
    run.final_bytes = bytes_;
    return run;
  }

  const Program& program_;
  const Machine& machine_;
  std::int64_t steps_;
  Time now_ = 0;
  std::int64_t turns_ = 0;
  Time last_acted_ = -1;
  std::size_t last_actor_ = nobody;
  std::vector<Time> moments_;
  std::vector<Thread> threads_;
  std::array<Time, 64> blocked_since_{};
  std::vector<Entry> entries_;
  std::vector<Record> records_;
  std::vector<std::vector<std::size_t>> in_stream_;
  std::vector<Signal> signals_;
  std::vector<std::size_t> latest_;
  std::vector<std::size_t> first_awaited_;
  std::vector<std::vector<std::size_t>> recorded_by_;
  std::vector<std::deque<std::size_t>> replays_;
  std::vector<Time> last_replay_;
  bool tie_ = false;
  std::array<std::array<Engine, 8>, 8> engines_{};
  std::vector<NaiveOp> ops_;
  std::vector<std::pair<std::size_t, Index>> origin_;
  std::array<Time, idle_cause_count> idle_{};
  Totals totals_;
  std::int64_t bytes_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

NaiveRun naive_run(const Program& program, const Machine& machine, std::int64_t steps) {
  return Naive(program, machine, steps).run();
}

}  // namespace gpusim::test
