// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_event_queue.hpp"

#include <algorithm>
#include <deque>
#include <queue>
#include <stdexcept>
#include <vector>

#include "bench/plain_sharing.hpp"

namespace gpusim::bench {

namespace {

using namespace engine;
using Time = std::int64_t;  // ps

class EventQueue {
 public:
  EventQueue(const Program& program, const Machine& machine);
  PlainResult run();

 private:
  enum class Kind : std::uint8_t { Device, OpEnd, Stream, Node, Host };
  struct Event {
    Time time;
    std::uint64_t sequence;
    std::uint32_t a;  ///< Device, stream, or running op.
    std::uint32_t b;  ///< Device: its generation. Node: the node.
    std::uint8_t phase;
    Kind kind;
  };
  struct Later {
    bool operator()(const Event& x, const Event& y) const {
      if (x.time != y.time) return x.time > y.time;
      if (x.phase != y.phase) return x.phase > y.phase;
      return x.sequence > y.sequence;
    }
  };
  struct Recorded {
    bool fired = false;
    Time fire = 0;
    std::vector<std::uint32_t> waiting;  ///< Streams.
  };
  struct Entry {
    Call call = Call::Launch;
    Index object = no_index;
    Time arrival = 0;
    Index record = no_index;     ///< Record, StreamWait: into recorded_.
    std::deque<Index> attached;  ///< Waits that a launch carries: into recorded_.
  };
  struct StreamState {
    std::deque<Entry> queue;
    std::int32_t places = 0;  ///< Taken in the launch queue.
    bool taken = false;       ///< The head of the queue.
    bool submitted = false;
    Time taken_at = 0;
    int running = 0;  ///< Ops and CUDA graphs: at most one.
    bool has_last = false;
    GapClass last_class = 0;
    Time last_end = 0;
    Time all_end = 0;
    Time barrier = 0;
    Time barrier_fire = 0;
    Time floor = 0;
    // The CUDA graph that runs.
    std::vector<std::size_t> left;
    std::vector<Time> ready_at;
    std::size_t not_ended = 0;
  };
  struct Running {
    std::uint32_t stream = 0;
    Index node = no_index;
    Index op = no_index;
    Time start = 0;
  };
  struct GraphState {
    bool running = false;
    std::deque<std::uint32_t> waiting;  ///< Streams.
    std::vector<std::vector<Index>> successors;
  };
  struct DeviceState {
    PlainDevice device;
    std::uint32_t generation = 0;
  };

  void push(Time time, std::uint8_t phase, Kind kind, std::uint32_t a = 0, std::uint32_t b = 0) {
    events_.push({time, ++sequence_, a, b, phase, kind});
  }
  void push_device(Time time, Kind kind, std::uint32_t a, std::uint32_t b = 0) { push(time, 0, kind, a, b); }
  void push_stream(Time time, std::uint32_t stream) { push(time, 1, Kind::Stream, stream); }
  void push_host(Time time) { push(time, 2, Kind::Host); }

  void check_op(Index op) const;
  void host();
  void insert(const Instruction& instruction, Time arrival, Time call_end);
  Index latest(Index event) const { return latest_[event]; }
  Time gap_before(const StreamState& stream, const Entry& entry) const;
  void settle(std::uint32_t stream);
  void take(std::uint32_t stream);
  bool pass(StreamState& state, std::uint32_t stream, Index record);
  void fire(Index record, Time time);
  void start_op(std::uint32_t stream, Index op, Index node);
  void started(std::uint32_t number);
  void ended(std::uint32_t number);
  void start_graph(std::uint32_t stream);
  void node_ended(std::uint32_t stream, Index node);
  void tell(std::size_t device);

