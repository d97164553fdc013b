// SPDX-License-Identifier: Apache-2.0
#include "sim/critical_path/dependencies.hpp"

#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>

#include "sim/engine/assertion.hpp"

namespace gpusim {
namespace {

using namespace engine;

/// Threads keep within so many steps of each other (docs/engine.md).
constexpr std::size_t step_lead_max = 8;
/// Of a device: one for each kind of copy, and one that takes peer copies in.
constexpr std::size_t engines_per_device = copy_engine_count + 1;

/// Goes through the calls in the order in which they took effect, which decides what "the latest record" or
/// "all that was put into the stream so far" is, and writes down what everything had to come after.
class Builder {
 public:
  Builder(const Program& program, const Machine& machine, const Timeline& timeline, Dependencies& result)
      : program_(program),
        machine_(machine),
        timeline_(timeline),
        result_(result),
        threads_(program.threads.size()),
        streams_(program.streams.size()),
        events_(program.events.size()),
        signals_(program.signals.size()),
        graphs_(program.graphs.size()) {}

  void build() {
    number_moments();
    index_ops();
    look_at_program();
    std::vector<std::size_t> active;
    for (std::size_t t = 0; t < threads_.size(); ++t)
      if (calls_of(t) > 0) active.push_back(t);
    several_threads_ = active.size() > 1;
    if (several_threads_) {
      in_order_of_time(active);
    } else if (!active.empty()) {
      while (threads_[active.front()].executed < calls_of(active.front())) take_effect(active.front());
    }
    connect_engines();
    connect_signals();
  }

 private:
  struct StreamState {
    // Of the ops so far: what their latest end is the latest of, and what follows from the last one.
    std::vector<Moment> ends;
    std::vector<Moment> last_starts;
    bool has_last = false;
    GapClass last_class = 0;
    Picoseconds last_min_period{0};
    // Completion of everything so far: this, and the ops' ends if they are younger.
    Moment settled = no_moment;
    bool ends_open = false;
    // What the next op comes after.
    Moment floor = no_moment;      ///< The latest wait was taken.
    std::vector<Moment> barriers;  ///< Events waited for.
    std::vector<Moment> places;    ///< When each entry that held a place in the launch queue was taken.
    std::size_t freed = 0;         ///< So many of them have been, as far as time has come.
    Picoseconds processed_at{0};   ///< When the engine had dealt with all entries so far.
    std::deque<std::uint32_t> blocked;
    // Where several threads launch: the launches, in the order in which they ran.
    bool shared = false;
    std::int64_t user = -1;
    std::vector<Index> launches;
    std::size_t next_launch = 0;
    std::vector<std::uint32_t> parked;  ///< Threads whose launch is not the next one.
  };
  struct ThreadState {
    std::size_t executed = 0;
    Moment now = Dependencies::origin;
    std::vector<std::pair<std::uint16_t, Moment>> attached;  ///< Stream, and the event's firing.
    bool wants_place = false;  ///< Found the queue full at the start of its call.
    bool is_blocked = false;
    bool is_completing = false;  ///< At the end of a call whose effect comes then.
    bool is_ahead = false;       ///< Too many steps ahead of another thread.
    std::size_t steps_done = 0;
    Picoseconds resumed_at{0};  ///< When the engine knew the end of the call that has just taken effect.
  };
  struct EventState {
    Moment latest = no_moment;
    bool recorded = false;
    Picoseconds resolved_at{0};  ///< When the engine knew the firing of the latest.
    std::vector<std::uint32_t> recording_threads;
  };
  struct SignalState {
    std::vector<Moment> given;
    std::vector<Moment> awaited;
    std::size_t taken = 0;
    std::deque<std::uint32_t> waiting;
  };
  struct GraphState {
    std::int64_t stream = -1;
    bool several_streams = false;
  };
  /// Something that one op or replay at a time can have.
  struct Use {
    std::size_t what = 0;
    Picoseconds at{0};
    Index op = no_index;
    Moment start = 0;
    Moment end = 0;
  };
  /// At the same instant, as in the engine, streams come before threads, and of two threads the one comes
  /// first that knew first when it would go on.
  struct Turn {
    Picoseconds at{0};
    int phase = threads_phase;
    Picoseconds made_at{0};
    int made_phase = threads_phase;
    std::uint64_t sequence = 0;
    std::uint32_t thread = 0;
    bool operator>(const Turn& other) const {
      return std::tie(at, phase, made_at, made_phase, sequence) >
             std::tie(other.at, other.phase, other.made_at, other.made_phase, other.sequence);
    }
  };
  static constexpr int streams_phase = 0;
  static constexpr int threads_phase = 1;

