// SPDX-License-Identifier: Apache-2.0
// What a backward pass keeps under a memory budget, as AOTAutograd decides it (partitioners.py,
// choose_saved_values_set). Internal to models/compiler.
#pragma once

#include "models/compiler/knapsack.hpp"
#include "models/compiler/min_cut.hpp"
#include "models/compiler/recompute.hpp"

namespace gpusim {

struct BudgetChoice {
  Cut cut;
  std::vector<Ban> bans;
  BudgetStep step = BudgetStep::Default;
  double ratio = 1;  ///< What is kept beyond the inputs, as a share of what the default keeps.
};

/// The cuts that do not depend on the budget, and those of budgets.
class BudgetChooser {
 public:
  BudgetChooser(const JointGraph& graph, const JointFacts& facts, const BanRules& rules);

  /// `budget` from 0 (only what is given is kept) to 1 (the cut of the rules). In between: the first of
  /// three cuts, each with fewer bans, that stays below the budget; if none does, a knapsack of the last
  /// one's banned values says which of them may be made again after all. As upstream, neither that last cut
  /// nor the knapsack counts what is kept without being banned, so the ratio may end above the budget.
  BudgetChoice choose(double budget, KnapsackSolver solver);

 private:
  struct Step {
    std::vector<Ban> bans;
    Cut cut;
    double ratio = 1;
  };
  Step solve(const BanRules& rules, std::span<const std::uint8_t> released = {}) const;
  double kept(const Cut& cut) const;
  BudgetChoice keep_inputs() const;

  const JointGraph& graph_;
  const JointFacts& facts_;
  BanRules rules_;
  double inputs_ = 0;   ///< Bytes.
  double default_ = 0;  ///< Bytes that the default keeps, inputs included.
  Step first_;
  std::vector<Step> more_;  ///< Made when they are needed.
};

}  // namespace gpusim
