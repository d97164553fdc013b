// SPDX-License-Identifier: Apache-2.0
#include "sim/report/op_executions.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace gpusim::report {
namespace {

using engine::Call;
using engine::GpuOp;
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

CountedOps count_in_timeline(const engine::Program& program, const engine::Timeline& timeline) {
  CountedOps counted{std::vector<OpExecutions>(program.ops.size()), 1};
  for (const engine::OpRecord& record : timeline.ops) {
    OpExecutions& executions = counted.of_op[engine::op_of(program, timeline, record)];
    executions.count += 1;
    executions.total += record.end - record.start;
  }
  for (const engine::Timeline::Thread& thread : timeline.threads)
    counted.steps = std::max(counted.steps, static_cast<std::int64_t>(thread.step_start.size()));
  return counted;
}

CountedOps count_in_program(const engine::Program& program) {
  CountedOps counted{std::vector<OpExecutions>(program.ops.size()), 1};
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

}  // namespace

CountedOps count_ops(const VariantResult& result) {
  return result.timeline ? count_in_timeline(result.program, *result.timeline)
                         : count_in_program(result.program);
}

double memory_traffic(const GpuOp& op, const engine::OpInfo& info) {
  const double bytes = static_cast<double>(info.bytes);
  // Only what runs on the SMs has a footprint.
  const bool within_device =
      op.copy_engine == engine::CopyEngine::DeviceToDevice || info.footprint != engine::no_index;
  return op.kind == OpKind::Memcpy && within_device ? 2 * bytes : bytes;
}

}  // namespace gpusim::report
