// SPDX-License-Identifier: Apache-2.0
// What a training step keeps for its backward pass, policy by policy, and the graph that comes of it.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/compile.hpp"
#include "models/compiler/options.hpp"
#include "models/compiler/recompute.hpp"
#include "models/compiler/recompute_curve.hpp"
#include "models/graph/memory.hpp"
#include "sim/config/backend_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/graph_checks.hpp"
#include "tests/support/training.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

/// h1 and t are 100 rows of 8 numbers of 4 bytes, 3,200 B; h2 is 100 rows of 2, 800 B; x 1,600 B. Backward
/// of gelu reads h2, that of the second product t, that of tanh its result t, that of the first product x.
const char* const tanh_between =
    "name: n\ninputs: {x: {shape: [100, 4]}}\nbody:\n"
    "  - h1 = linear(x, 8, bias=false)\n  - t = tanh(h1)\n  - h2 = linear(t, 2, bias=false)\n"
    "  - z = gelu(h2)\ngives: [z]\n";
/// The same, but backward of the first gelu reads h1, and the second product's reads a = gelu(h1).
const char* const gelu_between =
    "name: n\ninputs: {x: {shape: [100, 4]}}\nbody:\n"
    "  - h1 = linear(x, 8, bias=false)\n  - a = gelu(h1)\n  - h2 = linear(a, 2, bias=false)\n"
    "  - z = gelu(h2)\ngives: [z]\n";

const char* const two_blocks =
    "name: n\ninputs: {x: {shape: [2, 3, 4]}}\nblocks:\n"
    "  layer:\n    takes: [x]\n    body:\n      - h = tanh(linear(x, 8, bias=false))\n"
    "      - x = x + linear(h, 4, bias=false)\n    gives: [x]\n"
    "body:\n  - x = linear(x, 4, bias=false)\n  - repeat: 2\n    body:\n      - x = layer(x)\n"
    "gives: [x]\n";

RecomputePlan plan_of(const OpGraph& joint, RecomputePolicy policy, double budget = 1) {
  RecomputeOptions options;
  options.policy = policy;
  options.memory_budget = budget;
  return plan_recompute(joint, options);
}

constexpr RecomputePolicy all_policies[] = {RecomputePolicy::StoreAll, RecomputePolicy::RecomputeAll,
                                            RecomputePolicy::Blocks,   RecomputePolicy::Selective,
                                            RecomputePolicy::MinCut,   RecomputePolicy::MemoryBudget};

