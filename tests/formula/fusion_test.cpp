// SPDX-License-Identifier: Apache-2.0
// Traffic of groups: the cases of the seed's plan_traffic as they stand there, and what fusion gains by them.
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "models/compiler/exhaustive.hpp"
#include "models/compiler/formulas.hpp"
#include "models/cost/launch_formulas.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

constexpr BytesPerSecond h100_bandwidth{3.35e12};
constexpr FlopsPerSecond h100_bf16{989.4e12};

double at_3_35(std::int64_t bytes) {
  return microseconds(transfer_time(Bytes(bytes), h100_bandwidth));
}

NamedTraffic chain() {
  return traffic_of("a: x -> t1; b: t1 -> t2; c: t2 -> y", "x=100, t1=100, t2=100, y=100", "y");
}

TEST_CASE("P1: a chain of three, each op a kernel, moves 2 k n, 600") {
  CHECK(moved(chain(), "a / b / c") == 600);
  CHECK(eager_traffic(chain().graph).total() == 600_B);
}
TEST_CASE("P2: a chain of three as one kernel moves 2 n, 200") {
  CHECK(moved(chain(), "a,b,c") == 200);
  CHECK(traffic_bound(chain().graph).total() == 200_B);
}
TEST_CASE("P3: a chain of three with the first two fused moves 400") {
  CHECK(moved(chain(), "a,b / c") == 400);
}

NamedTraffic multiply_add_relu() {
  return traffic_of("mul: a,b -> t; add: t,c -> u; relu: u -> y", "a=32, b=32, c=32, t=32, u=32, y=32", "y");
}

TEST_CASE("P4: by the group rule relu(a*b+c) moves 256, each op a kernel") {
  CHECK(moved(multiply_add_relu(), "mul / add / relu") == 256);
}
TEST_CASE("P5: by the group rule relu(a*b+c) moves 128 as one kernel, and between them 192") {
  CHECK(moved(multiply_add_relu(), "mul,add,relu") == 128);
  CHECK(moved(multiply_add_relu(), "mul,add / relu") == 192);
  CHECK(moved(multiply_add_relu(), "mul / add,relu") == 192);
}

NamedTraffic shared_input() {
  return traffic_of("f: x -> u; h: x -> v; j: u,v -> y", "x=100, u=40, v=60, y=10", "y");
}

TEST_CASE("P6: a shared input with both readers in one group is read once, 310") {
  CHECK(moved(shared_input(), "f,h / j") == 310);
}
TEST_CASE("P7: a shared input with its readers in two groups is read twice, 410") {
  CHECK(moved(shared_input(), "f / h / j") == 410);
}
TEST_CASE("P8: a shared input and all in one group: 110") {
  CHECK(moved(shared_input(), "f,h,j") == 110);
}

NamedTraffic used_twice(const std::string& outputs) {
  return traffic_of("p: x -> h; q: h -> g; s: g,h -> y", "x=100, h=70, g=30, y=20", outputs);
}

TEST_CASE("P9: what is needed inside its group and outside is written once and not read back, 320") {
  CHECK(moved(used_twice("y"), "p,q / s") == 320);
}
TEST_CASE("P10: one group whose intermediate is a result too: 190") {
  CHECK(moved(used_twice("y, h"), "p,q,s") == 190);
}
TEST_CASE("P11: needed outside and a result too, it is written once all the same, 320") {
  CHECK(moved(used_twice("y, h"), "p,q / s") == 320);
}
TEST_CASE("P12: the same tensor twice in one op is read once, 200") {
  CHECK(moved(traffic_of("sq: x,x -> y", "x=100, y=100", "y"), "sq") == 200);
}
TEST_CASE("P13: a result that nobody needs is not written, 200") {
  CHECK(moved(traffic_of("n: x -> y,stat", "x=100, y=100, stat=8", "y"), "n") == 200);
}
TEST_CASE("P14: a result that is an input of the step is never written, 150") {
  CHECK(moved(traffic_of("n: x -> y", "x=100, y=50", "x, y"), "n") == 150);
}

/// LayerNorm and GELU by tanh, written by hand: 17 ops over 16,384 x 4,096 in bf16.
NamedTraffic norm_gelu_by_hand() {
  std::string sizes = "m=32768, v=32768, ve=32768, r=32768, g=8192, be=8192";
  for (const char* full : {"x", "d", "d2", "n", "ng", "h", "h3", "kh", "in", "u", "t", "t1", "hh", "y"})
    sizes += std::string(", ") + full + "=134217728";
  return traffic_of(
      "mean: x -> m; sub: x,m -> d; sq: d -> d2; var: d2 -> v; eps: v -> ve; rsq: ve -> r; mulr: d,r -> n; "
      "gam: n,g -> ng; bet: ng,be -> h; pow: h -> h3; k: h3 -> kh; a: h,kh -> in; c: in -> u; tanh: u -> t; "
      "one: t -> t1; half: h -> hh; out: hh,t1 -> y",
      sizes, "y");
}
const std::string norm_ops = "mean,sub,sq,var,eps,rsq,mulr,gam,bet";
const std::string gelu_ops = "pow,k,a,c,tanh,one,half,out";

