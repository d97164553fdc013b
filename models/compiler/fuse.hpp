// SPDX-License-Identifier: Apache-2.0
// Which loops become one kernel: TorchInductor's greedy scheduler.
//
// Pairs that share a buffer are scored by the bytes that both move in the same way, the best pair is fused
// first, and rounds go on until one changes nothing. Rules and numbers: torch/_inductor/scheduler.py,
// choices.py and codegen/simd.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/loops.hpp"

namespace gpusim {

/// Loops that run as one kernel, in the order in which they run in it.
struct FusionGroup {
  std::vector<LoopIndex> loops;
  /// Those of `loops` that reduce over the rows while the others go along them (a kernel of mixed orders): it
  /// leaves partial sums, which another kernel adds up.
  std::vector<LoopIndex> columns{};
  bool is_mixed() const { return !columns.empty(); }
  bool is_column(LoopIndex loop) const {
    return std::find(columns.begin(), columns.end(), loop) != columns.end();
  }
  friend bool operator==(const FusionGroup&, const FusionGroup&) = default;
};

struct FusionPlan {
  std::vector<FusionGroup> groups;  ///< In an order in which they can run.
  friend bool operator==(const FusionPlan&, const FusionPlan&) = default;
};

/// Why two kernels are not one.
enum class FusionRefusal : std::uint8_t {
  None,
  Library,        ///< One of them is a library's kernel.
  NothingShared,  ///< They move no data in common, or not in the same order.
  Shape,          ///< Their loops have different lengths.
  Reductions,     ///< They reduce over different rows.
  Access,         ///< The consumer reads what the producer makes in another order.
  Scatter,        ///< The producer writes at places that data decide.
  Between,        ///< A third kernel must run between them.
  Distance,       ///< They stand too far apart in the program.
  Size,           ///< The kernel would be made of too many loops.
  Rule,           ///< The backend does not join these kinds.
};
std::string_view text(FusionRefusal refusal);

/// Which pairs of kernels a round asks about. The plan is the same.
enum class FusionPairs : std::uint8_t {
  Changed,  ///< Those that have changed since the round before.
  All,      ///< What the other is tested against.
};

FusionPlan plan_fusion(const LoopGraph& loops, const FusionRules& rules,
                       FusionPairs pairs = FusionPairs::Changed);

/// Every loop by itself.
FusionPlan unfused(const LoopGraph& loops);

/// Loops by the group of their op, those of ops in no group by their op: what a user asked for. `group_of`:
/// by op of the graph; negative: none.
FusionPlan grouped(const LoopGraph& loops, const std::vector<std::int32_t>& group_of);

/// A pair of kernels of a plan, one of which reads what the other makes, and why they are two.
struct RefusedPair {
  std::size_t producer = 0;  ///< Place in FusionPlan::groups.
  std::size_t consumer = 0;
  FusionRefusal reason = FusionRefusal::None;
  Bytes bytes{0};  ///< What goes from one to the other through memory.
};
std::vector<RefusedPair> refused_pairs(const LoopGraph& loops, const FusionPlan& plan,
                                       const FusionRules& rules);

}  // namespace gpusim
