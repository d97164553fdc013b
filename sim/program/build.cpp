// SPDX-License-Identifier: Apache-2.0
#include "sim/program/build.hpp"
#include "models/units/time_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/program/replay_rules.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;
using NodeKind = engine::CudaGraph::NodeKind;

/// A step may take no longer than this when nothing overlaps, so that thousands of steps fit the engine's
/// clock.
constexpr Picoseconds step_time_max = std::chrono::hours(24);

engine::Distribution::Kind engine_kind(DurationDistribution::Kind kind) {
  switch (kind) {
    case DurationDistribution::Kind::Uniform:
      return engine::Distribution::Kind::Uniform;
    case DurationDistribution::Kind::Normal:
      return engine::Distribution::Kind::Normal;
    case DurationDistribution::Kind::Lognormal:
      return engine::Distribution::Kind::Lognormal;
    case DurationDistribution::Kind::Exponential:
      return engine::Distribution::Kind::Exponential;
    case DurationDistribution::Kind::Choice:
      return engine::Distribution::Kind::Choice;
  }
  return engine::Distribution::Kind::Choice;
}

/// Expected duration: decides the class of a kernel whose durations are random.
Picoseconds mean(const DurationDistribution& d) {
  switch (d.kind) {
    case DurationDistribution::Kind::Uniform:
      return d.a + (d.b - d.a) / 2;
    case DurationDistribution::Kind::Normal:
    case DurationDistribution::Kind::Exponential:
      return d.a;
    case DurationDistribution::Kind::Lognormal:
      return Picoseconds(std::llround(static_cast<double>(d.a.count()) * std::exp(d.sigma * d.sigma / 2)));
    case DurationDistribution::Kind::Choice: {
      double sum = 0;
      for (const Picoseconds choice : d.choices) sum += static_cast<double>(choice.count());
      return Picoseconds(std::llround(sum / static_cast<double>(d.choices.size())));
    }
  }
  return Picoseconds(0);
}

const char* direction_name(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::HostToDevice:
      return "Memcpy HtoD";
    case CopyDirection::DeviceToHost:
      return "Memcpy DtoH";
    case CopyDirection::DeviceToDevice:
      return "Memcpy DtoD";
    case CopyDirection::Peer:
      return "Memcpy PtoP";
  }
  return "Memcpy";
}

/// Names in the order of their first use.
class Table {
 public:
  Index find(const std::string& name, std::vector<std::string>& names) {
    const auto [known, added] = index_.emplace(name, static_cast<Index>(names.size()));
    if (added) names.push_back(name);
    return known->second;
  }

 private:
  std::map<std::string, Index> index_;
};

class Builder {
 public:
  explicit Builder(const Variant& variant)
      : variant_(variant), hardware_(variant.hardware ? &*variant.hardware : nullptr) {
    if (hardware_ != nullptr) launch_ = hardware_->launch;
    if (hardware_ != nullptr && hardware_->sm) sms_ = hardware_->sms;
  }

  BuiltProgram build(const KernelsWorkload& workload) {
    result_.machine = build_machine(variant_.hardware);
    steps_ = workload.steps;
    engine::Program& program = result_.program;
    program.seed = variant_.seed;
    for (const DurationDistribution& d : workload.distributions) {
      distribution_index_.emplace(d.name, static_cast<Index>(program.distributions.size()));
      program.distributions.push_back({.name = d.name,
                                       .kind = engine_kind(d.kind),
                                       .a = d.a,
                                       .b = d.b,
                                       .shape = d.sigma,
                                       .choices = d.choices});
      distribution_mean_.push_back(mean(d));
    }
    for (const StreamPlace& place : workload.streams) device_of_stream_.emplace(place.name, place.device);
    for (const ThreadItems& thread : workload.threads) {
      program.threads.push_back({thread.name, {}, {}});
      emit(thread.items);
    }
    result_.steps_per_program = workload.steps;
    if (serial_time_ > static_cast<double>(step_time_max.count()))
      throw ConfigError("workload", "one step adds up to more than 24 h of simulated time (step_time_max)",
                        "check the units and repeats of the durations");
    if (hardware_ != nullptr && launch_.transferred)
      result_.notes.push_back(
          fmt::format("launch parameters of {} are transferred from another device", hardware_->name));
    return std::move(result_);
  }

 private:
  void emit(const std::vector<Item>& items) {
    for (const Item& item : items) std::visit([&](const auto& what) { emit(what); }, item.what);
  }

