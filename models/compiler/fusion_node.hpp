// SPDX-License-Identifier: Apache-2.0
// Loops that are one kernel so far, as the scheduler sees them. Internal to models/compiler.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/loops.hpp"

namespace gpusim {

struct FusionNode {
  std::vector<LoopIndex> loops;    ///< Ascending, which is an order in which they can run.
  std::vector<LoopIndex> columns;  ///< Of a kernel of mixed orders: those that reduce over the rows.
  LoopKind kind = LoopKind::Pointwise;
  std::int64_t numel = 0;  ///< Of its reductions, if it has any: the kept places.
  std::int64_t rnumel = 1;
  bool scatter = false;
  bool templated = false;           ///< A compiled product.
  std::vector<const Touch*> reads;  ///< Of the graph's loops.
  std::vector<const Touch*> writes;
  std::int64_t min_order() const { return loops.front(); }
  std::int64_t max_order() const { return loops.back(); }
  bool is_reduction() const { return kind == LoopKind::Reduction; }
  bool is_library() const { return kind == LoopKind::Library || kind == LoopKind::Nothing; }
  bool is_mixed() const { return !columns.empty(); }
  /// Takes in what another node reads, writes and is.
  void take(const FusionNode& other);
};

FusionNode fusion_node(const LoopGraph& graph, LoopIndex loop);
FusionNode fusion_node(const LoopGraph& graph, const std::vector<LoopIndex>& loops);

/// One side of a kernel of mixed orders: the loops over the rows, or over the columns.
FusionNode rows_of(const LoopGraph& graph, const FusionNode& node);
FusionNode columns_of(const LoopGraph& graph, const FusionNode& node);

/// Bytes that both move, at the same places in the same order. `exactly`: by the same loops too, as the
/// scheduler asks in all rounds but the last: loops over [8, 1024] and over [8192] share nothing.
std::int64_t shared_bytes(const FusionNode& a, const FusionNode& b, bool exactly);
std::int64_t shared_elements(const FusionNode& a, const FusionNode& b);

/// Whether the node reads along its innermost loop, or one value all along it.
bool reads_along(const FusionNode& node);

/// Whether reductions over the rows and over the columns of one tensor, which need nothing of each other, may
/// be one kernel, which goes over the rows and keeps partial sums of the columns: a large tensor, more rows
/// than columns, rows that lie one after the other, sums alone over the columns (scheduler.py,
/// MixOrderReduction.can_fuse).
bool may_mix(const LoopGraph& graph, const FusionNode& a, const FusionNode& b);

}  // namespace gpusim
