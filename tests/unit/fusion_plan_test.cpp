// SPDX-License-Identifier: Apache-2.0
// Which ops become one kernel, on networks of a few ops.
#include "models/compiler/fuse.hpp"

#include <array>
#include <string>
#include <variant>

#include "models/compiler/kernels.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/split_reduction.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;

Backend inductor() {
  Backend backend;
  backend.key = "inductor";
  backend.kernel_prefix = "triton_";
  backend.modes.push_back({});
  return backend;
}

struct Compiled {
  OpGraph graph;
  LoopGraph loops;
  FusionPlan plan;
  std::vector<CompiledKernel> kernels;
};

Compiled compile(const std::string& inputs, const std::string& lines, const FusionRules& rules = {},
                 const std::string& gives = "z", const LowerOptions& lowering = {}) {
  Compiled c;
  c.graph = build_graph(
      test::network_of("name: n\ninputs:\n" + inputs + "body:\n" + lines + "gives: [" + gives + "]\n"),
      test::sizes(1, 1));
  c.loops = lower(c.graph, test::h200(), 0, static_cast<OpIndex>(c.graph.ops.size()), view_offsets(c.graph),
                  lowering);
  c.plan = plan_fusion(c.loops, rules);
  c.kernels = kernels_of(c.graph, c.loops, c.plan, inductor());
  return c;
}

std::vector<std::string> names(const Compiled& c) {
  std::vector<std::string> all;
  for (const CompiledKernel& kernel : c.kernels) all.push_back(kernel.name);
  return all;
}

using Names = std::vector<std::string>;
const std::string matrix = "  x: {shape: [4096, 1024]}\n";
const std::string two = "  x: {shape: [4096, 1024]}\n  y: {shape: [4096, 1024]}\n";

TEST_CASE("a chain of elementwise ops is one kernel, named after them") {
  const Compiled c = compile(two, "  - z = relu(x * y + 1.0)\n");
  CHECK(names(c) == Names{"triton_poi_fused_add_mul_relu_0"});
  // Each input is read once, the result written once: R-14.
  CHECK(c.kernels[0].read() == Bytes(2 * 4096 * 1024 * 2));
  CHECK(c.kernels[0].written() == Bytes(4096 * 1024 * 2));
}

TEST_CASE("a result needed outside of its kernel is written there") {
  const Compiled c = compile(matrix, "  - h = exp(x)\n  - z = relu(h)\n", {}, "z, h");
  CHECK(names(c) == Names{"triton_poi_fused_exp_relu_0"});
  CHECK(c.kernels[0].written() == Bytes(2 * 4096 * 1024 * 2));
}

TEST_CASE("a reduction takes in what it reads and what follows over the same rows") {
  const Compiled c = compile(matrix, "  - z = x - mean(exp(x), -1, keepdim=true)\n");
  CHECK(names(c) == Names{"triton_per_fused_exp_mean_sub_0"});
  CHECK(c.kernels[0].read() == Bytes(4096 * 1024 * 2));
}

TEST_CASE("rows of more than 1024 values are looped over") {
  CHECK(names(compile("  x: {shape: [4096, 1024]}\n", "  - z = softmax(x)\n"))[0].substr(0, 11) ==
        "triton_per_");
  CHECK(names(compile("  x: {shape: [4096, 1025]}\n", "  - z = softmax(x)\n"))[0].substr(0, 11) ==
        "triton_red_");
}

TEST_CASE("reductions over different rows stay apart") {
  const Compiled c =
      compile("  x: {shape: [4096, 1024]}\n", "  - z = sum(x, -1)\n  - w = sum(x, 0)\n", {}, "z, w");
  CHECK(c.kernels.size() >= 2);
  for (const FusionGroup& group : c.plan.groups) {
    std::int64_t rows = 0;
    for (const LoopIndex l : group.loops) {
      if (rows != 0) CHECK(c.loops.loops[l].numel == rows);
      rows = c.loops.loops[l].numel;
    }
  }
}

TEST_CASE("a matrix product is a library's kernel: nothing joins it") {
  const Compiled c = compile(matrix, "  - z = relu(linear(exp(x), 512, bias=false))\n");
  CHECK(names(c) ==
        Names{"triton_poi_fused_exp_0", "extern_kernels.mm", "triton_poi_fused__unsafe_view_relu_1"});
}

TEST_CASE("a bias rides on its product, or goes to the elementwise ops that alone see it") {
  CHECK(names(compile(matrix, "  - z = relu(linear(x, 512))\n")) ==
        Names{"extern_kernels.addmm", "triton_poi_fused_relu_view_0"});
  LowerOptions apart;
  apart.unfuse_bias = true;
  CHECK(names(compile(matrix, "  - z = relu(linear(x, 512))\n", {}, "z", apart)) ==
        Names{"extern_kernels.mm", "triton_poi_fused__unsafe_view_add_relu_0"});
  CHECK(names(compile(matrix, "  - z = linear(x, 512)\n", {}, "z", apart)) == Names{"extern_kernels.addmm"});
}