  void emit(const LoopItem& loop) {
    // A loop over as many steps as the lists hold is one over steps: no CUDA graph reaches across them.
    const bool steps =
        depth_ == 0 && loop.repeat > 1 && loop.repeat == steps_ && result_.program.threads.size() == 1;
    ++depth_;
    for (std::int64_t i = 0; i < loop.repeat; ++i) {
      if (steps && i > 0)
        result_.step_starts.push_back(
            {0, static_cast<Index>(result_.program.threads.back().instructions.size())});
      emit(loop.body);
    }
    --depth_;
  }

  void emit(const KernelItem& item) {
    const std::vector<Index>& ops = ops_of(item);
    std::size_t& turn = turn_[&item];
    for (std::int64_t i = 0; i < item.repeat; ++i) {
      push_host(item.launch);
      emit_waits(item.after, item.stream);
      push_launch(ops[turn], item.stream, item.launch, launch_.call);
      turn = turn + 1 == ops.size() ? 0 : turn + 1;
    }
  }

  /// CPU work that an item has before its call.
  void push_host(const LaunchTimes& times) {
    if (times.host > Picoseconds(0)) push({.call = Call::Work, .duration = times.host});
  }

  void emit(const CopyItem& item) {
    const Index op = ops_of(item).front();
    for (std::int64_t i = 0; i < item.repeat; ++i) {
      push_host(item.launch);
      emit_waits(item.after, item.stream);
      Instruction& instruction = push_launch(op, item.stream, item.launch, launch_.copy_call);
      instruction.blocking = item.blocking;
      if (item.blocking) instruction.return_latency = item.launch.returns.value_or(launch_.sync_return);
    }
  }

  void emit(const MemsetItem& item) {
    const Index op = ops_of(item).front();
    for (std::int64_t i = 0; i < item.repeat; ++i) {
      push_host(item.launch);
      emit_waits(item.after, item.stream);
      push_launch(op, item.stream, item.launch, launch_.memset_call);
    }
  }

  void emit(const CudaGraphItem& item) {
    const auto [known, added] =
        graph_index_.emplace(&item, static_cast<Index>(result_.program.graphs.size()));
    if (added) result_.program.graphs.push_back(graph_of(item));
    const Index graph = known->second;
    const auto nodes = static_cast<std::int64_t>(result_.program.graphs[graph].nodes.size());
    double ops_time = 0;
    for (const engine::CudaGraph::Node& node : result_.program.graphs[graph].nodes)
      if (node.kind == NodeKind::Op) ops_time += expected_time(node.op);
    for (std::int64_t i = 0; i < item.repeat; ++i) {
      if (!item.launch.call && launch_.cuda_graph.replay_work > Picoseconds(0)) {
        Instruction work;
        work.duration = launch_.cuda_graph.replay_work;
        push(work, name("CUDA graph replay"));
      }
      Instruction instruction;
      instruction.call = Call::LaunchGraph;
      instruction.stream = stream(item.stream);
      instruction.object = graph;
      instruction.duration = item.launch.call.value_or(
          launch_.cuda_graph.call.points.empty() ? launch_.call : graph_call_time(launch_, nodes));
      instruction.latency =
          item.launch.latency.value_or(instruction.duration + launch_.cuda_graph.arrival_after_call);
      push_host(item.launch);
      serial_time_ += ops_time;
      push(instruction);
    }
  }

  void emit(const WorkItem& item) {
    Instruction instruction;
    instruction.call = item.input ? Call::Input : Call::Work;
    instruction.duration = item.duration;
    const Index shown = item.name.empty() ? engine::no_index : name(item.name);
    for (std::int64_t i = 0; i < item.repeat; ++i) push(instruction, shown);
  }

  void emit(const RecordItem& item) {
    push_host(item.launch);
    push(event_call(Call::Record, item.event, item.stream, item.launch, launch_.event_record));
  }

  void emit(const WaitItem& item) {
    push_host(item.launch);
    push(event_call(Call::StreamWait, item.event, item.stream, item.launch, launch_.stream_wait));
  }

  void emit(const SynchronizeItem& item) {
    Instruction instruction;
    switch (item.target) {
      case SynchronizeItem::Target::Device:
        instruction.call = Call::SynchronizeDevice;
        instruction.object = static_cast<Index>(item.device);
        break;
      case SynchronizeItem::Target::Stream:
        instruction.call = Call::SynchronizeStream;
        instruction.stream = stream(item.name);
        break;
      case SynchronizeItem::Target::Event:
        instruction.call = Call::SynchronizeEvent;
        instruction.object = events_.find(item.name, result_.program.events);
        break;
    }
    instruction.duration = item.launch.call.value_or(launch_.sync_call);
    instruction.return_latency = item.launch.returns.value_or(launch_.sync_return);
    push_host(item.launch);
    push(instruction);
  }

