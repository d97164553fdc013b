// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "models/compiler/options.hpp"
#include "models/compiler/recompute_budget.hpp"
#include "models/compiler/recompute_nodes.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {

std::string_view name(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::StoreAll:
      return "store_all";
    case RecomputePolicy::RecomputeAll:
      return "recompute_all";
    case RecomputePolicy::Blocks:
      return "blocks";
    case RecomputePolicy::Selective:
      return "selective";
    case RecomputePolicy::MinCut:
      return "min_cut";
    case RecomputePolicy::MemoryBudget:
      return "memory_budget";
  }
  return "?";
}
std::string_view name(TensorFate fate) {
  switch (fate) {
    case TensorFate::NotNeeded:
      return "not needed";
    case TensorFate::Saved:
      return "saved";
    case TensorFate::Recomputed:
      return "recomputed";
    case TensorFate::Backward:
      return "backward";
  }
  return "?";
}
std::string_view name(BudgetStep step) {
  switch (step) {
    case BudgetStep::Default:
      return "default";
    case BudgetStep::FewerBans:
      return "fewer bans";
    case BudgetStep::ExpensiveBansOnly:
      return "expensive bans only";
    case BudgetStep::Knapsack:
      return "knapsack";
    case BudgetStep::InputsOnly:
      return "inputs only";
  }
  return "?";
}

namespace {

bool is_input(const JointNode& node) {
  return node.role == JointRole::Input || node.role == JointRole::Parameter;
}

/// Whether `pattern`, in which '*' stands for any characters, is `text`.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // The last one seen, and how much of the text it has.
  std::size_t behind = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// What a plan is made from; the budget's cuts are made once for all plans.
class Planner {
 public:
  Planner(const OpGraph& joint, const RecomputeOptions& options) : joint_(joint), options_(options) {
    if (!options.times.empty() && options.times.size() != joint.ops.size())
      throw CompileError("run times of " + std::to_string(options.times.size()) + " ops for a graph of " +
                         std::to_string(joint.ops.size()));
    if (!(options.memory_budget >= 0 && options.memory_budget <= 1))
      throw CompileError("a memory budget is a share between 0 and 1");
    nodes_ = joint_ops(joint, options);
    std::vector<std::uint8_t> save = named(options.save);
    const std::vector<std::uint8_t> again = named(options.recompute);
    for (OpIndex i = 0; i < joint.ops.size(); ++i) {
      if (save[i] != 0 && again[i] != 0)
        throw CompileError(joint.ops[i].name + " is to be both kept and run again");
      const JointIndex node = nodes_.node_of_op[i];
      if (save[i] != 0) nodes_.graph[node].must_save = true;
      if (again[i] == 0) continue;
      if (nodes_.graph[node].fixed)
        throw CompileError(joint.ops[i].name +
                           " cannot run again: it changes what it reads, or something "
                           "changes that before backward begins");
      nodes_.graph[node].must_recompute = true;
    }
    facts_ = joint_facts(nodes_.graph);
  }

  RecomputePlan plan(RecomputePolicy policy, double budget) {
    RecomputePlan plan;
    plan.policy = policy;
    bans_.assign(nodes_.graph.size(), Ban::None);
    weighed_ = false;
    const std::vector<std::uint8_t> kept = keep(policy, budget, plan);
    finish(kept, plan);
    plan.stored_bytes =
        policy == RecomputePolicy::StoreAll ? plan.saved_bytes : bytes_of(needed(keep_stored()));
    return plan;
  }

 private:
  std::vector<std::uint8_t> named(const std::vector<std::string>& patterns) const {
    std::vector<std::uint8_t> found(joint_.ops.size(), 0);
    for (const std::string& pattern : patterns) {
      bool any = false;
      for (OpIndex i = 0; i < joint_.ops.size(); ++i)
        if (joint_.ops[i].phase == Phase::Forward && matches(pattern, joint_.ops[i].name))
          found[i] = any = true;
      if (!any)
        throw GraphError({}, "no op of the forward pass has the name '" + pattern + "'",
                         "names are those that `gpusim explain` shows; '*' stands for any characters");
    }
    return found;
  }

