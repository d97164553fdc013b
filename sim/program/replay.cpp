// SPDX-License-Identifier: Apache-2.0
#include "sim/program/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/program/replay_cost.hpp"
#include "sim/program/replay_host.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;
using engine::no_index;

[[noreturn]] void refuse(const char* path, std::string what, std::string hint) {
  throw ConfigError(path, std::move(what), std::move(hint));
}

class ReplayBuilder {
 public:
  ReplayBuilder(const Trace& trace, const GpuSpec* hardware, const ReplayOptions& options)
      : trace_(trace),
        hardware_(hardware),
        options_(options),
        rules_(derive_rules(trace, hardware, options.rules)),
        host_(view_host(trace, rules_)),
        cost_(trace, hardware, rules_, options) {}

  Replay build() {
    engine::Program& p = program();
    result_.built.machine = build_machine(hardware_ != nullptr ? std::optional(*hardware_) : std::nullopt);
    if (rules_.waits > 0) result_.built.machine.event_latency = rules_.wait_latency;
    result_.origin = host_.start;
    result_.built.steps_per_program =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(host_.steps.size()));
    add_streams();
    add_ops();
    add_threads();
    add_events();
    find_blocked_launches();
    emit_chain();
    for (const std::uint32_t thread : host_.independent) emit_independent(thread);
    emit_pinned();
    if (p.streams.size() > 0xffff || p.threads.size() > 0xffff)
      refuse("workload.trace", "the trace has more than 65,535 streams or host threads", "");
    fill_statistics();
    return std::move(result_);
  }

 private:
  engine::Program& program() { return result_.built.program; }
  const TraceOp& op(std::uint32_t i) const { return trace_.ops[i]; }
  const RuledOp& ruled(std::uint32_t i) const { return rules_.ops[i]; }
  bool linked(std::uint32_t i) const { return ruled(i).call != trace_none; }

  // Tables.

  Index name(std::uint32_t trace_name) {
    const auto [known, added] = names_.emplace(trace_name, static_cast<Index>(program().names.size()));
    if (added) program().names.push_back(trace_.name_of(trace_name));
    return known->second;
  }

  void add_streams() {
    for (const TraceStream& stream : trace_.streams) {
      const std::string text = trace_.devices.size() > 1
                                   ? fmt::format("{} of device {}", stream.name, stream.device)
                                   : stream.name;
      program().streams.push_back({text, static_cast<int>(stream.device_index)});
    }
    // Ops without a launch get a stream of their own beside the one that they ran in.
    pinned_stream_.assign(trace_.streams.size(), no_index);
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      if (linked(i) || pinned_stream_[op(i).stream] != no_index) continue;
      pinned_stream_[op(i).stream] = static_cast<Index>(program().streams.size());
      engine::Stream pinned = program().streams[op(i).stream];
      pinned.name += " (no launch in the trace)";
      program().streams.push_back(std::move(pinned));
    }
  }

  void add_ops() {
    result_.op_of.assign(trace_.ops.size(), no_index);
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      const TraceOp& traced = op(i);
      const RuledOp& r = ruled(i);
      engine::GpuOp o;
      engine::OpInfo info;
      info.name = name(traced.name);
      o.duration = scaled(traced.duration(), options_.kernel_duration_factor);
      o.kind = traced.kind == TraceOpKind::Kernel   ? engine::OpKind::Kernel
               : traced.kind == TraceOpKind::Memcpy ? engine::OpKind::Memcpy
                                                    : engine::OpKind::Memset;
      info.bytes = std::max<std::int64_t>(traced.bytes, 0);
      // Overlap is in the gap itself: inside a CUDA graph nothing is programmatic.
      o.gap_class = static_cast<engine::GapClass>(gap_class_of(trace_, traced, false));
      if (linked(i)) {
        o.gap_before = gap(i);
        if (hardware_ != nullptr && traced.kind == TraceOpKind::Kernel && !r.graph)
          info.min_period_in_graph = graph_min_period(hardware_->launch, blocks(traced));
      }
      result_.op_of[i] = program().add(o, info);
      result_.built.residency.push_back(residency_of(traced));
    }
    for (std::uint32_t c = 0; c < trace_.calls.size(); ++c)
      if (trace_.calls[c].kind == TraceCallKind::GraphLaunch && !rules_.ops_of_call[c].empty()) add_graph(c);
  }

  /// From the launch as traced, where the device's SMs are known.
  std::optional<engine::Residency> residency_of(const TraceOp& traced) const {
    if (hardware_ == nullptr || !hardware_->sm || hardware_->sms == 0) return std::nullopt;
    const engine::SharingMachine& machine = result_.built.machine.sharing;
    if (traced.kind != TraceOpKind::Kernel) {
      const std::string text(trace_.name_of(traced.name));
      const bool within_device = traced.kind == TraceOpKind::Memset || text.find("DtoD") != std::string::npos;
      return within_device ? engine::transfer_residency(traced.bytes, machine) : engine::Residency{};
    }
    if (traced.threads() <= 0 || traced.blocks() <= 0) return std::nullopt;
    return engine::residency(
        {.blocks = blocks(traced),
         .threads_per_block = static_cast<std::int32_t>(std::min<std::int64_t>(traced.threads(), 1024)),
         .registers_per_thread =
             static_cast<std::int32_t>(std::clamp<std::int64_t>(traced.registers, 0, 255)),
         .shared_memory_per_block = traced.shared_memory},
        machine);
  }

  Picoseconds gap(std::uint32_t i) const {
    const RuledOp& r = ruled(i);
    // A node that started while its graph was still being launched waited for that.
    if (r.node && r.graph && r.starts_in_call)
      return std::max(r.gap, cost_.within_call(r.call, r.observed_gap));
    return r.gap;
  }

  std::int64_t blocks(const TraceOp& o) const {
    const auto product = [](const std::array<std::int64_t, 3>& sizes) {
      double all = 1;
      for (const std::int64_t size : sizes) all *= static_cast<double>(size);
      return std::min(all, 1e15);  // Beyond what any grid has, and within an integer.
    };
    // AMD counts work-items.
    const bool items = hardware_ != nullptr && hardware_->vendor == Vendor::Amd && product(o.block) > 0;
    return static_cast<std::int64_t>(product(o.grid) / (items ? product(o.block) : 1));
  }

  void add_graph(std::uint32_t c) {
    const std::vector<std::uint32_t>& ops = rules_.ops_of_call[c];
    engine::CudaGraph graph;
    graph.name = name(trace_.calls[c].name);
    std::map<std::uint32_t, Index> last_of_stream;
    std::map<std::uint32_t, Index> position;
    for (const std::uint32_t i : ops) {
      engine::CudaGraph::Node node;
      node.op = result_.op_of[i];
      const auto last = last_of_stream.find(op(i).stream);
      if (last != last_of_stream.end()) node.after.push_back(last->second);
      const auto previous = position.find(ruled(i).previous);
      if (previous != position.end() && (node.after.empty() || node.after.front() != previous->second))
        node.after.push_back(previous->second);
      const auto here = static_cast<Index>(graph.nodes.size());
      last_of_stream[op(i).stream] = here;
      position[i] = here;
      graph.nodes.push_back(std::move(node));
    }
    graph_of_call_.emplace(c, static_cast<Index>(program().graphs.size()));
    program().graphs.push_back(std::move(graph));
  }

  void add_threads() {
    const auto add = [&](std::uint32_t thread) {
      thread_index_.emplace(thread, static_cast<std::uint16_t>(program().threads.size()));
      std::string text = "main";
      if (thread < trace_.threads.size()) {
        const TraceThread& traced = trace_.threads[thread];
        text = traced.name.empty() ? "thread " + traced.thread : traced.name;
      }
      program().threads.push_back({std::move(text), {}, {}});
    };
    for (const std::uint32_t thread : host_.chained) add(thread);
    for (const std::uint32_t thread : host_.independent) add(thread);
  }

  /// One event for each op that others wait for, beside those that the trace records.
  void add_events() {
    for (std::uint32_t e = 0; e < host_.recorded_events; ++e)
      program().events.push_back(fmt::format("recorded {}", e + 1));
    waits_of_.resize(trace_.ops.size());
    for (const std::vector<std::uint32_t>& sequence : rules_.sequences) {
      std::uint32_t pinned = trace_none;
      for (const std::uint32_t i : sequence) {
        if (!linked(i)) {
          pinned = i;
          continue;
        }
        if (ruled(i).waits_for != trace_none) waits_of_[i].push_back(event_after(ruled(i).waits_for));
        // Later ops of the stream come after what ran in it without a launch.
        if (pinned != trace_none && op(pinned).end <= op(i).start && !(ruled(i).node && ruled(i).graph))
          waits_of_[i].push_back(event_after(pinned));
        pinned = trace_none;
      }
    }
    for (const HostCall& h : host_.calls)
      if (h.action == HostAction::Synchronize && h.waits_for != trace_none) event_after(h.waits_for);
  }
  Index event_after(std::uint32_t i) {
    const auto [known, added] = event_after_.emplace(i, static_cast<Index>(program().events.size()));
    if (added) {
      program().events.push_back(fmt::format("end of op {}", i + 1));
      if (linked(i)) events_of_call_[ruled(i).call].push_back(i);
    }
    return known->second;
  }

  /// Launches whose call blocked because the queue was full: the engine blocks them itself, so their call
  /// takes what others of its name take.
  void find_blocked_launches() {
    if (hardware_ == nullptr) return;
    const std::int64_t full = hardware_->launch.queue_depth - 8;
    for (const std::vector<std::uint32_t>& sequence : rules_.sequences) {
      std::vector<Picoseconds> starts;  // of the entries so far, rising
      for (const std::uint32_t i : sequence) {
        if (!linked(i) || (ruled(i).node && ruled(i).graph)) continue;
        const Picoseconds called = trace_.calls[ruled(i).call].start;
        const auto started = std::upper_bound(starts.begin(), starts.end(), called) - starts.begin();
        if (static_cast<std::int64_t>(starts.size()) - started >= full && cost_.cap(ruled(i).call))
          ++result_.statistics.blocked_launches;
        starts.push_back(op(i).start);
      }
    }
  }

  // Host threads.

  struct Pen {
    std::uint16_t thread = 0;
    Picoseconds traced{0};  ///< Traced time up to which the thread is written.
  };

  engine::LargeVector<Instruction>& instructions(std::uint16_t thread) {
    return program().threads[thread].instructions;
  }
  void push(std::uint16_t thread, const Instruction& instruction, Index shown = no_index) {
    program().threads[thread].add(instruction, shown);
  }

  void signal(std::uint16_t from, std::uint16_t to, const std::string& what) {
    const auto s = static_cast<Index>(program().signals.size());
    program().signals.push_back(what);
    push(from, {.call = Call::Signal, .object = s});
    push(to, {.call = Call::Await, .object = s});
  }

  void work_until(Pen& pen, std::uint32_t thread, Picoseconds traced) {
    if (traced <= pen.traced) return;
    const Picoseconds time = cost_.work(thread, pen.traced, traced);
    if (time > Picoseconds(0)) push(pen.thread, {.call = Call::Work, .duration = time});
    pen.traced = traced;
  }

  /// The chained threads, one continuing where the other left off. Their first one marks the steps.
  void emit_chain() {
    const std::uint32_t main = host_.chained.front();
    for (std::size_t i = 0; i < host_.independent.size(); ++i)
      signal(0, thread_index_.at(host_.independent[i]), fmt::format("start {}", i + 1));
    Pen pen{.thread = 0, .traced = host_.start};
    const auto move_to = [&](std::uint32_t thread) {
      const std::uint16_t to = thread_index_.at(thread);
      if (to == pen.thread) return;
      signal(pen.thread, to, fmt::format("hand-off {}", ++result_.statistics.hand_offs));
      pen.thread = to;
    };
    std::size_t step = std::min<std::size_t>(1, host_.steps.size());
    const auto steps_until = [&](Picoseconds traced) {
      for (; step < host_.steps.size() && host_.steps[step] <= traced; ++step) {
        move_to(main);
        work_until(pen, main, host_.steps[step]);
        result_.built.step_starts.push_back({0, static_cast<Index>(instructions(0).size())});
      }
    };
    for (const HostCall& h : host_.calls) {
      if (std::find(host_.chained.begin(), host_.chained.end(), h.thread) == host_.chained.end()) continue;
      steps_until(h.start);
      move_to(h.thread);
      work_until(pen, h.thread, h.start);
      emit(pen.thread, h);
      pen.traced = h.end;
    }
    steps_until(host_.end);
    move_to(main);
    work_until(pen, main, host_.end);
  }

  void emit_independent(std::uint32_t thread) {
    Pen pen{.thread = thread_index_.at(thread), .traced = host_.start};
    for (const HostCall& h : host_.calls) {
      if (h.thread != thread) continue;
      work_until(pen, thread, h.start);
      emit(pen.thread, h);
      pen.traced = h.end;
    }
  }

  void emit(std::uint16_t thread, const HostCall& h) {
    switch (h.action) {
      case HostAction::Launch:
        emit_launch(thread, h);
        break;
      case HostAction::Record:
      case HostAction::StreamWait: {
        const Picoseconds time = cost_.call(h);
        push(thread,
             {.call = h.action == HostAction::Record ? Call::Record : Call::StreamWait,
              .stream = static_cast<std::uint16_t>(h.stream),
              .object = h.event,
              .duration = time,
              .latency = time},
             name(trace_.calls[h.call].name));
        break;
      }
      case HostAction::Synchronize:
        emit_synchronize(thread, h);
        break;
    }
  }

  void emit_synchronize(std::uint16_t thread, const HostCall& h) {
    Instruction i;
    if (h.device) {
      i.call = Call::SynchronizeDevice;
      i.object = h.device_index;
    } else if (h.stream != trace_none) {
      i.call = Call::SynchronizeStream;
      i.stream = static_cast<std::uint16_t>(h.stream);
    } else {
      i.call = Call::SynchronizeEvent;
      i.object = h.waits_for == trace_none ? h.event : event_after(h.waits_for);
    }
    i.duration = h.blocked ? cost_.sync_call(h) : cost_.call(h);
    i.return_latency =
        h.blocked ? cost_.sync_return(h.end - h.completion) : cost_.sync_return(Picoseconds(0));
    push(thread, i, name(trace_.calls[h.call].name));
    ++result_.statistics.synchronizations;
    if (h.blocked) ++result_.statistics.blocking_synchronizations;
  }

  void emit_launch(std::uint16_t thread, const HostCall& h) {
    const std::vector<std::uint32_t>& ops = rules_.ops_of_call[h.call];
    const bool graph = ruled(ops.front()).graph;
    const auto stream = static_cast<std::uint16_t>(ruled(ops.front()).sequence);
    for (std::size_t k = 0; k < (graph ? 1 : ops.size()); ++k) {
      const std::uint32_t i = ops[k];
      const auto into = static_cast<std::uint16_t>(ruled(i).sequence);
      for (const Index event : waits_of_[i])
        push(thread, {.call = Call::StreamWait, .attached = true, .stream = into, .object = event});
      Instruction launch;
      launch.call = graph ? Call::LaunchGraph : Call::Launch;
      launch.stream = into;
      launch.object = graph ? graph_of_call_.at(h.call) : result_.op_of[i];
      launch.latency = cost_.latency(i);
      if (graph || k + 1 == ops.size()) launch.duration = cost_.call(h);
      if (blocks_host(h, ops)) {
        launch.blocking = true;
        launch.duration = std::min(launch.duration, launch.latency);
        launch.return_latency = cost_.sync_return(trace_.calls[h.call].end - op(i).end);
        ++result_.statistics.blocking_copies;
      }
      push(thread, launch, name(trace_.calls[h.call].name));
    }
    if (graph) ++result_.statistics.cuda_graph_launches;
    const auto events = events_of_call_.find(h.call);
    if (events == events_of_call_.end()) return;
    for (const std::uint32_t i : events->second)
      push(thread, {.call = Call::Record,
                    .stream = graph ? stream : static_cast<std::uint16_t>(ruled(i).sequence),
                    .object = event_after_.at(i)});
  }

  /// A copy whose call returned after it had ended.
  bool blocks_host(const HostCall& h, const std::vector<std::uint32_t>& ops) const {
    return ops.size() == 1 && op(ops.front()).kind == TraceOpKind::Memcpy && !ruled(ops.front()).graph &&
           trace_.calls[h.call].end >= op(ops.front()).end && h.end == trace_.calls[h.call].end;
  }

  /// Ops without a launch: a host thread and a stream of their own keep them where they were.
  void emit_pinned() {
    for (std::uint32_t stream = 0; stream < pinned_stream_.size(); ++stream) {
      if (pinned_stream_[stream] == no_index) continue;
      const auto thread = static_cast<std::uint16_t>(program().threads.size());
      program().threads.push_back({"no launch in the trace: stream " + trace_.streams[stream].name, {}, {}});
      result_.built.threads_kept.push_back(thread);
      // The signal comes first in the program of the first thread.
      const auto s = static_cast<Index>(program().signals.size());
      program().signals.push_back("start of stream " + trace_.streams[stream].name);
      push(thread, {.call = Call::Await, .object = s});
      pinned_signals_.push_back(s);
      Picoseconds at = host_.start;
      Picoseconds ended = Picoseconds::min();
      for (const std::uint32_t i : rules_.sequences[stream]) {
        if (linked(i)) continue;
        const TraceOp& o = op(i);
        if (o.start > at) push(thread, {.call = Call::Work, .duration = o.start - at});
        at = std::max(at, o.start);
        program().ops[result_.op_of[i]].gap_before =
            ended == Picoseconds::min() ? Picoseconds(0) : std::min(Picoseconds(0), o.start - ended);
        ended = std::max(ended, o.end);
        const auto into = static_cast<std::uint16_t>(pinned_stream_[stream]);
        push(thread, {.call = Call::Launch, .stream = into, .object = result_.op_of[i]});
        const auto event = event_after_.find(i);
        if (event != event_after_.end())
          push(thread, {.call = Call::Record, .stream = into, .object = event->second});
      }
    }
    engine::LargeVector<Instruction> first;
    for (const Index s : pinned_signals_) first.push_back({.call = Call::Signal, .object = s});
    engine::HostThread& main = program().threads[0];
    main.instructions.insert(main.instructions.begin(), first.begin(), first.end());
    main.names.insert(main.names.begin(), first.size(), no_index);
    for (InstructionPlace& place : result_.built.step_starts)
      place.instruction += static_cast<Index>(first.size());
  }

  void fill_statistics() {
    ReplayStatistics& s = result_.statistics;
    s.gpu_ops = static_cast<std::int64_t>(trace_.ops.size());
    for (const RuledOp& r : rules_.ops) {
      if (r.call == trace_none) ++s.unlinked_ops;
      if (r.out_of_order) ++s.out_of_order_ops;
      if (r.starts_in_call) ++s.ops_starting_in_call;
      if (r.queued) ++s.queued_ops;
      if (r.programmatic) ++s.programmatic_ops;
      if (r.source == GapSource::Pair) ++s.gaps_from_pairs;
      if (r.source == GapSource::Class) ++s.gaps_from_classes;
      if (r.source == GapSource::Hardware) ++s.gaps_from_hardware;
    }
    s.inferred_waits = rules_.waits;
    s.recorded_waits = host_.recorded_waits;
    s.host_threads = static_cast<std::int64_t>(host_.chained.size() + host_.independent.size());
    s.independent_threads = static_cast<std::int64_t>(host_.independent.size());
    s.arrival_after_call = rules_.arrival_after_call[static_cast<std::size_t>(TraceOpKind::Kernel)];
    s.arrival_samples = rules_.arrival_samples;
    s.wait_latency = rules_.wait_latency;
    s.host_factor = cost_.factor();
    add_notes();
  }

  void add_notes() {
    const ReplayStatistics& s = result_.statistics;
    std::vector<std::string>& notes = result_.built.notes;
    const auto count = [](std::int64_t n, const char* one, const char* many) {
      return n == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", n, many);
    };
    const auto their = [](std::int64_t n) { return n == 1 ? "its" : "their"; };
    if (s.gpu_ops == 0) notes.push_back("the trace has no GPU op: only host time is replayed");
    if (s.unlinked_ops > 0)
      notes.push_back(fmt::format("{} without a launch in the trace: kept at the traced start",
                                  count(s.unlinked_ops, "GPU op", "GPU ops")));
    if (s.out_of_order_ops > 0)
      notes.push_back(fmt::format("{} of these ran in another order than launched",
                                  count(s.out_of_order_ops, "op", "ops")));
    if (s.ops_starting_in_call > 0)
      notes.push_back(fmt::format("{} started before {} launch call returned: arrival taken from the trace",
                                  count(s.ops_starting_in_call, "GPU op", "GPU ops"),
                                  their(s.ops_starting_in_call)));
    if (s.blocked_launches > 0)
      notes.push_back(fmt::format("{} blocked by a full queue in the trace: call time taken from the others",
                                  count(s.blocked_launches, "launch", "launches")));
    if (host_.warm_up > std::chrono::microseconds(100))
      notes.push_back(fmt::format("{:.3f} ms before the first launch left out: the other steps do without",
                                  static_cast<double>(host_.warm_up.count()) * 1e-9));
    if (host_.ignored_synchronizations > 0)
      notes.push_back(
          fmt::format("{} returned before what they wait for had ended: taken as host work",
                      count(host_.ignored_synchronizations, "synchronisation", "synchronisations")));
    if (hardware_ == nullptr && s.gaps_from_hardware > 0)
      notes.push_back(fmt::format("no hardware named: {} of which the trace shows no like are 0",
                                  count(s.gaps_from_hardware, "gap", "gaps")));
    for (const std::string& note : cost_.notes()) notes.push_back(note);
    if (hardware_ != nullptr && hardware_->launch.transferred)
      notes.push_back(
          fmt::format("launch parameters of {} are transferred from another device", hardware_->name));
  }

  const Trace& trace_;
  const GpuSpec* hardware_;
  const ReplayOptions& options_;
  TraceRules rules_;
  HostView host_;
  ReplayCost cost_;
  Replay result_;
  std::map<std::uint32_t, Index> names_;
  std::vector<Index> pinned_stream_;  ///< By traced stream.
  std::vector<Index> pinned_signals_;
  std::map<std::uint32_t, std::uint16_t> thread_index_;
  std::map<std::uint32_t, Index> graph_of_call_;
  std::vector<std::vector<Index>> waits_of_;  ///< Events that ride on each op's launch.
  std::map<std::uint32_t, Index> event_after_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> events_of_call_;  ///< Ops with an event after them.
};

}  // namespace

Replay build_replay(const Trace& trace, const GpuSpec* hardware, const ReplayOptions& options) {
  using HostTime = TraceWorkload::HostTime;
  if (options.host_time == HostTime::Model && (options.host == nullptr || hardware == nullptr))
    refuse("workload.host_time",
           fmt::format("'model' needs {}", options.host == nullptr ? "a host" : "hardware"),
           "name a file of configs/hosts as 'host' and one of configs/hardware as 'hardware'");
  return ReplayBuilder(trace, hardware, options).build();
}

}  // namespace gpusim
