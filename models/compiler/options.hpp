// SPDX-License-Identifier: Apache-2.0
// What a scenario asks of a compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/recompute.hpp"
#include "models/graph/break_cause.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// What one would write instead, in one sentence.
std::string_view remedy(BreakCause cause);

struct GraphBreak {
  /// Name of an op, or of a block's call: behind its last op ("block[3]"). `[*]` stands for any index.
  std::string after;
  BreakCause cause = BreakCause::Explicit;
  /// Whether it stands in a Python loop, so that Dynamo gives the whole frame up; absent: if the place is in
  /// a `repeat` of the network.
  std::optional<bool> in_loop{};
  friend bool operator==(const GraphBreak&, const GraphBreak&) = default;
};

/// `dynamic=` of torch.compile.
enum class DynamicShapes : std::uint8_t { Automatic, Always, Never };

/// A better kernel for an op: a search's result, a hand-written one.
struct KernelOverride {
  std::string op;      ///< Kind ("rms_norm"), name ("block[0].mlp.up"), or part of a fused kernel's name.
  std::string source;  ///< Who says so: shown in reports.
  std::optional<Picoseconds> duration{};  ///< Of each of its kernels; else
  std::optional<double> of_roof{};        ///< share of the roof that it reaches, 0 to 1; else
  std::optional<double> speedup{};        ///< against what the model says.
  friend bool operator==(const KernelOverride&, const KernelOverride&) = default;
};

/// Batch sizes for which CUDA graphs are captured; steps are padded up to the next one.
struct GraphBuckets {
  std::vector<std::int64_t> sizes;  ///< Ascending.
  friend bool operator==(const GraphBuckets&, const GraphBuckets&) = default;
};

struct CompileOptions {
  Backend backend;
  BackendMode mode;         ///< With what the scenario changed of it.
  bool full_graph = false;  ///< fullgraph=True: a graph break is an error.
  bool regional = false;    ///< The repeated block is compiled once, by itself.
  bool warm_cache = false;  ///< The cache on disk has what is compiled.
  DynamicShapes dynamic = DynamicShapes::Automatic;
  std::int64_t recompile_limit = 8;
  std::vector<GraphBreak> breaks;
  /// Groups of op names that the user wants as one kernel; all other ops stay alone. Absent: planned.
  std::optional<std::vector<std::vector<std::string>>> groups;
  std::optional<ElementType> precision;  ///< Of products; absent: the network's.
  std::vector<KernelOverride> overrides;
  std::optional<GraphBuckets> buckets;
  /// Whether a backend that knows patterns of attention (Backend::fused_attention) looks for them.
  bool attention_patterns = true;
  /// What a training step keeps for its backward pass; absent: as RecomputeOptions are by default.
  std::optional<RecomputeOptions> recompute;
  /// RecomputeOptions::times are the predicted ones of the graph (op_times()); false: FLOPs, as upstream.
  bool recompute_by_time = false;
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

/// What a compiler refuses to do, and what to do about it.
class CompileError : public std::invalid_argument {
 public:
  CompileError(std::string what, std::string hint = {})
      : std::invalid_argument(std::move(what)), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

}  // namespace gpusim
