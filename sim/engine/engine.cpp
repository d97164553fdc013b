// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine.hpp"

#include <optional>

#include "sim/engine/check.hpp"
#include "sim/engine/one_pass.hpp"
#include "sim/engine/one_pass.inl"
#include "sim/engine/one_pass_graphs.inl"
#include "sim/engine/one_pass_launches.inl"
#include "sim/engine/one_pass_steady.inl"
#include "sim/engine/one_pass_turns.inl"
#include "sim/engine/simulator.hpp"
#include "sim/engine/simulator_device.inl"
#include "sim/engine/simulator_host.inl"
#include "sim/engine/simulator_sharing.inl"
#include "sim/engine/simulator_steady.inl"

namespace gpusim::engine {

bool may_share(const Program& program, const Machine& machine) {
  if (machine.sharing.sms == 0 || program.footprints.empty()) return false;
  // Ops of one stream follow each other; nodes of a CUDA graph do where each waits for the one before.
  const auto is_chain = [](const CudaGraph& graph) {
    for (Index i = 1; i < graph.nodes.size(); ++i) {
      const std::vector<Index>& after = graph.nodes[i].after;
      if (std::find(after.begin(), after.end(), i - 1) == after.end()) return false;
    }
    return true;
  };
  return program.streams.size() > 1 || !std::all_of(program.graphs.begin(), program.graphs.end(), is_chain);
}

namespace {

std::size_t device_count(const Program& program) {
  int last = 0;
  for (const Stream& stream : program.streams) last = std::max(last, stream.device);
  for (const GpuOp& op : program.ops)
    if (op.copy_engine == CopyEngine::Peer) last = std::max<int>(last, op.peer);
  return static_cast<std::size_t>(last) + 1;
}

/// Keeps everything.
class TimelineSink {
 public:
  explicit TimelineSink(Timeline& timeline) : timeline_(timeline) {}
  void begin_step(std::size_t thread, Picoseconds at) { timeline_.threads[thread].step_start.push_back(at); }
  void end_call(std::size_t thread, Picoseconds end) { timeline_.threads[thread].call_end.push_back(end); }
  void op(const OpRecord& record) { timeline_.ops.push_back(record); }
  Index begin_op(const OpRecord& record) {
    timeline_.ops.push_back(record);
    return static_cast<Index>(timeline_.ops.size() - 1);
  }
  void end_op(Index op, Picoseconds end) { timeline_.ops[op].end = end; }
  void memory(Picoseconds at, std::int64_t bytes) { timeline_.memory.push_back({at, bytes}); }

  /// Room for a number of calls and ops, written without a look at how much is left.
  struct Writer {
    OpRecord* next_op;
    Picoseconds* next_call;
    void op(const OpRecord& record) { *next_op++ = record; }
    void end_call(Picoseconds end) { *next_call++ = end; }
  };
  Writer writer(std::size_t thread, std::size_t room) {
    LargeVector<Picoseconds>& calls = timeline_.threads[thread].call_end;
    const std::size_t ops_before = timeline_.ops.size();
    const std::size_t calls_before = calls.size();
    timeline_.ops.resize(ops_before + room);
    calls.resize(calls_before + room);
    return {timeline_.ops.data() + ops_before, calls.data() + calls_before};
  }
  void take_back(const Writer& writer, std::size_t thread) {
    LargeVector<Picoseconds>& calls = timeline_.threads[thread].call_end;
    timeline_.ops.resize(static_cast<std::size_t>(writer.next_op - timeline_.ops.data()));
    calls.resize(static_cast<std::size_t>(writer.next_call - calls.data()));
  }