TEST_CASE("Products whose rows are no multiple of 16 bytes are filled up where the tensor cores bound them") {
  LowerOptions padding;
  padding.padding = true;
  const auto shape = [](const Compiled& c) {
    const auto& product = std::get<MatrixProduct>(c.kernels.back().work.front());
    return std::array{product.m, product.n, product.k};
  };
  // 4096 * 1024 * 5001 / (4096 * 1024 + 1024 * 5001 + 4096 * 5001) = 706 multiply-adds an element; half of an
  // H200's 989.4 / 4.8 are 103. Eight bf16 are 16 bytes: 5001 columns become 5008, by a copy of the weights.
  const std::string wide = "  - z = linear(x, 5001, bias=false)\n";
  const Compiled filled = compile(matrix, wide, {}, "z", padding);
  CHECK(names(filled) == Names{"triton_poi_fused_constant_pad_nd_0", "extern_kernels.mm"});
  CHECK(shape(filled) == std::array<std::int64_t, 3>{4096, 5008, 1024});
  const Compiled plain = compile(matrix, wide);
  CHECK(names(plain) == Names{"extern_kernels.mm"});
  CHECK(shape(plain) == std::array<std::int64_t, 3>{4096, 5001, 1024});
  // Rows of both operands, where what they add up over is odd.
  const Compiled inner =
      compile("  x: {shape: [4096, 1025]}\n", "  - z = linear(x, 4096, bias=false)\n", {}, "z", padding);
  CHECK(inner.kernels.size() == 3);
  CHECK(shape(inner) == std::array<std::int64_t, 3>{4096, 4096, 1032});
  // 16 rows: 16 multiply-adds an element. 4095 rows: no row of theirs is odd.
  CHECK(names(compile("  x: {shape: [16, 1024]}\n", wide, {}, "z", padding)) == Names{"extern_kernels.mm"});
  CHECK(names(compile("  x: {shape: [4095, 1024]}\n", "  - z = linear(x, 4096, bias=false)\n", {}, "z",
                      padding)) == Names{"extern_kernels.mm"});
}

TEST_CASE("kernels that read the same tensor join, if the tensor is worth it") {
  CHECK(compile(matrix, "  - z = exp(x)\n  - w = relu(x)\n", {}, "z, w").kernels.size() == 1);
  CHECK(compile("  x: {shape: [4]}\n", "  - z = exp(x)\n  - w = relu(x)\n", {}, "z, w").kernels.size() == 2);
  FusionRules no_siblings;
  no_siblings.siblings = false;
  CHECK(compile(matrix, "  - z = exp(x)\n  - w = relu(x)\n", no_siblings, "z, w").kernels.size() == 2);
}

TEST_CASE("each rule of a backend can be switched off") {
  const std::string lines = "  - z = x - mean(exp(x), -1, keepdim=true)\n";
  FusionRules rules;
  rules.after_reduction = false;
  CHECK(compile(matrix, lines, rules).kernels.size() == 2);
  const std::string chain = "  - h = exp(x)\n  - g = sum(h, -1, keepdim=true)\n  - z = h + relu(h)\n";
  rules = {};
  rules.into_reduction = false;
  CHECK(compile(matrix, chain, rules, "z, g, h").kernels.size() == 2);
  rules = {};
  rules.pointwise = false;
  CHECK(compile(matrix, "  - h = exp(x)\n  - z = relu(h)\n", rules, "z, h").kernels.size() == 2);
}

TEST_CASE("no kernel holds more loops than the backend allows") {
  std::string lines = "  - z = exp(x)\n";
  std::string gives = "z";
  for (int i = 0; i < 100; ++i) {
    lines += "  - z" + std::to_string(i) + " = exp(z)\n  - z = relu(z" + std::to_string(i) + ")\n";
    gives += ", z" + std::to_string(i);
  }
  const Compiled c = compile(matrix, lines, {}, gives);
  CHECK(c.kernels.size() > 1);
  for (const FusionGroup& group : c.plan.groups) CHECK(group.loops.size() <= 64);
}

TEST_CASE("a value that reads many buffers and has several users becomes a buffer") {
  // Residuals are computed again by each reader until they read more than four buffers.
  std::string lines = "  - h = x\n";
  std::string gives;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    lines += "  - h = h + linear(layer_norm(h), 1024, bias=false)\n";
  }
  lines += "  - z = layer_norm(h)\n";
  const Compiled c = compile(matrix, lines);
  std::vector<std::int64_t> read;
  for (const CompiledKernel& kernel : c.kernels)
    if (kernel.what == KernelClass::Generated) read.push_back(kernel.read().value());
  // The norms read 1, 2, 3, 4 tensors, then five while they write the residual, and begin anew with it.
  const std::int64_t tensor = 4096 * 1024 * 2;
  REQUIRE(read.size() == 7);
  for (int i = 0; i < 4; ++i) CHECK(read[static_cast<std::size_t>(i)] / tensor == i + 1);
  CHECK(read[4] / tensor == 5);
  CHECK(read[5] / tensor == 2);
}