  void emit(const AllocateItem& item) { push_memory(Call::Allocate, item.name, item.bytes); }
  void emit(const FreeItem& item) { push_memory(Call::Free, item.name, item.bytes); }

  void emit(const SignalItem& item) { push_signal(Call::Signal, item.signal); }
  void emit(const AwaitItem& item) { push_signal(Call::Await, item.signal); }

  void push_memory(Call call, const std::string& what, Bytes bytes) {
    Instruction instruction;
    instruction.call = call;
    const auto [known, added] =
        size_index_.emplace(bytes.value(), static_cast<Index>(result_.program.sizes.size()));
    if (added) result_.program.sizes.push_back(bytes.value());
    instruction.object = known->second;
    push(instruction, name(what));
  }

  void push_signal(Call call, const std::string& signal) {
    Instruction instruction;
    instruction.call = call;
    instruction.object = signals_.find(signal, result_.program.signals);
    push(instruction);
  }

  /// Waits that ride on the launch that follows.
  void emit_waits(const std::vector<std::string>& events, const std::string& stream_name) {
    for (const std::string& event : events) {
      Instruction wait = event_call(Call::StreamWait, event, stream_name, {}, launch_.stream_wait);
      wait.attached = true;
      push(wait);
    }
  }

  Instruction event_call(Call call, const std::string& event, const std::string& stream_name,
                         const LaunchTimes& times, Picoseconds call_time) {
    Instruction instruction;
    instruction.call = call;
    instruction.object = events_.find(event, result_.program.events);
    instruction.stream = stream(stream_name);
    instruction.duration = times.call.value_or(call_time);
    instruction.latency = times.latency.value_or(instruction.duration + launch_.arrival_after_call);
    return instruction;
  }

  Instruction& push_launch(Index op, const std::string& stream_name, const LaunchTimes& times,
                           Picoseconds call_time) {
    Instruction instruction;
    instruction.call = Call::Launch;
    instruction.object = op;
    instruction.stream = stream(stream_name);
    instruction.duration = times.call.value_or(call_time);
    instruction.latency = times.latency.value_or(instruction.duration + launch_.arrival_after_call);
    serial_time_ += expected_time(op);
    return push(instruction);
  }

  Instruction& push(const Instruction& instruction, Index shown = engine::no_index) {
    serial_time_ += static_cast<double>(
        (instruction.duration + instruction.latency + instruction.return_latency).count());
    engine::HostThread& thread = result_.program.threads.back();
    thread.add(instruction, shown);
    return thread.instructions.back();
  }

  double expected_time(Index op) const {
    const engine::GpuOp& o = result_.program.ops[op];
    return static_cast<double>(
        (o.distribution == engine::no_index ? o.duration : distribution_mean_[o.distribution]).count());
  }

  Index add(const engine::Footprint& footprint) {
    std::vector<engine::Footprint>& known = result_.program.footprints;
    // A kernel whose durations differ has the same footprint each time, or one that goes with the duration.
    if (known.empty() || known.back() != footprint) known.push_back(footprint);
    return static_cast<Index>(known.size() - 1);
  }

  /// Share of the issue slots of an SM that memory traffic takes, of `bytes` in `duration` by `blocks`:
  /// 0.21 % per GB/s on the SM (measured, validation/h200/concurrency).
  double issue_share_of_traffic(Bytes bytes, Picoseconds duration, std::int64_t blocks) const {
    if (sms_ == 0 || duration <= Picoseconds(0)) return 0;
    constexpr double per_gigabyte_per_second = 0.0021;
    constexpr double most = 0.9;  // Traffic alone makes no kernel one that is bound by arithmetic.
    const double used = static_cast<double>(std::min<std::int64_t>(sms_, std::max<std::int64_t>(blocks, 1)));
    double draw =
        std::min(static_cast<double>(bytes.value()) / (static_cast<double>(duration.count()) / 1e12),
                 bandwidth_top(*hardware_).value()) /
        used;
    const double limit = hardware_->memory.bandwidth_per_sm.value();
    if (limit > 0) draw = std::min(draw, limit);
    return std::min(draw / 1e9 * per_gigabyte_per_second, most);
  }

