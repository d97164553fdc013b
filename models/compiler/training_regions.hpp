// SPDX-License-Identifier: Apache-2.0
// What a compiler makes of a training step: each region of the forward pass and its backward pass are traced
// together, simplified together, and cut in two where keeping least costs least.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/compiler/capture_regions.hpp"
#include "models/compiler/options.hpp"
#include "models/compiler/recompute.hpp"
#include "models/compiler/simplify.hpp"
#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// What one region keeps for its backward pass.
struct RegionRecompute {
  std::string region;                    ///< Region::name of the forward pass.
  std::shared_ptr<const OpGraph> joint;  ///< Forward and backward as they were before they were cut.
  RecomputePlan plan;                    ///< Of `joint`.
};

struct TrainingRegions {
  OpGraph graph;
  /// Of the forward pass as captured; then those of backward, from the last one to the first, with what the
  /// autograd engine runs by itself between them (not compiled); then the optimizer (not compiled).
  std::vector<Region> regions;
  std::vector<Simplification> passes;      ///< Of all regions together.
  std::vector<RegionRecompute> recompute;  ///< In the order of the regions.
  /// The regions before any pass, by ops of the graph that was captured.
  CapturedStep captured;
};

/// Whether the graph is a training step.
bool trains(const OpGraph& graph);

/// `graph` as training_graph() makes it, functional. Only the forward pass is captured: what Dynamo makes
/// regions of. A region that nothing is trained through has no backward pass.
///
/// Throws CompileError as capture_regions() and plan_recompute() do.
TrainingRegions training_regions(const OpGraph& graph, const CompileOptions& options, const GpuSpec& gpu);

}  // namespace gpusim
