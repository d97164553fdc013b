// SPDX-License-Identifier: Apache-2.0
// Kernels that only training steps have: sums over rows and columns at once, gradients added at places that
// data decide.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "models/compiler/decompose.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/kernels.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/simplify.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

using Names = std::vector<std::string>;

std::vector<CompiledKernel> kernels(const OpGraph& graph, OpIndex first, OpIndex last, bool mixed) {
  FusionRules rules;
  rules.mixed_orders = mixed;
  Backend backend;
  backend.key = "inductor";
  backend.kernel_prefix = "triton_";
  const LoopGraph loops = lower(graph, h200(), first, last, view_offsets(graph));
  return kernels_of(graph, loops, plan_fusion(loops, rules), backend);
}

std::vector<CompiledKernel> kernels(const std::string& inputs, const std::string& lines,
                                    const std::string& gives, bool mixed = true) {
  const OpGraph graph = build_graph(
      network_of("name: n\ninputs: {" + inputs + "}\nbody:\n" + lines + "gives: [" + gives + "]\n"),
      sizes(1, 1, StepKind::Inference, {}, ElementType::Fp32));
  return kernels(graph, 0, static_cast<OpIndex>(graph.ops.size()), mixed);
}

/// The backward pass of a step, compiled.
std::vector<CompiledKernel> backward(const std::string& inputs, const std::string& lines) {
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  options.loss = LossKind::Mean;
  options.functional = true;
  options.optimizer.kind = OptimizerKind::Sgd;
  const OpGraph step = training_graph(
      build_graph(network_of("name: n\ninputs: {" + inputs + "}\nbody:\n" + lines + "gives: [z]\n"),
                  sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)),
      options);
  SimplifyRules rules;
  rules.constants = false;
  const OpGraph graph = simplify(decompose(step), rules, {.regions = {}, .training = true}).graph;
  const auto first = std::find_if(graph.ops.begin(), graph.ops.end(),
                                  [](const Op& op) { return op.phase == Phase::Backward; });
  const auto last =
      std::find_if(first, graph.ops.end(), [](const Op& op) { return op.phase != Phase::Backward; });
  return kernels(graph, static_cast<OpIndex>(first - graph.ops.begin()),
                 static_cast<OpIndex>(last - graph.ops.begin()), true);
}

Names names(const std::vector<CompiledKernel>& all) {
  Names result;
  for (const CompiledKernel& kernel : all) result.push_back(kernel.name);
  return result;
}

const char* const both_sums =
    "  - h = x * y\n  - a = sum(h, dim=[1], keepdim=true)\n  - z = h - a\n  - b = sum(h, dim=[0])\n";

TEST_CASE(
    "sums over the rows and over the columns of a large tensor are one kernel, and a sum of its parts") {
  const std::string large = "x: {shape: [8192, 768]}, y: {shape: [8192, 768]}";
  const std::vector<CompiledKernel> one = kernels(large, both_sums, "z, b");
  REQUIRE(names(one) == Names{"triton_per_fused_mul_sub_sum_0", "aten.sum"});
  const auto& work = std::get<InductorMixedReduction>(one[0].work.front());
  CHECK(work.rows == 8192);
  CHECK(work.columns == 768);
  CHECK(work.sums == 1);
  // x and y are read, z is written; the sums of columns stay with the blocks.
  CHECK(work.read == Bytes(2 * 8192 * 768 * 4));
  CHECK(work.written == Bytes(8192 * 768 * 4));
  // Each block goes over 16 rows: 512 blocks.
  const auto ops = gpu_ops(one[0].work.front(), h200());
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].cost.blocks == 512);

  // Without the rule the columns are added up by themselves, in two kernels.
  CHECK(names(kernels(large, both_sums, "z, b", false)) ==
        Names{"triton_per_fused_mul_sub_sum_0", "triton_red_fused_mul_sum_1", "triton_per_fused_mul_sum_2"});
}

TEST_CASE("what the L2 holds, and tensors with few rows, are not summed over rows and columns at once") {
  // 4 Mi elements; 5 Mi is where it begins.
  const std::vector<CompiledKernel> small =
      kernels("x: {shape: [4096, 1024]}, y: {shape: [4096, 1024]}", both_sums, "z, b");
  CHECK(names(small).back() != "aten.sum");
  // 4096 rows are enough, but 2304 columns want 4608; 4095 are not.
  const std::vector<CompiledKernel> wide =
      kernels("x: {shape: [4096, 2304]}, y: {shape: [4096, 2304]}", both_sums, "z, b");
  CHECK(names(wide).back() != "aten.sum");
  const std::vector<CompiledKernel> few =
      kernels("x: {shape: [4095, 1536]}, y: {shape: [4095, 1536]}", both_sums, "z, b");
  CHECK(names(few).back() != "aten.sum");
}

TEST_CASE("a sum over rows reads what other loops have written") {
  // [8, 1024, 768] as [8192, 768]: the sum goes over 64 parts of 128 rows, which no loop of the first has.
  const std::vector<CompiledKernel> all =
      kernels("x: {shape: [8, 1024, 768]}",
              "  - h = view(relu(x), [8192, 768])\n  - z = linear(h, 4)\n  - b = sum(h, dim=[0])\n", "z, b");
  CHECK(names(all) == Names{"triton_poi_fused_relu_0", "extern_kernels.addmm", "triton_red_fused_sum_view_1",
                            "triton_per_fused_sum_view_2"});
}

TEST_CASE("a table's gradient is added up in zeros, by the kernel that makes it") {
  const std::vector<CompiledKernel> all =
      backward("i: {shape: [64], dtype: int64}", "  - z = silu(embedding(i, parameter([1000, 16])))\n");
  REQUIRE(names(all) ==
          Names{"triton_poi_fused_embedding_dense_backward_0",
                "triton_poi_fused_div_embedding_dense_backward_expand_silu_backward_view_zeros_1"});
  CHECK(all[0].written() == Bytes(1000 * 16 * 4));
  // 64 rows of 16 are read and written where the ids say.
  CHECK(all[1].written() == Bytes(64 * 16 * 4));
}

TEST_CASE("a bias's gradient of 8192 rows takes two kernels, the products none") {
  const std::vector<CompiledKernel> all =
      backward("x: {shape: [8192, 256]}", "  - z = silu(linear(x, 512))\n");
  std::int64_t generated = 0;
  for (const CompiledKernel& kernel : all) generated += kernel.what == KernelClass::Generated ? 1 : 0;
  CHECK(generated == 3);  // silu's gradient, and the two of the sum
  CHECK(all.size() == 4);
}

}  // namespace