 private:
  Timeline& timeline_;
};

}  // namespace

template <class Sink>
Simulator<Sink>::Simulator(const Program& program, const Machine& machine, Sink& sink)
    : program_(program),
      machine_(machine),
      sink_(sink),
      agenda_(program.streams.size() + program.threads.size() +
              (may_share(program, machine) ? device_count(program) : 0)),
      streams_(program.streams.size()),
      threads_(program.threads.size()),
      events_(program.events.size()),
      signals_(program.signals.size()),
      graph_free_(program.graphs.size()),
      accounts_(program.threads.size()) {
  const std::size_t devices = device_count(program);
  sharing_ = may_share(program, machine);
  if (sharing_) devices_.assign(devices, SharedDevice(machine.sharing));
  device_streams_.resize(devices);
  for (std::uint32_t i = 0; i < program.streams.size(); ++i)
    device_streams_[static_cast<std::size_t>(program.streams[i].device)].push_back(i);
  engine_free_.resize(devices * engines_per_device);

  for (std::uint32_t t = 0; t < program.threads.size(); ++t)
    for (const Instruction& instruction : program.threads[t].instructions)
      if (instruction.call == Call::Record) {
        note_recording(instruction.object, t);
      } else if (instruction.call == Call::LaunchGraph) {
        for (const CudaGraph::Node& node : program.graphs[instruction.object].nodes)
          if (node.kind == CudaGraph::NodeKind::Record) note_recording(node.op, t);
      } else if (instruction.call == Call::Await) {
        signals_[instruction.object].awaited = true;
      }

  for (const auto& row : machine.gap)
    for (const Picoseconds gap : row) {
      largest_gap_ = std::max(largest_gap_, gap);
      if (gap < Picoseconds(0)) negative_gaps_ = true;
    }
  for (const GpuOp& op : program.ops) {
    if (op.gap_before != gap_from_table) {
      largest_gap_ = std::max(largest_gap_, op.gap_before);
      if (op.gap_before < Picoseconds(0)) negative_gaps_ = true;
    }
    if (op.distribution != no_index) random_ = true;
  }

  graph_schedules_.resize(program.graphs.size());
  graph_is_random_.resize(program.graphs.size());
  graph_shapes_.resize(program.graphs.size());
  for (std::size_t i = 0; i < program.graphs.size(); ++i) {
    const CudaGraph& graph = program.graphs[i];
    GraphShape& shape = graph_shapes_[i];
    shape.dynamic = !has_fixed_schedule(program, graph) ||
                    std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                [&](const CudaGraph::Node& node) { return shares(node.op); });
    graph_is_random_[i] = is_random(program, graph);
    if (shape.dynamic) {
      shape.successors.resize(graph.nodes.size());
      for (Index node = 0; node < graph.nodes.size(); ++node)
        for (const Index before : graph.nodes[node].after) shape.successors[before].push_back(node);
    } else if (!graph_is_random_[i]) {
      schedule_graph(
          program, machine, graph, [&](Index node) { return program.ops[graph.nodes[node].op].duration; },
          graph_schedules_[i]);
    }
  }
}

template <class Sink>
void Simulator<Sink>::note_recording(Index event, std::uint32_t thread) {
  std::vector<std::uint32_t>& threads = events_[event].recording_threads;
  if (threads.empty() || threads.back() != thread) threads.push_back(thread);
}

template <class Sink>
void Simulator<Sink>::begin(std::int64_t steps) {
  steps_target_ = steps;
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
    if (steps > 0 && !program_.threads[thread].instructions.empty()) {
      set_thread(thread, Picoseconds(0));
    } else {
      threads_[thread].phase = ThreadPhase::Done;
    }
  }
}

template <class Sink>
void Simulator<Sink>::loop() {
  while (!stop_ && agenda_.next_time() != Agenda::never) {
    GPUSIM_ASSERT(agenda_.next_time() >= now_);
    now_ = agenda_.next_time();
    if (now_ > time_max) throw TimeLimitError("more than 26 days of simulated time (time_max)");
    const std::size_t actor = agenda_.next_actor();
    if (actor < streams_.size()) {
      run_stream(actor);
    } else if (actor < streams_.size() + devices_.size()) {
      run_device(actor - streams_.size());
    } else {
      run_thread(actor - streams_.size() - devices_.size());
    }
  }
  if (!stop_) check_finished();
}