TEST_CASE("storing all keeps what autograd saves, and nothing runs again") {
  const OpGraph joint = joint_of(tanh_between);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::StoreAll);
  CHECK(named(joint, plan.saved) == "t, h2");
  CHECK(named(joint, plan.inputs) == "x, h2.weight");
  CHECK(plan.saved_bytes == Bytes(3'200 + 800));
  CHECK(plan.stored_bytes == plan.saved_bytes);
  CHECK(plan.run_again.empty());
  CHECK(plan.flops_again == Flops(0));
  CHECK(difference(apply_recompute(joint, plan), joint).empty());
}

TEST_CASE("recomputing all keeps what is given, and runs again up to the last value that backward reads") {
  const OpGraph joint = joint_of(tanh_between);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::RecomputeAll);
  CHECK(plan.saved.empty());
  CHECK(plan.saved_bytes == Bytes(0));
  CHECK(plan.stored_bytes == Bytes(4'000));
  CHECK(named(joint, plan.inputs) == "x, h1.weight, h2.weight");
  // gelu's own result is read by nobody in backward.
  CHECK(named_ops(joint, plan.run_again) == "h1, t, h2");
  // 2 * 100 rows * (4 * 8 + 8 * 2).
  CHECK(plan.flops_again == Flops(2 * 100 * (32 + 16)));
}

TEST_CASE("the selective policy keeps what products make and runs the pointwise ops between them again") {
  const OpGraph joint = joint_of(tanh_between);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::Selective);
  CHECK(named(joint, plan.saved) == "h1, h2");
  CHECK(named_ops(joint, plan.run_again) == "t");
  CHECK(plan.saved_bytes == Bytes(3'200 + 800));
  CHECK(plan.flops_again == Flops(0));
}

TEST_CASE("min-cut keeps a gelu's argument and its result: a product of backward reads the result") {
  const OpGraph joint = joint_of(gelu_between);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::MinCut);
  CHECK(named(joint, plan.saved) == "h1, a, h2");
  CHECK(plan.saved_bytes == Bytes(2 * 3'200 + 800));
  for (const TensorDecision& decision : plan.decisions) {
    const std::string& name = joint.tensors[decision.tensor].name;
    if (name == "a") {
      CHECK(decision.fate == TensorFate::Saved);
      CHECK(decision.ban == Ban::Materialized);
      // A product of backward reads it: one edge, 3,200 * 1.1, rounded down.
      CHECK(decision.distance == 1);
      CHECK(decision.weight == Bytes(3'520));
    }
    if (name == "h1") CHECK(decision.ban == Ban::Expensive);
    if (name == "x") CHECK(decision.ban == Ban::Input);
    if (name == "z") CHECK(decision.fate == TensorFate::NotNeeded);
  }
}

TEST_CASE("min-cut keeps the result of tanh alone: both of its readers in backward can do with it") {
  const OpGraph joint = joint_of(tanh_between);
  CHECK(named(joint, plan_of(joint, RecomputePolicy::MinCut).saved) == "t, h2");
}

TEST_CASE("checkpointing by blocks keeps what goes into each block of a repeat") {
  const OpGraph joint = joint_of(two_blocks);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::Blocks);
  // The first product's result goes into the first block, that block's into the second: 2 * 24 * 4 B.
  CHECK(named(joint, plan.saved) == "x, layer[0].x");
  CHECK(plan.saved_bytes == Bytes(192));
  // Of each block again: the product to 8 features and tanh. What the second product gives is read by nobody.
  CHECK(plan.run_again.size() == 4);
  CHECK(plan.flops_again == Flops(2 * 2 * 6 * 4 * 8));
}

TEST_CASE("a plan by blocks keeps what eager checkpointing keeps") {
  const OpGraph forward =
      build_graph(shipped_network("gpt2"),
                  sizes(2, 64, StepKind::Training, {{"layers", std::int64_t{3}}}, ElementType::Fp32));
  TrainingOptions options = joint_options(TrainingPrecision::Pure, LossKind::CrossEntropy);
  const OpGraph joint = training_graph(forward, options);
  options.functional = false;
  options.checkpointing = Checkpointing::Blocks;
  const OpGraph eager = training_graph(forward, options);
  const RecomputePlan plan = plan_of(joint, RecomputePolicy::Blocks);
  CHECK(named(joint, plan.saved) == named(eager, read_of_forward(eager)));
  std::size_t again = 0;
  for (const Op& op : eager.ops) again += op.recomputed ? 1 : 0;
  CHECK(plan.run_again.size() == again);
}

TEST_CASE("a plan carried out is a legal graph whose backward reads of forward what is saved") {
  for (const char* network : {"gpt2", "llama", "resnet50"}) {
    const bool images = std::string_view(network) == "resnet50";
    const OpGraph joint = training_graph(
        build_graph(shipped_network(network), sizes(2, 64, StepKind::Training, {}, ElementType::Fp32)),
        joint_options(images ? TrainingPrecision::Pure : TrainingPrecision::Autocast,
                      LossKind::CrossEntropy));
    CAPTURE(network);
    REQUIRE(fault_of(joint) == "");
    for (const RecomputePolicy policy : all_policies) {
      CAPTURE(network, name(policy));
      const RecomputePlan plan = plan_of(joint, policy, 0.3);
      const OpGraph made = apply_recompute(joint, plan);
      CHECK(fault_of(made) == "");
      CHECK(named(made, read_of_forward(made)) == named(joint, plan.saved));
      std::size_t again = 0;
      double flops = model_flops(made);
      for (const Op& op : made.ops) {
        if (!op.recomputed) continue;
        ++again;
        CHECK(op.phase == Phase::Backward);
        CHECK(op.name == made.ops[op.gradient_of].name + ".again");
      }
      CHECK(again == plan.run_again.size());
      CHECK(flops == Approx(model_flops(joint) + plan.flops_again.value()));
    }
  }
}

TEST_CASE("what runs again stands right before the first op of backward that needs it") {
  const OpGraph joint = joint_of(tanh_between);
  const OpGraph made = apply_recompute(joint, plan_of(joint, RecomputePolicy::Selective));
  for (std::size_t i = 0; i < made.ops.size(); ++i) {
    if (made.ops[i].name != "t.again") continue;
    const std::vector<TensorIndex>& read = made.ops[i + 1].inputs;
    CHECK(std::count(read.begin(), read.end(), made.ops[i].outputs[0]) == 1);
    return;
  }
  FAIL("tanh does not run again");
}

TEST_CASE("named ops are kept or run again whatever the policy says") {
  const OpGraph joint = joint_of(gelu_between);
  RecomputeOptions options;
  options.recompute = {"h1"};
  RecomputePlan plan = plan_recompute(joint, options);
  CHECK(named(joint, plan.saved) == "a, h2");
  CHECK(named_ops(joint, plan.run_again) == "h1");
  options.recompute = {"h*"};
  plan = plan_recompute(joint, options);
  CHECK(named(joint, plan.saved) == "a");
  CHECK(named_ops(joint, plan.run_again) == "h1, h2");
  options.recompute = {};
  options.policy = RecomputePolicy::RecomputeAll;
  options.save = {"h?", "h1"};
  CHECK_THROWS_AS(plan_recompute(joint, options), GraphError);
  options.save = {"h1"};
  plan = plan_recompute(joint, options);
  CHECK(named(joint, plan.saved) == "h1");
  CHECK(named_ops(joint, plan.run_again) == "a, h2");
}

TEST_CASE("options that make no sense together are refused") {
  const OpGraph joint = joint_of(gelu_between);
  const auto message = [&](const auto& change) {
    RecomputeOptions options;
    change(options);
    try {
      plan_recompute(joint, options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message([](RecomputeOptions& o) { o.memory_budget = 1.5; }) ==
        "a memory budget is a share between 0 and 1");
  CHECK(message([](RecomputeOptions& o) { o.times.resize(3); }) ==
        "run times of 3 ops for a graph of " + std::to_string(joint.ops.size()));
  CHECK(message([](RecomputeOptions& o) { o.save = o.recompute = {"a"}; }) ==
        "a is to be both kept and run again");
  CHECK(message([](RecomputeOptions& o) { o.save = {"nobody"}; }) ==
        "no op of the forward pass has the name 'nobody'");
}

TEST_CASE("a mask of dropout is kept by min-cut, and its generator's state where it is drawn again") {
  const OpGraph joint = joint_of(
      "name: n\ninputs: {x: {shape: [100, 4]}}\nbody:\n  - w = parameter([4])\n"
      "  - z = dropout(x * w, 0.5)\ngives: [z]\n");
  RecomputePlan plan = plan_of(joint, RecomputePolicy::MinCut);
  CHECK(plan.saved_bytes == Bytes(400));  // A byte for each element.
  CHECK(plan.random_states == 0);
  plan = plan_of(joint, RecomputePolicy::RecomputeAll);
  CHECK(plan.saved_bytes == Bytes(0));
  CHECK(plan.random_states == 1);
}

// --- Budgets. Inputs are x, h1.weight [8, 4] and h2.weight [2, 8]: 1,600 + 128 + 64 = 1,792 B. The default
// keeps h1, a, h2, x and h2.weight: 8,864 B, 7,072 more than the inputs. Without the bans of what is read by
// products a is made again: 5,664 B, a ratio of 3,872 / 7,072 = 0.5475.

TEST_CASE("budgets between two cuts take the smaller one, and 1 and 0 the default and nothing") {
  const OpGraph joint = joint_of(gelu_between);
  const RecomputePlan most = plan_of(joint, RecomputePolicy::MemoryBudget, 1);
  CHECK(most.step == BudgetStep::Default);
  CHECK(most.memory_ratio == 1);
  CHECK(named(joint, most.saved) == "h1, a, h2");
  const RecomputePlan fewer = plan_of(joint, RecomputePolicy::MemoryBudget, 0.55);
  CHECK(fewer.step == BudgetStep::FewerBans);
  CHECK(fewer.memory_ratio == Approx(3'872.0 / 7'072));
  CHECK(named(joint, fewer.saved) == "h1, h2");
  const RecomputePlan none = plan_of(joint, RecomputePolicy::MemoryBudget, 0);
  CHECK(none.step == BudgetStep::InputsOnly);
  CHECK(none.saved.empty());
  CHECK(named_ops(joint, none.run_again) == "h1, a, h2");
}

TEST_CASE("below the cuts a knapsack keeps the products whose FLOPs are worth most") {
  const OpGraph joint = joint_of(gelu_between);
  // h1: 3,200 / 7,072 = 0.4525, 2 * 100 * 32 = 6,400 FLOPs; h2: 800 / 7,072 = 0.1131, 3,200 FLOPs. Both:
  // 0.5656.
  const RecomputePlan half = plan_of(joint, RecomputePolicy::MemoryBudget, 0.5);
  CHECK(half.step == BudgetStep::Knapsack);
  CHECK(named(joint, half.saved) == "h1");
  CHECK(named_ops(joint, half.run_again) == "a, h2");
  CHECK(half.flops_again == Flops(3'200));
  const RecomputePlan little = plan_of(joint, RecomputePolicy::MemoryBudget, 0.3);
  CHECK(named(joint, little.saved) == "h2");
  CHECK(named_ops(joint, little.run_again) == "h1, a");
  CHECK(little.flops_again == Flops(6'400));
}

TEST_CASE("run times take the place of FLOPs in the knapsack") {
  const OpGraph joint = joint_of(gelu_between);
  RecomputeOptions options;
  options.policy = RecomputePolicy::MemoryBudget;
  options.memory_budget = 0.5;
  options.times.assign(joint.ops.size(), Picoseconds(1));
  for (OpIndex i = 0; i < joint.ops.size(); ++i)
    if (joint.ops[i].name == "h2") options.times[i] = Picoseconds(10);
  const RecomputePlan plan = plan_recompute(joint, options);
  CHECK(named(joint, plan.saved) == "h2");
  CHECK(plan.time_again == Picoseconds(2));  // h1 and a
}

TEST_CASE("the curve over budgets has 21 points, less memory for more work from cut to cut") {
  const OpGraph joint = joint_of(gelu_between);
  const std::vector<BudgetPoint> curve = budget_curve(joint);
  REQUIRE(curve.size() == 21);
  CHECK(curve.front().budget == 1);
  CHECK(curve.front().saved_bytes == Bytes(7'200));
  CHECK(curve.back().budget == 0);
  CHECK(curve.back().saved_bytes == Bytes(0));
  CHECK(curve.back().flops_again == Flops(9'600));
  for (std::size_t i = 1; i < curve.size(); ++i) {
    CAPTURE(curve[i].budget);
    CHECK(curve[i].saved_bytes <= curve[i - 1].saved_bytes);
    CHECK(curve[i].flops_again >= curve[i - 1].flops_again);
  }
}

/// GPT-2 with eight layers on 4 sequences of 256 tokens.
OpGraph eight_layers() {
  return training_graph(
      build_graph(shipped_network("gpt2"),
                  sizes(4, 256, StepKind::Training,
                        {{"layers", std::int64_t{8}}, {"vocab", std::int64_t{512}}}, ElementType::Fp32)),
      joint_options(TrainingPrecision::Autocast, LossKind::CrossEntropy));
}

/// How many copies of ops stand before the first product of backward that is none.
std::size_t copies_before_backward(const OpGraph& graph) {
  std::size_t copies = 0;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::Backward) continue;
    if (!op.recomputed && op.kind->name == "matmul") break;
    copies += op.recomputed ? 1 : 0;
  }
  return copies;
}

TEST_CASE("with nothing kept all of forward runs again before backward begins, and is alive at once") {
  const OpGraph joint = eight_layers();
  const GpuSpec gpu = h200();
  double peaks[3];
  std::size_t copies[3];
  std::size_t before[3];
  for (int i = 0; i < 3; ++i) {
    const RecomputePlan plan = plan_of(joint, RecomputePolicy::MemoryBudget, 1 - i / 2.0);
    const OpGraph made = apply_recompute(joint, plan);
    peaks[i] = static_cast<double>(eager_memory(made, gpu).activations.value());
    copies[i] = plan.run_again.size();
    before[i] = copies_before_backward(made);
  }
  // The loss's gradient needs the logits, which need every block. All that does not go into them stays
  // behind: what is left, less than a tenth, are views and casts for products of backward.
  CHECK(before[2] > copies[2] * 9 / 10);
  CHECK(before[1] < copies[1] / 2);
  CHECK(peaks[1] < 0.7 * peaks[0]);
  CHECK(peaks[2] > 0.98 * peaks[0]);
}

TEST_CASE("what a compiled backward pass makes again counts as activations at the peak") {
  // Long rows, so that the peak is in backward: h1, t and h2 again are a product's, 32 and 8 MB of them.
  const auto joint = std::make_shared<const OpGraph>(
      joint_of("name: n\ninputs: {x: {shape: [1000000, 4]}}\nbody:\n"
               "  - h1 = linear(x, 8, bias=false)\n  - t = tanh(h1)\n  - h2 = linear(t, 2, bias=false)\n"
               "  - z = gelu(h2)\ngives: [z]\n"));
  CompileOptions options;
  options.backend = config::read_backend(config::load_text("name: inductor", "test").at("name"), {});
  options.mode = options.backend.modes.front();
  options.recompute.emplace().policy = RecomputePolicy::RecomputeAll;
  const CompiledStep step = compile_step(joint, options, h200());
  CHECK(step.memory.saved < Bytes(1'000));
  CHECK(step.memory.at_peak[MemoryKind::Activations] >= Bytes(32'000'000));
}

TEST_CASE("the front of step time against peak memory leaves out what something else beats in both") {
  std::vector<CurvePoint> points;
  const auto add = [&](std::int64_t time, std::int64_t peak) {
    CurvePoint& point = points.emplace_back();
    point.time = Picoseconds(time);
    point.peak = Bytes(peak);
  };
  add(100, 17);  // As fast as the next one, which needs less.
  add(100, 14);
  add(196, 15);  // Slower than that, and needs more.
  add(132, 13);
  add(132, 13);  // No better than the one before.
  add(164, 11);
  mark_front(points);
  std::vector<bool> front;
  for (const CurvePoint& point : points) front.push_back(point.on_front);
  CHECK(front == std::vector<bool>{false, true, false, true, false, true});
}

TEST_CASE("a curve goes through five policies and twenty budgets") {
  const std::vector<RecomputeSetting> settings = curve_settings();
  REQUIRE(settings.size() == 25);
  CHECK(settings[5].budget == 0.95);
  CHECK(settings.back().budget == 0);
  const RecomputeOptions options = with_setting({}, settings.back());
  CHECK(options.policy == RecomputePolicy::MemoryBudget);
  CHECK(options.memory_budget == 0);
}

}  // namespace