  // Moments.

  Moment add(Index owner, bool observed = false, Picoseconds at = Picoseconds(0)) {
    result_.time.push_back(at);
    result_.observed.push_back(observed);
    result_.owner.push_back(owner);
    return static_cast<Moment>(result_.time.size() - 1);
  }
  Moment add_for_call(Index call) { return add(call | Dependencies::call_bit); }

  void after(Moment moment, Moment before, Picoseconds weight, Rule rule, Moment unless_by = no_moment) {
    result_.list.push_back(
        {.moment = moment, .before = before, .weight = weight, .unless_by = unless_by, .rule = rule});
    if (!result_.observed[moment])
      result_.time[moment] = std::max(result_.time[moment], result_.time[before] + weight);
  }
  void after(Moment moment, Moment before, Rule rule) { after(moment, before, Picoseconds(0), rule); }

  /// Leaves at most one moment: the latest.
  void join(std::vector<Moment>& moments) {
    if (moments.size() < 2) return;
    const Moment latest = add(result_.owner[moments.back()]);
    for (const Moment moment : moments) after(latest, moment, Rule::Order);
    moments.assign(1, latest);
  }

  // What is known beforehand.

  std::size_t calls_of(std::size_t thread) const { return timeline_.threads[thread].call_end.size(); }

  void number_moments() {
    GPUSIM_ASSERT(timeline_.threads.size() == program_.threads.size());
    GPUSIM_ASSERT(timeline_.call_limit() < Dependencies::call_bit);
    std::size_t total = 1 + 2 * timeline_.ops.size();
    for (const Timeline::Thread& thread : timeline_.threads) total += thread.call_end.size();
    GPUSIM_ASSERT(total < Dependencies::call_bit / 4);
    result_.time.reserve(2 * total);
    result_.observed.reserve(2 * total);
    result_.owner.reserve(2 * total);
    result_.list.reserve(4 * total);
    add(no_index, true);
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      result_.first_call.push_back(static_cast<Moment>(result_.time.size()));
      for (std::size_t i = 0; i < calls_of(t); ++i)
        add(timeline_.call_number(t, i) | Dependencies::call_bit, true, timeline_.threads[t].call_end[i]);
    }
    result_.first_op = static_cast<Moment>(result_.time.size());
    for (Index i = 0; i < timeline_.ops.size(); ++i) {
      add(i, true, timeline_.ops[i].start);
      add(i, true, timeline_.ops[i].end);
    }
  }

  /// Ops by call: those of call c are op_order_[op_begin_[c]] to op_order_[op_begin_[c + 1]].
  void index_ops() {
    op_begin_.assign(timeline_.call_limit() + 1, 0);
    for (const OpRecord& record : timeline_.ops) {
      GPUSIM_ASSERT(record.call < timeline_.call_limit());
      ++op_begin_[record.call + 1];
    }
    for (std::size_t i = 1; i < op_begin_.size(); ++i) op_begin_[i] += op_begin_[i - 1];
    op_order_.resize(timeline_.ops.size());
    std::vector<std::uint32_t> next(op_begin_.begin(), op_begin_.end());
    for (Index i = 0; i < timeline_.ops.size(); ++i) op_order_[next[timeline_.ops[i].call]++] = i;
  }
  std::size_t op_count(Index call) const { return op_begin_[call + 1] - op_begin_[call]; }
  Index first_op(Index call) const { return op_count(call) > 0 ? op_order_[op_begin_[call]] : no_index; }

