// SPDX-License-Identifier: Apache-2.0
// OnePass: one pass over the instructions. Included by engine.cpp. Every function that returns bool gives up
// with false.

namespace gpusim::engine {

/// The loop over launches (one_pass_launches.inl) looks once in so many instructions whether time has gone
/// beyond time_max. Until then nothing overflows: one instruction adds at most four durations, none of which
/// is longer than 2^short_bits ps (1.1 s).
constexpr std::ptrdiff_t instructions_between_looks = 1 << 16;
constexpr int short_bits = 40;

/// Whether all are short, and none is negative.
inline bool all_short(std::int64_t combined_by_or) {
  return (static_cast<std::uint64_t>(combined_by_or) >> short_bits) == 0;
}

inline bool is_short_gap(Picoseconds gap) {
  return all_short(gap.count() < 0 ? ~gap.count() : gap.count());
}

inline bool has_short_gaps(const Machine& machine) {
  for (const auto& row : machine.gap)
    for (const Picoseconds gap : row)
      if (!is_short_gap(gap)) return false;
  return is_short_gap(machine.event_latency);
}

template <class Sink>
std::optional<Run> OnePass<Sink>::run(std::int64_t steps) {
  if (!begin()) return std::nullopt;
  if (steps > 0 && !(streams_.size() > 1 ? take_turns<true>(steps) : take_turns<false>(steps)))
    return std::nullopt;
  settle(std::numeric_limits<std::int64_t>::max());
  Run result;
  accounts_.totals.steps = std::max<std::int64_t>(steps, 0);
  std::size_t last = thread_;
  for (std::size_t i = threads_.size(); i-- > 0;)
    if (threads_used_ > 1 && threads_[i].now >= threads_[last].now) last = i;
  accounts_.finish(last, threads_used_ > 1 ? threads_[last].now : now_, result);
  result.peak_bytes = peak_;
  result.final_bytes = allocated_;
  result.queue_length_max = queue_length_max_;
  return result;
}

/// Whether the program might be one for this path.
template <class Sink>
bool OnePass<Sink>::begin() {
  for (std::size_t i = 0; i < program_.threads.size(); ++i)
    if (!program_.threads[i].instructions.empty()) {
      if (marker_ == none) marker_ = i;
      ++threads_used_;
    }
  if (threads_used_ == 0 || may_share(program_, machine_)) return false;
  thread_ = marker_;
  for (StreamState& stream : streams_)
    stream.taken.remember(static_cast<std::size_t>(std::min(machine_.launch_queue_depth, 32)));
  gaps_are_short_ = has_short_gaps(machine_);
  return true;
}

namespace {

/// Not negative, and at most time_max.
inline bool valid(Picoseconds duration) {
  return static_cast<std::uint64_t>(duration.count()) <= static_cast<std::uint64_t>(time_max.count());
}

}  // namespace

template <class Sink>
bool OnePass<Sink>::execute(const Instruction& instruction) {
  // What is wrong is left to check(), which says it in words.
  if (!(valid(instruction.duration) && valid(instruction.latency) && valid(instruction.return_latency)))
    return false;
  Totals& totals = accounts_.totals;
  totals.host_work += instruction.duration;
  const Picoseconds end = now_ + instruction.duration;
  switch (instruction.call) {
    case Call::Launch:
      if (!launch_op(instruction)) return false;
      break;
    case Call::Work:
      log(now_, end, HostState::Working);
      call_done(end);
      break;
    case Call::Input:
      log(now_, end, HostState::Input);
      call_done(end);
      break;
    case Call::LaunchGraph:
      if (!launch_graph(instruction)) return false;
      break;
    case Call::Record: {
      if (instruction.stream >= streams_.size() || instruction.object >= events_.size()) return false;
      const Placed placed = place(instruction, false);
      record(streams_[instruction.stream], events_[instruction.object], placed.arrival, placed.call_end);
      call_done(placed.call_end);
      break;
    }
    case Call::StreamWait:
      if (!wait(instruction)) return false;
      break;
    case Call::SynchronizeStream:
      if (instruction.stream >= streams_.size()) return false;
      synchronize(instruction, streams_[instruction.stream].all_end());
      break;
    case Call::SynchronizeDevice: {
      Picoseconds completion{0};
      for (std::size_t i = 0; i < streams_.size(); ++i)
        if (static_cast<Index>(program_.streams[i].device) == instruction.object)
          completion = std::max(completion, streams_[i].all_end());
      synchronize(instruction, completion);
      break;
    }
    case Call::SynchronizeEvent: {
      if (instruction.object >= events_.size()) return false;
      const EventState& event = events_[instruction.object];
      if (!event.recorded && !recorded_by_thread(instruction.object)) return false;
      synchronize(instruction, event.recorded ? event.fire.at : Picoseconds(0));
      break;
    }
    case Call::Allocate:
    case Call::Free: {
      if (instruction.object >= program_.sizes.size() || program_.sizes[instruction.object] < 0) return false;
      log(now_, end, HostState::Working);
      const std::int64_t size = program_.sizes[instruction.object];
      allocated_ += instruction.call == Call::Allocate ? size : -size;
      peak_ = std::max(peak_, allocated_);
      sink_.memory(end, allocated_);
      call_done(end);
      break;
    }
    case Call::Signal:
      if (!signal(instruction)) return false;
      break;
    case Call::Await:  // See run_thread.
      return false;
  }
  return now_ <= time_max;
}

/// Whether the only thread records `event` anywhere: a wait before that has nothing to wait for.
template <class Sink>
bool OnePass<Sink>::recorded_by_thread(Index event) {
  if (threads_used_ > 1) return false;
  EventState& state = events_[event];
  if (!state.known_to_be_recorded_later)
    for (const Instruction& in : program_.threads[thread_].instructions)
      if (in.call == Call::Record && in.object == event) state.known_to_be_recorded_later = true;
  return state.known_to_be_recorded_later;
}

template <class Sink>
void OnePass<Sink>::synchronize(const Instruction& instruction, Picoseconds completion) {
  ++accounts_.totals.counts.synchronizations;
  const Picoseconds call_end = now_ + instruction.duration;
  Picoseconds end = call_end;
  if (completion > now_) end = std::max(end, completion + instruction.return_latency);
  log(now_, end, HostState::Synchronizing);
  accounts_.totals.host_blocked += end - call_end;
  call_done(end);
}

/// Looks for a place in the launch queue; blocks until one is free.
template <class Sink>
typename OnePass<Sink>::Placed OnePass<Sink>::place(const Instruction& instruction, bool takes_place) {
  Placed placed{.arrival = now_ + instruction.latency, .call_end = now_ + instruction.duration};
  // Only as many entries as the longest queue so far can be waiting still.
  const Picoseconds freed(
      takes_place && queue_length_max_ == machine_.launch_queue_depth
          ? streams_[instruction.stream].taken.latest(static_cast<std::size_t>(queue_length_max_))
          : -1);
  // A full queue may have drained when the call comes to write its entry.
  const Picoseconds at = std::min(placed.call_end, placed.arrival);
  if (freed > at) {
    const Picoseconds blocked = freed - at;
    log(now_, at, HostState::Working);
    log(at, freed, HostState::QueueFull);
    placed.arrival += blocked;
    placed.call_end += blocked;
    log(freed, placed.call_end, HostState::Working);
    accounts_.totals.host_blocked_queue += blocked;
  } else {
    log(now_, placed.call_end, HostState::Working);
  }
  return placed;
}

/// The entry just placed is taken `at`.
template <class Sink>
void OnePass<Sink>::take(StreamState& stream, Picoseconds at) {
  if (queue_length_max_ == 0 ||
      (queue_length_max_ < machine_.launch_queue_depth &&
       stream.taken.latest(static_cast<std::size_t>(queue_length_max_)) > now_.count()))
    lengthen_queue();
  stream.taken.push(at.count());
}

/// The longest queue so far was as long as that of a stream that gets one more.
template <class Sink>
[[gnu::noinline]] void OnePass<Sink>::lengthen_queue() {
  ++queue_length_max_;
  const auto length = static_cast<std::size_t>(queue_length_max_);
  if (length <= streams_.front().taken.remembered()) return;
  for (StreamState& stream : streams_)
    stream.taken.remember(std::min(2 * length, static_cast<std::size_t>(machine_.launch_queue_depth)));
}

template <class Sink>
[[gnu::always_inline]] inline void OnePass<Sink>::pass_barrier(StreamState& stream, const Fire& fire) {
  const Picoseconds barrier = fire.at + machine_.event_latency;
  if (stream.has_barrier && barrier < stream.barrier) return;
  stream.has_barrier = true;
  stream.barrier = barrier;
  stream.held_until = std::max(stream.held_until, barrier);
  stream.tail.not_before = std::max(stream.tail.not_before, barrier);
  stream.barrier_fire = fire;
}

template <class Sink>
[[gnu::always_inline]] inline void OnePass<Sink>::record(StreamState& stream, EventState& event,
                                                         Picoseconds arrival, Picoseconds call_end) {
  const Picoseconds fire = std::max(arrival, stream.all_end());
  stream.done = fire;
  event.recorded = true;
  event.fire = {.at = fire, .call_end = call_end, .late = fire == arrival};
}

/// A wait that rides on the next launch into its stream.
template <class Sink>
[[gnu::always_inline]] inline void OnePass<Sink>::attach(StreamState& stream, const EventState& event) {
  if (!stream.attached_open) ++attached_open_;
  stream.attached_open = true;
  if (event.recorded && (!stream.has_attached || event.fire.at >= stream.attached.at)) {
    stream.has_attached = true;
    stream.attached = event.fire;
    stream.held_until = std::max(stream.held_until, event.fire.at + machine_.event_latency);
  }
}

template <class Sink>
bool OnePass<Sink>::wait(const Instruction& instruction) {
  if (instruction.stream >= streams_.size() || instruction.object >= events_.size()) return false;
  StreamState& stream = streams_[instruction.stream];
  const EventState& event = events_[instruction.object];
  if (!event.recorded && !recorded_by_thread(instruction.object)) return false;
  if (instruction.attached) {
    const Picoseconds end = now_ + instruction.duration;
    log(now_, end, HostState::Working);
    attach(stream, event);
    call_done(end);
    return true;
  }
  const Placed placed = place(instruction, true);
  if (event.recorded) {
    const Picoseconds taken = std::max({placed.arrival, stream.floor, stream.all_end()});
    if (taken > time_max) return false;
    take(stream, taken);
    pass_barrier(stream, event.fire);
    stream.done = std::max(taken, stream.barrier_fire.at);
    stream.floor = taken;
    stream.held_until = std::max(stream.held_until, taken);
    stream.tail.not_before = std::max(stream.tail.not_before, taken);
    stream.floor_call_end = placed.call_end;
  }
  call_done(placed.call_end);
  return true;
}

/// When the stream takes a launch; `gap` from the end of the op before.
template <class Sink>
Picoseconds OnePass<Sink>::take_time(const StreamState& stream, Picoseconds arrival, Picoseconds gap) const {
  return std::max({arrival, stream.tail.not_before, stream.tail.end + gap});
}

template <class Sink>
StartCause OnePass<Sink>::cause_of(const StreamState& stream, Picoseconds start, const Placed& placed) const {
  const auto thread = static_cast<std::uint16_t>(thread_);
  if (stream.barrier == start) {
    const Fire& fire = stream.barrier_fire;
    return {.kind = fire.late ? StartCause::Kind::LateRecord : StartCause::Kind::Event,
            .thread = thread,
            .fire = fire.at,
            .call_end = fire.call_end};
  }
  if (placed.arrival == start)
    return {.kind = StartCause::Kind::Launch, .thread = thread, .call_end = placed.call_end};
  if (stream.floor == start)
    return {.kind = StartCause::Kind::Launch, .thread = thread, .call_end = stream.floor_call_end};
  return {};
}

template <class Sink>
bool OnePass<Sink>::launch_op(const Instruction& instruction) {
  if (instruction.stream >= streams_.size() || instruction.object >= program_.ops.size()) return false;
  const GpuOp& op = program_.ops[instruction.object];
  if (!(valid(op.duration) && valid(op.min_period) && op.gap_class < gap_class_limit)) return false;
  if (op.distribution != no_index && op.distribution >= program_.distributions.size()) return false;
  StreamState& stream = streams_[instruction.stream];
  accounts_.totals.counts.kernel_launches += op.kind == OpKind::Kernel ? 1 : 0;
  const Placed placed = place(instruction, true);
  Picoseconds start = take_time(stream, placed.arrival, gap_to(stream, op, op.gap_class));
  take(stream, start);
  start = pass_attached(stream, start);
  const Picoseconds duration = duration_of(op, 0);
  if (op.copy_engine != CopyEngine::None) {
    EngineState& engine = engines_[static_cast<std::size_t>(op.copy_engine)];
    if (op.copy_engine == CopyEngine::Peer) return false;
    if (engine.stream == no_index) engine.stream = instruction.stream;
    if (engine.stream != instruction.stream) return false;
    start = std::max(start, engine.free);
    engine.free = start + duration;
  }
  if (start > time_max) return false;
  const Picoseconds end = start + duration;
  accounts_.count(op.kind);
  started(instruction.stream, {.start = start, .end = end, .call = call_number(), .node = no_index},
          cause_of(stream, start, placed), placed.call_end);
  stream.tail = {
      .end = std::max(stream.tail.end, end), .not_before = start + op.min_period, .op_class = op.gap_class};
  launch_done(instruction, stream, placed.call_end);
  return true;
}

/// The start of a launch that is taken at `taken`, after the events that ride on it.
template <class Sink>
[[gnu::always_inline]] inline Picoseconds OnePass<Sink>::pass_attached(StreamState& stream,
                                                                       Picoseconds taken) {
  if (!stream.attached_open) return taken;
  stream.attached_open = false;
  --attached_open_;
  if (!stream.has_attached) return taken;
  stream.has_attached = false;
  pass_barrier(stream, stream.attached);
  return std::max(taken, stream.barrier);
}

/// The launch call returns at `call_end`, or when all is done if it blocks.
template <class Sink>
void OnePass<Sink>::launch_done(const Instruction& instruction, const StreamState& stream,
                                Picoseconds call_end) {
  if (!instruction.blocking) {
    call_done(call_end);
    return;
  }
  Picoseconds returned = call_end;
  const Picoseconds completion = stream.all_end();
  if (completion > now_) returned = std::max(returned, completion + instruction.return_latency);
  log(call_end, returned, HostState::Synchronizing);
  accounts_.totals.host_blocked += returned - call_end;
  call_done(returned);
}

/// The next op in order of its launch; whatever is launched later starts at `later_start` or after.
template <class Sink>
void OnePass<Sink>::started(std::uint16_t stream, const OpRecord& record, const StartCause& cause,
                            Picoseconds later_start) {
  sink_.op(record);
  if (streams_.size() == 1) {
    accounts_.started_alone(record.start, [&] { return cause; });
    accounts_.ran(record.start, record.end);
    return;
  }
  accounts_.totals.op_sum += record.end - record.start;
  put({.start = record.start.count(), .end = record.end.count(), .stream = stream, .cause = cause},
      later_start.count());
}

/// The device is busy in `stretch`. Stretches come in the order of their launches; they are accounted for in
/// the order of time, which is possible once nothing can start before them any more.
template <class Sink>
void OnePass<Sink>::put(const Stretch& stretch, std::int64_t later_start) {
  if (stretch.start <= accounts_.busy_until().count()) {
    // Busy already when it starts: there will be nothing to explain.
    accounts_.note_first(Picoseconds(stretch.start));
    accounts_.busy(Picoseconds(stretch.end));
  } else {
    if (next_.start >= 0) later_.push_back(next_);
    next_ = {};
    const auto begin = later_.begin() + static_cast<std::ptrdiff_t>(settled_);
    auto at = std::upper_bound(begin, later_.end(), stretch.start,
                               [](std::int64_t start, const Stretch& other) { return start < other.start; });
    if (at != begin && stretch.start <= (at - 1)->end) {
      --at;
      // Of several ops that start at once, the one of the lowest stream explains.
      if (stretch.start == at->start && stretch.stream < at->stream) {
        at->stream = stretch.stream;
        at->cause = stretch.cause;
      }
      at->end = std::max(at->end, stretch.end);
    } else {
      at = later_.insert(at, stretch);
    }
    // What starts before its end will find the device busy.
    auto apart = at + 1;
    for (; apart != later_.end() && apart->start <= at->end; ++apart) at->end = std::max(at->end, apart->end);
    later_.erase(at + 1, apart);
  }
  settle(later_start);
}

/// Accounts for everything that starts before `later_start`.
template <class Sink>
void OnePass<Sink>::settle(std::int64_t later_start) {
  if (next_.start >= 0 && next_.start < later_start) {
    account(next_);
    next_ = {};
  }
  while (settled_ < later_.size() && later_[settled_].start < later_start) account(later_[settled_++]);
  // Not one by one: a host that is far ahead leaves many.
  if (2 * settled_ >= later_.size()) {
    later_.erase(later_.begin(), later_.begin() + static_cast<std::ptrdiff_t>(settled_));
    settled_ = 0;
  }
  if (later_.size() == 1 && next_.start < 0) {
    next_ = later_.front();
    later_.clear();
  }
}

template <class Sink>
void OnePass<Sink>::account(const Stretch& stretch) {
  accounts_.started_alone(Picoseconds(stretch.start), [&] { return stretch.cause; });
  accounts_.busy(Picoseconds(stretch.end));
}

}  // namespace gpusim::engine