  const Program& program_;
  const Machine& machine_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::uint64_t sequence_ = 0;
  Time now_ = 0;
  std::size_t pc_ = 0;
  Time call_start_ = 0;
  bool call_waits_ = false;  ///< The call found its queue full.
  bool blocked_ = false;
  std::vector<std::pair<std::uint16_t, Index>> attached_;
  std::vector<StreamState> streams_;
  std::vector<GraphState> graphs_;
  std::vector<DeviceState> devices_;
  std::vector<Index> latest_;  ///< Record of each event.
  std::vector<Recorded> recorded_;
  std::vector<Running> running_;
  std::vector<std::uint32_t> free_running_;
  std::vector<PlainDevice::Change> changes_;
  int ops_running_ = 0;
  Time busy_since_ = 0;
  PlainResult result_;
};

void refuse(bool wrong, const char* what) {
  if (wrong) throw std::invalid_argument(std::string("the plain event queue knows no ") + what);
}

EventQueue::EventQueue(const Program& program, const Machine& machine)
    : program_(program),
      machine_(machine),
      streams_(program.streams.size()),
      graphs_(program.graphs.size()),
      latest_(program.events.size(), no_index) {
  refuse(program.threads.size() != 1, "several host threads");
  int last = 0;
  for (const Stream& stream : program.streams) last = std::max(last, stream.device);
  devices_.assign(static_cast<std::size_t>(last) + 1, {PlainDevice(machine.sharing)});
  for (int i = 0; i < gap_class_limit; ++i)
    for (int j = 0; j < gap_class_limit; ++j)
      refuse(machine.gap[i][j].count() < 0 || machine.graph_gap[i][j].count() < 0, "negative gaps");
  for (Index op = 0; op < program.ops.size(); ++op) check_op(op);
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    const CudaGraph& graph = program.graphs[g];
    graphs_[g].successors.resize(graph.nodes.size());
    for (Index node = 0; node < graph.nodes.size(); ++node) {
      refuse(graph.nodes[node].kind != CudaGraph::NodeKind::Op, "events in CUDA graphs");
      for (const Index before : graph.nodes[node].after) graphs_[g].successors[before].push_back(node);
    }
  }
}

void EventQueue::check_op(Index index) const {
  const GpuOp& op = program_.ops[index];
  refuse(op.copy_engine != CopyEngine::None, "copy engines");
  refuse(op.distribution != no_index, "random durations");
  refuse(op.min_period.count() != 0 || program_.info[index].min_period_in_graph.count() != 0,
         "minimum periods");
  refuse(op.gap_before != gap_from_table && op.gap_before.count() < 0, "negative gaps");
  refuse(op.duration.count() <= 0, "ops that take no time");
}

PlainResult EventQueue::run() {
  push_host(0);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    switch (event.kind) {
      case Kind::Device:
        if (event.b != devices_[event.a].generation) break;  // something came between
        devices_[event.a].device.advance(now_, changes_);
        tell(event.a);
        break;
      case Kind::OpEnd:
        ended(event.a);
        break;
      case Kind::Stream:
        take(event.a);
        break;
      case Kind::Node:
        start_op(event.a, program_.graphs[streams_[event.a].queue.front().object].nodes[event.b].op, event.b);
        break;
      case Kind::Host:
        host();
        break;
    }
  }
  bool stuck = pc_ < program_.threads[0].instructions.size();
  for (const StreamState& stream : streams_) stuck = stuck || !stream.queue.empty();
  if (stuck) throw std::runtime_error("deadlock");
  result_.idle = result_.finish - result_.busy;
  return result_;
}

void EventQueue::host() {
  if (pc_ == program_.threads[0].instructions.size()) return;
  const Instruction& in = program_.threads[0].instructions[pc_];
  const Time duration = in.duration.count();
  const Time latency = in.latency.count();
  if (!call_waits_) call_start_ = now_;
  const bool puts = in.call == Call::Launch || in.call == Call::LaunchGraph || in.call == Call::Record ||
                    (in.call == Call::StreamWait && !in.attached);
  if (puts) {
    refuse(in.blocking, "blocking calls");
    const bool full = in.call != Call::Record && streams_[in.stream].places >= machine_.launch_queue_depth;
    if (full && !call_waits_) {  // it may have drained when the call comes to write its entry
      call_waits_ = true;
      push_host(now_ + std::min(duration, latency));
    } else if (full) {
      blocked_ = true;
    } else {
      insert(in, call_start_ + latency, call_start_ + duration);
    }
    return;
  }
  refuse(in.call != Call::Work && in.call != Call::StreamWait, "such calls");
  if (in.call == Call::StreamWait && latest(in.object) != no_index)
    attached_.emplace_back(in.stream, latest(in.object));
  ++pc_;
  result_.host_end = now_ + duration;
  push_host(now_ + duration);
}

