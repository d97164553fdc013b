// SPDX-License-Identifier: Apache-2.0
// What torch.compile gets hold of: regions of ops between graph breaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/compiler/options.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Ops that are compiled together, or run one by one. Never empty.
struct Region {
  OpIndex first = 0;
  OpIndex last = 0;  ///< One past the end.
  bool compiled = true;
  std::string name;  ///< Its frame, "step" or "block[3]"; with a number where the frame is split: "step/2".
  std::int64_t parameters = 0;  ///< Tensors that its guards look at: parameters, buffers and states it reads.
  /// The first region that is compiled from the same code for the same shapes, itself if there is none
  /// before: equal blocks that are compiled by themselves are compiled once.
  std::size_t like = 0;
  /// The first region with the same ops, whatever code they stand in: what is generated for one is found in
  /// the cache for the others.
  std::size_t same_graph = 0;
  bool waits = false;  ///< The host waits for the device behind it (ops that wait do so by themselves).
  std::int64_t host_reads = 0;  ///< Copies to the host behind it (.item()): one GPU op each.
  friend bool operator==(const Region&, const Region&) = default;
};

struct BreakReport {
  std::string where;  ///< The op or block behind which the trace ends.
  BreakCause cause = BreakCause::Explicit;
  std::string
      effect;  ///< "step is split here", "step is given up: 17 calls compiled by themselves, 8 ops eager".
  std::string remedy;
  friend bool operator==(const BreakReport&, const BreakReport&) = default;
};

struct CapturedStep {
  std::vector<Region> regions;      ///< In the order in which they run; together they hold every op once.
  std::vector<BreakReport> breaks;  ///< In the order in which they run: each place as often as it is passed.
  std::int64_t graph_breaks = 0;    ///< How many.
  friend bool operator==(const CapturedStep&, const CapturedStep&) = default;
};

/// Throws CompileError, with the nearest name as hint, unless `after` (GraphBreak::after) names an op or a
/// block's call of the graph. `end`: of the ops that count.
void check_break_place(const OpGraph& graph, const std::string& after, OpIndex end = graph_none);

/// Splits a step at its graph breaks: those that the network marks (graph_break, and the ops item and
/// nonzero, which run eagerly) and those of the options. Eager backends compile nothing; there only what the
/// host waits for splits the step.
///
/// Dynamo compiles frames: the step's own, and what it calls is inlined. As PyTorch 2.11 does it on an H200:
/// - N breaks in straight-line code make N + 1 regions. Nothing is compiled between two breaks in a row.
/// - A break in a call that is inlined splits the caller before and behind it, and the callee by itself.
/// - A break in a Python loop (a `repeat` of the network) makes Dynamo give up what is left of the frame that
///   loops. What that frame calls, modules and functions of the user, is compiled by itself; its own ops and
///   library modules (nn.Linear, nn.LayerNorm: blocks of one op that is usually a module) run eagerly,
///   whatever the number of breaks (227 kernels with 1, 2, 4, 8 and 15 breaks).
///
/// `regional`: blocks in repeats are compiled by themselves and everything around them runs eagerly.
///
/// Throws CompileError for a break where the backend or `full_graph` takes none, for one after an op or block
/// that does not exist (the hint names the nearest), and for `regional` without a block that repeats.
///
/// `end`: of the ops that are captured, those of the forward pass in a graph that goes on behind it.
CapturedStep capture_regions(const OpGraph& graph, const CompileOptions& options, OpIndex end = graph_none);

}  // namespace gpusim
