// SPDX-License-Identifier: Apache-2.0
// When each node of a CUDA graph runs, relative to the start of its first one.
#pragma once

#include <functional>
#include <vector>

#include "sim/engine/program.hpp"

namespace gpusim::engine {

struct ScheduledNode {
  Picoseconds start{0};
  Picoseconds end{0};
  Index node = no_index;
};

/// The nodes in order of start (ties: order of the nodes). A node starts when all it waits for have ended,
/// plus the gap by classes (or the op's own gap_before), and not before its predecessor's minimum period is
/// over. `duration(node)` gives the duration of each.
void schedule_graph(const Program& program, const Machine& machine, const CudaGraph& graph,
                    const std::function<Picoseconds(Index node)>& duration,
                    std::vector<ScheduledNode>& result);

/// Whether a replay's times are known when it starts: no events inside, no copy engines to wait for.
bool has_fixed_schedule(const Program& program, const CudaGraph& graph);
/// Whether its durations are drawn anew at each replay.
bool is_random(const Program& program, const CudaGraph& graph);

}  // namespace gpusim::engine