  /// Without the number of blocks and their threads nothing is known about what a kernel leaves to others.
  Index footprint_of(const KernelItem& item, Picoseconds duration) {
    if (item.blocks == 0 || item.threads == 0) return engine::no_index;
    return add({.blocks = item.blocks,
                .threads_per_block = static_cast<std::int32_t>(item.threads),
                .registers_per_thread = static_cast<std::int32_t>(item.registers),
                .shared_memory_per_block = item.shared_memory.value(),
                .bytes = item.bytes.value(),
                .arithmetic = item.arithmetic ? *item.arithmetic
                                              : issue_share_of_traffic(item.bytes, duration, item.blocks),
                .memory_hidden = item.memory_hidden});
  }

  /// A copy within the device or a memset is a kernel of 256 threads a block that fills the device (measured
  /// with 1 GiB); a small one has no more blocks than it has threads with 16 bytes each, the widest access.
  /// `traffic`: bytes read and written.
  Index footprint_of_transfer(Bytes traffic, Picoseconds duration) {
    if (sms_ == 0 || traffic <= Bytes(0)) return engine::no_index;
    constexpr std::int32_t threads = 256;
    constexpr std::int64_t bytes_per_block = 16 * threads;
    const std::int64_t blocks =
        std::clamp<std::int64_t>(traffic.value() / bytes_per_block, 1, std::int64_t{8} * sms_);
    return add({.blocks = blocks,
                .threads_per_block = threads,
                .bytes = traffic.value(),
                .arithmetic = issue_share_of_traffic(traffic, duration, blocks)});
  }

  static Picoseconds at_rate(double amount, double per_second) {
    return time_in_range(amount / per_second * 1e12);
  }

  /// What the hardware's roofs leave of a kernel without a duration: its bytes at the memory bandwidth or its
  /// FLOPs at the peak of their dtype, whichever takes longer, after the latency that a copy has.
  Picoseconds roof_time(const KernelItem& item) const {
    Picoseconds time = at_rate(static_cast<double>(item.bytes.value()), hardware_->memory.bandwidth.value());
    if (const auto dtype = find_dtype(item.dtype.empty() ? variant_.workload.dtype : item.dtype))
      if (const auto rate = hardware_->peak.find(*dtype))
        time = std::max(time, at_rate(item.flops.value(), rate->value()));
    return hardware_->copy.latency + time;
  }

  /// A gap of the item's own takes the place of the hardware's gap and least period.
  static void set_gap(const std::optional<Picoseconds>& gap, bool in_graph, engine::GpuOp& op,
                      engine::OpInfo& info) {
    if (!gap) return;
    op.gap_before = *gap;
    op.min_period = Picoseconds(0);
    if (in_graph) info.min_period_in_graph = Picoseconds(0);
  }

  const std::vector<Index>& ops_of(const KernelItem& item, bool in_graph = false) {
    std::vector<Index>& ops = ops_[&item];
    if (!ops.empty()) return ops;
    engine::GpuOp op;
    op.min_period = min_period(launch_, item.blocks);
    engine::OpInfo info;
    info.name = name(item.name);
    info.min_period_in_graph = graph_min_period(launch_, item.blocks);
    info.bytes = item.bytes.value();
    info.flops = item.flops.value();
    set_gap(item.gap, in_graph, op, info);
    const auto classify = [&](Picoseconds duration) {
      return static_cast<engine::GapClass>(gap_class(LaunchedOp::Kernel, duration, item.programmatic));
    };
    std::vector<Picoseconds> durations = item.duration.in_turn;
    if (durations.empty() && item.duration.distribution.empty()) durations = {roof_time(item)};
    if (durations.empty()) {
      op.distribution = distribution_index_.at(item.duration.distribution);
      op.gap_class = classify(distribution_mean_[op.distribution]);
      info.footprint = footprint_of(item, distribution_mean_[op.distribution]);
      ops.push_back(result_.program.add(op, info));
    }
    for (const Picoseconds duration : durations) {
      op.duration = duration;
      op.gap_class = classify(duration);
      info.footprint = footprint_of(item, duration);
      ops.push_back(result_.program.add(op, info));
    }
    return ops;
  }