TEST_CASE("reasons for two kernels are told") {
  const Compiled c = compile(matrix, "  - z = relu(linear(exp(x), 512, bias=false))\n");
  const auto pairs = refused_pairs(c.loops, c.plan, {});
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].reason == FusionRefusal::Library);
  CHECK(pairs[0].bytes == Bytes(4096 * 1024 * 2));
  for (const RefusedPair& pair : pairs) CHECK_FALSE(text(pair.reason).empty());
}

TEST_CASE("equal kernels have one name") {
  const Compiled c =
      compile(matrix,
              "  - h = linear(exp(x), 1024, bias=false)\n  - g = linear(exp(h), 1024, bias=false)\n"
              "  - z = linear(exp(g), 1024, bias=false)\n");
  CHECK(names(c) == Names{"triton_poi_fused_exp_0", "extern_kernels.mm",
                          "triton_poi_fused__unsafe_view_exp_1", "extern_kernels.mm",
                          "triton_poi_fused__unsafe_view_exp_1", "extern_kernels.mm"});
}

TEST_CASE("a reduction of few outputs is cut in two where it is long") {
  // 132 SMs: one number of 8192 values is one kernel, of more two.
  CHECK(reduction_splits(1, 8192, true, 132) == 1);
  CHECK(reduction_splits(1, 8193, true, 132) > 1);
  CHECK(reduction_splits(264, 1 << 20, true, 132) == 1);
  CHECK(reduction_splits(263, 1 << 20, true, 132) > 1);
  CHECK(reduction_splits(4096, 16384, false, 132) == 32);  // measured: 131072 x 512 for 16384 x 4096
  CHECK(reduction_splits(1024, 1024, false, 132) == 8);    // measured: 8192 x 128
  CHECK(reduction_splits(50304, 64, false, 132) == 1);     // measured: one kernel
  CHECK(compile(matrix, "  - z = sum(x)\n").kernels.size() == 2);
  CHECK(compile("  x: {shape: [4096]}\n", "  - z = sum(x)\n").kernels.size() == 1);
}

TEST_CASE("a kernel works a value out once, however often it reads it, and that of a row once for the row") {
  const GpuSpec gpu = test::h200();
  const double tanh = lane_cycles(AluFunction::Tanh, gpu);
  const double cheap = lane_cycles(AluFunction::Add, gpu);
  REQUIRE(lane_cycles(AluFunction::Mul, gpu) == cheap);
  const Compiled twice = compile(matrix, "  - h = tanh(x)\n  - z = h * h + h\n");
  REQUIRE(twice.kernels.size() == 1);
  CHECK(std::get<InductorPointwise>(twice.kernels[0].work.front()).lane_cycles ==
        test::Approx(tanh + 2 * cheap));
  // Two loops of one kernel, the second of which goes over the row again: exp stays in registers with it.
  const Compiled rows = compile(matrix,
                                "  - h = exp(x)\n  - s = sum(h, -1, keepdim=true)\n"
                                "  - z = h * rsqrt(s + 1.0)\n");
  REQUIRE(rows.kernels.size() == 1);
  const auto& work = std::get<InductorRowReduction>(rows.kernels[0].work.front());
  REQUIRE(work.columns == 1024);
  CHECK(work.lane_cycles == test::Approx(lane_cycles(AluFunction::Exp, gpu) + cheap +
                                         (lane_cycles(AluFunction::Rsqrt, gpu) + cheap) / 1024));
}

TEST_CASE("a sum over a short dimension that does not lie innermost takes columns side by side") {
  const Compiled c = compile("  x: {shape: [16, 786432]}\n", "  - z = sum(x, 0)\n");
  REQUIRE(c.kernels.size() == 1);
  const auto& work = std::get<InductorColumnReduction>(c.kernels[0].work.front());
  CHECK(work.rows == 16);
  CHECK(work.columns == 786432);
  // 25 MB read and 1.6 MB written at about 4.5 TB/s: some 6 us.
  const Picoseconds took = estimate(c.kernels[0].work.front(), test::h200()).duration;
  CHECK(took > Picoseconds(6'000'000));
  CHECK(took < Picoseconds(12'000'000));
}

TEST_CASE("several sums over rows, as a batch norm takes, are columns side by side") {
  const Compiled c =
      compile("  x: {shape: [12544, 64]}\n", "  - m = mean(x, 0)\n  - d = sum(x * x, 0)\n  - z = m + d\n");
  // Both sums in one kernel, cut in parts, and joined by another.
  const auto& work = std::get<InductorColumnReduction>(c.kernels.front().work.front());
  CHECK(work.part == SplitPart::First);
  CHECK(work.rows * work.columns >= 12544 * 64);
  CHECK(c.kernels.front().read() == Bytes(12544 * 64 * 2));
}

}  // namespace
