// SPDX-License-Identifier: Apache-2.0
// `workload: {network: gpt2, ...}`: a step of a network.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/workload_reader.hpp"

namespace gpusim {

/// Whether the workload names a network, or a config.json that stands for one.
bool is_network_workload(const config::Node& node);

/// Throws ConfigError with every mistake found, those of the network's own file included: the graph is built
/// once to see whether the sizes go together.
Workload read_network_workload(const config::Node& node, const std::filesystem::path& folder,
                               const WorkloadLimits& limits);

/// The forward pass of one rank, out of that of the whole network. Throws GraphError.
std::shared_ptr<const OpGraph> rank_forward(OpGraph forward, const std::optional<ParallelPlan>& parallel);

/// The graph of a whole step whose forward pass is `forward`: itself, unless it is a training step's, with
/// what ranks do together. Throws GraphError.
std::shared_ptr<const OpGraph> step_graph(const std::shared_ptr<const OpGraph>& forward,
                                          const std::optional<TrainingOptions>& training,
                                          const std::optional<ParallelPlan>& parallel);

}  // namespace gpusim