  const std::vector<Index>& ops_of(const CopyItem& item, bool in_graph = false) {
    std::vector<Index>& ops = ops_[&item];
    if (!ops.empty()) return ops;
    engine::GpuOp op;
    engine::OpInfo info;
    info.name = name(item.name.empty() ? std::string(direction_name(item.direction)) : item.name);
    info.bytes = item.bytes.value();
    op.kind = engine::OpKind::Memcpy;
    LaunchedOp kind = LaunchedOp::HostCopy;
    switch (item.direction) {
      case CopyDirection::HostToDevice:
        op.copy_engine = engine::CopyEngine::HostToDevice;
        op.duration = item.duration ? *item.duration : host_to_device_time(*hardware_, item.bytes);
        break;
      case CopyDirection::DeviceToHost:
        op.copy_engine = engine::CopyEngine::DeviceToHost;
        op.duration = item.duration ? *item.duration : device_to_host_time(*hardware_, item.bytes);
        break;
      case CopyDirection::DeviceToDevice:
        op.copy_engine = engine::CopyEngine::DeviceToDevice;
        op.duration = item.duration ? *item.duration : device_to_device_time(*hardware_, item.bytes);
        kind = LaunchedOp::DeviceCopy;
        info.footprint = footprint_of_transfer(2 * item.bytes, op.duration);
        if (info.footprint != engine::no_index) op.copy_engine = engine::CopyEngine::None;
        break;
      case CopyDirection::Peer:
        op.copy_engine = engine::CopyEngine::Peer;
        op.peer = static_cast<std::uint8_t>(item.to);
        op.duration = item.duration.value_or(Picoseconds(0));
        break;
    }
    op.gap_class = static_cast<engine::GapClass>(gap_class(kind, op.duration));
    set_gap(item.gap, in_graph, op, info);
    ops.push_back(result_.program.add(op, info));
    return ops;
  }

  const std::vector<Index>& ops_of(const MemsetItem& item, bool in_graph = false) {
    std::vector<Index>& ops = ops_[&item];
    if (!ops.empty()) return ops;
    engine::GpuOp op;
    engine::OpInfo info;
    info.name = name(item.name);
    info.bytes = item.bytes.value();
    op.kind = engine::OpKind::Memset;
    op.duration = item.duration ? *item.duration
                                : hardware_->copy.latency + at_rate(static_cast<double>(item.bytes.value()),
                                                                    hardware_->memory.bandwidth.value());
    op.gap_class = static_cast<engine::GapClass>(gap_class(LaunchedOp::Memset, op.duration));
    info.footprint = footprint_of_transfer(item.bytes, op.duration);
    set_gap(item.gap, in_graph, op, info);
    ops.push_back(result_.program.add(op, info));
    return ops;
  }

  engine::CudaGraph graph_of(const CudaGraphItem& item) {
    engine::CudaGraph graph;
    graph.name = name(item.name);
    std::vector<Index> last_of(item.nodes.size());  ///< Position of the last repeat of each node as written.
    for (std::size_t i = 0; i < item.nodes.size(); ++i) {
      const CudaGraphItem::Node& node = item.nodes[i];
      std::vector<Index> after;
      for (const std::size_t need : node.needs) after.push_back(last_of[need]);
      std::visit([&](const auto& what) { add_nodes(graph, what, std::move(after)); }, node.op);
      last_of[i] = static_cast<Index>(graph.nodes.size() - 1);
    }
    return graph;
  }

  template <class ItemType>
  void add_nodes(engine::CudaGraph& graph, const ItemType& item, std::vector<Index> after) {
    const std::vector<Index>& ops = ops_of(item, true);
    for (std::int64_t k = 0; k < item.repeat; ++k) {
      const Index op = ops[static_cast<std::size_t>(k) % ops.size()];
      graph.nodes.push_back({op, std::move(after), NodeKind::Op});
      after = {static_cast<Index>(graph.nodes.size() - 1)};
    }
  }

  void add_nodes(engine::CudaGraph& graph, const RecordItem& item, std::vector<Index> after) {
    graph.nodes.push_back(
        {events_.find(item.event, result_.program.events), std::move(after), NodeKind::Record});
  }

  void add_nodes(engine::CudaGraph& graph, const WaitItem& item, std::vector<Index> after) {
    graph.nodes.push_back(
        {events_.find(item.event, result_.program.events), std::move(after), NodeKind::Wait});
  }

  Index name(const std::string& text) { return names_.find(text, result_.program.names); }

  std::uint16_t stream(const std::string& stream_name) {
    const auto [known, added] =
        stream_index_.emplace(stream_name, static_cast<std::uint16_t>(result_.program.streams.size()));
    if (added) {
      const auto place = device_of_stream_.find(stream_name);
      result_.program.streams.push_back({stream_name, place == device_of_stream_.end() ? 0 : place->second});
    }
    return known->second;
  }

