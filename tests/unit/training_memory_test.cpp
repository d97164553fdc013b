// SPDX-License-Identifier: Apache-2.0
// Device memory of a training step: what for, when, and against measured peaks.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/graph/memory.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::literals;

TrainingOptions adamw(std::int64_t accumulation = 1) {
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  options.loss = LossKind::Mean;
  options.optimizer.loop = OptimizerLoop::Fused;
  options.accumulation = accumulation;
  return options;
}

OpGraph step_of(const std::string& lines, const TrainingOptions& options = adamw()) {
  return training_graph(
      test::small_graph(lines, test::sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)), options);
}

struct Followed {
  explicit Followed(const OpGraph& graph, std::int64_t accumulation = 1)
      : use(eager_memory(graph, test::h200(), accumulation, &curve)) {}
  std::vector<MemoryPoint> curve;
  MemoryUse use;
};

/// While the last op of a phase runs that a curve has.
const MemoryShares& at_end_of(Phase phase, const OpGraph& graph, const Followed& followed) {
  const auto last = std::find_if(followed.curve.rbegin(), followed.curve.rend(),
                                 [&](const MemoryPoint& p) { return graph.ops[p.op].phase == phase; });
  REQUIRE(last != followed.curve.rend());
  return last->shares;
}

TEST_CASE("memory of a training step is told apart by what it is taken for") {
  // Weight [8, 4] and bias [8]: a block of 512 bytes each, as every tensor of this network.
  const OpGraph graph = step_of("  - z = linear(x, 8)\n");
  const Followed step(graph);
  const MemoryShares& end = at_end_of(Phase::Optimizer, graph, step);
  CHECK(end[MemoryKind::Parameters] == Bytes(2 * 512));
  CHECK(end[MemoryKind::Gradients] == Bytes(2 * 512));
  CHECK(end[MemoryKind::OptimizerStates] == Bytes(4 * 512));
  CHECK(end[MemoryKind::States] == 0_B);
  CHECK(end[MemoryKind::Inputs] == Bytes(3 * 512));
  CHECK(end[MemoryKind::Activations] == Bytes(512));  // The loss, which the step gives.
  CHECK(end[MemoryKind::ActivationGradients] == 0_B);
  // cuBLAS keeps 32 MiB for each thread that calls it.
  CHECK(end[MemoryKind::Workspace] == 64_MiB);
  CHECK(end.total() == Bytes((2 + 2 + 4 + 3 + 1) * 512) + 64_MiB);
}

TEST_CASE("the peak is the highest point of the curve, and its shares add up to it") {
  for (const char* lines :
       {"  - z = linear(x, 8)\n", "  - z = gelu(linear(layer_norm(gelu(linear(x, 64))), 64))\n"}) {
    const OpGraph graph = step_of(lines);
    const Followed step(graph);
    REQUIRE(step.curve.size() == graph.ops.size());
    Bytes most{0};
    for (const MemoryPoint& point : step.curve) most = std::max(most, point.shares.total());
    CHECK(most == step.use.peak);
    CHECK(step.use.at_peak.total() == step.use.peak);
    CHECK(step.curve[step.use.peak_op].shares == step.use.at_peak);
  }
}

TEST_CASE("what backward reads of the forward pass lives until it has") {
  // Three exponentials: backward needs their results, [2, 3, 4] in fp32, a block each; z is the third. What
  // the inference step drops after its reader is there when forward is done.
  const std::string chain = "  - z = exp(exp(exp(linear(x, 4))))\n";
  const OpGraph graph = step_of(chain);
  const Followed step(graph);
  // And the loss. The layer's result is not needed: exp keeps its own.
  CHECK(step.use.saved == Bytes((3 + 1) * 512));
  // A rectifier works with its result; the layer behind it with its input, which is the same tensor.
  CHECK(Followed(step_of("  - z = linear(relu(linear(x, 4)), 4)\n")).use.saved == Bytes((1 + 1) * 512));
  // GELU wants its input, the layer behind it its result.
  CHECK(Followed(step_of("  - z = linear(gelu(linear(x, 4)), 4)\n")).use.saved == Bytes((2 + 1) * 512));
}