  std::vector<std::uint8_t> keep(RecomputePolicy policy, double budget, RecomputePlan& plan) {
    switch (policy) {
      case RecomputePolicy::StoreAll:
        return keep_stored();
      case RecomputePolicy::RecomputeAll:
        return keep_if([](JointIndex) { return false; });
      case RecomputePolicy::Blocks:
        return keep_block_inputs();
      case RecomputePolicy::Selective:
        return keep_if([&](JointIndex i) {
          return joint_.ops[nodes_.op[i]].kind->recompute == RecomputeClass::Expensive;
        });
      case RecomputePolicy::MinCut:
        budget = 1;
        break;
      case RecomputePolicy::MemoryBudget:
        break;
    }
    if (!chooser_) chooser_.emplace(nodes_.graph, facts_, options_.rules);
    BudgetChoice choice = chooser_->choose(budget, options_.solver);
    bans_ = std::move(choice.bans);
    weighed_ = choice.step != BudgetStep::InputsOnly;
    plan.step = choice.step;
    plan.memory_ratio = choice.ratio;
    plan.cut_parts = choice.cut.parts;
    plan.cut_distinct_parts = choice.cut.distinct_parts;
    // The ladder's last steps do not ask what the user wants kept.
    for (JointIndex i = 0; i < nodes_.graph.size(); ++i)
      if (nodes_.graph[i].must_save) choice.cut.saved[i] = 1;
    return std::move(choice.cut.saved);
  }

  /// By node: kept if backward comes to it. What the user wants goes before, and what must not run again is
  /// kept in any case.
  template <class Keep>
  std::vector<std::uint8_t> keep_if(Keep keep) const {
    std::vector<std::uint8_t> kept(nodes_.graph.size(), 0);
    for (JointIndex i = 0; i < nodes_.graph.size(); ++i) {
      const JointNode& node = nodes_.graph[i];
      if (is_input(node) || !node.forward || node.several) continue;
      const JointNode& op = nodes_.graph[nodes_.node_of_op[nodes_.op[i]]];
      kept[i] = (keep(i) || op.must_save || op.fixed) && !op.must_recompute ? 1 : 0;
    }
    return kept;
  }

  std::vector<std::uint8_t> keep_stored() const {
    return keep_if([](JointIndex) { return true; });
  }

  std::vector<std::uint8_t> keep_block_inputs() const {
    const std::vector<CallIndex> block = blocks();
    return keep_if([&](JointIndex i) {
      const CallIndex own = block[nodes_.op[i]];
      if (own == graph_none) return true;
      for (const JointIndex reader : facts_.readers_of(i))
        if (nodes_.graph[reader].forward && block[nodes_.op[reader]] != own) return true;
      return false;
    });
  }

  /// By op: the outermost call in a `repeat` that it stands in.
  std::vector<CallIndex> blocks() const {
    std::vector<CallIndex> outermost(joint_.calls.size(), graph_none);
    for (CallIndex c = 0; c < joint_.calls.size(); ++c) {
      const BlockCall& call = joint_.calls[c];
      if (call.parent != graph_none) outermost[c] = outermost[call.parent];
      if (outermost[c] == graph_none && call.in_repeat) outermost[c] = c;
    }
    std::vector<CallIndex> block;
    block.reserve(joint_.ops.size());
    for (const Op& op : joint_.ops)
      block.push_back(op.call < outermost.size() ? outermost[op.call] : graph_none);
    return block;
  }

  /// Goes back from what the backward pass makes in any case, up to what is kept.
  std::vector<TensorFate> needed(const std::vector<std::uint8_t>& kept) const {
    const JointGraph& graph = nodes_.graph;
    std::vector<TensorFate> fate(graph.size(), TensorFate::NotNeeded);
    for (JointIndex i = graph.size(); i-- > 0;) {
      const bool input = is_input(graph[i]);
      const bool backward = facts_.backward[i] != 0 && !input;
      bool wanted = backward;
      for (const JointIndex reader : facts_.readers_of(i))
        wanted = wanted || fate[reader] == TensorFate::Recomputed || fate[reader] == TensorFate::Backward;
      if (!wanted) continue;
      if (backward)
        fate[i] = TensorFate::Backward;
      else
        fate[i] = kept[i] != 0 || input ? TensorFate::Saved : TensorFate::Recomputed;
    }
    // What only the backward pass needs runs there, and nowhere else.
    const std::vector<std::uint8_t> forward = in_forward(fate);
    for (JointIndex i = 0; i < graph.size(); ++i)
      if (fate[i] == TensorFate::Recomputed && forward[i] == 0) fate[i] = TensorFate::Backward;
    return fate;
  }

