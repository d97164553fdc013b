// SPDX-License-Identifier: Apache-2.0
// Plans of what to keep, on training steps of random networks, against trying every set of tensors.
#include <cstdlib>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "models/compiler/recompute.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/graph_checks.hpp"
#include "tests/support/training.hpp"

namespace gpusim::test {
namespace {

template <class Property>
void holds(const std::string& what, Property&& property) {
  setenv("RC_PARAMS", "seed=20260101 max_success=150", 0);
  CHECK(rc::check(what, std::forward<Property>(property)));
}

using Line = std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>;

/// Up to so many ops, all from [2, 3, 4] to [2, 3, 4], each on one or two values before it.
std::string network_from(const std::vector<Line>& lines) {
  std::vector<std::string> values{"x", "w"};
  std::string body = "  - w = parameter([3, 4])\n  - x = x * parameter([4])\n";
  for (const auto& [kind, a, b] : lines) {
    const std::string late = values[values.size() - 1 - (a % 3) % values.size()];
    const std::string any = values[b % values.size()];
    const std::string made = "v" + std::to_string(values.size());
    const std::string ops[] = {"linear(" + late + " + 0 * x, 4, bias=false)",
                               "tanh(" + late + ")",
                               "gelu(" + late + ")",
                               late + " * " + any,
                               late + " + " + any,
                               "softmax(" + late + ", -1)",
                               "dropout(" + late + ", 0.5)",
                               "layer_norm(" + late + ")",
                               "transpose(transpose(" + late + ", -1, -2), -1, -2)"};
    body += "  - " + made + " = " + ops[kind % 9] + "\n";
    values.push_back(made);
  }
  return "name: n\ninputs: {x: {shape: [2, 3, 4]}}\nbody:\n" + body + "  - z = " + values.back() +
         " * x\ngives: [z]\n";
}

/// What a set of kept tensors costs; the largest number if something that must not run again would.
class Sets {
 public:
  Sets(const OpGraph& joint, const RecomputePlan& plan) : joint_(joint) {
    weight_.assign(joint.tensors.size(), 0);
    banned_.assign(joint.tensors.size(), false);
    in_backward_.assign(joint.ops.size(), false);
    std::vector<bool> from_loss(joint.tensors.size(), false);
    bool began = false;
    for (OpIndex i = 0; i < joint.ops.size(); ++i) {
      const Op& op = joint.ops[i];
      if (op.phase == Phase::Backward && !began) began = in_backward_[i] = true;
      for (const TensorIndex t : op.inputs)
        if (t != graph_none && from_loss[t]) in_backward_[i] = true;
      for (const TensorIndex t : op.outputs) {
        from_loss[t] = in_backward_[i];
        if (joint.tensors[t].role == Role::Gradient) in_backward_[i] = true;
      }
    }
    for (const TensorDecision& decision : plan.decisions) {
      const OpIndex op = joint.tensors[decision.tensor].producer;
      if (op != graph_none && in_backward_[op]) continue;
      weight_[decision.tensor] = decision.weight.value();
      banned_[decision.tensor] = decision.ban != Ban::None;
      candidates.push_back(decision.tensor);
    }
  }

  std::vector<TensorIndex> candidates;

  std::int64_t cost(const std::vector<bool>& kept) const {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    std::vector<bool> made(joint_.tensors.size(), false);
    for (OpIndex i = static_cast<OpIndex>(joint_.ops.size()); i-- > 0;) {
      const Op& op = joint_.ops[i];
      bool runs = in_backward_[i];
      for (const TensorIndex t : op.outputs) runs = runs || (made[t] && !kept[t]);
      if (!runs) continue;
      for (const TensorIndex t : op.outputs)
        if (!in_backward_[i] && banned_[t]) return never;
      for (const TensorIndex t : op.inputs)
        if (t != graph_none) made[t] = true;
    }
    std::int64_t sum = 0;
    for (const TensorIndex t : candidates) {
      if (kept[t]) sum += weight_[t];
      if (!kept[t] && made[t] && joint_.tensors[t].producer == graph_none) return never;
    }
    return sum;
  }

 private:
  const OpGraph& joint_;
  std::vector<std::int64_t> weight_;
  std::vector<bool> banned_;
  std::vector<bool> in_backward_;
};

}  // namespace

TEST_CASE("No set of kept tensors of a random training step weighs less than the plan's") {
  holds("plans", [] {
    auto lines = *rc::gen::container<std::vector<Line>>(*rc::gen::inRange<std::size_t>(1, 6),
                                                        rc::gen::arbitrary<Line>());
    OpGraph joint;
    RecomputePlan plan;
    while (true) {
      joint = joint_of(network_from(lines));
      plan = plan_recompute(joint);
      if (Sets(joint, plan).candidates.size() <= 14 || lines.empty()) break;
      lines.pop_back();
    }
    const Sets sets(joint, plan);
    const std::vector<TensorIndex>& candidates = sets.candidates;
    RC_ASSERT(candidates.size() <= 14);
    std::vector<bool> kept(joint.tensors.size(), false);
    for (const TensorIndex t : plan.saved) kept[t] = true;
    for (const TensorIndex t : plan.inputs) kept[t] = true;
    const std::int64_t planned = sets.cost(kept);
    for (unsigned set = 0; set < 1U << candidates.size(); ++set) {
      for (std::size_t k = 0; k < candidates.size(); ++k) kept[candidates[k]] = (set >> k & 1U) != 0;
      RC_ASSERT(sets.cost(kept) >= planned);
    }
  });
}

TEST_CASE("A plan of a random training step, carried out, reads what it saves and makes the same gradients") {
  holds("applied", [](std::uint8_t which, std::uint8_t percent) {
    const auto lines = *rc::gen::container<std::vector<Line>>(*rc::gen::inRange<std::size_t>(1, 12),
                                                              rc::gen::arbitrary<Line>());
    const OpGraph joint = joint_of(network_from(lines));
    RecomputeOptions options;
    options.policy = static_cast<RecomputePolicy>(which % 6);
    options.memory_budget = percent % 101 / 100.0;
    const RecomputePlan plan = plan_recompute(joint, options);
    const OpGraph made = apply_recompute(joint, plan);
    RC_ASSERT(fault_of(made) == "");
    RC_ASSERT(named(made, read_of_forward(made)) == named(joint, plan.saved));
    // Each gradient still comes of the same op.
    std::vector<std::string> before;
    std::vector<std::string> after;
    for (const GraphTensor& tensor : joint.tensors)
      if (tensor.role == Role::Gradient) before.push_back(tensor.name);
    for (const GraphTensor& tensor : made.tensors)
      if (tensor.role == Role::Gradient) after.push_back(tensor.name);
    std::sort(before.begin(), before.end());
    std::sort(after.begin(), after.end());
    RC_ASSERT(before == after);
  });
}

}  // namespace gpusim::test
