// SPDX-License-Identifier: Apache-2.0
// Figures and rules about passes over the graph: what goes, what is joined, and what that saves, on the
// chapters' own examples.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/options.hpp"
#include "models/compiler/simplify.hpp"
#include "models/graph/memory.hpp"
#include "sim/program/eager.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim::test {
namespace {

constexpr SimplifyRules nothing{.dead_code = false,
                                .inference_dropout = false,
                                .no_ops = false,
                                .constants = false,
                                .freeze = false,
                                .common_subexpressions = false,
                                .layout = false,
                                .merge_qkv = false,
                                .merge_gate_up = false};

/// A network over x [4096, 4096] of bf16, 32 MiB.
OpGraph graph_of(const std::string& body, const std::string& gives = "y") {
  return build_graph(
      network_of("name: n\ninputs: {x: {shape: [4096, 4096]}}\nbody:\n" + body + "gives: [" + gives + "]\n"),
      sizes(1, 1));
}

std::vector<std::string> kinds_of(const OpGraph& graph) {
  std::vector<std::string> kinds;
  for (const Op& op : graph.ops) kinds.emplace_back(op.kind->name);
  return kinds;
}
using Kinds = std::vector<std::string>;

const Simplification& pass(const Simplified& simplified, const std::string& name) {
  return *std::find_if(simplified.passes.begin(), simplified.passes.end(),
                       [&](const Simplification& p) { return p.pass == name; });
}

std::size_t kernels(const OpGraph& graph) {
  return eager_gpu_ops(graph, h200()).size();
}

constexpr std::int64_t mib = std::int64_t{1} << 20;

const std::string example =
    "  - x1 = relu(x)\n  - x2 = dropout(x1, p=0.1)\n  - x3 = x1 + x2\n  - x4 = mean(abs(x3), -1)\n";

TEST_CASE("S4-68: x1 + dropout(x1) is x1 + x1 in inference", "[seeds]") {
  const OpGraph after = simplify(graph_of(example, "x3"), SimplifyRules{}).graph;
  CHECK(kinds_of(after) == Kinds{"relu", "add"});
  CHECK(after.ops[1].inputs == std::vector<TensorIndex>{after.ops[0].outputs[0], after.ops[0].outputs[0]});
}

TEST_CASE("S4-67: two of the example's three ops go, in a block with dropouts 5 to 15 %", "[seeds]") {
  // x2 and x4, which is one op in the text.
  const OpGraph text = graph_of("  - x2 = dropout(x, p=0.1)\n  - x3 = x + x2\n  - x4 = mean(x3, -1)\n", "x3");
  CHECK(text.ops.size() == 3);
  CHECK(simplify(text, SimplifyRules{}).graph.ops.size() == 1);
  // GPT-2's block as it is trained: dropout behind attention and behind the MLP.
  const OpGraph block = graph_of(
      "  - q, k, v = split(linear(layer_norm(x), 12288), 4096)\n"
      "  - q = transpose(view(q, [4, 1024, 32, 128]), 1, 2)\n  - k = transpose(view(k, [4, 1024, 32, 128]), "
      "1, 2)\n"
      "  - v = transpose(view(v, [4, 1024, 32, 128]), 1, 2)\n"
      "  - a = reshape(transpose(scaled_dot_product_attention(q, k, v, is_causal=true), 1, 2), [4096, "
      "4096])\n"
      "  - h = x + dropout(linear(a, 4096), p=0.1)\n"
      "  - y = h + dropout(linear(gelu(linear(layer_norm(h), 16384)), 4096), p=0.1)\n");
  const Simplified simplified = simplify(block, SimplifyRules{});
  const double share = 100.0 * static_cast<double>(block.ops.size() - simplified.graph.ops.size()) /
                       static_cast<double>(block.ops.size());
  CHECK(share >= 5);
  CHECK(share <= 15);
}

TEST_CASE("R-89: ops that reach no output go, and with them their bytes", "[seeds]") {
  const OpGraph before = graph_of(example, "x3");
  SimplifyRules dead = nothing;
  dead.dead_code = true;
  const Simplified after = simplify(before, dead);
  CHECK(kinds_of(after.graph) == Kinds{"relu", "dropout", "add"});
  // abs reads and writes 32 MiB; mean reads them and writes a number of 2 bytes for each row.
  CHECK(pass(after, "dead_code").saved == Bytes(3 * 32 * mib + 4096 * 2));
  CHECK(kernels(before) == kernels(after.graph) + 2);
}

TEST_CASE("R-90: dropout is nothing in inference and stays in training", "[seeds]") {
  SimplifyRules dropout = nothing;
  dropout.inference_dropout = true;
  CHECK(kinds_of(simplify(graph_of(example, "x3, x4"), dropout).graph) ==
        Kinds{"relu", "add", "abs", "mean"});
  const OpGraph training = graph_of("  - d, mask = dropout(x, p=0.1, training=true)\n  - y = x + d\n");
  CHECK(kinds_of(simplify(training, dropout, {.regions = {}, .training = true}).graph) ==
        Kinds{"dropout", "add"});
  CHECK(kernels(simplify(training, dropout, {.regions = {}, .training = true}).graph) == 2);
}

TEST_CASE("R-91: the frequencies of rotary positions take no kernel at run time", "[seeds]") {
  // 1 / 10000 ** (arange(0, d, 2) / d), d = 128: as an exponential.
  const OpGraph before = graph_of(
      "  - inv_freq = exp(to(arange(64), 'fp32') * -0.1439116)\n"
      "  - y = mul(view(x, [4096, 64, 64]), inv_freq)\n");
  const Simplified after = simplify(before, SimplifyRules{});
  CHECK(kernels(before) == 5);
  CHECK(kernels(after.graph) == 1);
  CHECK(bytes_of(after.graph, Role::Buffer) == Bytes(64 * 4));
  // The scale of attention is a number and no op to begin with.
  CHECK(kernels(graph_of("  - y = x * 128 ** -0.5\n")) == 1);
}

TEST_CASE("R-92: layer_norm(x) twice is one", "[seeds]") {
  const OpGraph before = graph_of(
      "  - w = parameter([4096])\n  - b = parameter([4096])\n"
      "  - y = linear(layer_norm(x, w, b), 4096) + linear(layer_norm(x, w, b), 4096)\n");
  const Simplified after = simplify(before, SimplifyRules{});
  CHECK(kinds_of(after.graph) == Kinds{"layer_norm", "linear", "linear", "add"});
  CHECK(pass(after, "common_subexpressions").saved == Bytes(2 * 32 * mib + 2 * 4096 * 2));
}

std::string products_of_transpose(int count) {
  std::string body = "  - t = transpose(view(x, [64, 64, 4096]), 1, 2)\n  - y = linear(t, 64, bias=false)\n";
  for (int i = 1; i < count; ++i) body += "  - y = y + linear(t, 64, bias=false)\n";
  return body;
}

TEST_CASE("R-93: one conversion for all products of a badly laid out tensor", "[seeds]") {
  SimplifyRules layout = nothing;
  layout.layout = true;
  const int products = GENERATE(2, 5);
  const OpGraph before = graph_of(products_of_transpose(products));
  const Simplified after = simplify(before, layout);
  CHECK(static_cast<int>(kernels(before) - kernels(after.graph)) == products - 1);
  CHECK(pass(after, "layout").saved == Bytes(2 * 32 * mib * (products - 1)));
}

TEST_CASE("S4-69: a conversion costs a product of 4096 rows and features 10 to 20 % at 8192 outputs",
          "[seeds]") {
  const GpuSpec gpu = h200();
  const auto time = [&](const OpGraph& graph) {
    Picoseconds sum{0};
    for (const Op& op : graph.ops)
      for (const EagerCall& call : op.kind->eager(Seen(graph, op).view(), gpu))
        for (const KernelWork& work : call.work)
          for (const GpuOpEstimate& one : gpu_ops(work, gpu)) sum += one.cost.duration;
    return microseconds(sum);
  };
  // Rows of x in another order: no matrix, so each product copies them first.
  const auto share = [&](const std::string& outputs) {
    const auto product = [&](const std::string& rows) {
      return time(graph_of("  - t = " + rows + "\n  - y = linear(t, " + outputs + ", bias=false)\n"));
    };
    return 100 *
           (product("transpose(view(x, [64, 64, 4096]), 0, 1)") / product("view(x, [64, 64, 4096])") - 1);
  };
  CHECK(share("8192") >= 10);
  CHECK(share("8192") <= 20);
  // A smaller product loses more, a larger one less.
  CHECK(share("4096") > 20);
  CHECK(share("16384") < 10);
}

TEST_CASE("R-94: a transpose of a transpose takes no kernel", "[seeds]") {
  SimplifyRules rules = nothing;
  rules.no_ops = rules.layout = rules.dead_code = true;
  const OpGraph views = graph_of("  - y = relu(transpose(transpose(x, 0, 1), 0, 1))\n");
  CHECK(kinds_of(simplify(views, rules).graph) == Kinds{"relu"});
  const OpGraph copies =
      graph_of("  - t = contiguous(transpose(x, 0, 1))\n  - y = relu(contiguous(transpose(t, 0, 1)))\n");
  CHECK(kernels(copies) == 3);
  CHECK(kernels(simplify(copies, rules).graph) == 1);
  CHECK(pass(simplify(copies, rules), "layout").saved + pass(simplify(copies, rules), "dead_code").saved ==
        Bytes(4 * 32 * mib));
}

TEST_CASE("R-95: three linears of one input become one of the sum of their widths", "[seeds]") {
  SimplifyRules merge = nothing;
  merge.merge_qkv = true;
  const auto merged = [&](int kv_width) {
    const std::string kv = std::to_string(kv_width);
    const OpGraph before = graph_of("  - q = linear(x, 4096, bias=false)\n  - k = linear(x, " + kv +
                                    ", bias=false)\n  - v = linear(x, " + kv +
                                    ", bias=false)\n  - y = cat(relu(q), relu(k), relu(v), dim=1)\n");
    const Simplified after = simplify(before, merge);
    CHECK(kinds_of(after.graph) == Kinds{"linear", "split", "relu", "relu", "relu", "cat"});
    CHECK(model_flops(after.graph) == model_flops(before));
    CHECK(parameter_count(after.graph) == parameter_count(before));
    // x is read once instead of three times.
    CHECK(pass(after, "merge_qkv").saved == Bytes(2 * 32 * mib));
    return after.graph.tensors[after.graph.ops[0].outputs[0]].type.shape[1];
  };
  CHECK(merged(4096) == 3 * 4096);       // Multi-head attention.
  CHECK(merged(512) == 4096 + 2 * 512);  // Eight query heads to a key: 1.25 times.
}

/// All activations and what is there before the step, each in memory of its own.
Bytes unplanned(const OpGraph& graph) {
  Bytes sum{0};
  for (const Storage& storage : graph.storages) sum += storage.bytes;
  return sum;
}

TEST_CASE("R-97: memory planned by lifetimes holds what is alive, in place half of that", "[seeds]") {
  const auto peak = [](const OpGraph& graph) { return eager_memory(graph, h200()).peak; };
  const OpGraph chain = graph_of("  - y = relu(neg(relu(neg(relu(x)))))\n");
  CHECK(unplanned(chain) == Bytes(6 * 32 * mib));
  CHECK(peak(chain) == Bytes(3 * 32 * mib));  // The input, an op's argument and its result.
  const OpGraph in_place = graph_of("  - y = relu_(relu_(relu_(relu_(relu(x)))))\n");
  CHECK(peak(in_place) == Bytes(2 * 32 * mib));
}

TEST_CASE("S4-53: planning saves more than 15 to 25 % where activations are many, less where weights weigh",
          "[seeds]") {
  const auto saved = [](const OpGraph& graph) {
    const MemoryUse planned = eager_memory(graph, h200());
    return 100 * (1 - static_cast<double>((planned.peak - planned.workspace).value()) /
                          static_cast<double>(unplanned(graph).value()));
  };
  // Llama 3 8B: 16 GB of weights; a prefill of 2,048 tokens makes more than that, a decode step next to
  // nothing.
  CHECK(saved(build_graph(shipped_network("llama3_8b"), sizes(1, 2048))) > 25);
  CHECK(saved(build_graph(shipped_network("llama3_8b"), sizes(1, 2048, StepKind::Decode))) < 15);
  CHECK(saved(build_graph(shipped_network("llama3_8b"), sizes(1, 320))) == Approx(20).margin(5));
}

TEST_CASE("S4-49: of XLA's seven passes five are named, each a rule here", "[seeds]") {
  struct Named {
    std::string_view name;
    bool rule;
  };
  const SimplifyRules simplify_rules{.layout = true};
  const Named named[] = {
      {"algebraic simplification", simplify_rules.no_ops && simplify_rules.constants},
      {"common subexpressions", simplify_rules.common_subexpressions},
      {"fusion", FusionRules{}.pointwise},
      {"layout", simplify_rules.layout},
      // Which ops may be computed again is said by the op catalogue.
      {"rematerialisation", find_op("gelu")->recompute == RecomputeClass::Cheap &&
                                find_op("linear")->recompute == RecomputeClass::Expensive}};
  CHECK(std::size(named) == 5);
  CHECK(std::size(named) != 7);
  for (const Named& one : named) CHECK(one.rule);
}

TEST_CASE("S4-50: TensorRT's five passes, of which cleaning does three things", "[seeds]") {
  const OpGraph before = graph_of(
      "  - debug = mean(x, -1)\n  - f = exp(to(arange(4096), 'bf16') * -0.1)\n"
      "  - t = transpose(transpose(x, 0, 1), 0, 1)\n  - y = t * f\n");
  const Simplified cleaned = simplify(before, SimplifyRules{});
  CHECK(kinds_of(cleaned.graph) == Kinds{"mul"});
  CHECK(pass(cleaned, "dead_code").ops_removed == 2);  // The statistic, and the transpose that is left over.
  CHECK(pass(cleaned, "constants").ops_removed == 4);
  CHECK(pass(cleaned, "no_ops").ops_removed == 1);
  // The others: fusion, precision, kernel selection, memory planning.
  CompileOptions options;
  options.precision = ElementType::Fp8;
  const bool others[] = {FusionRules{}.pointwise, options.precision.has_value(),
                         ProductRules{.templates = true}.templates,
                         eager_memory(before, h200()).peak > Bytes(0)};
  CHECK(1 + std::size(others) == 5);
  for (const bool other : others) CHECK(other);
}

}  // namespace
}  // namespace gpusim::test