template <class Sink>
void Simulator<Sink>::check_finished() const {
  std::string message;
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (threads_[i].phase != ThreadPhase::Done) message += "\n  " + waits_of_thread(i);
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (!streams_[i].queue.empty()) message += "\n  " + waits_of_stream(i);
  if (message.empty()) return;
  throw DeadlockError("deadlock at " + std::to_string(now_.count() / 1'000'000) + "." +
                      std::to_string(1'000'000 + now_.count() % 1'000'000).substr(1) + " us:" + message);
}

template <class Sink>
std::string Simulator<Sink>::waits_of_thread(std::size_t index) const {
  const ThreadState& thread = threads_[index];
  const Instruction& instruction = program_.threads[index].instructions[thread.pc];
  if (thread.phase == ThreadPhase::AheadOfOthers)
    return "host thread '" + program_.threads[index].name + "' (step " + std::to_string(thread.step) +
           ") waits for threads that are more than " + std::to_string(step_lead_max) + " steps behind";
  std::string text = "host thread '" + program_.threads[index].name + "' (step " +
                     std::to_string(thread.step) + ", instruction " + std::to_string(thread.pc) + ") ";
  const auto stream = [&] { return "stream '" + program_.streams[instruction.stream].name + "'"; };
  switch (instruction.call) {
    case Call::Await:
      return text + "awaits signal '" + program_.signals[instruction.object] + "'";
    case Call::SynchronizeStream:
      return text + "synchronizes with " + stream();
    case Call::SynchronizeDevice:
      return text + "synchronizes with device " + std::to_string(instruction.object);
    case Call::SynchronizeEvent: {
      const bool recorded = !events_[instruction.object].recording_threads.empty();
      return text + "synchronizes with event '" + program_.events[instruction.object] + "'" +
             (recorded ? "" : ", which nobody records");
    }
    default:
      break;
  }
  if (thread.phase == ThreadPhase::QueueFull)
    return text + "waits for a place in the launch queue of " + stream();
  return text + "waits for its blocking launch into " + stream();
}

template <class Sink>
std::string Simulator<Sink>::waits_of_stream(std::size_t index) const {
  const StreamState& stream = streams_[index];
  const Entry& entry = stream.queue[0];
  if (stream.in_graph)
    return "stream '" + program_.streams[index].name + "': CUDA graph '" +
           program_.names[program_.graphs[entry.object].name] + "' waits for an event that is not recorded";
  const std::string text = "stream '" + program_.streams[index].name + "' (" +
                           std::to_string(stream.queue.size()) +
                           (stream.queue.size() == 1 ? " entry" : " entries") + ") waits for event ";
  if (entry.type == Entry::Type::Graph && stream.attached.empty())
    return "stream '" + program_.streams[index].name + "' waits for another replay of CUDA graph '" +
           program_.names[program_.graphs[entry.object].name] + "'";
  const std::string caller = ", as host thread '" + program_.threads[entry.origin.thread].name + "' (step " +
                             std::to_string(entry.step) + ", instruction " +
                             std::to_string(entry.instruction) + ") asked";
  const Index instance = entry.type == Entry::Type::Wait ? entry.instance : stream.attached[0];
  for (std::size_t event = 0; event < events_.size(); ++event)
    if (events_[event].latest == instance)
      return text + "'" + program_.events[event] + "'" +
             (events_[event].recording_threads.empty() ? ", which nobody records" : "") + caller;
  const bool named = entry.type == Entry::Type::Wait;
  return text + (named ? "'" + program_.events[entry.object] + "', " : std::string()) +
         "whose record is stuck behind another wait" + caller;
}

/// Explains the time after the last op and closes the books.
template <class Sink>
Run Simulator<Sink>::finish() {
  std::size_t last_thread = 0;
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (threads_[i].end > threads_[last_thread].end) last_thread = i;
  Run result;
  totals_.steps = steps_target_;
  accounts_.finish(last_thread, threads_[last_thread].end, result);
  result.peak_bytes = peak_;
  result.final_bytes = allocated_;
  result.queue_length_max = queue_length_max_;
  return result;
}