  void look_at_program() {
    const auto note_recording = [&](Index event, std::uint32_t thread) {
      std::vector<std::uint32_t>& threads = events_[event].recording_threads;
      if (threads.empty() || threads.back() != thread) threads.push_back(thread);
    };
    for (std::uint32_t t = 0; t < program_.threads.size(); ++t)
      for (const Instruction& in : program_.threads[t].instructions) {
        if (in.call == Call::Record) note_recording(in.object, t);
        if (in.call != Call::Launch && in.call != Call::LaunchGraph) continue;
        StreamState& stream = streams_[in.stream];
        if (stream.user >= 0 && stream.user != t) stream.shared = true;
        stream.user = t;
        if (in.call != Call::LaunchGraph) continue;
        GraphState& graph = graphs_[in.object];
        if (graph.stream >= 0 && graph.stream != in.stream) graph.several_streams = true;
        graph.stream = in.stream;
        for (const CudaGraph::Node& node : program_.graphs[in.object].nodes)
          if (node.kind == CudaGraph::NodeKind::Record) note_recording(node.op, t);
      }
    for (const OpRecord& record : timeline_.ops) {
      StreamState& stream = streams_[launch_of(program_, timeline_, record).stream];
      if (stream.shared && (stream.launches.empty() || stream.launches.back() != record.call))
        stream.launches.push_back(record.call);
    }
    for (const Stream& stream : program_.streams)
      device_limit_ = std::max(device_limit_, static_cast<std::size_t>(stream.device) + 1);
    for (const GpuOp& op : program_.ops)
      device_limit_ = std::max<std::size_t>(device_limit_, std::size_t{op.peer} + 1);
  }

  // Order of effects.

  const Instruction& instruction_of(std::size_t thread) const {
    const LargeVector<Instruction>& all = program_.threads[thread].instructions;
    return all[threads_[thread].executed % all.size()];
  }
  Picoseconds time(Moment moment) const { return result_.time[moment]; }

  static bool takes_place(const Instruction& in) {
    return in.call == Call::Launch || in.call == Call::LaunchGraph ||
           (in.call == Call::StreamWait && !in.attached);
  }

  bool is_full(StreamState& stream, Picoseconds at) const {
    while (stream.freed < stream.places.size() && time(stream.places[stream.freed]) <= at) ++stream.freed;
    return !stream.blocked.empty() ||
           stream.places.size() - stream.freed >= static_cast<std::size_t>(machine_.launch_queue_depth);
  }
  /// What has to be taken before the next entry finds a place; no_moment if nothing has.
  Moment place_for_next(const StreamState& stream) const {
    const auto depth = static_cast<std::size_t>(machine_.launch_queue_depth);
    return stream.places.size() < depth ? no_moment : stream.places[stream.places.size() - depth];
  }

  void turn(std::uint32_t thread, Picoseconds at, int phase = threads_phase) {
    turns_.push({.at = at,
                 .phase = phase,
                 .made_at = now_.at,
                 .made_phase = now_.phase,
                 .sequence = ++sequence_,
                 .thread = thread});
  }

  void in_order_of_time(const std::vector<std::size_t>& active) {
    active_ = active;
    for (const std::size_t t : active) turn(static_cast<std::uint32_t>(t), Picoseconds(0));
    while (true) {
      if (turns_.empty() && !release_waiting()) return;
      now_ = turns_.top();
      turns_.pop();
      take_turn(now_.thread);
    }
  }

  void take_turn(std::uint32_t number) {
    ThreadState& thread = threads_[number];
    if (thread.is_completing) {
      complete(number);
      return;
    }
    if (!thread.is_blocked && !thread.wants_place && !may_begin_step(number)) return;
    if (thread.executed == calls_of(number)) return;
    const Instruction& in = instruction_of(number);
    if (takes_place(in) && !thread.is_blocked) {
      StreamState& stream = streams_[in.stream];
      if (is_full(stream, now_.at)) {
        if (!thread.wants_place) {
          // It may have drained when the call comes to write its entry.
          thread.wants_place = true;
          turn(number, now_.at + std::min(in.duration, in.latency));
        } else {
          thread.is_blocked = true;
          stream.blocked.push_back(number);
          if (stream.blocked.size() == 1) unblock_next(stream);
        }
        return;
      }
    }
    if (!is_next_launch(number, in)) return;
    if (thread.is_blocked) {
      StreamState& stream = streams_[in.stream];
      std::erase(stream.blocked, number);
      thread.is_blocked = false;
      take_effect(number);
      if (!stream.blocked.empty()) unblock_next(stream);
    } else {
      take_effect(number);
    }
    thread.wants_place = false;
    go_on(number, in);
  }