TEST_CASE("the second micro-batch finds the first one's gradients, and leaves no more of them") {
  const OpGraph graph = step_of("  - z = linear(x, 8)\n", adamw(2));
  const Followed step(graph, 2);
  const auto is_forward = [&](const MemoryPoint& p) { return graph.ops[p.op].phase == Phase::Forward; };
  const auto first_backward = std::find_if_not(step.curve.begin(), step.curve.end(), is_forward);
  const auto second_pass = std::find_if(first_backward, step.curve.end(), is_forward);
  REQUIRE(second_pass != step.curve.end());
  CHECK(step.curve.front().shares[MemoryKind::Gradients] == 0_B);
  CHECK(second_pass->shares[MemoryKind::Gradients] == Bytes(2 * 512));
  CHECK(at_end_of(Phase::Optimizer, graph, step)[MemoryKind::Gradients] == Bytes(2 * 512));
  // Three micro-batches need what two need.
  CHECK(eager_memory(graph, test::h200(), 3).peak == step.use.peak);
}

TEST_CASE("a micro-batch's gradient is added to the others' as soon as it is there") {
  // Four layers of 16 MiB of weights; no more than two gradients are under way at once, for a layer's is made
  // while the one before is added.
  std::string lines = "  - h = linear(x, 2048, bias=false)\n";
  for (int i = 0; i < 4; ++i) lines += "  - h = linear(h, 2048, bias=false)\n";
  const OpGraph graph = step_of(lines + "  - z = linear(h, 1, bias=false)\n", adamw(2));
  const Followed step(graph, 2);
  const Bytes gradients = 4 * 16_MiB + Bytes(4 * 2048 * 4 + 2048 * 4);
  CHECK(at_end_of(Phase::Optimizer, graph, step)[MemoryKind::Gradients] == gradients);
  CHECK(step.use.peak < at_end_of(Phase::Optimizer, graph, step).total() + 33_MiB);
}

TEST_CASE("gradients that zero_grad() keeps are there before the step") {
  TrainingOptions options = adamw();
  options.optimizer.zero_to_none = false;
  const OpGraph graph = step_of("  - z = linear(x, 8)\n", options);
  CHECK(Followed(graph).curve.front().shares[MemoryKind::Gradients] == Bytes(2 * 512));
  CHECK(Followed(step_of("  - z = linear(x, 8)\n")).curve.front().shares[MemoryKind::Gradients] == 0_B);
}

TEST_CASE("GPT-2's training steps need the memory that was measured") {
  // Under autocast in bf16, by fused AdamW, on an H200: torch.cuda.max_memory_allocated() of one step
  // (validation/h200/training.csv).
  using Parameters = std::map<std::string, NetworkValue, std::less<>>;
  struct Row {
    std::int64_t batch;
    std::int64_t sequence;
    Parameters parameters;
    Checkpointing checkpointing;
    double measured;
  };
  const Parameters medium{
      {"layers", std::int64_t{24}}, {"d_model", std::int64_t{1024}}, {"heads", std::int64_t{16}}};
  for (const Row& row : {Row{16, 1024, {}, Checkpointing::None, 15'587'784'192.0},
                         Row{16,
                             1024,
                             {{"attention", std::string("unfused")}, {"vocab", std::int64_t{50257}}},
                             Checkpointing::None,
                             30'137'248'768.0},
                         Row{2, 256, {}, Checkpointing::None, 2'269'040'128.0},
                         Row{8, 1024, medium, Checkpointing::None, 16'468'979'200.0},
                         Row{8, 1024, medium, Checkpointing::Blocks, 9'407'581'696.0}}) {
    TrainingOptions options = adamw();
    options.precision = TrainingPrecision::Autocast;
    options.loss = LossKind::CrossEntropy;
    options.checkpointing = row.checkpointing;
    NetworkSizes sizes = test::sizes(row.batch, row.sequence, StepKind::Training, {}, ElementType::Fp32);
    sizes.parameters = row.parameters;
    const OpGraph forward = build_graph(test::shipped_network("gpt2"), sizes);
    const double peak =
        static_cast<double>(eager_memory(training_graph(forward, options), test::h200()).peak.value());
    INFO(row.batch << " x " << row.sequence << ": " << peak << " of " << row.measured);
    CHECK(peak > 0.997 * row.measured);
    CHECK(peak < 1.003 * row.measured);
  }
}

}  // namespace