template <class Sink>
Run Simulator<Sink>::run(std::int64_t steps) {
  begin(steps);
  loop();
  return finish();
}

template <class Sink>
Steady Simulator<Sink>::run_steady(const SteadyOptions& options) {
  steady_options_ = &options;
  while (marker_ < threads_.size() && program_.threads[marker_].instructions.empty()) ++marker_;
  if (marker_ == threads_.size()) {
    // Nothing marks a step.
    steady_.exact = true;
    steady_.period.steps = 1;
    return steady_;
  }
  begin(std::numeric_limits<std::int64_t>::max());
  loop();
  steady_.peak_bytes = peak_;
  return steady_;
}

namespace {

/// An empty timeline with room for all that will happen: growing by doubling would move everything twice. Up
/// to a limit that is far above what anybody looks at, so that a wrong number of steps does not take the
/// address space of the machine.
void prepare(Timeline& timeline, const Program& program, std::int64_t steps) {
  constexpr double records_max = 1e8;
  const auto room = [&](double per_step) {
    return static_cast<std::size_t>(
        std::min(records_max, per_step * static_cast<double>(std::max<std::int64_t>(steps, 0))));
  };
  timeline = Timeline{};
  double ops = 0;
  timeline.threads.resize(program.threads.size());
  for (std::size_t t = 0; t < program.threads.size(); ++t) {
    const LargeVector<Instruction>& instructions = program.threads[t].instructions;
    timeline.threads[t].per_step = instructions.size();
    timeline.threads[t].call_end.reserve(room(static_cast<double>(instructions.size())));
    ops += static_cast<double>(instructions.size());
    if (program.graphs.empty()) continue;
    for (const Instruction& in : instructions)
      if (in.call == Call::LaunchGraph && in.object < program.graphs.size())
        ops += static_cast<double>(program.graphs[in.object].nodes.size());
  }
  timeline.ops.reserve(room(ops));
}

std::int64_t instruction_count(const Program& program) {
  std::int64_t count = 0;
  for (const HostThread& thread : program.threads)
    count += static_cast<std::int64_t>(thread.instructions.size());
  return count;
}

/// Of two numbers that are not negative.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return b != 0 && a > most / b ? most : a * b;
}

/// Entries that one step puts into launch queues.
std::int64_t queue_entries(const Program& program) {
  std::int64_t entries = 0;
  for (const HostThread& thread : program.threads)
    for (const Instruction& in : thread.instructions)
      if (in.call == Call::Launch || in.call == Call::LaunchGraph || in.call == Call::StreamWait) ++entries;
  return entries;
}

std::int64_t threads_used(const Program& program) {
  return std::count_if(program.threads.begin(), program.threads.end(),
                       [](const HostThread& thread) { return !thread.instructions.empty(); });
}

/// Whether the host ever waits for the device but for a place in a launch queue.
bool synchronizes(const Program& program) {
  return std::any_of(program.threads.begin(), program.threads.end(), [](const HostThread& thread) {
    return std::any_of(thread.instructions.begin(), thread.instructions.end(), [](const Instruction& in) {
      return in.blocking || in.call == Call::SynchronizeStream || in.call == Call::SynchronizeEvent ||
             in.call == Call::SynchronizeDevice;
    });
  });
}

/// Nothing on the device depends on which of two things comes first: no shared copy engines, devices or CUDA
/// graphs. Then with one host thread, or several that take turns, every time is a maximum of sums of earlier
/// ones, and a longer queue can only make things happen earlier.
bool order_is_fixed(const Program& program, const Machine& machine) {
  std::vector<std::int32_t> stream_of_graph(program.graphs.size(), -1);
  for (const HostThread& thread : program.threads)
    for (const Instruction& in : thread.instructions) {
      if (in.call != Call::LaunchGraph) continue;
      if (!has_fixed_schedule(program, program.graphs[in.object])) return false;
      std::int32_t& stream = stream_of_graph[in.object];
      if (stream >= 0 && stream != in.stream) return false;
      stream = in.stream;
    }
  return !may_share(program, machine) &&
         std::none_of(program.ops.begin(), program.ops.end(),
                      [](const GpuOp& op) { return op.copy_engine != CopyEngine::None; });
}