  /// After the effect of `in`: when the thread's turn comes again.
  void go_on(std::uint32_t number, const Instruction& in) {
    ThreadState& thread = threads_[number];
    const Picoseconds end = time(thread.now);
    if (in.call == Call::Signal || in.call == Call::Allocate || in.call == Call::Free) {
      thread.is_completing = true;
    } else if (in.call == Call::Await) {
      SignalState& signal = signals_[in.object];
      if (signal.taken == signal.given.size()) {
        signal.waiting.push_back(number);
        return;
      }
      ++signal.taken;
    } else if (thread.resumed_at > now_.at) {
      turns_.push({.at = end,
                   .made_at = thread.resumed_at,
                   .made_phase = streams_phase,
                   .sequence = ++sequence_,
                   .thread = number});
      return;
    }
    turn(number, end);
  }

  void complete(std::uint32_t number) {
    ThreadState& thread = threads_[number];
    thread.is_completing = false;
    const std::size_t last = thread.executed - 1;
    const LargeVector<Instruction>& all = program_.threads[number].instructions;
    const Instruction& in = all[last % all.size()];
    if (in.call == Call::Signal) {
      SignalState& signal = signals_[in.object];
      signal.given.push_back(thread.now);
      if (!signal.waiting.empty()) {
        ++signal.taken;
        const std::uint32_t waiter = signal.waiting.front();
        signal.waiting.pop_front();
        turn(waiter, std::max(now_.at, time(threads_[waiter].now)));
      }
    }
    turn(number, time(thread.now));
  }

  /// Counts the step that has ended; false if the thread has to wait for slower ones now.
  bool may_begin_step(std::uint32_t number) {
    ThreadState& thread = threads_[number];
    const std::size_t per_step = timeline_.threads[number].per_step;
    if (thread.is_ahead || thread.executed != (thread.steps_done + 1) * per_step) return !thread.is_ahead;
    ++thread.steps_done;
    std::size_t slowest = thread.steps_done;
    for (const std::size_t t : active_) slowest = std::min(slowest, threads_[t].steps_done);
    for (const std::size_t t : active_) {
      ThreadState& other = threads_[t];
      if (!other.is_ahead || other.steps_done > slowest + step_lead_max) continue;
      other.is_ahead = false;
      turn(static_cast<std::uint32_t>(t), now_.at);
    }
    if (thread.executed < calls_of(number) && thread.steps_done > slowest + step_lead_max)
      thread.is_ahead = true;
    return !thread.is_ahead;
  }

  /// Where several threads launch into a stream, the ops tell in which order they did.
  bool is_next_launch(std::uint32_t number, const Instruction& in) {
    if (in.call != Call::Launch && in.call != Call::LaunchGraph) return true;
    StreamState& stream = streams_[in.stream];
    const Index call = timeline_.call_number(number, threads_[number].executed);
    if (!stream.shared || op_count(call) == 0) return true;
    if (stream.next_launch < stream.launches.size() && stream.launches[stream.next_launch] != call) {
      stream.parked.push_back(number);
      return false;
    }
    ++stream.next_launch;
    for (const std::uint32_t parked : stream.parked) turn(parked, now_.at, now_.phase);
    stream.parked.clear();
    return true;
  }

  /// One place becomes free: the thread that has waited longest writes its entry then.
  void unblock_next(StreamState& stream) {
    const Moment place = place_for_next(stream);
    turn(stream.blocked.front(), place == no_moment ? now_.at : std::max(now_.at, time(place)),
         streams_phase);
  }

  /// Lets those go on that wait for what does not come: the order that was found is not the one of the run.
  bool release_waiting() {
    for (StreamState& stream : streams_) {
      if (stream.parked.empty()) continue;
      stream.shared = false;
      for (const std::uint32_t thread : stream.parked) turn(thread, time(threads_[thread].now));
      stream.parked.clear();
      return true;
    }
    for (const std::size_t t : active_)
      if (threads_[t].executed < calls_of(t)) {
        threads_[t].is_ahead = false;
        turn(static_cast<std::uint32_t>(t), time(threads_[t].now));
        return true;
      }
    return false;
  }

  // Effects.

