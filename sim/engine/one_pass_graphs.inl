// SPDX-License-Identifier: Apache-2.0
// OnePass: CUDA graphs. Included by engine.cpp. Every function that returns bool gives up with false.

namespace gpusim::engine {

template <class Sink>
bool OnePass<Sink>::launch_graph(const Instruction& instruction) {
  if (instruction.stream >= streams_.size() || instruction.object >= program_.graphs.size()) return false;
  const CudaGraph& graph = program_.graphs[instruction.object];
  StreamState& stream = streams_[instruction.stream];
  GraphState& state = graphs_[instruction.object];
  if (state.stream == no_index) {
    check_graph(program_, instruction.object);
    if (!has_fixed_schedule(program_, graph)) return false;
    state.stream = instruction.stream;
    state.random = is_random(program_, graph);
    if (!state.random)
      schedule_graph(
          program_, machine_, graph, [&](Index node) { return program_.ops[graph.nodes[node].op].duration; },
          state.schedule);
    sum_up(state, graph);
  }
  if (state.stream != instruction.stream) return false;  // Replays of one graph wait for each other.
  if (state.random)
    schedule_graph(
        program_, machine_, graph,
        [&](Index node) { return duration_of(program_.ops[graph.nodes[node].op], node); }, state.schedule);

  ++accounts_.totals.counts.cuda_graph_launches;
  const Placed placed = place(instruction, true);
  Picoseconds start = take_time(stream, placed.arrival,
                                gap_to(stream, program_.ops[graph.nodes.front().op], machine_.graph_class));
  take(stream, start);
  start = std::max(pass_attached(stream, start), state.free);
  if (start > time_max) return false;
  replay(instruction, state, start, placed);
  if (stream.tail.not_before > time_max) return false;
  stream.tail.op_class = machine_.graph_class;
  launch_done(instruction, stream, placed.call_end);
  return true;
}

/// What a replay adds to the books if its nodes, all on one stream, find the device idle.
template <class Sink>
void OnePass<Sink>::sum_up(GraphState& state, const CudaGraph& graph) const {
  state.summed = streams_.size() == 1 && !state.random && state.schedule.front().start == Picoseconds(0);
  Accounts::Additions& sums = state.sums;
  for (const ScheduledNode& node : state.schedule) {
    switch (program_.ops[graph.nodes[node.node].op].kind) {
      case OpKind::Kernel:
        ++state.counts.kernels;
        break;
      case OpKind::Memcpy:
        ++state.counts.memcpys;
        break;
      case OpKind::Memset:
        ++state.counts.memsets;
        break;
    }
    sums.op_sum += node.end - node.start;
    if (node.start > sums.busy_until) {
      sums.gap += node.start - sums.busy_until;
      sums.busy_until = node.start;
    }
    if (node.end > sums.busy_until) {
      sums.busy += node.end - sums.busy_until;
      sums.busy_until = node.end;
    }
  }
}

template <class Sink>
void OnePass<Sink>::replay(const Instruction& instruction, GraphState& state, Picoseconds start,
                           const Placed& placed) {
  const CudaGraph& graph = program_.graphs[instruction.object];
  StreamState& stream = streams_[instruction.stream];
  StartCause cause = cause_of(stream, start, placed);
  const auto record = [&](const ScheduledNode& node) {
    return OpRecord{
        .start = start + node.start, .end = start + node.end, .call = call_number(), .node = node.node};
  };
  if (state.summed && start >= accounts_.busy_until()) {
    for (const ScheduledNode& node : state.schedule) sink_.op(record(node));
    accounts_.started_alone(start, [&] { return cause; });
    Accounts::Additions sums = state.sums;
    sums.busy_until += start;
    accounts_.add(sums);
    Counts& counts = accounts_.totals.counts;
    counts.kernels += state.counts.kernels;
    counts.memcpys += state.counts.memcpys;
    counts.memsets += state.counts.memsets;
    stream.tail.end = std::max(stream.tail.end, sums.busy_until);
    stream.tail.not_before = start + state.schedule.back().start;
    state.free = std::max(state.free, sums.busy_until);
    return;
  }
  for (const ScheduledNode& node : state.schedule) {
    // What a later node waited for has ended: the time since is the gap between nodes.
    accounts_.count(program_.ops[graph.nodes[node.node].op].kind);
    started(instruction.stream, record(node), cause,
            std::min(placed.call_end, start + node.start));  // Later nodes start then, or later.
    cause = {};
    stream.tail.end = std::max(stream.tail.end, start + node.end);
    stream.tail.not_before = start + node.start;
    state.free = std::max(state.free, start + node.end);
  }
}

}  // namespace gpusim::engine
