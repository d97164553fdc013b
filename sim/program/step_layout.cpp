// SPDX-License-Identifier: Apache-2.0
#include "sim/program/step_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/cost/collectives.hpp"
#include "models/cost/power.hpp"
#include "models/units/text.hpp"

namespace gpusim {

using engine::Call;
using engine::Index;
using engine::Instruction;

StepLayout::StepLayout(const GpuSpec& gpu, const LaunchExtra& extra) : gpu_(gpu), extra_(extra) {
  built.machine = build_machine(gpu);
  built.work_is_dispatch = true;
  built.program.threads.push_back({"main", {}, {}});
  built.program.streams.push_back({"default", 0});
}

StepLayout::Launched StepLayout::add(std::string_view op_name, const GpuOpEstimate& estimate, double factor,
                                     bool own_name) {
  engine::GpuOp gpu_op;
  gpu_op.duration = estimate.cost.duration;
  if (factor != 1)
    gpu_op.duration = Picoseconds(std::llround(static_cast<double>(gpu_op.duration.count()) * factor));
  engine::OpInfo info;
  info.name =
      name(std::string(op_name) +
           (own_name || estimate.name == op_name ? std::string() : ": " + std::string(estimate.name)));
  // All that is known to move nothing still has to differ from what is not known.
  info.bytes = std::max<std::int64_t>(estimate.cost.hbm_bytes.value(), 1);
  info.flops = estimate.cost.flops.value();
  LaunchedOp kind = LaunchedOp::Kernel;
  const LaunchSpec& launch = gpu_.launch;
  Picoseconds call = launch.call;
  bool programmatic = false;
  bool blocking = false;
  switch (estimate.kind) {
    case GpuOpKind::Kernel:
      gpu_op.min_period = min_period(launch, estimate.cost.blocks);
      info.min_period_in_graph = graph_min_period(launch, estimate.cost.blocks);
      // cuBLASLt lets the kernel that adds up the parts start while the product drains.
      programmatic = estimate.name.find("split") != std::string_view::npos;
      break;
    case GpuOpKind::Memset:
      gpu_op.kind = engine::OpKind::Memset;
      kind = LaunchedOp::Memset;
      call = launch.memset_call;
      break;
    case GpuOpKind::Memcpy:
      gpu_op.kind = engine::OpKind::Memcpy;
      kind = LaunchedOp::DeviceCopy;
      if (estimate.name == "copy_to_host" || estimate.name == "copy_to_device") kind = LaunchedOp::HostCopy;
      if (estimate.name == "copy_to_host") gpu_op.copy_engine = engine::CopyEngine::DeviceToHost;
      if (estimate.name == "copy_to_device") gpu_op.copy_engine = engine::CopyEngine::HostToDevice;
      blocking = estimate.name == "copy_to_host";
      call = launch.copy_call;
      break;
  }
  const std::optional<engine::Footprint> footprint = footprint_of(estimate, gpu_op.duration);
  if (shared_ && footprint && estimate.kind != GpuOpKind::Memset) info.footprint = add_footprint(*footprint);
  built.residency.push_back(residency_of(estimate, footprint, gpu_op.copy_engine));
  gpu_op.gap_class = static_cast<engine::GapClass>(gap_class(kind, gpu_op.duration, programmatic));
  compute_bound_.push_back(estimate.cost.limit == KernelLimit::Compute && estimate.kind == GpuOpKind::Kernel);
  return {built.program.add(gpu_op, info), call, blocking};
}

void StepLayout::add_work(Picoseconds duration, Index shown) {
  Instruction work;
  work.duration = duration;
  thread().add(work, shown);
}

void StepLayout::add_signal(Call call, Index signal) {
  Instruction instruction;
  instruction.call = call;
  instruction.object = signal;
  thread().add(instruction);
}

void StepLayout::begin_backward() {
  constexpr Index begin = 0;
  engine::Program& program = built.program;
  if (program.signals.empty()) {
    program.signals = {"backward", "gradients"};
    program.threads.push_back({"autograd", {}, {}});
  }
  add_signal(Call::Signal, begin);
  thread_ = 1;
  add_signal(Call::Await, begin);
}

void StepLayout::end_backward() {
  constexpr Index end = 1;
  add_signal(Call::Signal, end);
  thread_ = 0;
  add_signal(Call::Await, end);
}

void StepLayout::mark(Phase phase, std::uint32_t memory) {
  const auto instruction = static_cast<Index>(thread().instructions.size());
  built.marks.push_back({{thread_, instruction}, phase, memory});
}

std::uint16_t StepLayout::stream(std::string_view name) {
  std::vector<engine::Stream>& streams = built.program.streams;
  if (name.empty()) return 0;
  for (std::size_t i = 1; i < streams.size(); ++i)
    if (streams[i].name == name) return static_cast<std::uint16_t>(i);
  streams.push_back({std::string(name), 0});
  return static_cast<std::uint16_t>(streams.size() - 1);
}

Index StepLayout::record(std::uint16_t stream) {
  std::vector<std::string>& events = built.program.events;
  events.push_back(fmt::format("{} {}", built.program.streams[stream].name, events.size()));
  Instruction instruction;
  instruction.call = Call::Record;
  instruction.object = static_cast<Index>(events.size() - 1);
  instruction.stream = stream;
  instruction.duration = gpu_.launch.event_record;
  instruction.latency = instruction.duration + gpu_.launch.arrival_after_call;
  thread().add(instruction);
  return instruction.object;
}

void StepLayout::wait(Index event, std::uint16_t stream) {
  Instruction instruction;
  instruction.call = Call::StreamWait;
  instruction.object = event;
  instruction.stream = stream;
  instruction.duration = gpu_.launch.stream_wait;
  instruction.latency = instruction.duration + gpu_.launch.arrival_after_call;
  thread().add(instruction);
}

/// What a kernel needs of an SM is known of few: a product's block fills one with its accumulators, and so
/// does attention's; NCCL's takes most of one (collectives.hpp). All others count as light.
std::optional<engine::Footprint> StepLayout::footprint_of(const GpuOpEstimate& estimate,
                                                          Picoseconds duration) const {
  const bool communication = estimate.name.starts_with("nccl");
  const bool product = estimate.cost.limit == KernelLimit::Compute || estimate.name.find("gemm") == 0 ||
                       estimate.name.find("attention") != std::string_view::npos;
  if (!gpu_.sm || duration <= Picoseconds{0}) return std::nullopt;
  engine::Footprint footprint;
  footprint.blocks = std::max<std::int64_t>(estimate.cost.blocks, 1);
  footprint.threads_per_block = std::clamp(estimate.cost.threads, 32, 1024);
  footprint.bytes = estimate.cost.hbm_bytes.value();
  if (communication) {
    const CollectiveCost known;
    footprint.registers_per_thread = known.registers;
    footprint.shared_memory_per_block = known.shared_memory.value();
  } else if (product) {
    footprint.threads_per_block = 384;
    footprint.registers_per_thread = 168;
    footprint.shared_memory_per_block = std::min<std::int64_t>(200 * 1024, gpu_.sm->shared_memory.value());
    footprint.arithmetic =
        0.2;  // The tensor cores' work takes few issue slots (validation/h200x2/overlap.csv).
    footprint.memory_hidden = true;
  }
  return footprint;
}

std::optional<engine::Residency> StepLayout::residency_of(const GpuOpEstimate& estimate,
                                                          const std::optional<engine::Footprint>& footprint,
                                                          engine::CopyEngine copy) const {
  if (copy != engine::CopyEngine::None) return engine::Residency{};
  if (!footprint) return std::nullopt;
  if (estimate.kind == GpuOpKind::Kernel) return engine::residency(*footprint, built.machine.sharing);
  return engine::transfer_residency(estimate.cost.hbm_bytes.value(), built.machine.sharing);
}

Index StepLayout::add_footprint(const engine::Footprint& footprint) {
  std::vector<engine::Footprint>& known = built.program.footprints;
  const auto found = std::find(known.begin(), known.end(), footprint);
  if (found != known.end()) return static_cast<Index>(found - known.begin());
  known.push_back(footprint);
  return static_cast<Index>(known.size() - 1);
}

void StepLayout::launch(const Launched& launched, std::uint16_t stream) {
  Instruction instruction;
  instruction.call = Call::Launch;
  instruction.stream = stream;
  instruction.object = launched.op;
  instruction.duration = launched.call + (thread_ == 0 ? extra_.main : extra_.backward);
  instruction.latency = instruction.duration + gpu_.launch.arrival_after_call;
  // A number that the host reads is waited for.
  instruction.blocking = launched.blocking;
  if (launched.blocking) instruction.return_latency = gpu_.launch.sync_return;
  thread().add(instruction);
}

void StepLayout::launch_graph(Index shown, const std::vector<Launched>& ops) {
  engine::CudaGraph graph;
  graph.name = shown;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    engine::CudaGraph::Node node;
    node.op = ops[i].op;
    if (i > 0) node.after.push_back(static_cast<Index>(i - 1));
    graph.nodes.push_back(std::move(node));
  }
  const auto nodes = static_cast<std::int64_t>(graph.nodes.size());
  Instruction instruction;
  instruction.call = Call::LaunchGraph;
  instruction.object = static_cast<Index>(built.program.graphs.size());
  instruction.duration = graph_call_time(gpu_.launch, nodes) + nodes * extra_.node;
  instruction.latency =
      std::max(instruction.duration + gpu_.launch.cuda_graph.arrival_after_call, Picoseconds(0));
  built.program.graphs.push_back(std::move(graph));
  thread().add(instruction);
}

