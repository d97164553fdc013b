// SPDX-License-Identifier: Apache-2.0
// Which calls of compiled code compile again when shapes vary: guards, the cache of one code object, and the
// CUDA graphs behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "models/compiler/options.hpp"

namespace gpusim {

/// Sizes of the dimensions of a call's inputs that may vary, in the same order in every call.
using CallSizes = std::vector<std::int64_t>;

struct ShapeCall {
  CallSizes sizes;
  /// Where parameters and buffers lie: another number for another place in memory.
  std::int64_t addresses = 0;
};

/// The code asks whether a size is above a number: `if x.shape[0] > 10`. That is no graph break: the answer
/// becomes a guard.
struct ShapeBranch {
  std::size_t dimension = 0;
  std::int64_t above = 0;
};

/// CUDA graph trees (mode reduce-overhead).
struct GraphTreeRules {
  bool skip_dynamic = false;           ///< cudagraph_skip_dynamic_graphs.
  std::int64_t sizes_warned = 8;       ///< cudagraph_dynamic_shape_warn_limit.
  std::int64_t rerecords_limit = 128;  ///< cudagraph_unexpected_rerecord_limit.
};

struct RecompileRules {
  DynamicShapes dynamic = DynamicShapes::Automatic;
  std::int64_t limit = 8;           ///< recompile_limit: compilations of one code object.
  std::vector<std::size_t> marked;  ///< Dimensions given to mark_dynamic before each call.
  std::vector<ShapeBranch> branches;
  std::optional<GraphTreeRules> cuda_graphs{};
};

enum class CallOutcome : std::uint8_t {
  Compiles,
  Hits,   ///< Something that was compiled before fits.
  Eager,  ///< Nothing fits and the limit is reached.
};
enum class GraphOutcome : std::uint8_t {
  None,    ///< Runs without a CUDA graph.
  WarmUp,  ///< First call for its sizes: runs kernel by kernel in the graphs' memory.
  Record,  ///< Recorded, then replayed.
  Replay,
};

struct CallRecord {
  CallOutcome outcome = CallOutcome::Compiles;
  std::size_t entry = 0;           ///< What it compiled or ran, counted from 0; 0 where it runs eagerly.
  bool dynamic = false;            ///< That has a size that may vary.
  std::int64_t entries_tried = 0;  ///< Whose guards were checked.
  GraphOutcome graph = GraphOutcome::None;
  bool warns = false;  ///< More sizes of one entry are recorded than `sizes_warned`.
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

/// Runs the calls against an empty cache.
///
/// As PyTorch 2.11 does it (torch/_dynamo; validation/h200/compiled_shapes.json is reproduced):
/// - What fits is looked for among the entries, the most recently used first.
/// - Automatic: a size that differs from what it was when it was first compiled is dynamic from then on.
///   Always: all sizes are; equal ones must stay equal. Never: none is.
/// - Sizes 0 and 1 are compiled for themselves, whatever is marked; a dynamic size is at least 2.
/// - After `limit` compilations nothing more is compiled. What was compiled still runs, all else runs
///   eagerly for good, without an error.
/// - CUDA graphs are recorded for each entry and each value of its dynamic sizes. Parameters that have moved
///   make it record again; after `rerecords_limit` times it runs without.
///
/// Not in here: Python numbers among the arguments (dynamic from their second value on, 0 and 1 too), and
/// accumulated_recompile_limit, which counts modules of one class together.
std::vector<CallRecord> simulate_calls(std::span<const ShapeCall> calls, const RecompileRules& rules);

/// A dimension that torch.export was told may vary, within bounds.
struct ExportedDimension {
  std::size_t dimension = 0;
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// A program traced with example inputs once; there is no compiler behind it.
struct ExportedShapes {
  CallSizes traced;
  std::vector<ExportedDimension> dynamic;
};

/// Throws CompileError if a dynamic dimension was traced with 0 or 1 (such sizes are constants), or outside
/// its bounds.
void check_export(const ExportedShapes& exported);
/// Throws CompileError for sizes that the program does not take.
void check_exported_call(const ExportedShapes& exported, const CallSizes& sizes);

}  // namespace gpusim
