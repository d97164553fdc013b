// SPDX-License-Identifier: Apache-2.0
// Recompute or store: which tensors of the forward pass a training step keeps for its backward pass, and
// which it makes again there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/knapsack.hpp"
#include "models/compiler/min_cut.hpp"
#include "models/graph/op_graph.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

enum class RecomputePolicy : std::uint8_t {
  StoreAll,      ///< Whatever backward reads of the forward pass is kept, as eager autograd does.
  RecomputeAll,  ///< Only what is given to the step is kept.
  Blocks,        ///< What goes into a repeated block, and what is made outside of such blocks.
  Selective,     ///< What products, convolutions and attention make.
  MinCut,        ///< What AOTAutograd's partitioner keeps: torch.compile's default.
  MemoryBudget,  ///< The same under torch._functorch.config.activation_memory_budget.
};
/// "store_all", "recompute_all", "blocks", "selective", "min_cut", "memory_budget".
std::string_view name(RecomputePolicy policy);

struct RecomputeOptions {
  RecomputePolicy policy = RecomputePolicy::MinCut;
  double memory_budget = 1;  ///< Of MemoryBudget: 0 to 1.
  KnapsackSolver solver = KnapsackSolver::Dp;
  /// Names of forward ops that are kept, or run again, whatever the policy says; '*' stands for any
  /// characters.
  std::vector<std::string> save;
  std::vector<std::string> recompute;
  BanRules rules;  ///< Of MinCut and MemoryBudget.
  /// Whether attention and grouped products are on AOTAutograd's list of expensive ops, so that they are not
  /// run again below a budget of 1 unless the knapsack says so: flash and memory-efficient attention are,
  /// cuDNN's (which runs on GPUs since Hopper) is not.
  bool attention_is_expensive = true;
  /// By op: what running it again takes. Empty: its FLOPs, at least 1, as upstream estimates it.
  std::vector<Picoseconds> times;
  friend bool operator==(const RecomputeOptions&, const RecomputeOptions&) = default;
};

/// What happens to an op's result.
enum class TensorFate : std::uint8_t {
  NotNeeded,   ///< Backward does without it.
  Saved,       ///< Kept from forward to backward, or given to the step.
  Recomputed,  ///< Made in forward, and again in backward.
  Backward,    ///< Made in backward alone.
};
std::string_view name(TensorFate fate);

/// On which step of the budget's ladder a plan was found.
enum class BudgetStep : std::uint8_t {
  Default,            ///< The cut of the rules was good enough.
  FewerBans,          ///< ... without the bans of what is used far apart, long chains, materialized values.
  ExpensiveBansOnly,  ///< ... with no ban but of expensive and random ops and reductions.
  Knapsack,           ///< ... and some of those run again.
  InputsOnly,         ///< Nothing but what is given is kept.
};
std::string_view name(BudgetStep step);

struct TensorDecision {
  TensorIndex tensor = graph_none;
  TensorFate fate = TensorFate::NotNeeded;
  /// Which rule forbids to make it again. Saved without one: this is where keeping costs least, or the policy
  /// keeps it.
  Ban ban = Ban::None;
  std::int32_t distance = 0;  ///< Edges to the backward pass; joint_far_away: none.
  Bytes weight{0};            ///< What the cut thought that keeping it costs; 0: it did not ask.
};

/// In which pass an op runs; neither: nothing needs it.
struct OpPlaces {
  bool forward = false;
  bool backward = false;
  friend bool operator==(const OpPlaces&, const OpPlaces&) = default;
};

struct RecomputePlan {
  RecomputePolicy policy = RecomputePolicy::MinCut;
  std::vector<TensorIndex> saved;   ///< Made in forward, read in backward; in order.
  std::vector<TensorIndex> inputs;  ///< Given to the step (inputs, parameters), read in backward.
  std::vector<OpPlaces> places;     ///< By op; of the optimizer's ops neither.
  std::vector<OpIndex> run_again;   ///< Ops that run in both passes; in order.
  Bytes saved_bytes{0};             ///< Memory of `saved`, each storage once.
  Bytes stored_bytes{0};            ///< The same if everything were kept (RecomputePolicy::StoreAll).
  Flops flops_again{0};             ///< Of `run_again`.
  Picoseconds time_again{0};        ///< Of `run_again`, by RecomputeOptions::times; 0 without them.
  std::int32_t random_states = 0;   ///< Random ops among `run_again`: each keeps its generator's state.
  BudgetStep step = BudgetStep::Default;
  double memory_ratio = 1;                ///< Of MemoryBudget: what it keeps as the partitioner counts it.
  std::size_t cut_parts = 0;              ///< Independent parts that were cut,
  std::size_t cut_distinct_parts = 0;     ///< of which so many are different.
  std::vector<TensorDecision> decisions;  ///< Of each tensor that the two passes make or are given.
};

/// `joint` as training_graph() gives it, functional, composites taken apart as far as they shall be; ops of
/// Phase::Optimizer do not matter. The gradients it begins with are given tensors of Role::Gradient, or the
/// first backward op, if that takes nothing.
///
/// Throws GraphError for a name in `save` or `recompute` that no forward op has, and CompileError for options
/// that make no sense together (a budget outside [0, 1], times for another number of ops, an op to be both
/// kept and run again).
RecomputePlan plan_recompute(const OpGraph& joint, const RecomputeOptions& options = {});

/// The graph in which the plan is carried out: copies of the ops that run again (Op::recomputed,
/// Phase::Backward, names ending in ".again") stand before the first backward op that needs them
/// (partitioners.py, reordering_to_mimic_autograd_engine); ops of backward whose results are saved end the
/// forward pass; what nothing needs is gone. What the backward pass reads of the forward pass is then
/// `plan.saved`. Op::gradient_of of a copy is the op that it repeats.
OpGraph apply_recompute(const OpGraph& joint, const RecomputePlan& plan);

/// A point of the curve of memory against time.
struct BudgetPoint {
  double budget = 1;
  BudgetStep step = BudgetStep::Default;
  double memory_ratio = 1;
  Bytes saved_bytes{0};
  Flops flops_again{0};
  Picoseconds time_again{0};
};

/// Plans for budgets of 100 % down to 0 % in steps of 5 %. More budget does not always keep more: the three
/// cuts of the ladder are taken as soon as they are below the budget, so a budget just above one of them
/// keeps as little as that cut, while one below it fills a knapsack up to the budget.
std::vector<BudgetPoint> budget_curve(const OpGraph& joint, const RecomputeOptions& options = {});

}  // namespace gpusim
