// SPDX-License-Identifier: Apache-2.0
// Figures and rules about what torch.compile captures and what breaks its graphs. Where a chapter's text is
// wrong the test holds the right value, and a comment says what the text has.
#include <string>
#include <vector>

#include "models/compiler/compile_time.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compiled.hpp"

namespace gpusim::test {
namespace {

TEST_CASE("S1-18: torch.compile is three components, and the Triton compiler behind them", "[seeds]") {
  const Backend inductor = options_of("inductor").backend;
  const bool dynamo = inductor.capture == CaptureKind::Dynamo;
  const bool aot_autograd = inductor.training;
  const bool loops = inductor.modes.front().fusion.pointwise;
  CHECK(int{dynamo} + int{aot_autograd} + int{loops} == 3);
}

TEST_CASE("S4-39: with the Triton compiler there are four layers", "[seeds]") {
  const Backend inductor = options_of("inductor").backend;
  CHECK(int{inductor.capture == CaptureKind::Dynamo} + int{inductor.training} +
            int{inductor.modes.front().fusion.pointwise} + int{inductor.kernel_prefix == "triton_"} ==
        4);
}

TEST_CASE("S1-19: a branch on a shape is a guard, not a break; a branch on a value makes two graphs",
          "[seeds]") {
  // The chapter has two subgraphs for `if x.shape[0] > 10`.
  const CapturedStep shape =
      captured("  - y = sin(x)\n  - if: size(x, 0) > 10\n    then:\n      - y = y * 2\n  - y = cos(y)\n");
  CHECK(graphs(shape) == 1);
  CHECK(shape.graph_breaks == 0);
  CHECK(shape.regions.front().last == 2);  // the branch is not taken: sin and cos
  const CapturedStep value = captured("  - y = sin(x)\n  - graph_break(cause='branch')\n  - y = cos(y)\n");
  CHECK(graphs(value) == 2);
  CHECK(value.graph_breaks == 1);
}

TEST_CASE("R-58: the guard of a branch on a shape compiles the other side anew", "[seeds]") {
  RecompileRules rules = dynamic(DynamicShapes::Always);
  rules.branches = {{.dimension = 0, .above = 10}};
  CHECK(outcomes({{5}, {7}, {10}, {11}, {30}, {5}}, rules) == "ChhChh");
}

TEST_CASE("R-47: one break makes two graphs and an eager piece between them", "[seeds]") {
  const CapturedStep step = captured("  - y = sin(x)\n  - graph_break(cause='library')\n  - y = cos(y)\n");
  REQUIRE(step.regions.size() == 3);
  CHECK(step.regions[0].compiled);
  CHECK_FALSE(step.regions[1].compiled);
  CHECK(step.regions[2].compiled);
}

TEST_CASE("R-48: nothing is fused across a break, so n breaks make n + 1 kernels of a chain", "[seeds]") {
  for (std::int64_t breaks = 0; breaks < 5; ++breaks) {
    std::string body = "  - y = x\n";
    for (std::int64_t i = 0; i <= breaks; ++i)
      body += (i > 0 ? "  - graph_break()\n" : "") + std::string("  - y = tanh(sin(y))\n");
    const CompiledStep step = compiled(function_of(body));
    CHECK(graphs(step.captured) == breaks + 1);
    CHECK(step.kernels == breaks + 1);
  }
}

TEST_CASE("R-49: each graph is compiled and kept by itself", "[seeds]") {
  const OpGraph graph = function_of("  - y = sin(x)\n  - graph_break()\n  - y = cos(tanh(y))\n");
  CHECK(compile_counts(graph, capture_regions(graph, options_of("inductor"))).regions == 2);
}

TEST_CASE("R-51: a branch on a value breaks and waits; where does neither", "[seeds]") {
  const OpGraph branch = function_of("  - y = sin(x)\n  - graph_break(cause='branch')\n  - y = y * 2\n");
  CHECK(captured("  - y = sin(x)\n  - graph_break(cause='branch')\n  - y = y * 2\n").graph_breaks == 1);
  CHECK(eager_gpu_ops(branch, h200()) ==
        std::vector<std::string>{"elementwise", "copy_to_host", "elementwise"});
  const CapturedStep where = captured("  - y = sin(x)\n  - y = where(mean(y) > 0, y * 2, y)\n");
  CHECK(where.graph_breaks == 0);
  CHECK(graphs(where) == 1);
  CHECK(remedy(BreakCause::DataDependentBranch).find("torch.where") != std::string::npos);
}

TEST_CASE("R-52: clamp takes the place of a branch on the maximum", "[seeds]") {
  const CapturedStep branch = captured("  - graph_break(cause='branch')\n  - y = x / amax(x, dim=none)\n");
  CHECK(branch.graph_breaks == 1);
  const CapturedStep clamped = captured("  - y = x / clamp(amax(x, dim=none), min=1.0)\n");
  CHECK(clamped.graph_breaks == 0);
  CHECK(graphs(clamped) == 1);
}

TEST_CASE("R-53: item breaks and waits", "[seeds]") {
  const CapturedStep step = captured("  - y = sin(x)\n  - item(sum(y))\n  - y = cos(y)\n");
  CHECK(step.graph_breaks == 1);
  CHECK(step.breaks.front().cause == BreakCause::Item);
  CHECK(synchronizes(BreakCause::Item));
}

TEST_CASE("R-54: print breaks without waiting, and is gone when it is moved out", "[seeds]") {
  CHECK(captured("  - y = sin(x)\n  - graph_break(cause='print')\n  - y = cos(y)\n").graph_breaks == 1);
  CHECK_FALSE(synchronizes(BreakCause::Print));
  CHECK(captured("  - y = sin(x)\n  - y = cos(y)\n").graph_breaks == 0);
}

TEST_CASE("R-55: a call of a foreign library breaks, also where it is left out by decoration", "[seeds]") {
  const CapturedStep step = captured("  - y = sin(x)\n  - graph_break(cause='library')\n  - y = cos(y)\n");
  CHECK(step.graph_breaks == 1);
  CHECK(graphs(step) == 2);
}

TEST_CASE("R-56: attributes made by code of their own break", "[seeds]") {
  const CapturedStep step = captured("  - y = sin(x)\n  - graph_break(cause='class')\n  - y = cos(y)\n");
  CHECK(step.graph_breaks == 1);
  CHECK(step.breaks.front().remedy.find("torch.compiler.disable") != std::string::npos);
}

TEST_CASE("R-57: a list of tensors and a loop over numbers are traced through", "[seeds]") {
  // The chapter marks the list as a break; PyTorch 2.11 made one graph of it on an H200.
  const CapturedStep list = captured(
      "  - a, b, c, d, e = unbind(x, 0)\n"
      "  - y = sum(stack(a * 2, b * 2, c * 2, d * 2, e * 2))\n");
  CHECK(list.graph_breaks == 0);
  CHECK(graphs(list) == 1);
  const CapturedStep loop =
      captured("  - y = x\n  - repeat: 3\n    index: i\n    body:\n      - y = y + 0.1 * i\n");
  CHECK(loop.graph_breaks == 0);
  CHECK(loop.regions.front().last == 3);
}

TEST_CASE("S4-70: five causes break; varying shapes, the sixth of the chapter, compile again instead",
          "[seeds]") {
  for (const std::string cause : {"branch", "item", "class", "print", "library"}) {
    CAPTURE(cause);
    CHECK(captured("  - y = sin(x)\n  - graph_break(cause='" + cause + "')\n  - y = cos(y)\n").graph_breaks ==
          1);
  }
  CHECK(outcomes({{8}, {16}, {24}}) == "CCh");
}

TEST_CASE("R-64: every break is reported with its place, its cause and what to do", "[seeds]") {
  const CapturedStep step = captured(
      "  - y = sin(x)\n  - graph_break(cause='print')\n"
      "  - y = cos(y)\n  - item(sum(y))\n  - y = tanh(y)\n");
  REQUIRE(step.breaks.size() == 2);
  CHECK(step.breaks[0].where == "graph_break");
  CHECK(step.breaks[0].cause == BreakCause::Print);
  CHECK(step.breaks[0].remedy == "move it out of forward");
  CHECK(step.breaks[1].where == "item");
  CHECK(step.breaks[1].effect == "step is split here");
}

TEST_CASE("D1-4: two breaks make three graphs; without them there is one", "[seeds]") {
  const CapturedStep before = captured(
      "  - y = sin(x)\n  - m = mean(y) > 0\n  - graph_break(cause='branch')\n"
      "  - y = y * 2\n  - graph_break(cause='print')\n"
      "  - y = y + 0.1\n  - y = y + 0.2\n  - y = relu(y)\n");
  CHECK(before.graph_breaks == 2);
  CHECK(graphs(before) == 3);
  const CapturedStep after = captured(
      "  - y = sin(x)\n  - y = where(mean(y) > 0, y * 2, y)\n"
      "  - y = y + 0.1\n  - y = y + 0.2\n  - y = relu(y)\n");
  CHECK(graphs(after) == 1);
  // sin, mean, compare, mul, where, two adds, relu.
  CHECK(after.regions.front().last == 8);
}

TEST_CASE("D4-F3: 47 breaks make 48 graphs", "[seeds]") {
  std::string body = "  - y = sin(x)\n";
  for (int i = 0; i < 47; ++i) body += "  - graph_break()\n  - y = sin(y)\n";
  const CapturedStep step = captured(body);
  CHECK(graphs(step) == 48);
  CHECK(step.graph_breaks > breaks_many);
}

TEST_CASE("D4-I3: three breaks make four graphs, and 40 of 400 ops outside lose 15 % of the gain",
          "[seeds]") {
  const CapturedStep step = captured(
      "  - y = sin(x)\n  - graph_break(cause='branch')\n  - y = cos(y)\n"
      "  - item(sum(y))\n  - y = tanh(y)\n  - graph_break(cause='print')\n"
      "  - y = relu(y)\n");
  CHECK(graphs(step) == 4);
  CHECK(graphs(captured("  - y = relu(tanh(cos(sin(x))))\n")) == 1);
  CHECK(gain_left(40.0 / 400) == Approx(0.85));
  CHECK(25 * gain_left(0.1) == Approx(21.25));
  CHECK(1 + 0.30 * gain_left(0.1) == Approx(1.255));
}

TEST_CASE("S4-72: the gain falls by 1.5 times the share of ops that stay eager, and never below none",
          "[seeds]") {
  CHECK(gain_left(0) == 1);
  CHECK(gain_left(0.1) == Approx(0.85));
  CHECK(gain_left(2.0 / 3) == Approx(0).margin(1e-12));
  CHECK(gain_left(0.9) == 0);
  // One eager op of four: item's.
  CHECK(eager_share(captured("  - y = sin(x)\n  - item(sum(y))\n  - y = cos(y)\n")) == Approx(0.25));
}

TEST_CASE("S4-115: the rule goes by the share of ops, not by the number of breaks", "[seeds]") {
  // Ten breaks at 15 % each would take more than the whole gain.
  CHECK(10 * (1 - gain_left(0.1)) > 1);
  std::string body = "  - y = sin(x)\n";
  for (int i = 0; i < 10; ++i) {
    body += "  - graph_break()\n";
    for (int k = 0; k < 9; ++k) body += "  - y = sin(y)\n";
  }
  const CapturedStep step = captured(body);
  CHECK(step.graph_breaks == 10);
  CHECK(gain_left(eager_share(step)) == Approx(1 - 1.5 * 10 / 101));
}

TEST_CASE("R-62: below 5 breaks is fine, above 10 is not", "[seeds]") {
  CHECK(breaks_few == 5);
  CHECK(breaks_many == 10);
}

TEST_CASE("R-105: torch.export takes one whole graph, and only declared sizes in their bounds", "[seeds]") {
  const OpGraph branch = function_of("  - y = sin(x)\n  - graph_break(cause='branch')\n  - y = cos(y)\n");
  CHECK_THROWS_AS(capture_regions(branch, options_of("aot_inductor")), CompileError);
  const ExportedShapes exported{.traced = {2}, .dynamic = {{.dimension = 0, .least = 1, .most = 64}}};
  CHECK_NOTHROW(check_exported_call(exported, {64}));
  CHECK_THROWS_AS(check_exported_call(exported, {65}), CompileError);
}

TEST_CASE("S1-24: one artifact takes 64 batch sizes, if it was traced with two or more", "[seeds]") {
  // The chapter's example input has batch 1, which becomes a constant.
  ExportedShapes exported{.traced = {1}, .dynamic = {{.dimension = 0, .least = 1, .most = 64}}};
  CHECK_THROWS_AS(check_export(exported), CompileError);
  exported.traced = {2};
  CHECK_NOTHROW(check_export(exported));
  int taken = 0;
  for (std::int64_t batch = 0; batch < 100; ++batch) try {
      check_exported_call(exported, {batch});
      ++taken;
    } catch (const CompileError&) {
    }
  CHECK(taken == 64);
}

}  // namespace
}  // namespace gpusim::test
