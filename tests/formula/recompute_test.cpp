// SPDX-License-Identifier: Apache-2.0
// Figures and rules about what training keeps for its backward pass and what it computes again: traffic of
// stored and recomputed tensors by the rule of fusion groups, bytes of a Llama-3-70B layer by hand.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "models/cost/training_formulas.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

// --- LayerNorm and GELU of 16,384 rows of 4,096 in bf16.

constexpr Bytes rows_bytes = 128_MiB;

OpGraph layer_norm_and_gelu() {
  return fusion_graph(
      "x: {shape: [16384, 4096]}, g: {shape: [4096]}, b: {shape: [4096]}",
      "  - m = mean(x, -1, keepdim=true)\n  - d = x - m\n  - v = mean(square(d), -1, keepdim=true)\n"
      "  - h = d * rsqrt(v + 1e-5) * g + b\n"
      "  - y = (0.5 * h) * (1 + tanh(0.7978845608 * (h + 0.044715 * h ** 3)))\n",
      "y");
}

TEST_CASE(
    "S0-15: the fused pair keeps its input and two statistics, 134,348,800 B against 13 tensors, 1,664 MiB") {
  // 16,384 * 4,096 * 2 B = 134,217,728, and 16,384 rows of two fp32 numbers, 131,072.
  const Bytes statistics(16'384 * 2 * 4);
  CHECK(rows_bytes + statistics == Bytes(134'348'800));
  // By hand every operation's result is a tensor that some gradient may want.
  Bytes by_hand{0};
  int full = 0;
  const OpGraph graph = layer_norm_and_gelu();
  for (const Op& op : graph.ops)
    for (const TensorIndex t : op.outputs)
      if (dense_bytes(graph.tensors[t].type) == rows_bytes) {
        ++full;
        by_hand += rows_bytes;
      }
  CHECK(full == 13);
  CHECK(by_hand == 1664_MiB);
}

TEST_CASE("R-35: a backward pass that computes the pair again reads what it kept and nothing more") {
  // x 128 MiB, statistics 128 KiB (1 a unit of 1,024 here). Kept: all 13 results of the forward pass, read
  // once.
  const auto stored = traffic_of("forward: x -> kept, y; backward: gy, kept -> gx",
                                 "x=1024, kept=13312, y=1024, gy=1024, gx=1024", "y, gx");
  const auto recomputed =
      traffic_of("forward: x -> stats, y; again: x, stats -> kept; backward: gy, kept -> gx",
                 "x=1024, stats=1, kept=13312, y=1024, gy=1024, gx=1024", "y, gx");
  CHECK(moved(stored, "forward / backward") == 1024 + 13312 + 1024 + 1024 + 13312 + 1024);
  CHECK(moved(recomputed, "forward / again,backward") == 1024 + 1 + 1024 + 1024 + 1 + 1024 + 1024);
}

// --- The sigmoid and its gradient.

TEST_CASE("S1-23: the sigmoid's derivative is y (1 - y), so z need not be kept") {
  for (const double z : {-8.0, -1.0, 0.0, 0.5, 3.0}) {
    const double y = 1 / (1 + std::exp(-z));
    const double derivative = std::exp(-z) / ((1 + std::exp(-z)) * (1 + std::exp(-z)));
    CHECK(y * (1 - y) == Approx(derivative).epsilon(1e-12));
  }
  CHECK(1 / (1 + std::exp(-0.0)) == 0.5);
  CHECK(0.5 * (1 - 0.5) == 0.25);
}

TEST_CASE("D1-6: the sigmoid's backward in three kernels makes 8 passes, in one 3: 2.667 times less") {
  const auto backward = traffic_of("one_minus: y -> a; times_y: y,a -> b; times_gy: b,gy -> gz",
                                   "y=1, a=1, b=1, gy=1, gz=1", "gz");
  CHECK(moved(backward, "one_minus / times_y / times_gy") == 8);
  CHECK(moved(backward, "one_minus,times_y,times_gy") == 3);
  CHECK(reproduces(8.0 / 3, {2.667, 0.0005}));
}

// --- RMSNorm, stored or computed again.

TEST_CASE("S4-35: RMSNorm in five kernels costs 10 accesses to recompute, in one 2: a fifth, not nothing") {
  const auto norm = traffic_of("square: x -> a; mean: a -> b; sqrt: b -> c; divide: c -> d; scale: d -> y",
                               "x=1, a=1, b=1, c=1, d=1, y=1", "y");
  CHECK(moved(norm, "square / mean / sqrt / divide / scale") == 10);
  CHECK(moved(norm, "square,mean,sqrt,divide,scale") == 2);
}

/// y = norm(x) becomes z in the forward pass; the backward pass needs y again.
NamedTraffic norm_stored() {
  return traffic_of("norm: x -> y; act: y -> z; grad: gz,y -> gx", "x=100, y=100, z=100, gz=100, gx=100",
                    "z,gx");
}
NamedTraffic norm_recomputed() {
  return traffic_of("norm: x -> y; act: y -> z; again: x -> y2; grad: gz,y2 -> gx",
                    "x=100, y=100, z=100, y2=100, gz=100, gx=100", "z,gx");
}

TEST_CASE("S4-33: recomputed in the kernel that needs it, a norm reads x in place of its stored result") {
  CHECK(moved(norm_stored(), "norm,act / grad") == 300 + 300);
  // The backward kernel moves the same 300; forward no longer writes y.
  CHECK(moved(norm_recomputed(), "norm,act / again,grad") == 200 + 300);
}

TEST_CASE("R-71: recomputed by kernels of its own a norm costs a pair of passes for each") {
  CHECK(moved(norm_recomputed(), "norm,act / again / grad") == 200 + 200 + 300);
  const auto by_hand = traffic_of(
      "norm: x -> y; act: y -> z; a1: x -> t1; a2: t1 -> t2; a3: t2 -> t3; a4: t3 -> t4; a5: t4 -> y2; "
      "grad: gz,y2 -> gx",
      "x=100, y=100, z=100, t1=100, t2=100, t3=100, t4=100, y2=100, gz=100, gx=100", "z,gx");
  CHECK(moved(by_hand, "norm,act / a1 / a2 / a3 / a4 / a5 / grad") == 200 + 5 * 200 + 300);
  CHECK(moved(by_hand, "norm,act / a1,a2,a3,a4,a5,grad") == 200 + 300);
}

TEST_CASE("S4-33: where a product needs the norm, its recomputation is written first, one pass more") {
  // A library product joins nothing: y is written in the forward pass in any case, and a second time.
  const auto stored = traffic_of("norm: x -> y; mm: y,w -> z; grad: gz,y -> gw",
                                 "x=100, y=100, w=10, z=100, gz=100, gw=10", "z,gw");
  const auto again = traffic_of("norm: x -> y; mm: y,w -> z; again: x -> y2; grad: gz,y2 -> gw",
                                "x=100, y=100, w=10, z=100, y2=100, gz=100, gw=10", "z,gw");
  CHECK(moved(again, "norm / mm / again / grad") - moved(stored, "norm / mm / grad") == 200);
  // Beside a kernel that reads x anyway (the norm's own backward) only the write is left.
  const auto beside =
      traffic_of("norm: x -> y; mm: y,w -> z; again: x -> y2; grad: gz,y2 -> gw; norm_grad: x,gy -> gx",
                 "x=100, y=100, w=10, z=100, y2=100, gz=100, gw=10, gy=100, gx=100", "z,gw,gx");
  const auto beside_stored =
      traffic_of("norm: x -> y; mm: y,w -> z; grad: gz,y -> gw; norm_grad: x,gy -> gx",
                 "x=100, y=100, w=10, z=100, gz=100, gw=10, gy=100, gx=100", "z,gw,gx");
  CHECK(moved(beside, "norm / mm / again,norm_grad / grad") -
            moved(beside_stored, "norm / mm / grad / norm_grad") ==
        100);
}

TEST_CASE("S4-34: 16 GB over 80 layers are 12,207 tokens, not the chapter's own batch of 65,536") {
  const double row = 8192 * 2;
  CHECK(reproduces(16e9 / (80 * row), {12'207, 0.5}));
  CHECK(80 * row * 32 * 2048 == Approx(85.9e9).epsilon(0.001));
}

// --- A layer of Llama-3-70B, bytes of a token in bf16.

namespace llama3_70b_layer {
constexpr double d = 8192 * 2;
constexpr double qkv = (64 + 8 + 8) * 128 * 2;
constexpr double attention = 8192 * 2 + 64 * 4;  // its output, and the logarithm of each head's sum in fp32
constexpr double ff = 28672 * 2;
constexpr double statistics = 4 + 4;  // of two norms
/// Input, first norm, q, k and v after the rotation, attention, residual, second norm, gate, up, silu(gate)
/// and the product of the two.
constexpr double all = d + d + qkv + attention + d + d + 4 * ff + statistics;
/// Without what pointwise ops and norms give back: both norms, silu and the product.
constexpr double selected = d + qkv + attention + d + 2 * ff + statistics;
/// The layer's parameters, for 2 FLOPs each: q and output, k and v, and three of the MLP.
constexpr double parameters = 2.0 * 8192 * 8192 + 2.0 * 8192 * 1024 + 3.0 * 8192 * 28672;
}  // namespace llama3_70b_layer

TEST_CASE(
    "S4-36: recomputing norms, SiLU and its product saves 44.4 %, not 60 %, of what fused attention keeps") {
  // 332,040 and 184,576 bytes a token.
  CHECK(llama3_70b_layer::all == 332'040);
  CHECK(llama3_70b_layer::selected == 184'576 + 8);
  const double saved = 1 - llama3_70b_layer::selected / llama3_70b_layer::all;
  CHECK(reproduces(saved, {0.444, 0.0005}));
  CHECK_FALSE(reproduces(saved, {0.60, 0.05}));
  // The extra FLOPs are pointwise: norms about 4 for each of 2 d features, SiLU and product 5 for each of ff.
  const double extra = 2 * 8192 * 4 + 28672 * 5;
  CHECK(extra / (6 * llama3_70b_layer::parameters) < 0.0001);
  CHECK(extra / (6 * llama3_70b_layer::parameters) < 0.05);  // stated
}

TEST_CASE(
    "S4-38: keeping the layer's input alone saves 95.1 %, so recomputing everything is no 60 % either") {
  const double saved = 1 - llama3_70b_layer::d / llama3_70b_layer::all;
  CHECK(reproduces(saved, {0.951, 0.0005}));
  CHECK_FALSE(reproduces(saved, {0.60, 0.05}));
}

TEST_CASE("D4-P2: min-cut of a Llama-3-70B layer: 44.4 % less at 33.3 % less recomputation than all of it") {
  using namespace llama3_70b_layer;
  // (a) All of it: a forward pass more.
  CHECK(reproduces(recompute_all_overhead(), {0.333, 0.0005}));
  // (b) What is free and what is not.
  // (c) 44.4 and 95.1 %: S4-36 and S4-38.
  CHECK(reproduces(1 - selected / all, {0.444, 0.0005}));
  CHECK(reproduces(1 - d / all, {0.951, 0.0005}));
  // (d) With products in FP8 their inputs (both norms, attention's output, the MLP's product) are kept as a
  // byte an element: 53,248 B a token in place of 106,496, so keeping them costs half.
  const double inputs = d + d + 8192 * 2 + ff;
  CHECK(inputs == 106'496);
  CHECK(inputs / 2 == 53'248);
}

// --- What may be computed again.

TEST_CASE("R-68: pointwise ops, norms and casts are cheap enough to compute again") {
  for (const char* kind :
       {"add", "mul", "silu", "gelu", "sigmoid", "tanh", "to", "layer_norm", "rms_norm", "softmax", "mean"}) {
    CAPTURE(kind);
    CHECK(find_op(kind)->recompute == RecomputeClass::Cheap);
  }
}

TEST_CASE("R-69: attention is kept") {
  CHECK(find_op("scaled_dot_product_attention")->recompute == RecomputeClass::Expensive);
}

TEST_CASE("R-70: products are kept") {
  for (const char* kind : {"linear", "matmul", "addmm", "conv2d", "grouped_mm"}) {
    CAPTURE(kind);
    CHECK(find_op(kind)->recompute == RecomputeClass::Expensive);
  }
}

// --- The optimizer's tensors.

TEST_CASE(
    "S1-30: a decoder layer has 9 parameter tensors in the chapter, so 9 gradients to fill or to free") {
  // Two norms, four products of attention, three of the MLP. The measured layer has both biases of
  // nn.MultiheadAttention and one product for queries, keys and values: 2 + 4 + 3 as well.
  const OpGraph layer = build_graph(shipped_network("seed_decoder"), sizes(1, 16, StepKind::Training));
  int parameters = 0;
  for (const Storage& storage : layer.storages) parameters += storage.role == Role::Parameter;
  CHECK(parameters == 9);
}

}  // namespace
}  // namespace gpusim::test
