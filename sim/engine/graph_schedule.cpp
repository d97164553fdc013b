// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/graph_schedule.hpp"

#include <algorithm>

namespace gpusim::engine {

void schedule_graph(const Program& program, const Machine& machine, const CudaGraph& graph,
                    const std::function<Picoseconds(Index)>& duration, std::vector<ScheduledNode>& result) {
  result.resize(graph.nodes.size());
  for (Index i = 0; i < graph.nodes.size(); ++i) {
    const CudaGraph::Node& node = graph.nodes[i];
    const GpuOp& op = program.ops[node.op];
    Picoseconds start{0};
    for (const Index before : node.after) {
      const GpuOp& previous = program.ops[graph.nodes[before].op];
      const Picoseconds gap = op.gap_before == gap_from_table
                                  ? machine.graph_gap[previous.gap_class][op.gap_class]
                                  : op.gap_before;
      const ScheduledNode& scheduled = result[before];
      start = std::max({start, scheduled.start, scheduled.end + gap,
                        scheduled.start + program.info[graph.nodes[before].op].min_period_in_graph});
    }
    result[i] = {.start = start, .end = start + duration(i), .node = i};
    if (result[i].end > time_max) throw TimeLimitError("a CUDA graph takes more than 26 days (time_max)");
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const ScheduledNode& a, const ScheduledNode& b) { return a.start < b.start; });
}

bool has_fixed_schedule(const Program& program, const CudaGraph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const CudaGraph::Node& node) {
    return node.kind == CudaGraph::NodeKind::Op && program.ops[node.op].copy_engine == CopyEngine::None;
  });
}

bool is_random(const Program& program, const CudaGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const CudaGraph::Node& node) {
    return node.kind == CudaGraph::NodeKind::Op && program.ops[node.op].distribution != no_index;
  });
}

}  // namespace gpusim::engine
