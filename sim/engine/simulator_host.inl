// SPDX-License-Identifier: Apache-2.0
// Simulator: what host threads do. Included by engine.cpp.

namespace gpusim::engine {

template <class Sink>
void Simulator<Sink>::run_thread(std::size_t thread) {
  ThreadState& state = threads_[thread];
  const Instruction* instruction = nullptr;
  if (state.phase == ThreadPhase::Insert || state.phase == ThreadPhase::Completing)
    instruction = &program_.threads[thread].instructions[state.pc];

  if (state.phase == ThreadPhase::Insert) {
    StreamState& stream = streams_[instruction->stream];
    if (stream.waiting >= machine_.launch_queue_depth || !stream.blocked_threads.empty()) {
      state.phase = ThreadPhase::QueueFull;
      state.blocked_since = now_;
      stream.blocked_threads.push_back(static_cast<std::uint32_t>(thread));
      agenda_.clear(thread_actor(thread));
      return;
    }
    const Picoseconds call_end = state.call_start + instruction->duration;
    log(thread, now_, call_end, HostState::Working);
    insert(thread, *instruction, state.call_start + instruction->latency, call_end);
    return;
  }
  if (state.phase == ThreadPhase::Completing) {
    if (instruction->call == Call::Signal) {
      SignalState& signal = signals_[instruction->object];
      if (signal.waiting_threads.empty()) {
        ++signal.count;
      } else {
        const std::uint32_t other = signal.waiting_threads.front();
        signal.waiting_threads.pop_front();
        ThreadState& waiter = threads_[other];
        log(other, waiter.blocked_since, now_, HostState::Awaiting, static_cast<std::uint16_t>(thread));
        totals_.host_blocked += std::max(Picoseconds(0), now_ - waiter.blocked_since);
        call_done(other, now_);
      }
    } else {
      allocated_ += instruction->call == Call::Allocate ? program_.sizes[instruction->object]
                                                        : -program_.sizes[instruction->object];
      peak_ = std::max(peak_, allocated_);
      peak_since_saved_ = std::max(peak_since_saved_, allocated_);
      sink_.memory(now_, allocated_);
    }
    call_done(thread, now_);
    return;
  }
  state.phase = ThreadPhase::Ready;
  while (execute(thread)) {
    if (stop_) return;
  }
}

template <class Sink>
bool Simulator<Sink>::execute(std::size_t thread) {
  ThreadState& state = threads_[thread];
  const LargeVector<Instruction>& instructions = program_.threads[thread].instructions;
  if (state.pc == instructions.size()) {
    ++state.step;
    if (thread == marker_) step_boundary(thread);
    if (stop_) return true;
    advance_slowest(thread);
    if (state.step >= steps_target_) {
      state.phase = ThreadPhase::Done;
      state.end = now_;
      agenda_.clear(thread_actor(thread));
      return false;
    }
    state.pc = 0;
    if (state.step - slowest_step_ > step_lead_max) {
      state.phase = ThreadPhase::AheadOfOthers;
      state.blocked_since = now_;
      agenda_.clear(thread_actor(thread));
      return false;
    }
  }
  const Instruction& instruction = instructions[state.pc];
  ++instructions_executed_;
  state.call_start = now_;
  if (state.pc == 0) sink_.begin_step(thread, now_);
  totals_.host_work += instruction.duration;
  const Picoseconds end = now_ + instruction.duration;
  switch (instruction.call) {
    case Call::Work:
      log(thread, now_, end, HostState::Working);
      call_done(thread, end);
      break;
    case Call::Input:
      log(thread, now_, end, HostState::Input);
      call_done(thread, end);
      break;
    case Call::Launch:
      ++totals_.counts.kernel_launches;
      if (program_.ops[instruction.object].kind != OpKind::Kernel) --totals_.counts.kernel_launches;
      put(thread, instruction);
      break;
    case Call::LaunchGraph:
      ++totals_.counts.cuda_graph_launches;
      put(thread, instruction);
      break;
    case Call::Record:
      put(thread, instruction);
      break;
    case Call::StreamWait:
      if (instruction.attached) {
        const Index instance = instance_to_wait_for(instruction.object, thread);
        if (instance != no_index) state.attached.emplace_back(instruction.stream, instance);
        log(thread, now_, end, HostState::Working);
        call_done(thread, end);
      } else {
        put(thread, instruction);
      }
      break;
    case Call::SynchronizeStream:
    case Call::SynchronizeDevice: {
      ++totals_.counts.synchronizations;
      state.phase = ThreadPhase::Waiting;
      state.completion = Picoseconds(0);
      state.open_waits = 0;
      if (instruction.call == Call::SynchronizeStream) {
        wait_for_stream(thread, instruction.stream);
      } else if (instruction.object < device_streams_.size()) {
        for (const std::uint32_t stream : device_streams_[instruction.object])
          wait_for_stream(thread, stream);
      }
      agenda_.clear(thread_actor(thread));
      if (state.open_waits == 0) resume_waiting(thread);
      break;
    }
    case Call::SynchronizeEvent: {
      ++totals_.counts.synchronizations;
      state.phase = ThreadPhase::Waiting;
      state.completion = Picoseconds(0);
      state.open_waits = 0;
      const Index index = instance_to_wait_for(instruction.object, thread);
      if (index != no_index) {
        Instance& instance = instances_[index];
        if (instance.fired) {
          state.completion = instance.fire;
          release(index);
        } else {
          state.open_waits = 1;
          instance.waiting_threads.push_back(static_cast<std::uint32_t>(thread));
        }
      }
      agenda_.clear(thread_actor(thread));
      if (state.open_waits == 0) resume_waiting(thread);
      break;
    }
    case Call::Allocate:
    case Call::Free:
    case Call::Signal:
      log(thread, now_, end, HostState::Working);
      state.phase = ThreadPhase::Completing;
      set_thread(thread, end);
      break;
    case Call::Await: {
      log(thread, now_, end, HostState::Working);
      SignalState& signal = signals_[instruction.object];
      if (signal.count > 0) {
        --signal.count;
        call_done(thread, end);
      } else {
        // The call's own time comes before the wait; a signal meanwhile finds the thread waiting.
        state.phase = ThreadPhase::Awaiting;
        state.blocked_since = end;
        signal.waiting_threads.push_back(static_cast<std::uint32_t>(thread));
        agenda_.clear(thread_actor(thread));
      }
      break;
    }
  }
  // At the same instant streams come first.
  return state.phase == ThreadPhase::Ready && agenda_.next_actor() == thread_actor(thread) &&
         agenda_.next_time() == now_;
}

/// After `thread` has finished a step: lets those go on that had to wait for the slowest.
template <class Sink>
void Simulator<Sink>::advance_slowest(std::size_t thread) {
  if (threads_.size() == 1) {
    slowest_step_ = threads_[thread].step;
    return;
  }
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (!program_.threads[i].instructions.empty()) slowest = std::min(slowest, threads_[i].step);
  if (slowest == slowest_step_) return;
  slowest_step_ = slowest;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    ThreadState& other = threads_[i];
    if (other.phase != ThreadPhase::AheadOfOthers || other.step - slowest_step_ > step_lead_max) continue;
    log(i, other.blocked_since, now_, HostState::Awaiting, static_cast<std::uint16_t>(thread));
    totals_.host_blocked += now_ - other.blocked_since;
    other.phase = ThreadPhase::Ready;
    set_thread(i, now_);
  }
}

