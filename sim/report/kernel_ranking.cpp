// SPDX-License-Identifier: Apache-2.0
#include "sim/report/kernel_ranking.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace gpusim::report {
namespace {

using engine::Call;
using engine::GpuOp;
using engine::Index;
using engine::OpKind;

Picoseconds mean_of(const engine::Distribution& distribution) {
  using Kind = engine::Distribution::Kind;
  switch (distribution.kind) {
    case Kind::Uniform:
      return (distribution.a + distribution.b) / 2;
    case Kind::Normal:
    case Kind::Exponential:
      return distribution.a;
    case Kind::Lognormal:
      return Picoseconds(std::llround(static_cast<double>(distribution.a.count()) *
                                      std::exp(distribution.shape * distribution.shape / 2)));
    case Kind::Choice:
      break;
  }
  if (distribution.choices.empty()) return Picoseconds(0);
  const Picoseconds sum =
      std::accumulate(distribution.choices.begin(), distribution.choices.end(), Picoseconds(0));
  return sum / static_cast<std::int64_t>(distribution.choices.size());
}

/// Executions and their summed duration of each op of the program.
struct Executions {
  std::int64_t count = 0;
  Picoseconds total{0};
};

struct Counted {
  std::vector<Executions> of_op;
  std::int64_t steps = 1;
};

Counted count_in_timeline(const engine::Program& program, const engine::Timeline& timeline) {
  Counted counted{std::vector<Executions>(program.ops.size()), 1};
  for (const engine::OpRecord& record : timeline.ops) {
    Executions& executions = counted.of_op[engine::op_of(program, timeline, record)];
    executions.count += 1;
    executions.total += record.end - record.start;
  }
  for (const engine::Timeline::Thread& thread : timeline.threads)
    counted.steps = std::max(counted.steps, static_cast<std::int64_t>(thread.step_start.size()));
  return counted;
}

Counted count_in_program(const engine::Program& program) {
  Counted counted{std::vector<Executions>(program.ops.size()), 1};
  std::vector<std::int64_t> graph_launches(program.graphs.size(), 0);
  for (const engine::HostThread& thread : program.threads)
    for (const engine::Instruction& instruction : thread.instructions) {
      if (instruction.call == Call::Launch) counted.of_op[instruction.object].count += 1;
      if (instruction.call == Call::LaunchGraph) graph_launches[instruction.object] += 1;
    }
  for (std::size_t graph = 0; graph < program.graphs.size(); ++graph)
    for (const engine::CudaGraph::Node& node : program.graphs[graph].nodes)
      if (node.kind == engine::CudaGraph::NodeKind::Op) counted.of_op[node.op].count += graph_launches[graph];
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const GpuOp& op = program.ops[i];
    const Picoseconds duration =
        op.distribution == engine::no_index ? op.duration : mean_of(program.distributions[op.distribution]);
    counted.of_op[i].total = duration * counted.of_op[i].count;
  }
  return counted;
}

/// A copy on the device reads and writes what it moves; one over the host link touches device memory once.
double memory_traffic(const GpuOp& op, const engine::OpInfo& info) {
  const double bytes = static_cast<double>(info.bytes);
  // Only what runs on the SMs has a footprint.
  const bool within_device =
      op.copy_engine == engine::CopyEngine::DeviceToDevice || info.footprint != engine::no_index;
  return op.kind == OpKind::Memcpy && within_device ? 2 * bytes : bytes;
}

void hold_against_roofs(RankedKernel& kernel, const Device& device) {
  const double time = static_cast<double>(kernel.total.count()) / 1e12;
  if (time <= 0 || kernel.kind == OpKind::Memcpy) return;
  if (device.peak && kernel.flops > 0) kernel.compute_share = kernel.flops / time / device.peak->value();
  if (device.bandwidth && kernel.bytes > 0)
    kernel.memory_share = kernel.bytes / time / device.bandwidth->value();
  const auto share = kernel.roof_share();
  if (!share) return;
  if (*share < near_roof)
    kernel.bound = Bound::Overhead;
  else
    kernel.bound =
        kernel.compute_share.value_or(0) >= kernel.memory_share.value_or(0) ? Bound::Compute : Bound::Memory;
}

}  // namespace

const char* group_name(KernelGroup group) {
  switch (group) {
    case KernelGroup::Matmul:
      return "matmul";
    case KernelGroup::Attention:
      return "attention";
    case KernelGroup::Communication:
      return "communication";
    case KernelGroup::Other:
      return "other";
  }
  return "other";
}

std::optional<double> RankedKernel::roof_share() const {
  if (!compute_share && !memory_share) return std::nullopt;
  return std::max(compute_share.value_or(0), memory_share.value_or(0));
}

KernelRanking rank_kernels(const VariantResult& result) {
  const engine::Program& program = result.program;
  const Counted counted =
      result.timeline ? count_in_timeline(program, *result.timeline) : count_in_program(program);

  KernelRanking ranking;
  ranking.steps = counted.steps * std::max<std::int64_t>(result.steps_per_program, 1);

  // Names are interned, so (name, kind) is a key without comparing text; the table keeps the order of first
  // use.
  std::map<std::pair<Index, OpKind>, std::size_t> places;
  std::vector<bool> bytes_known;
  bool all_bytes_known = true;
  double bytes = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Executions& executions = counted.of_op[i];
    if (executions.count == 0) continue;
    const GpuOp& op = program.ops[i];
    const engine::OpInfo& info = program.info[i];
    const auto [place, added] = places.try_emplace({info.name, op.kind}, ranking.kernels.size());
    if (added) {
      RankedKernel kernel;
      if (info.name != engine::no_index) kernel.name = program.names[info.name];
      kernel.kind = op.kind;
      kernel.group = op.kind == OpKind::Kernel ? kernel_group(kernel.name) : KernelGroup::Other;
      ranking.kernels.push_back(std::move(kernel));
      bytes_known.push_back(true);
    }
    RankedKernel& kernel = ranking.kernels[place->second];
    const double count = static_cast<double>(executions.count);
    kernel.count += executions.count;
    kernel.total += executions.total;
    kernel.flops += info.flops * count;
    kernel.bytes += memory_traffic(op, info) * count;
    if (info.bytes == 0) {
      bytes_known[place->second] = false;
      all_bytes_known = false;
    }
    bytes += memory_traffic(op, info) * count;
    ranking.total += executions.total;
    if (op.kind == OpKind::Kernel)
      ranking.by_group[static_cast<std::size_t>(kernel.group)] += executions.total;
    else
      ranking.copies += executions.total;
    ranking.flops += info.flops * count;
  }
  if (all_bytes_known && !ranking.kernels.empty()) ranking.bytes = bytes;
  for (std::size_t i = 0; i < ranking.kernels.size(); ++i) {
    if (!bytes_known[i]) ranking.kernels[i].bytes = 0;
    hold_against_roofs(ranking.kernels[i], result.device);
  }
  std::stable_sort(ranking.kernels.begin(), ranking.kernels.end(),
                   [](const RankedKernel& a, const RankedKernel& b) {
                     return a.total != b.total ? a.total > b.total : a.name < b.name;
                   });
  return ranking;
}

}  // namespace gpusim::report