/// With several streams the pace may be proven, but not how far their ops overlap: that depends on the
/// queues.
bool one_stream(const Program& program) {
  std::int32_t stream = -1;
  for (const HostThread& thread : program.threads)
    for (const Instruction& in : thread.instructions) {
      if (in.call != Call::Launch && in.call != Call::LaunchGraph) continue;
      if (stream >= 0 && stream != in.stream) return false;
      stream = in.stream;
    }
  return true;
}

bool device_never_waits_for_host(const Totals& totals) {
  const auto idle = [&](IdleCause cause) { return totals.idle[static_cast<std::size_t>(cause)]; };
  return idle(IdleCause::Synchronization) + idle(IdleCause::LaunchLatency) + idle(IdleCause::Dispatch) +
             idle(IdleCause::Input) ==
         Picoseconds(0);
}

/// A steady step, and whether a launch call found its queue full, or may have.
struct FoundSteady {
  Steady steady;
  bool queue_was_full = false;
};

/// By the fast path: if it finds one, the host threads take turns.
std::optional<FoundSteady> steady_by_one_pass(const Program& program, const Machine& machine,
                                              const SteadyOptions& options) {
  NullSink sink;
  OnePass<NullSink> one_pass(program, machine, sink);
  const std::optional<Steady> steady = one_pass.run_steady(options);
  if (!steady) return std::nullopt;
  return FoundSteady{*steady, one_pass.queue_was_full()};
}

FoundSteady steady_by_events(const Program& program, const Machine& machine, const SteadyOptions& options) {
  NullSink sink;
  Simulator<NullSink> simulator(program, machine, sink);
  const Steady steady = simulator.run_steady(options);
  return {steady, simulator.queue_was_full()};
}

/// The steady step found with a shorter launch queue, where that proves it for the real one. Filling a long
/// queue can take a hundred thousand steps of a slow drift; a short one is full at once.
///  - The device, one stream of it, never waits for the host: it runs at its own pace, and with a longer
///  queue it can neither be faster
///    (its own gaps and durations bound it) nor slower (launches only come earlier).
///  - The host was never blocked by the short queue: the longer one is never full either, and all is the
///  same.
/// Of threads that take turns, who is blocked depends on which launches find the queue full: those of the
/// real queue, if the short one differs from it by whole steps and nothing else makes the host wait for the
/// device.
std::optional<Steady> steady_of_shorter_queue(const Program& program, const Machine& machine,
                                              const SteadyOptions& options, bool one_pass) {
  const bool several = threads_used(program) > 1;
  if (!order_is_fixed(program, machine) || (several && !one_pass)) return std::nullopt;
  const std::int64_t entries = queue_entries(program);
  if (entries == 0) return std::nullopt;
  const std::int64_t whole_steps = (machine.launch_queue_depth - entries - 1) % entries;
  for (const std::int64_t times : {1, 4}) {
    const std::int64_t depth = times * entries + (several ? 1 + whole_steps : times);
    if (depth >= machine.launch_queue_depth) break;
    Machine shorter = machine;
    shorter.launch_queue_depth = static_cast<std::int32_t>(depth);
    std::optional<FoundSteady> found;
    if (one_pass) found = steady_by_one_pass(program, shorter, options);
    if (!found && several) break;
    if (!found) found = steady_by_events(program, shorter, options);
    const bool device_bound = one_stream(program) && device_never_waits_for_host(found->steady.period) &&
                              !(several && synchronizes(program));
    if (found->steady.exact && (device_bound || !found->queue_was_full)) return found->steady;
  }
  return std::nullopt;
}