  void take_effect(std::size_t t) {
    ThreadState& thread = threads_[t];
    const Instruction& in = instruction_of(t);
    const Index call = timeline_.call_number(t, thread.executed);
    if (thread.executed % timeline_.threads[t].per_step == 0) begin_step(t, call);
    const Moment start = thread.now;
    const Moment end = result_.call_end(call);
    thread.resumed_at = Picoseconds(0);
    switch (in.call) {
      case Call::Launch:
      case Call::LaunchGraph: {
        const Moment arrival = write_entry(in, call, start, end, Rule::LaunchCall);
        if (in.call == Call::Launch)
          put_op(t, in, call, arrival);
        else
          put_graph(t, in, call, arrival);
        if (in.blocking) wait_for_stream(streams_[in.stream], t, in, start, end);
        break;
      }
      case Call::Record:
        put_record(in, call, write_entry(in, call, start, end, Rule::Work));
        break;
      case Call::StreamWait: {
        const Moment fire = to_wait_for(in.object, t, call);
        if (in.attached) {
          after(end, start, in.duration, Rule::Work);
          if (fire != no_moment) thread.attached.emplace_back(in.stream, fire);
        } else {
          const Moment arrival = write_entry(in, call, start, end, Rule::Work);
          if (fire != no_moment) put_wait(in, call, arrival, fire);
        }
        break;
      }
      case Call::SynchronizeStream:
        after(end, start, in.duration, Rule::Work);
        wait_for_stream(streams_[in.stream], t, in, start, end);
        break;
      case Call::SynchronizeDevice:
        after(end, start, in.duration, Rule::Work);
        for (std::size_t s = 0; s < streams_.size(); ++s)
          if (static_cast<Index>(program_.streams[s].device) == in.object)
            wait_for_stream(streams_[s], t, in, start, end);
        break;
      case Call::SynchronizeEvent: {
        after(end, start, in.duration, Rule::Work);
        const Moment fire = to_wait_for(in.object, t, call);
        if (fire != no_moment) after(end, fire, in.return_latency, Rule::Completion, start);
        thread.resumed_at = events_[in.object].resolved_at;
        break;
      }
      case Call::Signal:
        after(end, start, in.duration, Rule::Work);
        if (!several_threads_) signals_[in.object].given.push_back(end);
        break;
      case Call::Await:
        after(end, start, in.duration, Rule::Work);
        signals_[in.object].awaited.push_back(end);
        break;
      case Call::Input:
        after(end, start, in.duration, Rule::Input);
        break;
      case Call::Work:
      case Call::Allocate:
      case Call::Free:
        after(end, start, in.duration, Rule::Work);
        break;
    }
    thread.now = end;
    ++thread.executed;
  }

  void begin_step(std::size_t t, Index call) {
    ThreadState& thread = threads_[t];
    const std::size_t step = thread.executed / timeline_.threads[t].per_step;
    const Picoseconds at = timeline_.threads[t].step_start[step];
    const bool may_wait = several_threads_ && step > step_lead_max;
    if (!may_wait && at == time(thread.now)) return;
    const Moment start = add(call | Dependencies::call_bit, true, at);
    after(start, thread.now, Rule::Order);
    if (may_wait)
      for (std::size_t other = 0; other < threads_.size(); ++other) {
        if (other == t || calls_of(other) == 0) continue;
        const std::size_t calls = (step - step_lead_max) * timeline_.threads[other].per_step;
        after(start, result_.first_call[other] + static_cast<Moment>(calls - 1), Rule::OtherThread);
      }
    thread.now = start;
  }

  /// The host writes an entry into a launch queue; gives its arrival.
  Moment write_entry(const Instruction& in, Index call, Moment start, Moment end, Rule rule) {
    const Picoseconds before = std::min(in.duration, in.latency);
    const Picoseconds rest = in.duration - before;
    const Picoseconds late = in.latency - before;
    const Moment written = rest == Picoseconds(0) && !in.blocking ? end : add_for_call(call);
    after(written, start, before, rule);
    if (takes_place(in)) {
      const Moment place = place_for_next(streams_[in.stream]);
      if (place != no_moment) after(written, place, Rule::Place);
    }
    if (written != end) after(end, written, rest, rule);
    if (late == Picoseconds(0)) return written;
    const Moment arrival = add_for_call(call);
    after(arrival, written, late, Rule::Latency);
    return arrival;
  }