  /// By node, whether the forward pass makes it: for what it gives, or for what is saved.
  std::vector<std::uint8_t> in_forward(const std::vector<TensorFate>& fate) const {
    std::vector<std::uint8_t> forward(facts_.forward);
    for (JointIndex i = nodes_.graph.size(); i-- > 0;) {
      if (fate[i] == TensorFate::Saved) forward[i] = 1;
      for (const JointIndex reader : facts_.readers_of(i)) forward[i] |= forward[reader];
    }
    return forward;
  }

  Bytes bytes_of(const std::vector<TensorFate>& fate) const {
    std::unordered_set<StorageIndex> storages;
    Bytes sum{0};
    for (JointIndex i = 0; i < nodes_.graph.size(); ++i) {
      if (fate[i] != TensorFate::Saved || is_input(nodes_.graph[i])) continue;
      const GraphTensor& tensor = joint_.tensors[nodes_.tensor[i]];
      const Storage& storage = joint_.storages[tensor.storage];
      // A look at a parameter keeps nothing that would not be there.
      if (storage.role == Role::Activation && storages.insert(tensor.storage).second) sum += storage.bytes;
    }
    return sum;
  }

  void finish(const std::vector<std::uint8_t>& kept, RecomputePlan& plan) const {
    const JointGraph& graph = nodes_.graph;
    const std::vector<TensorFate> fate = needed(kept);
    const std::vector<std::uint8_t> forward = in_forward(fate);
    plan.saved_bytes = bytes_of(fate);
    plan.places.assign(joint_.ops.size(), {});
    for (JointIndex i = 0; i < graph.size(); ++i) {
      const TensorIndex t = nodes_.tensor[i];
      if (is_input(graph[i])) {
        if (fate[i] == TensorFate::Saved) plan.inputs.push_back(t);
        decide(i, fate[i], bans_[i], plan);
        continue;
      }
      const OpIndex op = nodes_.op[i];
      if (op == graph_none) continue;  // A gradient that is given.
      if (fate[i] == TensorFate::Saved) plan.saved.push_back(t);
      if (graph[i].role != JointRole::Item) {
        OpPlaces& places = plan.places[op];
        places.forward = forward[i] != 0;
        places.backward = fate[i] == TensorFate::Recomputed || fate[i] == TensorFate::Backward;
        if (places.forward && places.backward) add_run_again(op, graph[i].random, plan);
      }
      if (t != graph_none) decide(i, fate[i], bans_[nodes_.node_of_op[op]], plan);
    }
  }

  void decide(JointIndex i, TensorFate fate, Ban ban, RecomputePlan& plan) const {
    const JointGraph& graph = nodes_.graph;
    TensorDecision decision{
        .tensor = nodes_.tensor[i], .fate = fate, .ban = ban, .distance = facts_.distance[i]};
    const bool choice = facts_.backward[i] == 0 || is_input(graph[i]);
    if (weighed_ && choice && !graph[i].must_recompute)
      decision.weight = Bytes(save_weight(graph, facts_, i));
    plan.decisions.push_back(decision);
  }

  void add_run_again(OpIndex index, bool random, RecomputePlan& plan) const {
    const Op& op = joint_.ops[index];
    plan.run_again.push_back(index);
    if (op.kind->flops != nullptr) plan.flops_again += op.kind->flops(OpTypes(joint_, op).view(op));
    if (!options_.times.empty()) plan.time_again += options_.times[index];
    if (random) ++plan.random_states;
  }

  const OpGraph& joint_;
  const RecomputeOptions& options_;
  JointOps nodes_;
  JointFacts facts_;
  std::optional<BudgetChooser> chooser_;
  std::vector<Ban> bans_;  ///< Of the plan that is being made.
  bool weighed_ = false;   ///< By a cut.
};

}  // namespace

RecomputePlan plan_recompute(const OpGraph& joint, const RecomputeOptions& options) {
  return Planner(joint, options).plan(options.policy, options.memory_budget);
}

std::vector<BudgetPoint> budget_curve(const OpGraph& joint, const RecomputeOptions& options) {
  Planner planner(joint, options);
  std::vector<BudgetPoint> curve;
  for (int percent = 100; percent >= 0; percent -= 5) {
    const RecomputePlan plan = planner.plan(RecomputePolicy::MemoryBudget, percent / 100.0);
    curve.push_back({.budget = percent / 100.0,
                     .step = plan.step,
                     .memory_ratio = plan.memory_ratio,
                     .saved_bytes = plan.saved_bytes,
                     .flops_again = plan.flops_again,
                     .time_again = plan.time_again});
  }
  return curve;
}

}  // namespace gpusim