/// Ends the current instruction of `thread` at `end` and makes the appointment for the next.
template <class Sink>
void Simulator<Sink>::call_done(std::size_t thread, Picoseconds end) {
  ThreadState& state = threads_[thread];
  if (state.phase == ThreadPhase::Awaiting) end = std::max(end, state.blocked_since);
  sink_.end_call(thread, end);
  ++state.executed;
  ++state.pc;
  state.phase = ThreadPhase::Ready;
  set_thread(thread, end);
}

/// A call that puts something into a stream: looks for a place in the launch queue first.
template <class Sink>
void Simulator<Sink>::put(std::size_t thread, const Instruction& instruction) {
  ThreadState& state = threads_[thread];
  const StreamState& stream = streams_[instruction.stream];
  if (takes_place(instruction) &&
      (stream.waiting >= machine_.launch_queue_depth || !stream.blocked_threads.empty())) {
    // Full now; it may have drained when the call comes to write its entry.
    queue_was_full_ = true;
    const Picoseconds at = now_ + std::min(instruction.duration, instruction.latency);
    log(thread, now_, at, HostState::Working);
    state.phase = ThreadPhase::Insert;
    set_thread(thread, at);
    return;
  }
  const Picoseconds call_end = now_ + instruction.duration;
  log(thread, now_, call_end, HostState::Working);
  insert(thread, instruction, now_ + instruction.latency, call_end);
}