  /// An op or CUDA graph is taken by its stream.
  void take(StreamState& stream, Moment taken, Moment arrival, Picoseconds gap) {
    after(taken, arrival, Rule::Arrival);
    if (stream.floor != no_moment) after(taken, stream.floor, Rule::Order);
    for (const Moment fire : stream.barriers) after(taken, fire, machine_.event_latency, Rule::Fired);
    stream.floor = no_moment;
    stream.barriers.clear();
    if (stream.has_last) {
      join(stream.ends);
      if (!stream.ends.empty()) after(taken, stream.ends.front(), gap, Rule::Gap);
      const bool has_period = stream.last_min_period > Picoseconds(0);
      if (has_period || gap < Picoseconds(0)) {
        join(stream.last_starts);
        for (const Moment start : stream.last_starts)
          after(taken, start, stream.last_min_period, has_period ? Rule::Period : Rule::Order);
      }
    }
    stream.places.push_back(taken);
  }

  std::vector<Moment> attached_of(std::size_t t, std::uint16_t stream) {
    std::vector<Moment> result;
    auto& attached = threads_[t].attached;
    if (attached.empty()) return result;
    for (const auto& [of, fire] : attached)
      if (of == stream) result.push_back(fire);
    std::erase_if(attached, [&](const auto& wait) { return wait.first == stream; });
    return result;
  }

  bool may_share(Index op) const {
    return machine_.sharing.sms > 0 && program_.info[op].footprint != no_index;
  }

  Picoseconds gap_to(const StreamState& stream, Picoseconds own, GapClass gap_class) const {
    return own == gap_from_table ? machine_.gap[stream.last_class][gap_class] : own;
  }

  void put_op(std::size_t t, const Instruction& in, Index call, Moment arrival) {
    StreamState& stream = streams_[in.stream];
    const GpuOp& op = program_.ops[in.object];
    GPUSIM_ASSERT(op_count(call) == 1);
    const Index record = first_op(call);
    const Moment start = result_.op_start(record);
    const Moment end = result_.op_end(record);
    const Picoseconds gap = gap_to(stream, op.gap_before, op.gap_class);
    const std::vector<Moment> attached = attached_of(t, in.stream);
    // The stream takes it, which frees its place, and then it may still have to wait.
    const bool waits = !attached.empty() || op.copy_engine != CopyEngine::None || may_share(in.object);
    const Moment taken = waits ? add(record) : start;
    take(stream, taken, arrival, gap);
    if (waits) after(start, taken, Rule::Order);
    for (const Moment fire : attached) after(start, fire, machine_.event_latency, Rule::Fired);
    run(in, in.object, record);
    // A gap that is not negative puts this end behind all before.
    if (gap >= Picoseconds(0)) stream.ends.clear();
    stream.ends.push_back(end);
    stream.ends_open = true;
    stream.last_starts.assign(1, start);
    stream.has_last = true;
    stream.last_class = op.gap_class;
    stream.last_min_period = op.min_period;
    stream.processed_at = std::max(stream.processed_at, time(may_share(in.object) ? end : start));
  }

  void run(const Instruction& in, Index op_index, Index record) {
    const GpuOp& op = program_.ops[op_index];
    const Moment start = result_.op_start(record);
    const Moment end = result_.op_end(record);
    after(end, start, time(end) - time(start), Rule::Run);
    if (op.copy_engine == CopyEngine::None) return;
    const auto device = static_cast<std::size_t>(program_.streams[in.stream].device);
    const auto use = [&](std::size_t of, std::size_t which) {
      uses_.push_back({.what = of * engines_per_device + which,
                       .at = time(start),
                       .op = record,
                       .start = start,
                       .end = end});
    };
    use(device, static_cast<std::size_t>(op.copy_engine));
    if (op.copy_engine == CopyEngine::Peer) use(op.peer, copy_engine_count);
  }

