// SPDX-License-Identifier: Apache-2.0
#include "sim/report/kernel_ranking.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/report/op_executions.hpp"

namespace gpusim::report {
namespace {

using engine::GpuOp;
using engine::OpKind;

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
  const CountedOps counted = count_ops(result);

  KernelRanking ranking;
  ranking.steps = counted.steps * std::max<std::int64_t>(result.steps_per_program, 1);

  // Names are interned, so (name, kind) is a key without comparing text; the table keeps the order of first
  // use.
  std::map<std::pair<engine::Index, OpKind>, std::size_t> places;
  std::vector<bool> bytes_known;
  bool all_bytes_known = true;
  double bytes = 0;
  // On several devices a share of "the" SMs means nothing.
  bool residency_known = std::all_of(program.streams.begin(), program.streams.end(),
                                     [](const engine::Stream& stream) { return stream.device == 0; });
  double sm_time = 0;
  double warp_time = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const OpExecutions& executions = counted.of_op[i];
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
    if (executions.total > Picoseconds(0)) {
      const auto time = static_cast<double>(executions.total.count());
      if (i < result.residency.size() && result.residency[i]) {
        sm_time += result.residency[i]->sm_active * time;
        warp_time += result.residency[i]->occupancy * time;
      } else {
        residency_known = false;
      }
    }
    ranking.total += executions.total;
    if (op.kind == OpKind::Kernel)
      ranking.by_group[static_cast<std::size_t>(kernel.group)] += executions.total;
    else
      ranking.copies += executions.total;
    ranking.flops += info.flops * count;
  }
  if (all_bytes_known && !ranking.kernels.empty()) ranking.bytes = bytes;
  if (residency_known && !ranking.kernels.empty()) {
    ranking.sm_time = sm_time;
    ranking.warp_time = warp_time;
  }
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
