// SPDX-License-Identifier: Apache-2.0
// What a scenario says about compiling: `backend: inductor`, `mode: reduce-overhead`, `graph_breaks: [...]`
// and so on. The one place that knows these keys.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// The keys of a variant that read_compile() reads, besides `cuda_graph`.
inline constexpr std::array<std::string_view, 13> compile_keys{
    "backend",      "mode",   "fullgraph", "regional",  "warm_cache",       "dynamic",  "recompile_limit",
    "graph_breaks", "passes", "fusion",    "precision", "kernel_overrides", "recompute"};

/// No more step shapes, graph breaks or buckets than this.
inline constexpr std::size_t step_shapes_max = 100'000;
inline constexpr std::size_t graph_breaks_max = 10'000;
inline constexpr std::size_t buckets_max = 10'000;

struct CompileChoice {
  /// Of what is not compiled; compiled networks have it in `compile`.
  CudaGraphMode cuda_graph = CudaGraphMode::None;
  std::optional<CompileOptions> compile;
  Location where;  ///< Of `backend`; without it, of the variant.
};

/// The keys of a variant with everything laid over; null counts as absent. `hardware` may be null (none, or
/// it could not be read). Throws ConfigError with every mistake found: what the backend refuses, what eager
/// networks, kernel lists and traces have no use for.
CompileChoice read_compile(const config::Node& variant, const GpuSpec* hardware,
                           const config::SearchPath& search);

/// Throws ConfigError for graph breaks and fusion groups of the variant that name what is not in its graph.
void check_compile_names(const config::Node& variant, const OpGraph& graph);

/// Throws ConfigError for what the compiler that the variant names cannot do with a training step.
void check_training(const config::Node& variant, const NetworkWorkload& workload,
                    const CompileOptions& options);

/// `shapes: [{batch: 1}, {batch: 8, sequence: 256}]`: what a step leaves out is as in `sizes`.
std::vector<ShapeStep> read_shapes(const config::Node& list, const NetworkSizes& sizes);

}  // namespace gpusim
