// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/recompute_reader.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gpusim {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;

namespace {

constexpr std::array policies{RecomputePolicy::StoreAll, RecomputePolicy::RecomputeAll,
                              RecomputePolicy::Blocks,   RecomputePolicy::Selective,
                              RecomputePolicy::MinCut,   RecomputePolicy::MemoryBudget};
/// No more names in a list than this.
constexpr std::size_t names_max = 100'000;

RecomputePolicy read_policy(const Node& node) {
  std::vector<std::string> known;
  for (const RecomputePolicy policy : policies) {
    if (node.text() == name(policy)) return policy;
    known.emplace_back(name(policy));
  }
  node.fail_unknown(known);
}

std::vector<std::string> read_names(const Node& list) {
  std::vector<std::string> names;
  if (list.size() > names_max) list.fail(fmt::format("more than {} names (names_max)", names_max));
  for (const Node& node : list.items()) names.push_back(node.as<std::string>());
  return names;
}

}  // namespace

void read_recompute(const Node& node, CompileOptions& options) {
  RecomputeOptions recompute;
  if (!node.is_map()) {
    recompute.policy = read_policy(node);
    options.recompute = recompute;
    return;
  }
  Fields fields(node);
  std::optional<Node> asked;  // The policy.
  fields.optional_with("policy", [&](const Node& policy) {
    recompute.policy = read_policy(policy);
    asked = policy;
  });
  fields.optional_with("memory_budget", [&](const Node& budget) {
    if (budget.is_null()) return;
    recompute.memory_budget = budget.as<double>(at_least(0.0), at_most(1.0));
    if (!asked) recompute.policy = RecomputePolicy::MemoryBudget;
    if (recompute.policy != RecomputePolicy::MemoryBudget)
      asked->fail(fmt::format("'{}' has no budget", asked->text()),
                  "write 'policy: memory_budget', or 'memory_budget: null'");
  });
  fields.optional_with("solver", [&](const Node& solver) {
    recompute.solver = solver.one_of<KnapsackSolver>(
        {{"dp", KnapsackSolver::Dp}, {"greedy", KnapsackSolver::Greedy}, {"exact", KnapsackSolver::Exact}});
    if (recompute.policy != RecomputePolicy::MemoryBudget)
      solver.fail(fmt::format("is of a memory budget, and the policy is {}", name(recompute.policy)),
                  "write 'memory_budget: 0.5' beside it, or leave it away");
  });
  fields.optional_with("save", [&](const Node& list) { recompute.save = read_names(list); });
  fields.optional_with("recompute", [&](const Node& list) { recompute.recompute = read_names(list); });
  fields.optional_with("costs", [&](const Node& costs) {
    options.recompute_by_time = costs.one_of<bool>({{"flops", false}, {"time", true}});
  });
  fields.done();
  options.recompute = recompute;
}

}  // namespace gpusim
