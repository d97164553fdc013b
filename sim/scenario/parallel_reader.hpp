// SPDX-License-Identifier: Apache-2.0
// `workload: {parallel: {...}}`: what one of several ranks runs. The one place that knows its keys.
#pragma once

#include <optional>

#include "models/graph/network.hpp"
#include "models/graph/parallel_plan.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim {

/// No more ranks than this.
inline constexpr std::int64_t ranks_max = 1'000'000;

/// The plan, and in `sizes` the batch of one rank, or of one micro-batch of it. Throws ConfigError with every
/// mistake found.
ParallelPlan read_parallel(const config::Node& node, NetworkSizes& sizes, bool training);

/// How the ranks reach each other: `interconnect`, else what the GPU's file names. Throws ConfigError where
/// nothing is known about it, and for several nodes without a link between them.
std::optional<Interconnect> read_links(const config::Node& node, const ParallelPlan& plan, const GpuSpec& gpu,
                                       const config::SearchPath& search);

}  // namespace gpusim