template <class Sink>
void Simulator<Sink>::insert(std::size_t thread, const Instruction& instruction, Picoseconds arrival,
                             Picoseconds call_end) {
  ThreadState& state = threads_[thread];
  StreamState& stream = streams_[instruction.stream];
  Entry entry;
  entry.object = instruction.object;
  entry.instruction = static_cast<Index>(state.pc);
  entry.call = static_cast<Index>(state.executed * threads_.size() + thread);
  entry.step = state.step;
  entry.origin = {.arrival = arrival, .call_end = call_end, .thread = static_cast<std::uint16_t>(thread)};
  bool nothing_to_wait_for = false;
  switch (instruction.call) {
    case Call::Record:
      entry.type = Entry::Type::Record;
      entry.instance = instance_to_record(instruction.object);
      break;
    case Call::StreamWait:
      entry.type = Entry::Type::Wait;
      entry.instance = instance_to_wait_for(instruction.object, thread);
      nothing_to_wait_for = entry.instance == no_index;
      break;
    case Call::LaunchGraph:
      entry.type = Entry::Type::Graph;
      break;
    default:
      entry.type = Entry::Type::Op;
      break;
  }
  if (entry.type == Entry::Type::Op || entry.type == Entry::Type::Graph) {
    auto kept = state.attached.begin();
    for (const auto& [wait_stream, instance] : state.attached) {
      if (wait_stream == instruction.stream) {
        stream.attached.push_back(instance);
        ++entry.attached_waits;
      } else {
        *kept++ = {wait_stream, instance};
      }
    }
    state.attached.erase(kept, state.attached.end());
  }
  if (entry.type == Entry::Type::Graph && graph_shapes_[instruction.object].dynamic) {
    for (const CudaGraph::Node& node : program_.graphs[instruction.object].nodes) {
      if (node.kind == CudaGraph::NodeKind::Op) continue;
      stream.graph_events.push_back(node.kind == CudaGraph::NodeKind::Record
                                        ? instance_to_record(node.op)
                                        : instance_to_wait_for(node.op, thread));
      ++entry.graph_events;
    }
  }
  if (!nothing_to_wait_for) {
    stream.queue.push_back(entry);
    ++stream.pushed;
    if (entry.type != Entry::Type::Record) queue_length_max_ = std::max(queue_length_max_, ++stream.waiting);
    if (stream.queue.size() == 1) settle(instruction.stream);
  }
  if (!instruction.blocking) {
    call_done(thread, call_end);
    return;
  }
  state.phase = ThreadPhase::Waiting;
  state.completion = Picoseconds(0);
  state.open_waits = 0;
  state.blocked_since = call_end;
  agenda_.clear(thread_actor(thread));
  wait_for_stream(thread, instruction.stream);
  if (state.open_waits == 0) resume_waiting(thread);
}

/// Wakes a thread whose synchronisation or blocking launch has completed.
template <class Sink>
void Simulator<Sink>::resume_waiting(std::size_t thread) {
  ThreadState& state = threads_[thread];
  const Instruction& instruction = program_.threads[thread].instructions[state.pc];
  const bool is_launch = instruction.call == Call::Launch || instruction.call == Call::LaunchGraph;
  const Picoseconds call_end = is_launch ? state.blocked_since : state.call_start + instruction.duration;
  Picoseconds end = call_end;
  if (state.completion > state.call_start) end = std::max(end, state.completion + instruction.return_latency);
  log(thread, is_launch ? call_end : state.call_start, end, HostState::Synchronizing);
  totals_.host_blocked += end - call_end;
  call_done(thread, end);
}

template <class Sink>
void Simulator<Sink>::wait_for_stream(std::size_t thread, std::size_t index) {
  StreamState& stream = streams_[index];
  ThreadState& state = threads_[thread];
  if (stream.processed >= stream.pushed && stream.in_flight.empty()) {
    state.completion = std::max(state.completion, stream.all_end);
  } else {
    ++state.open_waits;
    stream.waiters.push_back({static_cast<std::uint32_t>(thread), stream.pushed});
  }
}

template <class Sink>
Index Simulator<Sink>::new_instance() {
  if (free_instances_.empty()) {
    instances_.emplace_back();
    return static_cast<Index>(instances_.size() - 1);
  }
  const Index index = free_instances_.back();
  free_instances_.pop_back();
  instances_[index].fired = false;
  instances_[index].references = 0;
  return index;
}

template <class Sink>
void Simulator<Sink>::release(Index index) {
  if (--instances_[index].references == 0) free_instances_.push_back(index);
}

template <class Sink>
Index Simulator<Sink>::instance_to_record(Index event) {
  EventState& state = events_[event];
  if (!state.recorded && state.latest != no_index) {
    // Somebody waits for the first record already.
    state.recorded = true;
  } else {
    if (state.latest != no_index) release(state.latest);
    state.latest = new_instance();
    state.recorded = true;
    ++instances_[state.latest].references;  // the event's
  }
  ++instances_[state.latest].references;  // the queue entry's
  return state.latest;
}

template <class Sink>
Index Simulator<Sink>::instance_to_wait_for(Index event, std::size_t thread) {
  EventState& state = events_[event];
  // As in CUDA, a wait before the record that the same thread makes later has nothing to wait for. A record
  // that only another thread makes, or nobody, is waited for: the first is a race that real programs avoid,
  // the second a deadlock to be reported.
  if (!state.recorded && std::find(state.recording_threads.begin(), state.recording_threads.end(), thread) !=
                             state.recording_threads.end())
    return no_index;
  if (state.latest == no_index) {
    state.latest = new_instance();
    ++instances_[state.latest].references;
  }
  ++instances_[state.latest].references;
  return state.latest;
}

template <class Sink>
void Simulator<Sink>::resolve(Index index, Picoseconds fire, const Origin& origin) {
  Instance& instance = instances_[index];
  instance.fired = true;
  instance.fire = fire;
  instance.origin = origin;
  for (const std::uint32_t stream : instance.waiting_streams) set_stream(stream, now_);
  instance.waiting_streams.clear();
  // resume_waiting makes appointments only; it cannot come back here.
  for (const std::uint32_t thread : instance.waiting_threads) {
    ThreadState& waiter = threads_[thread];
    waiter.completion = std::max(waiter.completion, fire);
    waiter.open_waits = 0;
    resume_waiting(thread);
    --instance.references;
  }
  instance.waiting_threads.clear();
  release(index);  // the queue entry's
}

}  // namespace gpusim::engine