  void put_graph(std::size_t t, const Instruction& in, Index call, Moment arrival) {
    StreamState& stream = streams_[in.stream];
    const CudaGraph& graph = program_.graphs[in.object];
    const CudaGraph::Node& first = graph.nodes.front();
    const Picoseconds own =
        first.kind == CudaGraph::NodeKind::Op ? program_.ops[first.op].gap_before : gap_from_table;
    const Picoseconds gap = gap_to(stream, own, machine_.graph_class);
    const std::vector<Moment> attached = attached_of(t, in.stream);
    const Index any = first_op(call);
    const auto add_moment = [&] { return any == no_index ? add_for_call(call) : add(any); };
    // Two replays of one graph never overlap; in one stream they do not anyway, but for negative gaps.
    const bool exclusive = graphs_[in.object].several_streams || gap < Picoseconds(0);
    const bool waits = !attached.empty() || exclusive;
    const Moment taken = add_moment();
    take(stream, taken, arrival, gap);
    const Moment start = waits ? add_moment() : taken;
    if (waits) after(start, taken, Rule::Order);
    for (const Moment fire : attached) after(start, fire, machine_.event_latency, Rule::Fired);

    nodes_.assign(graph.nodes.size(), {});
    for (std::size_t i = op_begin_[call]; i < op_begin_[call + 1]; ++i)
      nodes_[timeline_.ops[op_order_[i]].node].record = op_order_[i];
    for (Index i = 0; i < graph.nodes.size(); ++i) put_node(t, in, call, graph, i, start);

    if (gap >= Picoseconds(0)) stream.ends.clear();
    stream.last_starts.clear();
    std::vector<Moment> ends;
    for (const Node& node : nodes_)
      if (!node.has_later) {
        ends.push_back(node.end);
        // What shares its device is over when it is known to end.
        const bool known_at_start = node.record == no_index || !may_share(node.op);
        stream.last_starts.push_back(known_at_start ? node.start : node.end);
        stream.processed_at = std::max(stream.processed_at, time(stream.last_starts.back()));
      }
    if (exclusive) {
      join(ends);
      Picoseconds at = time(start);
      if (any != no_index) at = std::max(at, timeline_.ops[any].start);
      uses_.push_back({.what = device_limit_ * engines_per_device + in.object,
                       .at = at,
                       .op = any,
                       .start = start,
                       .end = ends.front()});
    }
    stream.ends.insert(stream.ends.end(), ends.begin(), ends.end());
    stream.ends_open = true;
    stream.has_last = true;
    stream.last_class = machine_.graph_class;
    stream.last_min_period = Picoseconds(0);
  }

  void put_node(std::size_t t, const Instruction& in, Index call, const CudaGraph& graph, Index index,
                Moment graph_start) {
    const CudaGraph::Node& described = graph.nodes[index];
    Node& node = nodes_[index];
    const bool is_op = described.kind == CudaGraph::NodeKind::Op;
    Moment fire = no_moment;
    if (is_op) {
      GPUSIM_ASSERT(node.record != no_index);
      node.op = described.op;
      node.start = result_.op_start(node.record);
      node.end = result_.op_end(node.record);
    } else if (described.kind == CudaGraph::NodeKind::Record) {
      node.start = node.end = to_record(described.op, call);
    } else {
      fire = to_wait_for(described.op, t, call);
      node.start = node.end = add_for_call(call);
    }
    if (fire != no_moment) after(node.end, fire, machine_.event_latency, Rule::Fired);
    if (described.after.empty()) after(node.start, graph_start, Rule::Order);
    for (const Index b : described.after) {
      Node& before = nodes_[b];
      if (!is_op || before.record == no_index) {
        after(node.start, before.end, Rule::Order);
        before.has_later = true;
        continue;
      }
      const GpuOp& op = program_.ops[node.op];
      const Picoseconds gap = op.gap_before == gap_from_table
                                  ? machine_.graph_gap[program_.ops[before.op].gap_class][op.gap_class]
                                  : op.gap_before;
      const Picoseconds period = program_.info[before.op].min_period_in_graph;
      after(node.start, before.end, gap, Rule::Gap);
      if (period > Picoseconds(0))
        after(node.start, before.start, period, Rule::Period);
      else if (gap < Picoseconds(0))
        after(node.start, before.start, Rule::Order);
      if (gap >= Picoseconds(0)) before.has_later = true;
    }
    if (is_op) run(in, node.op, node.record);
  }

  /// Completion of all that was put into the stream so far, as the latest of at most two moments.
  template <class Use>
  void completion(StreamState& stream, const Use& use) {
    if (stream.settled != no_moment) use(stream.settled);
    if (!stream.ends_open) return;
    join(stream.ends);
    use(stream.ends.front());
  }