std::vector<std::string> StepLayout::slow_down(bool captured) {
  engine::Program& program = built.program;
  StepWork step;
  Picoseconds host{0};
  const auto count = [&](Index index) {
    const engine::OpInfo& info = program.info[index];
    (compute_bound_[index] ? step.compute : step.other) += program.ops[index].duration;
    step.flops += Flops(info.flops);
    step.bytes += Bytes(info.bytes);
  };
  // The threads work in turn.
  for (const engine::HostThread& each : program.threads)
    for (const Instruction& instruction : each.instructions) {
      host += instruction.duration;
      // What runs beside it takes no time of its own.
      if (instruction.call == Call::Launch && instruction.stream == 0) count(instruction.object);
      if (instruction.call == Call::LaunchGraph)
        for (const engine::CudaGraph::Node& node : program.graphs[instruction.object].nodes) count(node.op);
    }
  if (!captured && host > step.compute + step.other) step.other = host - step.compute;
  const double slowdown = clock_slowdown(gpu_, step);
  if (slowdown <= 1) return {};
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (compute_bound_[i])
      program.ops[i].duration =
          Picoseconds(std::llround(static_cast<double>(program.ops[i].duration.count()) * slowdown));
  return {fmt::format("at the power limit of {}: products take {:.0f} % longer than in short bursts",
                      format_quantity(gpu_.power->limit), 100 * (slowdown - 1))};
}

std::vector<std::string> StepLayout::notes(Bytes peak_memory) const {
  std::vector<std::string> notes;
  if (gpu_.launch.transferred)
    notes.push_back("launch parameters of " + gpu_.name + " are transferred from another device");
  if (gpu_.calibration && !gpu_.calibration->transferred_from.empty())
    notes.push_back(fmt::format("kernels of {} are priced with the measurements of {}, scaled by peaks",
                                gpu_.name, gpu_.calibration->transferred_from));
  if (peak_memory > gpu_.memory.capacity)
    notes.push_back(fmt::format("out of memory: the step needs {}, {} has {}", format_quantity(peak_memory),
                                gpu_.name, format_quantity(gpu_.memory.capacity)));
  return notes;
}

Index StepLayout::name(const std::string& text) {
  const auto known = names_.find(text);
  if (known != names_.end()) return known->second;
  const auto index = static_cast<Index>(built.program.names.size());
  names_.emplace(text, index);
  built.program.names.push_back(text);
  return index;
}

}  // namespace gpusim
