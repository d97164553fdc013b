// SPDX-License-Identifier: Apache-2.0
// Simulator: ops that share their device, and CUDA graphs whose times are found out node by node. Included by
// engine.cpp.
//
// Such an op has two events instead of one: its end is an event of its device, since whoever starts meanwhile
// changes it.

namespace gpusim::engine {

/// An op of `stream` is ready to run on its device; what it takes alone is known, not when it ends.
template <class Sink>
void Simulator<Sink>::submit(std::size_t stream, Index op, Index node, Picoseconds duration) {
  Index number = static_cast<Index>(running_.size());
  if (free_running_.empty()) {
    running_.emplace_back();
  } else {
    number = free_running_.back();
    free_running_.pop_back();
  }
  running_[number] = {.stream = static_cast<std::uint32_t>(stream), .node = node};
  const auto device = static_cast<std::size_t>(program_.streams[stream].device);
  devices_[device].submit(number, program_.footprints[program_.info[op].footprint], duration, now_, changes_);
  apply_changes(device);
}

template <class Sink>
void Simulator<Sink>::run_device(std::size_t device) {
  devices_[device].advance(now_, changes_);
  apply_changes(device);
}

template <class Sink>
void Simulator<Sink>::apply_changes(std::size_t device) {
  // What follows from a change makes appointments only: nothing is submitted meanwhile.
  for (const SharedDevice::Change change : changes_) {
    if (change.kind == SharedDevice::Change::Kind::Started)
      shared_op_started(change.kernel);
    else
      shared_op_ended(change.kernel);
  }
  const bool changed = !changes_.empty();
  changes_.clear();
  const Picoseconds next = devices_[device].next_change();
  if (next == Picoseconds::max())
    agenda_.clear(device_actor(device));
  else
    agenda_.set(device_actor(device), next, Agenda::Phase::Device);
  // A programmatic launch starts before its predecessor ends, which has just been moved.
  if (changed && negative_gaps_)
    for (const std::uint32_t stream : device_streams_[device])
      if (!streams_[stream].in_flight.empty()) settle(stream);
}

template <class Sink>
void Simulator<Sink>::shared_op_started(Index number) {
  Running& running = running_[number];
  StreamState& stream = streams_[running.stream];
  running.start = now_;
  if (running.node != no_index) {
    node_started(stream, running.stream, running.node);
    running.record =
        sink_.begin_op({.start = now_, .end = now_, .call = stream.queue.front().call, .node = running.node});
    accounts_.running();
    return;
  }
  const Entry& entry = stream.queue.front();
  const GpuOp& op = program_.ops[entry.object];
  accounts_.started(running.stream, now_, cause_of(stream, entry));
  accounts_.running();
  accounts_.count(op.kind);
  running.record = sink_.begin_op({.start = now_, .end = now_, .call = entry.call, .node = no_index});
  stream.has_last = true;
  stream.last_class = op.gap_class;
  stream.last_start = now_;
  stream.last_min_period = op.min_period;
  leave_queue(stream);
  stream.in_flight.push_back({.running = number, .ended = false});
  settle(running.stream);
}

template <class Sink>
void Simulator<Sink>::shared_op_ended(Index number) {
  const Running running = running_[number];
  StreamState& stream = streams_[running.stream];
  accounts_.ended(running.start, now_);
  sink_.end_op(running.record, now_);
  free_running_.insert(std::upper_bound(free_running_.begin(), free_running_.end(), number, std::greater<>()),
                       number);
  if (running.node != no_index) {
    node_ended(stream, running.node, running.start, now_, StartCause{});
    settle_graph(stream, running.stream);
    return;
  }
  stream.last_end = std::max(stream.last_end, now_);
  stream.all_end = std::max(stream.all_end, now_);
  for (std::size_t i = 0; i < stream.in_flight.size(); ++i)
    if (stream.in_flight[i].running == number) stream.in_flight[i].ended = true;
  while (!stream.in_flight.empty() && stream.in_flight.front().ended) {
    stream.in_flight.pop_front();
    entry_processed(stream);
  }
  settle(running.stream);
}

template <class Sink>
void Simulator<Sink>::start_dynamic_graph(StreamState& stream, std::size_t index) {
  Entry& entry = stream.queue.front();
  const CudaGraph& graph = program_.graphs[entry.object];
  GraphRun& run = stream.graph_run;
  stream.in_graph = true;
  stream.dynamic = true;
  stream.graph_start = now_;
  graph_shapes_[entry.object].running = true;
  run.left.assign(graph.nodes.size(), 0);
  run.ready_at.assign(graph.nodes.size(), now_);
  run.cause.assign(graph.nodes.size(), StartCause{});
  run.instance.assign(graph.nodes.size(), no_index);
  run.ready.clear();
  run.waiting.clear();
  run.not_ended = graph.nodes.size();
  run.any_started = false;
  run.end = now_;
  for (Index node = 0; node < graph.nodes.size(); ++node) {
    if (graph.nodes[node].kind != CudaGraph::NodeKind::Op) {
      run.instance[node] = stream.graph_events.front();
      stream.graph_events.pop_front();
    }
    run.left[node] = static_cast<std::uint32_t>(graph.nodes[node].after.size());
    if (run.left[node] == 0) run.ready.push_back({now_, node});
  }
  std::make_heap(run.ready.begin(), run.ready.end());
  run_graph(stream, index);
}

/// Starts whatever is ready now.
template <class Sink>
void Simulator<Sink>::run_graph(StreamState& stream, std::size_t index) {
  GraphRun& run = stream.graph_run;
  // An event may have fired for which a node waits.
  std::erase_if(run.waiting, [&](Index node) {
    if (!instances_[run.instance[node]].fired) return false;
    run.ready.push_back({now_, node});
    std::push_heap(run.ready.begin(), run.ready.end());
    return true;
  });
  while (!run.ready.empty() && run.ready.front().at <= now_) {
    const Index node = run.ready.front().node;
    std::pop_heap(run.ready.begin(), run.ready.end());
    run.ready.pop_back();
    run_node(stream, index, node);
  }
  settle_graph(stream, index);
}

template <class Sink>
void Simulator<Sink>::run_node(StreamState& stream, std::size_t index, Index number) {
  GraphRun& run = stream.graph_run;
  const Entry& entry = stream.queue.front();
  const CudaGraph::Node& node = program_.graphs[entry.object].nodes[number];
  switch (node.kind) {
    case CudaGraph::NodeKind::Record: {
      const Origin origin = entry.origin;
      const Index instance = run.instance[number];
      node_ended(stream, number, now_, now_, StartCause{});
      resolve(instance, now_, origin);
      return;
    }
    case CudaGraph::NodeKind::Wait: {
      if (run.instance[number] == no_index) {  // Nothing was recorded before the launch.
        node_ended(stream, number, now_, now_, StartCause{});
        return;
      }
      Instance& instance = instances_[run.instance[number]];
      if (!instance.fired) {
        instance.waiting_streams.push_back(static_cast<std::uint32_t>(index));
        run.waiting.push_back(number);
        return;
      }
      const Picoseconds end = std::max(now_, instance.fire + machine_.event_latency);
      StartCause cause;
      if (end > run.ready_at[number])
        cause = {.kind = instance.origin.arrival == instance.fire ? StartCause::Kind::LateRecord
                                                                  : StartCause::Kind::Event,
                 .thread = instance.origin.thread,
                 .fire = instance.fire,
                 .call_end = instance.origin.call_end};
      release(run.instance[number]);
      node_ended(stream, number, now_, end, cause);
      return;
    }
    case CudaGraph::NodeKind::Op:
      break;
  }
  const GpuOp& op = program_.ops[node.op];
  const Picoseconds duration = duration_of(op, entry, number);
  if (shares(node.op)) {
    submit(index, node.op, number, duration);
    return;
  }
  if (op.copy_engine != CopyEngine::None && run.ready_at[number] != Picoseconds::min()) {
    Picoseconds start{0};
    if (!engine_is_free(index, op, duration, start)) {
      run.ready_at[number] = Picoseconds::min();  // Reserved: next time it starts.
      run.ready.push_back({start, number});
      std::push_heap(run.ready.begin(), run.ready.end());
      return;
    }
  }
  node_started(stream, index, number);
  const Picoseconds end = now_ + duration;
  accounts_.ran(now_, end);
  sink_.op({.start = now_, .end = end, .call = entry.call, .node = number});
  node_ended(stream, number, now_, end, StartCause{});
}

template <class Sink>
void Simulator<Sink>::node_started(StreamState& stream, std::size_t index, Index node) {
  GraphRun& run = stream.graph_run;
  const Entry& entry = stream.queue.front();
  StartCause cause = run.cause[node];
  // What a later node waited for has ended: the time since is the gap between nodes.
  if (!run.any_started && cause.kind == StartCause::Kind::Gap) cause = cause_of(stream, entry);
  run.any_started = true;
  accounts_.started(static_cast<std::uint32_t>(index), now_, cause);
  accounts_.count(program_.ops[program_.graphs[entry.object].nodes[node].op].kind);
}

/// The end of a node is known: what waited for it may become ready. `cause` explains the end of a wait.
template <class Sink>
void Simulator<Sink>::node_ended(StreamState& stream, Index number, Picoseconds start, Picoseconds end,
                                 const StartCause& cause) {
  GraphRun& run = stream.graph_run;
  const CudaGraph& graph = program_.graphs[stream.queue.front().object];
  const bool is_op = graph.nodes[number].kind == CudaGraph::NodeKind::Op;
  --run.not_ended;
  run.end = std::max(run.end, end);
  stream.all_end = std::max(stream.all_end, end);
  if (is_op) stream.last_end = std::max(stream.last_end, end);
  for (const Index next : graph_shapes_[stream.queue.front().object].successors[number]) {
    const CudaGraph::Node& successor = graph.nodes[next];
    Picoseconds at = end;
    if (is_op && successor.kind == CudaGraph::NodeKind::Op) {
      const GpuOp& before = program_.ops[graph.nodes[number].op];
      const GpuOp& op = program_.ops[successor.op];
      const Picoseconds gap = op.gap_before == gap_from_table
                                  ? machine_.graph_gap[before.gap_class][op.gap_class]
                                  : op.gap_before;
      at = std::max({start, end + gap, start + program_.info[graph.nodes[number].op].min_period_in_graph});
    }
    if (at > run.ready_at[next] || (at == run.ready_at[next] && cause.kind != StartCause::Kind::Gap)) {
      run.ready_at[next] = at;
      run.cause[next] = cause;
    }
    if (--run.left[next] == 0) {
      run.ready.push_back({std::max(now_, run.ready_at[next]), next});
      std::push_heap(run.ready.begin(), run.ready.end());
    }
  }
}

/// Makes the appointment for the next node, or ends the graph once the ends of all its nodes are known.
template <class Sink>
void Simulator<Sink>::settle_graph(StreamState& stream, std::size_t index) {
  GraphRun& run = stream.graph_run;
  if (run.not_ended > 0) {
    // One of its own nodes may just have fired the event that another waits for.
    const bool fired = std::any_of(run.waiting.begin(), run.waiting.end(),
                                   [&](Index node) { return instances_[run.instance[node]].fired; });
    if (fired)
      set_stream(index, now_);
    else if (run.ready.empty())
      agenda_.clear(index);
    else
      set_stream(index, run.ready.front().at);
    return;
  }
  const Index graph = stream.queue.front().object;
  GraphShape& shape = graph_shapes_[graph];
  shape.running = false;
  graph_free_[graph] = run.end;
  stream.last_end = std::max(stream.last_end, run.end);
  if (!shape.waiting_streams.empty()) {
    set_stream(shape.waiting_streams.front(), now_);
    shape.waiting_streams.pop_front();
  }
  stream.in_graph = false;
  stream.dynamic = false;
  stream.has_last = true;
  stream.last_class = machine_.graph_class;
  stream.last_start = now_;
  stream.last_min_period = Picoseconds(0);
  finish_entry(stream);
  settle(index);
}

}  // namespace gpusim::engine
