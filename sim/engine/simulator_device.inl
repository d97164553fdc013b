// SPDX-License-Identifier: Apache-2.0
// Simulator: what streams do, and where idle time goes. Included by engine.cpp.

namespace gpusim::engine {

/// When the stream can take the entry at its head: it has arrived, what comes before is far enough, and all
/// waits that stand before it are over.
template <class Sink>
Picoseconds Simulator<Sink>::take_time(const StreamState& stream, const Entry& entry) const {
  Picoseconds time = std::max({now_, entry.origin.arrival, stream.floor});
  if (entry.type == Entry::Type::Wait)
    return stream.in_flight.empty() ? std::max(time, stream.all_end) : Agenda::never;
  time = std::max(time, stream.barrier);
  if (!stream.has_last) return time;
  Picoseconds gap;
  if (entry.type == Entry::Type::Graph) {
    const CudaGraph::Node& first = program_.graphs[entry.object].nodes.front();
    const bool own =
        first.kind == CudaGraph::NodeKind::Op && program_.ops[first.op].gap_before != gap_from_table;
    gap = own ? program_.ops[first.op].gap_before : machine_.gap[stream.last_class][machine_.graph_class];
  } else {
    const GpuOp& op = program_.ops[entry.object];
    gap = op.gap_before == gap_from_table ? machine_.gap[stream.last_class][op.gap_class] : op.gap_before;
  }
  Picoseconds last_end = stream.last_end;
  if (!stream.in_flight.empty()) {
    if (gap >= Picoseconds(0)) return Agenda::never;  // The ends will come.
    const auto device = static_cast<std::size_t>(
        program_.streams[static_cast<std::size_t>(&stream - streams_.data())].device);
    for (std::size_t i = 0; i < stream.in_flight.size(); ++i) {
      const InFlight& before = stream.in_flight[i];
      if (before.running == no_index || before.ended) continue;
      const Picoseconds predicted = devices_[device].predicted_end(before.running);
      if (predicted == Picoseconds::max()) return Agenda::never;
      last_end = std::max(last_end, predicted);
    }
  }
  return std::max({time, last_end + gap, stream.last_start, stream.last_start + stream.last_min_period});
}

template <class Sink>
void Simulator<Sink>::settle(std::size_t index) {
  StreamState& stream = streams_[index];
  if (stream.head_taken || stream.submitted) return;
  while (!stream.queue.empty()) {
    const Entry& entry = stream.queue.front();
    if (entry.type != Entry::Type::Record) {
      const Picoseconds at = take_time(stream, entry);
      if (at == Agenda::never)
        agenda_.clear(index);
      else
        set_stream(index, at);
      return;
    }
    if (!stream.in_flight.empty()) break;
    // Its time is known as soon as it is at the head; nothing is gained by waiting for it.
    const Picoseconds fire = std::max(entry.origin.arrival, stream.all_end);
    stream.all_end = fire;
    const Index instance = entry.instance;
    const Origin origin = entry.origin;
    finish_entry(stream);
    resolve(instance, fire, origin);
  }
  agenda_.clear(index);
}

template <class Sink>
void Simulator<Sink>::run_stream(std::size_t index) {
  StreamState& stream = streams_[index];
  if (stream.in_graph) {
    if (stream.dynamic)
      run_graph(stream, index);
    else
      start_node(stream, index);
    return;
  }
  if (!stream.head_taken) {
    stream.head_taken = true;
    stream.taken_at = now_;
    --stream.waiting;
    if (!stream.blocked_threads.empty()) {
      // One place is free: the thread that has waited longest writes its entry now.
      const std::uint32_t thread = stream.blocked_threads.front();
      stream.blocked_threads.pop_front();
      ThreadState& state = threads_[thread];
      const Instruction& instruction = program_.threads[thread].instructions[state.pc];
      const Picoseconds rest = instruction.duration - std::min(instruction.duration, instruction.latency);
      const Picoseconds late = std::max(Picoseconds(0), instruction.latency - instruction.duration);
      log(thread, state.blocked_since, now_, HostState::QueueFull);
      log(thread, now_, now_ + rest, HostState::Working);
      totals_.host_blocked_queue += now_ - state.blocked_since;
      insert(thread, instruction, std::max(state.call_start + instruction.latency, now_ + late), now_ + rest);
    }
  }
  Entry& entry = stream.queue.front();  // Not before: a thread that was blocked may have grown the queue.
  if (entry.type == Entry::Type::Wait) {
    if (!pass_barrier(stream, index, entry.instance)) return;
    stream.all_end = std::max({stream.all_end, stream.taken_at, stream.barrier_fire});
    stream.floor = std::max(stream.floor, stream.taken_at);
    stream.floor_origin = entry.origin;
    finish_entry(stream);
    settle(index);
    return;
  }
  while (entry.attached_waits > 0) {
    if (!pass_barrier(stream, index, stream.attached.front())) return;
    stream.attached.pop_front();
    --entry.attached_waits;
  }
  if (stream.barrier > now_) {
    set_stream(index, stream.barrier);
    return;
  }
  if (entry.type == Entry::Type::Graph) {
    GraphShape& shape = graph_shapes_[entry.object];
    if (shape.running) {
      shape.waiting_streams.push_back(static_cast<std::uint32_t>(index));
      agenda_.clear(index);
      return;
    }
    if (graph_free_[entry.object] > now_) {
      set_stream(index, graph_free_[entry.object]);
      return;
    }
    if (shape.dynamic)
      start_dynamic_graph(stream, index);
    else
      start_graph(stream, index);
    return;
  }
  const GpuOp& op = program_.ops[entry.object];
  if (shares(entry.object)) {
    stream.submitted = true;
    agenda_.clear(index);
    submit(index, entry.object, no_index, duration_of(op, entry, 0));
    return;
  }
  if (op.copy_engine == CopyEngine::None) {
    start_op(stream, index, duration_of(op, entry, 0));
    return;
  }
  if (stream.engine_reserved) {
    stream.engine_reserved = false;
    start_op(stream, index, stream.reserved_duration);
    return;
  }
  const Picoseconds duration = duration_of(op, entry, 0);
  Picoseconds start{0};
  if (!engine_is_free(index, op, duration, start)) {
    stream.engine_reserved = true;
    stream.reserved_duration = duration;
    set_stream(index, start);
    return;
  }
  start_op(stream, index, duration);
}

/// Reserves the copy engines that `op` needs, first come, first served; `start` is when they are free. False
/// if that is not now.
template <class Sink>
bool Simulator<Sink>::engine_is_free(std::size_t stream, const GpuOp& op, Picoseconds duration,
                                     Picoseconds& start) {
  const auto of = [&](std::size_t device, int engine) -> Picoseconds& {
    return engine_free_[device * engines_per_device + static_cast<std::size_t>(engine)];
  };
  const auto device = static_cast<std::size_t>(program_.streams[stream].device);
  Picoseconds& out = of(device, static_cast<int>(op.copy_engine));
  start = std::max(now_, out);
  if (op.copy_engine == CopyEngine::Peer) {
    Picoseconds& in = of(op.peer, copy_engine_count);
    start = std::max(start, in);
    in = start + duration;
  }
  out = start + duration;
  return start == now_;
}

/// Makes later ops of the stream wait for `index`. False if its time is not known yet: the stream is woken
/// then.
template <class Sink>
bool Simulator<Sink>::pass_barrier(StreamState& stream, std::size_t stream_index, Index index) {
  Instance& instance = instances_[index];
  if (!instance.fired) {
    instance.waiting_streams.push_back(static_cast<std::uint32_t>(stream_index));
    agenda_.clear(stream_index);
    return false;
  }
  const Picoseconds barrier = instance.fire + machine_.event_latency;
  if (!stream.has_barrier || barrier >= stream.barrier) {
    stream.has_barrier = true;
    stream.barrier = barrier;
    stream.barrier_fire = instance.fire;
    stream.barrier_origin = instance.origin;
  }
  release(index);
  return true;
}

template <class Sink>
void Simulator<Sink>::start_op(StreamState& stream, std::size_t index, Picoseconds duration) {
  const Entry& entry = stream.queue.front();
  const GpuOp& op = program_.ops[entry.object];
  const Picoseconds end = now_ + duration;
  accounts_.started(static_cast<std::uint32_t>(index), now_, cause_of(stream, entry));
  accounts_.ran(now_, end);
  accounts_.count(op.kind);
  sink_.op({.start = now_, .end = end, .call = entry.call, .node = no_index});
  stream.has_last = true;
  stream.last_class = op.gap_class;
  stream.last_start = now_;
  stream.last_end = std::max(stream.last_end, end);
  stream.last_min_period = op.min_period;
  stream.all_end = std::max(stream.all_end, end);
  finish_entry(stream);
  settle(index);
}

template <class Sink>
void Simulator<Sink>::start_graph(StreamState& stream, std::size_t index) {
  const Entry& entry = stream.queue.front();
  stream.in_graph = true;
  stream.next_node = 0;
  stream.graph_start = now_;
  if (graph_is_random_[entry.object]) {
    const CudaGraph& graph = program_.graphs[entry.object];
    schedule_graph(
        program_, machine_, graph,
        [&](Index node) { return duration_of(program_.ops[graph.nodes[node].op], entry, node); },
        stream.drawn_schedule);
    stream.schedule = &stream.drawn_schedule;
  } else {
    stream.schedule = &graph_schedules_[entry.object];
  }
  for (const ScheduledNode& node : *stream.schedule)
    graph_free_[entry.object] = std::max(graph_free_[entry.object], now_ + node.end);
  start_node(stream, index);
}

template <class Sink>
void Simulator<Sink>::start_node(StreamState& stream, std::size_t index) {
  const Entry& entry = stream.queue.front();
  const CudaGraph& graph = program_.graphs[entry.object];
  const ScheduledNode& scheduled = (*stream.schedule)[stream.next_node];
  const Index op_index = graph.nodes[scheduled.node].op;
  const Picoseconds end = stream.graph_start + scheduled.end;
  // What a later node waited for has ended: the time since is the gap between nodes.
  accounts_.started(static_cast<std::uint32_t>(index), now_,
                    stream.next_node == 0 ? cause_of(stream, entry) : StartCause{});
  accounts_.ran(now_, end);
  accounts_.count(program_.ops[op_index].kind);
  sink_.op({.start = now_, .end = end, .call = entry.call, .node = scheduled.node});
  stream.all_end = std::max(stream.all_end, end);
  stream.last_end = std::max(stream.last_end, end);
  if (++stream.next_node < stream.schedule->size()) {
    set_stream(index, stream.graph_start + (*stream.schedule)[stream.next_node].start);
    return;
  }
  stream.in_graph = false;
  stream.has_last = true;
  stream.last_class = machine_.graph_class;
  stream.last_start = now_;
  stream.last_min_period = Picoseconds(0);
  finish_entry(stream);
  settle(index);
}

/// The head of the queue leaves it and is done, or its end is known: once everything before it is too, the
/// threads that waited for it wake.
template <class Sink>
void Simulator<Sink>::finish_entry(StreamState& stream) {
  leave_queue(stream);
  if (stream.in_flight.empty())
    entry_processed(stream);
  else
    stream.in_flight.push_back({.running = no_index, .ended = true});
}

template <class Sink>
void Simulator<Sink>::leave_queue(StreamState& stream) {
  stream.queue.pop_front();
  stream.head_taken = false;
  stream.submitted = false;
}

template <class Sink>
void Simulator<Sink>::entry_processed(StreamState& stream) {
  ++stream.processed;
  if (stream.waiters.empty()) return;
  auto kept = stream.waiters.begin();
  for (const SyncWaiter& waiter : stream.waiters) {
    if (waiter.entries > stream.processed) {
      *kept++ = waiter;
      continue;
    }
    ThreadState& state = threads_[waiter.thread];
    state.completion = std::max(state.completion, stream.all_end);
    if (--state.open_waits == 0) resume_waiting(waiter.thread);
  }
  stream.waiters.erase(kept, stream.waiters.end());
}

template <class Sink>
Picoseconds Simulator<Sink>::duration_of(const GpuOp& op, const Entry& entry, Index node) const {
  if (op.distribution == no_index) return op.duration;
  const std::uint64_t where = (static_cast<std::uint64_t>(entry.origin.thread) << 32) | entry.instruction;
  return draw(program_.distributions[op.distribution],
              mix(program_.seed, static_cast<std::uint64_t>(entry.step), where, node));
}

/// What bound the start of the op at the head of `stream`, which starts now.
template <class Sink>
StartCause Simulator<Sink>::cause_of(const StreamState& stream, const Entry& entry) const {
  const auto launch = [](const Origin& origin) {
    return StartCause{.kind = StartCause::Kind::Launch, .thread = origin.thread, .call_end = origin.call_end};
  };
  if (stream.has_barrier && stream.barrier == now_) {
    const Origin& origin = stream.barrier_origin;
    return {.kind = origin.arrival == stream.barrier_fire ? StartCause::Kind::LateRecord
                                                          : StartCause::Kind::Event,
            .thread = origin.thread,
            .fire = stream.barrier_fire,
            .call_end = origin.call_end};
  }
  if (entry.origin.arrival == now_) return launch(entry.origin);
  if (stream.floor == now_) return launch(stream.floor_origin);
  return {};
}

}  // namespace gpusim::engine