void EventQueue::insert(const Instruction& in, Time arrival, Time call_end) {
  StreamState& stream = streams_[in.stream];
  Entry entry{.call = in.call, .object = in.object, .arrival = arrival, .record = no_index, .attached = {}};
  if (in.call == Call::Record) {
    entry.record = latest_[in.object] = static_cast<Index>(recorded_.size());
    recorded_.emplace_back();
  } else if (in.call == Call::StreamWait) {
    entry.record = latest(in.object);
  } else {
    for (const auto& [at, record] : attached_)
      if (at == in.stream) entry.attached.push_back(record);
    std::erase_if(attached_, [&](const auto& wait) { return wait.first == in.stream; });
  }
  if (in.call != Call::StreamWait || entry.record != no_index) {  // else there is nothing to wait for
    stream.queue.push_back(std::move(entry));
    if (in.call != Call::Record) ++stream.places;
    if (stream.queue.size() == 1) settle(in.stream);
  }
  ++pc_;
  call_waits_ = false;
  result_.host_end = call_end;
  push_host(call_end);
}

Time EventQueue::gap_before(const StreamState& stream, const Entry& entry) const {
  const bool graph = entry.call == Call::LaunchGraph;
  const GpuOp& op = program_.ops[graph ? program_.graphs[entry.object].nodes.front().op : entry.object];
  if (op.gap_before != gap_from_table) return op.gap_before.count();
  return machine_.gap[stream.last_class][graph ? machine_.graph_class : op.gap_class].count();
}

/// When the stream can take the head of its queue; what is still running will say so when it ends.
void EventQueue::settle(std::uint32_t index) {
  StreamState& stream = streams_[index];
  if (stream.taken || stream.running > 0) return;
  while (!stream.queue.empty()) {
    const Entry& entry = stream.queue.front();
    if (entry.call == Call::Record) {
      stream.all_end = std::max(entry.arrival, stream.all_end);
      const Index record = entry.record;
      stream.queue.pop_front();
      fire(record, stream.all_end);
      continue;
    }
    Time at = std::max({now_, entry.arrival, stream.floor});
    if (entry.call == Call::StreamWait) {
      at = std::max(at, stream.all_end);
    } else {
      at = std::max(at, stream.barrier);
      if (stream.has_last) at = std::max(at, stream.last_end + gap_before(stream, entry));
    }
    push_stream(at, index);
    return;
  }
}

void EventQueue::take(std::uint32_t index) {
  StreamState& stream = streams_[index];
  if (!stream.taken) {
    stream.taken = true;
    stream.taken_at = now_;
    --stream.places;
    if (blocked_ && program_.threads[0].instructions[pc_].stream == index) {
      blocked_ = false;
      const Instruction& in = program_.threads[0].instructions[pc_];
      const Time duration = in.duration.count();
      const Time latency = in.latency.count();
      insert(in, std::max(call_start_ + latency, now_ + std::max<Time>(0, latency - duration)),
             now_ + duration - std::min(duration, latency));
    }
  }
  Entry& entry = stream.queue.front();
  if (entry.call == Call::StreamWait) {
    if (!pass(stream, index, entry.record)) return;
    stream.all_end = std::max({stream.all_end, stream.taken_at, stream.barrier_fire});
    stream.floor = std::max(stream.floor, stream.taken_at);
    stream.queue.pop_front();
    stream.taken = false;
    settle(index);
    return;
  }
  while (!entry.attached.empty()) {
    if (!pass(stream, index, entry.attached.front())) return;
    entry.attached.pop_front();
  }
  if (stream.barrier > now_) {
    push_stream(stream.barrier, index);
    return;
  }
  if (entry.call == Call::Launch)
    start_op(index, entry.object, no_index);
  else if (graphs_[entry.object].running)  // two replays of one graph never overlap
    graphs_[entry.object].waiting.push_back(index);
  else
    start_graph(index);
}

bool EventQueue::pass(StreamState& stream, std::uint32_t index, Index number) {
  Recorded& record = recorded_[number];
  if (!record.fired) {
    record.waiting.push_back(index);
    return false;
  }
  const Time barrier = record.fire + machine_.event_latency.count();
  if (barrier >= stream.barrier) {
    stream.barrier = barrier;
    stream.barrier_fire = record.fire;
  }
  return true;
}

void EventQueue::fire(Index number, Time time) {
  Recorded& record = recorded_[number];
  record.fired = true;
  record.fire = time;
  for (const std::uint32_t stream : record.waiting) push_stream(now_, stream);
  record.waiting = {};
}