TEST_CASE("P15: by the group rule LayerNorm and GELU by hand move 4,026,810,368 B, each op a kernel") {
  const std::int64_t bytes = eager_traffic(norm_gelu_by_hand().graph).total().value();
  CHECK(bytes == 4'026'810'368);
  CHECK(reproduces(at_3_35(bytes), {1202.03, 0.005}));
}
TEST_CASE("P16: by the group rule LayerNorm and GELU by hand move 536,887,296 B as two groups") {
  const std::int64_t bytes = moved(norm_gelu_by_hand(), norm_ops + " / " + gelu_ops);
  CHECK(bytes == 536'887'296);
  CHECK(reproduces(at_3_35(bytes), {160.26, 0.005}));
}
TEST_CASE(
    "P17: by the group rule LayerNorm and GELU by hand move 268,451,840 B as one group, 15 times less") {
  const std::int64_t bytes = moved(norm_gelu_by_hand(), norm_ops + "," + gelu_ops);
  CHECK(bytes == 268'451'840);
  CHECK(reproduces(at_3_35(bytes), {80.13, 0.005}));
  CHECK(reproduces(4'026'810'368.0 / static_cast<double>(bytes), {15.0001, 0.00005}));
}

// --- The MLP sublayer, as a network.

OpGraph mlp_sublayer() {
  return fusion_graph(
      "x: {shape: [16384, 4096]}, x0: {shape: [16384, 4096]}, W1: {shape: [4096, 16384]}, W2: {shape: "
      "[16384, "
      "4096]}, c1: {shape: [16384]}, c2: {shape: [4096]}, g: {shape: [4096]}, b: {shape: [4096]}",
      "  - mm1 = matmul(x, W1)\n  - b1 = mm1 + c1\n  - gelu = gelu(b1, approximate='tanh')\n"
      "  - mm2 = matmul(gelu, W2)\n  - b2 = mm2 + c2\n  - add = b2 + x0\n  - ln = layer_norm(add, weight=g, "
      "bias=b)\n",
      "add, ln");
}

/// Groups of neighbours: bit i of `cuts` cuts behind op i.
OpGroups neighbours(std::size_t ops, unsigned cuts) {
  OpGroups groups{{0}};
  for (OpIndex op = 1; op < ops; ++op) {
    if ((cuts >> (op - 1) & 1U) != 0) groups.emplace_back();
    groups.back().push_back(op);
  }
  return groups;
}

std::vector<Flops> flops_of(const OpGraph& graph, const OpGroups& groups) {
  std::vector<Flops> flops;
  for (const std::vector<OpIndex>& group : groups) {
    Flops sum{0};
    for (const OpIndex op : group)
      if (graph.ops[op].kind->flops != nullptr)
        sum += graph.ops[op].kind->flops(OpTypes(graph, graph.ops[op]).view(graph.ops[op]));
    flops.push_back(sum);
  }
  return flops;
}

struct PlanCost {
  std::int64_t bytes = 0;
  double memory_us = 0;  ///< If bytes were all.
  double us = 0;         ///< By both roofs, group by group.
};
PlanCost cost_of(const OpGraph& graph, const OpGroups& groups) {
  const Traffic traffic = plan_traffic(traffic_graph(graph), groups);
  return {
      .bytes = traffic.total().value(),
      .memory_us = at_3_35(traffic.total().value()),
      .us = microseconds(roofline_plan_time(traffic, flops_of(graph, groups), h100_bandwidth, h100_bf16))};
}

TEST_CASE(
    "P18: by the group rule the MLP sublayer moves 4,697,677,824 B as seven kernels, and takes 5,367 us") {
  const OpGraph graph = mlp_sublayer();
  const PlanCost cost = cost_of(graph, {{0}, {1}, {2}, {3}, {4}, {5}, {6}});
  CHECK(cost.bytes == 4'697'677'824);
  CHECK(reproduces(cost.memory_us, {1402.29, 0.005}));
  CHECK(reproduces(cost.us, {5366.68, 0.005}));  // the products are bound by arithmetic, 2,222.6 us each
}
TEST_CASE("P19: with library products the MLP sublayer moves 3,221,282,816 B, and takes 4,926 us") {
  const PlanCost cost = cost_of(mlp_sublayer(), {{0}, {1, 2}, {3}, {4, 5, 6}});
  CHECK(cost.bytes == 3'221'282'816);
  CHECK(reproduces(cost.memory_us, {961.58, 0.005}));
  CHECK(reproduces(cost.us, {4925.96, 0.005}));
}
TEST_CASE("P20: with epilogues the MLP sublayer moves 2,013,323,264 B, and takes 4,525 us") {
  const PlanCost cost = cost_of(mlp_sublayer(), {{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(cost.bytes == 2'013'323'264);
  CHECK(reproduces(cost.memory_us, {600.99, 0.005}));
  CHECK(reproduces(cost.us, {4525.30, 0.005}));
}

TEST_CASE("Of all 64 ways to cut the MLP sublayer, those that its backend can run, and the best of them") {
  const OpGraph graph = mlp_sublayer();
  const Backend backend = joining_backend();
  const BackendMode library;
  const BackendMode templates = template_mode();
  const double products = 2 * microseconds(compute_time(Flops(2.0 * 16384 * 4096 * 16384), h100_bf16));
  const auto runnable = [&](const BackendMode& mode) {
    const FusionLegality legality(graph, backend, mode);
    std::map<unsigned, PlanCost> plans;
    for (unsigned cuts = 0; cuts < 64; ++cuts) {
      const OpGroups groups = neighbours(graph.ops.size(), cuts);
      const PlanCost cost = cost_of(graph, groups);
      CHECK(cost.us >= products);
      CHECK(cost.us >= cost.memory_us);
      bool legal = true;
      for (const std::vector<OpIndex>& group : groups) legal = legal && !legality.refusal(group);
      if (legal) plans[cuts] = cost;
    }
    return plans;
  };
  const auto least = [](const std::map<unsigned, PlanCost>& plans, auto what) {
    double best = what(plans.begin()->second);
    for (const auto& [cuts, cost] : plans) best = std::min(best, static_cast<double>(what(cost)));
    return best;
  };
  const auto bytes = [](const PlanCost& cost) { return static_cast<double>(cost.bytes); };
  const auto us = [](const PlanCost& cost) { return cost.us; };

  // The library's products take their bias: 3 ways up to GELU, a cut before the second product, 6 ways
  // behind.
  const auto by_library = runnable(library);
  CHECK(by_library.size() == 3 * 6);
  // Templates take all but the norm: one cut at least between the products (7 ways), and one between the
  // second and the norm (7).
  const auto by_templates = runnable(templates);
  CHECK(by_templates.size() == 7 * 7);
  // P20 is the best that templates can do, in bytes and in time.
  CHECK(least(by_templates, bytes) == 2'013'323'264);
  CHECK(reproduces(least(by_templates, us), {4525.30, 0.005}));
  CHECK(exhaustive_plan(FusionLegality(graph, backend, templates)).traffic.total().value() == 2'013'323'264);
  // P19 is the best that the library allows; a bias on a product hides its own 40 KB, 0.012 us, behind it.
  const Bytes fewest = exhaustive_plan(FusionLegality(graph, backend, library)).traffic.total();
  CHECK(fewest.value() == 3'221'282'816);
  CHECK(least(by_library, bytes) == 3'221'282'816);
  CHECK(reproduces(least(by_library, us), {4925.95, 0.005}));
}

TEST_CASE("S4-04: 80 kernels are 160 accesses by the chapter's own count of 2 when fused, not 120") {
  NamedTraffic layer;
  layer.graph.tensors.push_back({.read = 1_B, .written = 1_B});
  for (OpIndex i = 0; i < 80; ++i) {
    layer.graph.tensors.push_back({.read = 1_B, .written = 1_B});
    layer.graph.ops.push_back({.name = "op", .inputs = {i}, .outputs = {i + 1}});
  }
  layer.graph.outputs = {80};
  CHECK(eager_traffic(layer.graph).total() == 160_B);
  CHECK(traffic_bound(layer.graph).total() == 2_B);
  CHECK_FALSE(eager_traffic(layer.graph).total() == 120_B);
}

TEST_CASE("S4-29: an epilogue gains 1.3 to 2 times where the product is as thin as 2,000 to 4,096") {
  // A claim. Linear, bias and GELU on 16,384 rows and 16,384 columns, by the roofs.
  const auto gain = [](std::int64_t k) {
    const std::string inputs = "x: {shape: [16384, " + std::to_string(k) + "]}, w: {shape: [" +
                               std::to_string(k) + ", 16384]}, c: {shape: [16384]}";
    const OpGraph graph = fusion_graph(inputs, "  - p = matmul(x, w)\n  - b = p + c\n  - y = gelu(b)\n", "y");
    return cost_of(graph, {{0}, {1}, {2}}).us / cost_of(graph, {{0, 1, 2}}).us;
  };
  CHECK(reproduces(gain(4096), {1.3, 0.02}));
  CHECK(gain(2048) > 1.5);
  CHECK(gain(2048) < 2);
  CHECK(gain(16384) < 1.1);  // wide products leave nothing to gain
}

TEST_CASE(
    "S4-30: attention as one kernel gains 2 to 5 times, by the roofs 4.7 at 8,192 tokens of heads of 128") {
  // A claim, "end to end"; here attention alone, its two products and the softmax between them.
  const OpGraph graph =
      fusion_graph("q: {shape: [64, 8192, 128]}, k: {shape: [64, 128, 8192]}, v: {shape: [64, 8192, 128]}",
                   "  - s = matmul(q, k)\n  - p = softmax(s)\n  - y = matmul(p, v)\n", "y");
  const double gain = cost_of(graph, {{0}, {1}, {2}}).us / cost_of(graph, {{0, 1, 2}}).us;
  CHECK(reproduces(gain, {4.7, 0.1}));
  CHECK(gain > 2);
  CHECK(gain < 5);
}

TEST_CASE(
    "S4-31: a norm that rides on the next product gains 1.2 to 1.8 times only where products are thin") {
  // A claim. Products of 16,384 rows, RMSNorm over 8,192 columns between them, by the roofs.
  const auto gain = [](std::int64_t outer) {
    const std::string o = std::to_string(outer);
    const OpGraph graph =
        fusion_graph("x: {shape: [16384, " + o + "]}, w: {shape: [" + o + ", 8192]}, v: {shape: [8192, " + o +
                         "]}, g: {shape: [8192]}",
                     "  - p = matmul(x, w)\n  - n = rms_norm(p, weight=g)\n  - y = matmul(n, v)\n", "y");
    return cost_of(graph, {{0}, {1}, {2}}).us / cost_of(graph, {{0}, {1, 2}}).us;
  };
  CHECK(gain(512) > 1.2);
  CHECK(gain(512) < 1.8);
  CHECK(gain(8192) < 1.05);
}

TEST_CASE("S4-68: in evaluation x + dropout(x) reads x once, as 2 x does") {
  const OpGraph graph = fusion_graph("x: {shape: [64, 64]}", "  - y = x + dropout(x, 0.1)\n", "y");
  const OpGraph doubled = fusion_graph("x: {shape: [64, 64]}", "  - y = 2 * x\n", "y");
  CHECK(eager_traffic(traffic_graph(graph)).sum == eager_traffic(traffic_graph(doubled)).sum);
  CHECK(eager_traffic(traffic_graph(graph)).sum.read == Bytes(64 * 64 * 2));
}

TEST_CASE("S4-67: of the chapter's three ops two go in evaluation, far more than the 5 to 15 % of a model") {
  // A claim about models; the example: dropout that is off moves nothing, the statistic reaches no result.
  const OpGraph graph = fusion_graph(
      "x1: {shape: [64, 64]}", "  - x2 = dropout(x1, 0.1)\n  - x3 = x1 + x2\n  - x4 = mean(x3)\n", "x3");
  const std::vector<bool> needed = needed_ops(graph);
  const TrafficGraph traffic = traffic_graph(graph);
  int left = 0;
  for (OpIndex op = 0; op < graph.ops.size(); ++op)
    if (needed[op] && traffic.moves(op)) ++left;
  CHECK(graph.ops.size() == 3);
  CHECK(left == 1);
}

TEST_CASE("D1-5: fusion is worth 1.046 times on the decoder layer's MLP, and CUDA graphs nothing") {
  // On an A100 (312 TFLOP/s, 2.039 TB/s): products at their peak, silu(gate) * up between them. The ratio
  // that the exercise takes for that of CUDA graphs is one of tuned products too.
  const FlopsPerSecond peak(312e12);
  const BytesPerSecond bandwidth(2.039e12);
  const OpGraph graph = fusion_graph("gate: {shape: [4096, 8192]}, up: {shape: [4096, 8192]}",
                                     "  - s = silu(gate)\n  - y = s * up\n", "y");
  const TrafficGraph traffic = traffic_graph(graph);
  const double products = microseconds(compute_time(Flops(3 * 2.0 * 4096 * 2048 * 8192), peak));
  const double unfused = microseconds(transfer_time(eager_traffic(traffic).total(), bandwidth));
  const double fused = microseconds(transfer_time(traffic_bound(traffic).total(), bandwidth));
  CHECK(reproduces(products, {1321.5, 0.05}));
  CHECK(reproduces(unfused, {164.6, 0.05}));
  CHECK(reproduces(fused, {98.7, 0.05}));
  CHECK(reproduces((products + unfused) / (products + fused), {1.0463, 0.00005}));
  const Durations kernels(4, from_seconds((products + fused) * 1e-6 / 4));
  CHECK(reproduces(
      microseconds(steady_step(kernels, 8_us).length) / microseconds(steady_step(kernels, 8_us, 8_us).length),
      {1.00, 0.01}));
}

}  // namespace
}  // namespace gpusim::test
