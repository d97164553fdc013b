// SPDX-License-Identifier: Apache-2.0
// What compilers do to a graph before they make kernels of it: take out what nothing needs and what is done
// twice, change layouts, make one product of several.
//
// Each pass is a switch of SimplifyRules. They run in this order, each on what the one before left:
//   inference_dropout      dropout that drops nothing
//   no_ops                 casts to the same dtype, copies that nobody tells from their source, + 0, * 1,
//                          views of what they came from
//   common_subexpressions  what was computed before
//   layout                 channels last throughout convolutions; one copy for all products that want one;
//                          transposed copies that undo each other
//   constants, freeze      what depends on constants alone (freeze: and on parameters) is worked out once
//   merge_gate_up, merge_qkv   products of one input become one
//   dead_code              ops that nothing needs: before all others as well
//
// A pass changes what is computed and in what layout, never what leaves the step: given tensors keep shape,
// dtype and strides, states are written in the same order. FLOPs never grow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/capture_regions.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// What one pass did.
struct Simplification {
  std::string pass;  ///< Its name in SimplifyRules.
  std::int64_t ops_removed = 0;
  std::int64_t ops_added = 0;
  /// Memory traffic that eager execution saves by it, an estimate: what removed ops read and wrote, less what
  /// added ones do, and layout kernels of convolutions (products take no copies into account otherwise).
  Bytes saved{0};
  std::vector<std::string> examples;  ///< Names of the first ops that went.
  friend bool operator==(const Simplification&, const Simplification&) = default;
};

struct SimplifyOptions {
  /// What is compiled together, as captured; nothing is moved or shared across their bounds, and ops of those
  /// that are not compiled stay as they are. Empty: the whole graph is one compiled region.
  std::vector<Region> regions;
  bool training = false;              ///< Parameters change: nothing is frozen, no weights are joined.
  Bytes constant_bytes_max{1 << 20};  ///< Larger constants are computed in each step, unless frozen.
};

struct Simplified {
  OpGraph graph;
  std::vector<OpIndex> origin;         ///< By op of `graph`: the op of the old graph that it stands for.
  std::vector<Region> regions;         ///< Those of the options, where their ops are now.
  std::vector<Simplification> passes;  ///< Of all rules that are on, in the order in which they ran.
};

/// Takes the graph over: hand over a copy to keep it. Takes time in proportion to the size of the graph.
Simplified simplify(OpGraph graph, const SimplifyRules& rules, const SimplifyOptions& options = {});

}  // namespace gpusim