/// The op is ready to run: at once, or when its device has room.
void EventQueue::start_op(std::uint32_t stream, Index op, Index node) {
  std::uint32_t number = static_cast<std::uint32_t>(running_.size());
  if (free_running_.empty()) {
    running_.emplace_back();
  } else {
    number = free_running_.back();
    free_running_.pop_back();
  }
  running_[number] = {.stream = stream, .node = node, .op = op, .start = 0};
  const Time duration = program_.ops[op].duration.count();
  const Index footprint = program_.info[op].footprint;
  if (footprint == no_index || machine_.sharing.sms == 0) {
    push_device(now_ + duration, Kind::OpEnd, number);
    started(number);
    return;
  }
  const auto device = static_cast<std::size_t>(program_.streams[stream].device);
  devices_[device].device.submit(number, program_.footprints[footprint], duration, now_, changes_);
  tell(device);
}

/// What has happened on a device, and when it is to be looked at next.
void EventQueue::tell(std::size_t index) {
  DeviceState& state = devices_[index];
  const std::vector<PlainDevice::Change> changes = std::move(changes_);
  changes_.clear();
  for (const PlainDevice::Change& change : changes) {
    if (change.ended)
      ended(change.kernel);
    else
      started(change.kernel);
  }
  ++state.generation;
  if (state.device.next_change() != PlainDevice::never)
    push_device(state.device.next_change(), Kind::Device, static_cast<std::uint32_t>(index),
                state.generation);
}

void EventQueue::started(std::uint32_t number) {
  Running& running = running_[number];
  running.start = now_;
  if (ops_running_++ == 0) busy_since_ = now_;
  if (running.node != no_index) return;
  StreamState& stream = streams_[running.stream];
  stream.has_last = true;
  stream.last_class = program_.ops[running.op].gap_class;
  stream.running = 1;
  stream.taken = false;
  stream.queue.pop_front();
}

void EventQueue::ended(std::uint32_t number) {
  const Running running = running_[number];
  free_running_.push_back(number);
  ++result_.ops;
  result_.op_sum += now_ - running.start;
  result_.sum_end += static_cast<std::uint64_t>(now_);
  result_.sum_end_ns += static_cast<std::uint64_t>(now_ / 1000);
  result_.finish = now_;
  if (--ops_running_ == 0) result_.busy += now_ - busy_since_;
  StreamState& stream = streams_[running.stream];
  stream.last_end = now_;
  stream.all_end = std::max(stream.all_end, now_);
  if (running.node != no_index) {
    node_ended(running.stream, running.node);
    return;
  }
  stream.running = 0;
  settle(running.stream);
}

void EventQueue::start_graph(std::uint32_t index) {
  StreamState& stream = streams_[index];
  const Index number = stream.queue.front().object;
  const CudaGraph& graph = program_.graphs[number];
  graphs_[number].running = true;
  stream.running = 1;
  stream.not_ended = graph.nodes.size();
  stream.ready_at.assign(graph.nodes.size(), now_);
  stream.left.resize(graph.nodes.size());
  for (Index node = 0; node < graph.nodes.size(); ++node) {
    stream.left[node] = graph.nodes[node].after.size();
    if (stream.left[node] == 0) push(now_, 1, Kind::Node, index, node);
  }
}

void EventQueue::node_ended(std::uint32_t index, Index node) {
  StreamState& stream = streams_[index];
  const Index number = stream.queue.front().object;
  const CudaGraph& graph = program_.graphs[number];
  const GpuOp& before = program_.ops[graph.nodes[node].op];
  for (const Index next : graphs_[number].successors[node]) {
    const GpuOp& op = program_.ops[graph.nodes[next].op];
    const Picoseconds gap =
        op.gap_before == gap_from_table ? machine_.graph_gap[before.gap_class][op.gap_class] : op.gap_before;
    stream.ready_at[next] = std::max(stream.ready_at[next], now_ + gap.count());
    if (--stream.left[next] == 0) push(stream.ready_at[next], 1, Kind::Node, index, next);
  }
  if (--stream.not_ended > 0) return;
  GraphState& state = graphs_[number];
  state.running = false;
  if (!state.waiting.empty()) {
    push_stream(now_, state.waiting.front());
    state.waiting.pop_front();
  }
  stream.has_last = true;
  stream.last_class = machine_.graph_class;
  stream.running = 0;
  stream.taken = false;
  stream.queue.pop_front();
  settle(index);
}

}  // namespace

PlainResult run_plain(const engine::Program& program, const engine::Machine& machine) {
  return EventQueue(program, machine).run();
}

}  // namespace gpusim::bench
