// SPDX-License-Identifier: Apache-2.0
// What torch.compile gets hold of: regions of ops between graph breaks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/compiler/options.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Ops that are compiled together, or run one by one.
struct Region {
  OpIndex first = 0;
  OpIndex last = 0;  ///< One past the end; first == last: nothing to run (a break right after a break).
  bool compiled = true;
  std::string name;             ///< "step", "block[3]", "step/2": for reports.
  std::int64_t parameters = 0;  ///< Tensors that its guards look at: parameters and buffers it reads.
  bool waits = false;           ///< The host waits for the device behind it.
  std::int64_t host_reads = 0;  ///< Copies to the host behind it (.item()): one GPU op each.
  friend bool operator==(const Region&, const Region&) = default;
};

struct BreakReport {
  std::string where;
  BreakCause cause = BreakCause::Explicit;
  std::string effect;  ///< "2 regions", "the frame is given up: 16 blocks are compiled by themselves".
  std::string remedy;
  friend bool operator==(const BreakReport&, const BreakReport&) = default;
};

struct CapturedStep {
  std::vector<Region> regions;  ///< In the order in which they run; together they hold every op once.
  std::vector<BreakReport> breaks;
  std::int64_t graph_breaks = 0;
  friend bool operator==(const CapturedStep&, const CapturedStep&) = default;
};

/// Splits a step at its graph breaks: those that the network marks and those of the options. Eager backends
/// get one region that is not compiled.
///
/// In straight-line code N breaks make N + 1 regions. In a Python loop (a `repeat` of the network) Dynamo
/// gives the frame up: each block that it calls is compiled by itself, whatever N, and ops of the frame
/// itself run eagerly (measured on an H200: 227 kernels with 1, 2, 4, 8 and 15 breaks).
///
/// Throws CompileError for a break where the backend or `full_graph` takes none, for one after an op or block
/// that does not exist (the hint names the nearest), and for WholeGraph backends with data-dependent shapes.
CapturedStep capture_regions(const OpGraph& graph, const CompileOptions& options);

}  // namespace gpusim
