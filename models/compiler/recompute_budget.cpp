// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute_budget.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace gpusim {
namespace {

bool is_input(const JointNode& node) {
  return node.role == JointRole::Input || node.role == JointRole::Parameter;
}

}  // namespace

BudgetChooser::BudgetChooser(const JointGraph& graph, const JointFacts& facts, const BanRules& rules)
    : graph_(graph), facts_(facts), rules_(rules) {
  for (JointIndex i = 0; i < graph.size(); ++i)
    if (is_input(graph[i])) inputs_ += static_cast<double>(graph[i].bytes);
  first_ = solve(rules);
  default_ = kept(first_.cut);
}

BudgetChooser::Step BudgetChooser::solve(const BanRules& rules,
                                         std::span<const std::uint8_t> released) const {
  Step step{.bans = find_bans(graph_, facts_, rules, released), .cut = {}};
  step.cut = min_cut(graph_, facts_, step.bans);
  if (default_ > inputs_) step.ratio = (kept(step.cut) - inputs_) / (default_ - inputs_);
  return step;
}

double BudgetChooser::kept(const Cut& cut) const {
  double bytes = 0;
  for (JointIndex i = 0; i < graph_.size(); ++i)
    if (cut.saved[i] != 0) bytes += static_cast<double>(graph_[i].bytes);
  return bytes;
}

BudgetChoice BudgetChooser::keep_inputs() const {
  BudgetChoice choice{.cut = {}, .bans = first_.bans, .step = BudgetStep::InputsOnly, .ratio = 0};
  choice.cut.saved.assign(graph_.size(), 0);
  for (JointIndex i = 0; i < graph_.size(); ++i)
    if (is_input(graph_[i])) choice.cut.saved[i] = 1;
  return choice;
}

BudgetChoice BudgetChooser::choose(double budget, KnapsackSolver solver) {
  if (budget <= 0) return keep_inputs();
  const auto with = [](const Step& step, BudgetStep which) {
    return BudgetChoice{.cut = step.cut, .bans = step.bans, .step = which, .ratio = step.ratio};
  };
  if (budget >= 1 || default_ <= inputs_) return with(first_, BudgetStep::Default);

  BanRules rules = rules_;
  rules.used_far_apart = rules.long_chains = rules.materialized_backward = false;
  if (more_.empty()) more_.push_back(solve(rules));
  if (more_[0].ratio < budget) return with(more_[0], BudgetStep::FewerBans);
  rules.not_listed = false;
  if (more_.size() == 1) more_.push_back(solve(rules));
  if (more_[1].ratio < budget) return with(more_[1], BudgetStep::ExpensiveBansOnly);

  std::unordered_set<std::uint32_t> input_memory;
  for (JointIndex i = 0; i < graph_.size(); ++i)
    if (is_input(graph_[i])) input_memory.insert(graph_[i].memory);
  std::vector<JointIndex> nodes;
  for (JointIndex i = 0; i < graph_.size(); ++i) {
    const JointNode& node = graph_[i];
    if (more_[1].bans[i] == Ban::None || is_input(node) || node.must_save || node.fixed) continue;
    if (facts_.distance[i] < joint_far_away && input_memory.count(node.memory) == 0) nodes.push_back(i);
  }
  if (nodes.empty()) return keep_inputs();
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](JointIndex a, JointIndex b) { return graph_[a].bytes > graph_[b].bytes; });
  std::vector<KnapsackItem> items;
  for (const JointIndex i : nodes)
    items.push_back(
        {.memory = static_cast<double>(graph_[i].bytes) / (default_ - inputs_), .value = graph_[i].run_time});
  const KnapsackChoice choice = knapsack(solver, items, budget);
  std::vector<std::uint8_t> released(graph_.size(), 0);
  for (std::size_t k = 0; k < nodes.size(); ++k)
    if (choice.taken[k] == 0) released[nodes[k]] = 1;
  return with(solve(rules, released), BudgetStep::Knapsack);
}

}  // namespace gpusim
