// SPDX-License-Identifier: Apache-2.0
// The seeds' rules on which ops become one kernel, each by what legality says and what the groups then move.
#include <string>
#include <vector>

#include "models/compiler/exhaustive.hpp"
#include "models/cost/kernel_work.hpp"
#include "models/cost/launch_formulas.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

const std::string rows =
    "x: {shape: [16384, 4096]}, r: {shape: [16384, 4096]}, g: {shape: [4096]}, b: {shape: [4096]}";
constexpr std::int64_t full = std::int64_t{16384} * 4096 * 2;

bool legal(const OpGraph& graph, const BackendMode& mode = {}, const Backend& backend = joining_backend()) {
  return !kernel_refusal(graph, all_ops(graph), backend, mode);
}

/// How many kernels the best plan makes of a graph.
std::size_t kernels(const OpGraph& graph, const BackendMode& mode = {},
                    const Backend& backend = joining_backend()) {
  const FusionLegality legality(graph, backend, mode);
  std::size_t count = 0;
  for (const std::vector<OpIndex>& group : exhaustive_plan(legality).groups)
    if (legality.traffic().moves(group.front())) ++count;
  return count;
}

/// Full reads and writes of [16384, 4096] in bf16, what is smaller not counted.
std::int64_t passes(const Traffic& traffic) {
  return traffic.total().value() / full;
}
std::int64_t eager_passes(const OpGraph& graph) {
  return passes(eager_traffic(traffic_graph(graph)));
}
std::int64_t fused_passes(const OpGraph& graph) {
  return passes(traffic_bound(traffic_graph(graph)));
}

std::string cos_chain(int length) {
  std::string body = "  - v0 = cos(x)\n";
  for (int i = 1; i < length; ++i)
    body += "  - v" + std::to_string(i) + " = cos(v" + std::to_string(i - 1) + ")\n";
  return body;
}

TEST_CASE(
    "R-14: a group moves what it reads from outside once and what is needed outside, and nothing between") {
  const NamedTraffic n =
      traffic_of("a: x,w -> t; b: t,x -> u; c: u,t -> y", "x=100, w=10, t=1000, u=5, y=7", "y");
  // x is read by both ops of the first group, t is needed there and outside, u outside alone.
  CHECK(plan_traffic(n.graph, n.groups("a,b / c")).groups.front() ==
        GroupTraffic{.read = Bytes(100 + 10), .written = Bytes(1000 + 5)});
  CHECK(plan_traffic(n.graph, n.groups("a,b / c")).groups.back() ==
        GroupTraffic{.read = Bytes(5 + 1000), .written = 7_B});
  CHECK(plan_traffic(n.graph, n.groups("a,b,c")).sum == GroupTraffic{.read = 110_B, .written = 7_B});
}

TEST_CASE(
    "R-15: groups hold each op once, and A and C without the B between them are refused with the cycle") {
  const NamedTraffic n = traffic_of("A: x -> t; B: t -> u; C: t,u -> y", "x=1, t=1, u=1, y=1", "y");
  CHECK_THAT(
      compile_error([&] { check_groups(n.graph, n.groups("A,C / B")); }),
      ContainsSubstring("{'A', 'C'} needs {'B'}, for 'C' reads what 'B' makes; {'B'} needs {'A', 'C'}, for "
                        "'B' reads what 'A' makes"));
  CHECK(compile_error([&] { check_groups(n.graph, n.groups("A,B")); }) == "'C' is in no group");
  CHECK(compile_error([&] { check_groups(n.graph, n.groups("A,B / B,C")); }) == "'B' is in two groups");
  CHECK_NOTHROW(check_groups(n.graph, n.groups("A,B / C")));
}

TEST_CASE("R-16: elementwise joins elementwise at the same index, a chain of 64 is one kernel") {
  CHECK(legal(fusion_graph(rows, cos_chain(64), "v63")));
  CHECK_FALSE(legal(fusion_graph(rows, cos_chain(65), "v64")));  // Inductor's most
  // Not at another index: what both need in memory is not there yet.
  CHECK(refusal_of(fusion_graph("x: {shape: [64, 64]}, z: {shape: [64, 64]}",
                                "  - a = cos(x)\n  - y = z * transpose(a, 0, 1)\n", "a, y"),
                   {"a", "y"}) == "'y' reads what 'a' makes in another order");
}