  const Variant& variant_;
  const GpuSpec* hardware_;
  LaunchSpec launch_;       ///< All zero without hardware.
  std::int64_t steps_ = 1;  ///< That the lists hold.
  int depth_ = 0;           ///< Of loops.
  std::int32_t sms_ = 0;    ///< 0: nothing is known about sharing the device.
  BuiltProgram result_;
  Table names_;
  Table events_;
  Table signals_;
  std::map<std::int64_t, Index> size_index_;
  std::map<std::string, std::uint16_t> stream_index_;
  std::map<std::string, int> device_of_stream_;
  std::map<std::string, Index> distribution_index_;
  std::vector<Picoseconds> distribution_mean_;
  // Looked up by the item that is being laid out, never iterated.
  std::map<const void*, std::vector<Index>> ops_;
  std::map<const void*, std::size_t> turn_;
  std::map<const void*, Index> graph_index_;
  double serial_time_ = 0;  ///< Picoseconds that the step takes if nothing overlaps.
};

}  // namespace

std::vector<std::optional<engine::Residency>> residencies(const engine::Program& program,
                                                          const engine::Machine& machine) {
  std::vector<std::optional<engine::Residency>> result(program.ops.size());
  if (machine.sharing.sms == 0) return result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Index footprint = program.info[i].footprint;
    if (footprint != engine::no_index)
      result[i] = engine::residency(program.footprints[footprint], machine.sharing);
    else if (program.ops[i].copy_engine != engine::CopyEngine::None)
      result[i] = engine::Residency{};
  }
  return result;
}

engine::Machine build_machine(const std::optional<GpuSpec>& hardware) {
  engine::Machine machine;
  machine.graph_class = static_cast<engine::GapClass>(GapClass::CudaGraph);
  if (!hardware) return machine;
  const LaunchSpec& launch = hardware->launch;
  machine.launch_queue_depth = launch.queue_depth;
  machine.event_latency = launch.event_latency;
  if (hardware->sm) {
    machine.sharing = {.sms = hardware->sms,
                       .threads_per_sm = hardware->sm->threads,
                       .registers_per_sm = hardware->sm->registers,
                       .shared_memory_per_sm = hardware->sm->shared_memory.value(),
                       .blocks_per_sm = hardware->sm->blocks,
                       .bandwidth_top = bandwidth_top(*hardware).value(),
                       .bandwidth_per_sm = hardware->memory.bandwidth_per_sm.value()};
  }
  static_assert(gap_class_count <= engine::gap_class_limit);
  for (std::size_t before = 0; before < gap_class_count; ++before) {
    for (std::size_t after = 0; after < gap_class_count; ++after) {
      machine.gap[before][after] = launch.gap.gap[before][after];
      machine.graph_gap[before][after] = launch.graph_gap.gap[before][after];
    }
  }
  return machine;
}

BuiltProgram build_program(const Variant& variant) {
  return Builder(variant).build(std::get<KernelsWorkload>(variant.workload.source));
}

CudaGraphCosts cuda_graph_costs(const std::optional<GpuSpec>& hardware, const engine::Program& program) {
  LaunchSpec launch = hardware ? hardware->launch : LaunchSpec{};
  Picoseconds arrival_after_call = launch.cuda_graph.arrival_after_call;
  if (launch.cuda_graph.call.points.empty()) {
    std::vector<Picoseconds> calls;
    std::vector<Picoseconds> latencies;
    for (const engine::HostThread& thread : program.threads) {
      for (const Instruction& i : thread.instructions) {
        if (i.call != Call::Launch && i.call != Call::LaunchGraph) continue;
        calls.push_back(i.duration);
        latencies.push_back(i.latency);
      }
    }
    const Picoseconds call = median(std::move(calls));
    const Picoseconds latency = median(std::move(latencies));
    launch.cuda_graph.call.points = {{1, call}};
    arrival_after_call = latency - call;
  }
  const TimeTable table = launch.cuda_graph.call;
  return {.call = [table](std::int64_t nodes) { return table.at(nodes); },
          .latency =
              [table, arrival_after_call](std::int64_t nodes) {
                return std::max(table.at(nodes) + arrival_after_call, Picoseconds(0));
              },
          .host_work = launch.cuda_graph.replay_work,
          .event_call = launch.event_record,
          .event_latency = launch.event_record + launch.arrival_after_call};
}

}  // namespace gpusim