  void put_record(const Instruction& in, Index call, Moment arrival) {
    StreamState& stream = streams_[in.stream];
    const Moment fire = to_record(in.object, call);
    after(fire, arrival, Rule::Arrival);
    completion(stream, [&](Moment moment) { after(fire, moment, Rule::Order); });
    stream.settled = fire;
    stream.ends_open = false;
    stream.processed_at = std::max(stream.processed_at, now_.at);
    events_[in.object].resolved_at = stream.processed_at;
  }

  void put_wait(const Instruction& in, Index call, Moment arrival, Moment fire) {
    StreamState& stream = streams_[in.stream];
    const Moment taken = add_for_call(call);
    after(taken, arrival, Rule::Arrival);
    completion(stream, [&](Moment moment) { after(taken, moment, Rule::Order); });
    const Moment passed = add_for_call(call);
    after(passed, taken, Rule::Order);
    after(passed, fire, Rule::Fired);
    stream.settled = passed;
    stream.ends_open = false;
    stream.floor = taken;
    stream.barriers.push_back(fire);
    stream.places.push_back(taken);
    stream.processed_at = std::max({stream.processed_at, time(taken), events_[in.object].resolved_at});
  }

  void wait_for_stream(StreamState& stream, std::size_t t, const Instruction& in, Moment start, Moment end) {
    threads_[t].resumed_at = std::max(threads_[t].resumed_at, stream.processed_at);
    completion(stream,
               [&](Moment moment) { after(end, moment, in.return_latency, Rule::Completion, start); });
  }

  /// The firing of a record that is called now.
  Moment to_record(Index event, Index call) {
    EventState& state = events_[event];
    // Somebody may wait for the first record already.
    if (state.recorded || state.latest == no_moment) state.latest = add_for_call(call);
    state.recorded = true;
    return state.latest;
  }

  /// The firing that is waited for; no_moment: nothing.
  Moment to_wait_for(Index event, std::size_t t, Index call) {
    EventState& state = events_[event];
    const std::vector<std::uint32_t>& own = state.recording_threads;
    if (!state.recorded && std::find(own.begin(), own.end(), t) != own.end()) return no_moment;
    if (state.latest == no_moment) state.latest = add_for_call(call);
    return state.latest;
  }

  // What only the times tell.

  void connect_engines() {
    std::sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
      // Of two that start at once the first took no time.
      const Picoseconds a_end = time(a.end);
      const Picoseconds b_end = time(b.end);
      return std::tie(a.what, a.at, a_end, a.op) < std::tie(b.what, b.at, b_end, b.op);
    });
    for (std::size_t i = 1; i < uses_.size(); ++i)
      if (uses_[i].what == uses_[i - 1].what)
        after(uses_[i].start, uses_[i - 1].end,
              uses_[i].what < device_limit_ * engines_per_device ? Rule::CopyEngine : Rule::Order);
  }

  void connect_signals() {
    for (SignalState& signal : signals_) {
      const std::size_t pairs = std::min(signal.given.size(), signal.awaited.size());
      for (std::size_t i = 0; i < pairs; ++i) after(signal.awaited[i], signal.given[i], Rule::OtherThread);
    }
  }

  struct Node {
    Index record = no_index;
    Index op = no_index;
    Moment start = 0;
    Moment end = 0;
    bool has_later = false;  ///< A node that ends no earlier comes after it.
  };

  const Program& program_;
  const Machine& machine_;
  const Timeline& timeline_;
  Dependencies& result_;
  std::vector<ThreadState> threads_;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<SignalState> signals_;
  std::vector<GraphState> graphs_;
  bool several_threads_ = false;
  std::size_t device_limit_ = 1;
  std::vector<std::uint32_t> op_begin_;
  std::vector<Index> op_order_;
  std::vector<Node> nodes_;  ///< Of the CUDA graph at hand.
  std::vector<Use> uses_;
  // Of in_order_of_time.
  std::vector<std::size_t> active_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  Turn now_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

Dependencies::Dependencies(const engine::Program& program, const engine::Machine& machine,
                           const engine::Timeline& timeline) {
  Builder(program, machine, timeline, *this).build();
}

}  // namespace gpusim