TEST_CASE(
    "R-17: a reduction over 4,096 columns joins its elementwise neighbours, one over the whole tensor does "
    "not") {
  const OpGraph norm = fusion_graph(rows, "  - n = layer_norm(x, weight=g, bias=b)\n  - y = gelu(n)\n", "y");
  CHECK(legal(norm));
  CHECK(eager_passes(norm) == 4);
  CHECK(fused_passes(norm) == 2);
  const OpGraph before = fusion_graph(rows, "  - a = x + r\n  - y = layer_norm(a, weight=g, bias=b)\n", "y");
  CHECK(legal(before));
  // A row as long as the tensor does not fit one program: it is split over the device.
  const OpGraph one_row =
      fusion_graph("x: {shape: [1, 1048576]}", "  - s = sum(x, -1, keepdim=true)\n  - y = x / s\n", "y");
  CHECK_FALSE(legal(one_row));
}

TEST_CASE(
    "R-19: a row that does not fit is read again, one that the caches hold once, with the same results") {
  // The statistics stream through the row, then it is read a second time to be normalised (fp32, 200,000
  // columns).
  const GpuSpec gpu = h200();
  const auto hbm_reads = [&](std::int64_t columns, std::int64_t tensor_rows) {
    const Bytes tensor(tensor_rows * columns * 4);
    const KernelEstimate one =
        estimate(InductorRowReduction{.rows = tensor_rows,
                                      .columns = columns,
                                      .read = tensor,
                                      .written = tensor,
                                      .reduction = InductorRowReduction::Reduction::Welford},
                 gpu);
    return (one.hbm_bytes - tensor) / tensor;
  };
  CHECK(hbm_reads(200'000, 4096) > 1.5);
  CHECK(hbm_reads(1024, 800'000) == Approx(1).epsilon(0.01));
}

const std::string product_inputs =
    "x: {shape: [16384, 4096]}, w: {shape: [4096, 4096]}, c: {shape: [4096]}, r: {shape: [16384, 4096]}";

TEST_CASE(
    "R-20: bias, activation, residual and cast ride on a product, and each saves two passes of its result") {
  const OpGraph graph = fusion_graph(
      product_inputs,
      "  - p = matmul(x, w)\n  - h = p + c\n  - a = gelu(h)\n  - s = a + r\n  - y = to(s, 'fp32')\n", "y");
  CHECK(legal(graph, template_mode()));
  CHECK(kernels(graph, template_mode()) == 1);
  const std::int64_t saved = eager_traffic(traffic_graph(graph)).total().value() -
                             traffic_bound(traffic_graph(graph)).total().value();
  CHECK(saved == 4 * 2 * full);
}

TEST_CASE("R-21: a cast of a product's operand is made as it is loaded") {
  const OpGraph graph = fusion_graph("x: {shape: [16384, 4096], dtype: fp32}, w: {shape: [4096, 4096]}",
                                     "  - o = to(x, 'bf16')\n  - y = matmul(o, w)\n", "y");
  CHECK(legal(graph, template_mode()));
  CHECK_FALSE(legal(graph));
  const std::int64_t saved = eager_traffic(traffic_graph(graph)).total().value() -
                             traffic_bound(traffic_graph(graph)).total().value();
  CHECK(saved == 2 * full);
}

TEST_CASE("R-22: two products in a row are never one kernel, for the second needs whole rows of the first") {
  const OpGraph graph =
      fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 1024]}, v: {shape: [1024, 256]}",
                   "  - mm1 = matmul(x, w)\n  - h = gelu(mm1)\n  - mm2 = matmul(h, v)\n", "mm2");
  CHECK(refusal_of(graph, {"mm1", "h", "mm2"}, template_mode()) ==
        "'mm1' and 'mm2' are two matrix products: the second needs whole rows of the first");
  CHECK(kernels(graph, template_mode()) == 2);
  CHECK(kernels(graph) == 3);
}

/// softmax(q k^T / 8 + mask) v; `between` the product and the softmax.
OpGraph attention(std::int64_t length, const std::string& between = "  - s = a / 8.0\n") {
  const std::string l = std::to_string(length);
  return fusion_graph("q: {shape: [8, 16, " + l + ", 64]}, k: {shape: [8, 16, " + l +
                          ", 64]}, v: {shape: [8, 16, " + l + ", 64]}, mask: {shape: [" + l + ", " + l + "]}",
                      "  - a = matmul(q, transpose(k, 2, 3))\n" + between +
                          "  - m = s + mask\n  - p = softmax(m)\n  - y = matmul(p, v)\n",
                      "y");
}

TEST_CASE(
    "R-23: attention's two products are one kernel of a library or none, and its scores are never in "
    "memory") {
  CHECK(legal(attention(1024)));
  Backend without = joining_backend();
  without.fused_attention = false;
  CHECK(refusal_of(attention(1024), all_ops(attention(1024)), {}, without) ==
        "'a' and 'y' are two matrix products: the second needs whole rows of the first");
  const auto eager = [](std::int64_t n) { return eager_traffic(traffic_graph(attention(n))).total(); };
  const auto fused = [](std::int64_t n) { return traffic_bound(traffic_graph(attention(n))).total(); };
  const std::int64_t heads = 8 * 16;
  // Four times q, k, v and the result, and the mask; composed 8 passes of the scores besides.
  CHECK(fused(1024) == Bytes(heads * 4 * 1024 * 64 * 2 + 1024 * 1024 * 2));
  CHECK(eager(1024) - fused(1024) == Bytes(heads * 8 * 1024 * 1024 * 2));
  CHECK((eager(4096) - fused(4096)).value() == 16 * (eager(1024) - fused(1024)).value());
}

TEST_CASE("R-24: a reduction over the whole tensor ends its group") {
  const OpGraph graph = fusion_graph(rows, "  - a = relu(x)\n  - s = sum(a)\n  - y = x * s\n", "y");
  CHECK(refusal_of(graph, {"a", "s"}) == "legal");
  CHECK(refusal_of(graph, {"a", "s", "y"}) ==
        "the reduction 's' over the whole tensor is needed by 'y' of the same group: all blocks have to be "
        "done "
        "first");
  CHECK(kernels(graph) == 2);
  // One block can do what Inductor does not split.
  CHECK(legal(fusion_graph("x: {shape: [8192]}", "  - s = sum(x)\n  - y = x * s\n", "y")));
  CHECK_FALSE(legal(fusion_graph("x: {shape: [8193]}", "  - s = sum(x)\n  - y = x * s\n", "y")));
}

TEST_CASE("R-25: siblings that read one input are one kernel, and read it once") {
  const OpGraph graph = fusion_graph(rows, "  - u = cos(x)\n  - v = sin(x)\n", "u, v");
  CHECK(legal(graph));
  CHECK(kernels(graph) == 1);
  CHECK(eager_passes(graph) == 4);
  CHECK(fused_passes(graph) == 3);
}

TEST_CASE("R-26: mean and variance in one loop read their tensor once, not twice") {
  const OpGraph graph = fusion_graph(rows, "  - m = mean(x, -1)\n  - s = mean(square(x), -1)\n", "m, s");
  CHECK(legal(graph));
  CHECK(eager_passes(graph) == 4);  // read, read and written, read
  CHECK(fused_passes(graph) == 1);
}

TEST_CASE("R-27: softmax by hand and LayerNorm by hand are one pass in and one out as one kernel") {
  const OpGraph softmax = fusion_graph(rows,
                                       "  - m = amax(x, -1, keepdim=true)\n  - d = x - m\n  - e = exp(d)\n"
                                       "  - s = sum(e, -1, keepdim=true)\n  - y = e / s\n",
                                       "y");
  CHECK(legal(softmax));
  CHECK(kernels(softmax) == 1);
  CHECK(eager_passes(softmax) == 8);
  CHECK(fused_passes(softmax) == 2);
  const OpGraph norm =
      fusion_graph(rows,
                   "  - m = mean(x, -1, keepdim=true)\n  - d = x - m\n"
                   "  - v = mean(square(d), -1, keepdim=true)\n  - y = d * rsqrt(v + 1e-5) * g + b\n",
                   "y");
  CHECK(norm.ops.size() == 9);
  CHECK(legal(norm));
  CHECK(kernels(norm) == 1);
  CHECK(eager_passes(norm) == 12);
  CHECK(fused_passes(norm) == 2);
}

TEST_CASE("R-28: by the group rule 64 ops in a kernel move what one does") {
  CHECK(traffic_bound(traffic_graph(fusion_graph(rows, cos_chain(64), "v63"))) ==
        traffic_bound(traffic_graph(fusion_graph(rows, cos_chain(1), "v0"))));
}

TEST_CASE("R-29: by the group rule GELU moves what ReLU does") {
  const auto with = [](const std::string& activation) {
    return traffic_bound(
        traffic_graph(fusion_graph(rows, "  - a = x + r\n  - y = " + activation + "(a)\n", "y")));
  };
  CHECK(with("gelu") == with("relu"));
}

TEST_CASE("R-30: product, RMSNorm, product are three kernels, two where a backend has the pattern") {
  const OpGraph graph = fusion_graph(
      "x: {shape: [512, 256]}, w: {shape: [256, 1024]}, v: {shape: [1024, 256]}, g: {shape: [1024]}",
      "  - mm1 = matmul(x, w)\n  - n = rms_norm(mm1, weight=g)\n  - mm2 = matmul(n, v)\n", "mm2");
  CHECK(kernels(graph) == 3);
  CHECK(kernels(graph, template_mode()) == 3);
  BackendMode pattern;
  pattern.products.norm_prologue = true;
  CHECK(kernels(graph, pattern) == 2);
  CHECK(refusal_of(graph, {"n", "mm2"}) == "the product 'mm2' needs whole rows of the reduction 'n'");
}

TEST_CASE("R-75: by default a product is the library's, and an activation behind it a kernel of its own") {
  const OpGraph graph = fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - y = gelu(p)\n", "y");
  CHECK(refusal_of(graph, {"p", "y"}) == "'y': products of this backend take no activation");
  CHECK(kernels(graph) == 2);
}

TEST_CASE("R-76: max-autotune may join the activation, and keeps the faster of the two ways") {
  const OpGraph graph = fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - y = gelu(p)\n", "y");
  CHECK(kernels(graph, template_mode()) == 1);
  // A template that is a fifth slower than the library's product loses what the epilogue saves, one that is
  // as fast does not: the elementwise kernel takes 7 % of the two.
  const GpuSpec gpu = h200();
  const Picoseconds library =
      estimate(MatrixProduct{.m = 16384, .n = 4096, .k = 4096, .dtype = Dtype::Bf16, .output = Dtype::Bf16},
               gpu)
          .duration;
  const Picoseconds epilogue =
      estimate(InductorPointwise{.elements = full / 2, .read = Bytes(full), .written = Bytes(full)}, gpu)
          .duration;
  const auto kept = [&](Picoseconds with_epilogue) { return std::min(library + epilogue, with_epilogue); };
  CHECK(kept(library) == library);
  CHECK(kept(library * 6 / 5) == library + epilogue);
}

TEST_CASE("R-77: a bias on the library's product moves nothing but itself") {
  const OpGraph plain = fusion_graph(product_inputs, "  - y = matmul(x, w)\n", "y");
  const OpGraph biased = fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - y = p + c\n", "y");
  CHECK(legal(biased));
  CHECK(traffic_bound(traffic_graph(biased)).total() - traffic_bound(traffic_graph(plain)).total() ==
        Bytes(4096 * 2));
}

TEST_CASE("R-78: product, scale, mask, softmax, product are recognised as attention, one kernel") {
  CHECK(kernels(attention(256)) == 1);
  // A mask of truth values that is made on the way is a kernel of its own.
  CHECK(kernels(attention(256, "  - s = masked_fill(a, mask > 0.0, -1e9)\n")) == 2);
  Backend without = joining_backend();
  without.fused_attention = false;
  CHECK(kernels(attention(256), {}, without) == 3);  // two products, and all between them
}

TEST_CASE("R-79: attention with a function of its own over the scores stays as it is written") {
  CHECK_FALSE(legal(attention(256, "  - s = tanh(a / 8.0)\n")));
  CHECK(kernels(attention(256, "  - s = tanh(a / 8.0)\n")) == 3);
}

TEST_CASE("R-96: convolution, BatchNorm and ReLU are one kernel where products take epilogues, else two") {
  const OpGraph graph = fusion_graph("x: {shape: [8, 64, 56, 56]}",
                                     "  - c = conv2d(x, 64, kernel=3, padding=1, bias=false)\n"
                                     "  - n = batch_norm(c)\n  - y = relu(n)\n",
                                     "y");
  CHECK(graph.ops.size() == 3);
  CHECK(kernels(graph, template_mode()) == 1);
  CHECK(kernels(graph) == 2);
  // Parallel ops of one kind become one op over all of them, not one kernel of two products.
  const OpGraph parallel =
      fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 128]}, v: {shape: [256, 128]}",
                   "  - p = matmul(x, w)\n  - q = matmul(x, v)\n", "p, q");
  const OpGraph batched =
      fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 256]}", "  - p = matmul(x, w)\n", "p");
  CHECK(kernels(parallel, template_mode()) == 2);
  CHECK(eager_traffic(traffic_graph(parallel)).total() - eager_traffic(traffic_graph(batched)).total() ==
        Bytes(512 * 256 * 2));
}

}  // namespace
}  // namespace gpusim::test
