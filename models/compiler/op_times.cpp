// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/op_times.hpp"

#include <algorithm>

#include "models/graph/catalogue.hpp"

namespace gpusim {

std::vector<Picoseconds> op_times(const OpGraph& graph, const GpuSpec& gpu) {
  std::vector<Picoseconds> times(graph.ops.size(), Picoseconds{1});
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.like != graph_none && op.like < i) {
      times[i] = times[op.like];
      continue;
    }
    Picoseconds sum{0};
    const OpTypes types(graph, op);
    for (const EagerCall& call : op.kind->eager(types.view(op), gpu))
      for (const KernelWork& work : call.work)
        for (const GpuOpEstimate& estimate : gpu_ops(work, gpu)) sum += estimate.cost.duration;
    times[i] = std::max(sum, Picoseconds{1});
  }
  return times;
}

}  // namespace gpusim