Steady find_steady(const Program& program, const Machine& machine, const SteadyOptions& options,
                   bool one_pass) {
  if (std::optional<Steady> proven = steady_of_shorter_queue(program, machine, options, one_pass))
    return *proven;
  if (one_pass)
    if (std::optional<FoundSteady> found = steady_by_one_pass(program, machine, options))
      return found->steady;
  Steady steady = steady_by_events(program, machine, options).steady;
  if (!steady.exact) {
    NullSink sink;
    const std::int64_t steps = steady.warmup_steps;
    const std::int64_t half = steps / 2;
    const Run all = Simulator<NullSink>(program, machine, sink).run(steps);
    steady.period = all.totals - Simulator<NullSink>(program, machine, sink).run(half).totals;
    steady.warmup_steps = half;
    steady.peak_bytes = all.peak_bytes;
  }
  return steady;
}

}  // namespace

Run run_event_by_event(const Program& program, const Machine& machine, std::int64_t steps,
                       Timeline* timeline) {
  check(program, machine);
  if (timeline == nullptr) {
    NullSink sink;
    return Simulator<NullSink>(program, machine, sink).run(steps);
  }
  prepare(*timeline, program, steps);
  TimelineSink sink(*timeline);
  const Run result = Simulator<TimelineSink>(program, machine, sink).run(steps);
  return result;
}

std::vector<IdleInterval> idle_intervals(const Program& program, const Machine& machine, std::int64_t steps) {
  check(program, machine);
  NullSink sink;
  Simulator<NullSink> simulator(program, machine, sink);
  std::vector<IdleInterval> pieces;
  simulator.keep_idle_intervals(&pieces);
  simulator.run(steps);
  // An explanation walks back in time, so its last piece came first.
  std::sort(pieces.begin(), pieces.end(),
            [](const IdleInterval& a, const IdleInterval& b) { return a.from < b.from; });
  std::vector<IdleInterval> joined;
  for (const IdleInterval& piece : pieces) {
    if (!joined.empty() && joined.back().to == piece.from && joined.back().cause == piece.cause)
      joined.back().to = piece.to;
    else
      joined.push_back(piece);
  }
  return joined;
}

std::optional<Run> run_by_period(const Program& program, const Machine& machine, std::int64_t steps,
                                 std::int64_t instructions_max) {
  check(program, machine);
  NullSink sink;
  return Simulator<NullSink>(program, machine, sink).run_by_period(steps, instructions_max);
}

bool takes_fast_path(const Program& program, const Machine& machine) {
  check(program, machine);
  NullSink sink;
  return OnePass<NullSink>(program, machine, sink).run(1).has_value();
}

Run run(const Program& program, const Machine& machine, std::int64_t steps, Timeline* timeline) {
  check_tables(program, machine);
  std::optional<Run> result;
  if (timeline == nullptr) {
    // Looking for a repetition costs 20 times as much a step as the fast path: worth a twentieth of all
    // steps.
    const std::int64_t instructions_max = saturating_product(steps, instruction_count(program)) / 20;
    if (steps >= 64 && instructions_max >= 10'000) {
      result = run_by_period(program, machine, steps, instructions_max);
      if (result) return *result;
    }
    NullSink sink;
    result = OnePass<NullSink>(program, machine, sink).run(steps);
  } else {
    prepare(*timeline, program, steps);
    TimelineSink sink(*timeline);
    result = OnePass<TimelineSink>(program, machine, sink).run(steps);
  }
  return result ? *result : run_event_by_event(program, machine, steps, timeline);
}

Steady run_steady(const Program& program, const Machine& machine, SteadyOptions options) {
  check(program, machine);
  const Steady steady = find_steady(program, machine, options, true);
  GPUSIM_ASSERT(steady.period.busy + steady.period.idle_total() == steady.period.wall);
  return steady;
}

Steady run_steady_event_by_event(const Program& program, const Machine& machine, SteadyOptions options) {
  check(program, machine);
  const Steady steady = find_steady(program, machine, options, false);
  GPUSIM_ASSERT(steady.period.busy + steady.period.idle_total() == steady.period.wall);
  return steady;
}

}  // namespace gpusim::engine
