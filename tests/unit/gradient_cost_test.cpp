// SPDX-License-Identifier: Apache-2.0
// Batch norm, convolutions, attention and products as training steps launch them, against what an H200 did.
#include <cmath>
#include <string>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using Names = std::vector<std::string>;

const GpuSpec& h200() {
  static const GpuSpec gpu = test::h200();
  return gpu;
}
Names names(const KernelWork& work) {
  Names list;
  for (const GpuOpEstimate& op : gpu_ops(work, h200())) list.emplace_back(op.name);
  return list;
}
double us(const KernelWork& work, CacheState cache = cold) {
  return microseconds(estimate(work, h200(), cache).duration);
}
double us_of(std::size_t op, const KernelWork& work, CacheState cache = cold) {
  return microseconds(gpu_ops(work, h200(), cache).at(op).cost.duration);
}
bool near(double value, double expected, double share) {
  return std::abs(value / expected - 1) <= share;
}

/// Of 64 images in bf16, channels last.
BatchNorm norm(std::int64_t channels, std::int64_t side, bool backward = false, std::int64_t batch = 64) {
  return {.batch = batch,
          .channels = channels,
          .spatial = side * side,
          .dtype = Dtype::Bf16,
          .training = true,
          .channels_last = true,
          .backward = backward};
}

Convolution gradient(Convolution::Pass pass, std::int64_t batch, std::int64_t channels, std::int64_t side,
                     std::int64_t out, std::int64_t window, std::int64_t stride) {
  return {.batch = batch,
          .channels = channels,
          .height = side,
          .width = side,
          .out_channels = out,
          .kernel_height = window,
          .kernel_width = window,
          .stride = stride,
          .padding = window / 2,
          .dtype = Dtype::Bf16,
          .channels_last = true,
          .pass = pass};
}

TEST_CASE("Batch norm in training is four GPU ops, three backward, one fewer where a block takes all pixels",
          "[cost]") {
  CHECK(names(norm(64, 56)) ==
        Names{"fill", "batch_norm_statistics", "batch_norm_running", "batch_norm_apply"});
  CHECK(names(norm(64, 56, true)) == Names{"fill", "batch_norm_gradient_sums", "batch_norm_gradient"});
  // 16 pixels for each of 16 threads: 1568 pixels are seven blocks' work, and fewer than eight become one;
  // of 2048 pixels there are eight.
  CHECK(names(norm(512, 7, false, 32)) ==
        Names{"batch_norm_statistics", "batch_norm_running", "batch_norm_apply"});
  CHECK(names(norm(512, 7, true, 32)).size() == 2);
  CHECK(names(norm(512, 8, true, 32)).size() == 3);
}

TEST_CASE("Batch norm of ResNet-50's training step takes what was measured", "[cost]") {
  // Steps of 64 images, not among the fitted cases: what comes in is larger than the L2 holds.
  CHECK(near(us_of(1, norm(64, 112)), 185.1, 0.15));
  CHECK(near(us_of(3, norm(64, 112)), 111.8, 0.13));
  CHECK(near(us_of(1, norm(256, 56)), 149.5, 0.10));
  CHECK(near(us_of(3, norm(256, 56)), 73.5, 0.10));
  CHECK(near(us_of(1, norm(512, 28)), 83.7, 0.20));
  CHECK(near(us_of(1, norm(512, 28, true)), 59.1, 0.15));
  CHECK(near(us_of(2, norm(512, 28, true)), 51.1, 0.10));
}

TEST_CASE("Statistics wait for the memory at every four pixels", "[cost]") {
  // 8 images of 14 x 14: 1568 pixels by one block of 16 threads each: 25 steps of 0.82 us, 24.5 us measured.
  const double one_block = us_of(0, norm(256, 14, false, 8), hot);
  CHECK(near(one_block, 24.5, 0.1));
  // Four times the pixels are shared by 25 blocks, and take a third of the time: 8.6 us measured.
  CHECK(near(us_of(1, norm(256, 14, false, 32), hot), 8.6, 0.15));
}

TEST_CASE("Gradients of a convolution of single pixels are plain products, split along k to fill the SMs",
          "[cost]") {
  using Pass = Convolution::Pass;
  CHECK(names(gradient(Pass::InputGradient, 128, 512, 28, 128, 1, 1)) == Names{"convolution_input_gradient"});
  CHECK(names(gradient(Pass::WeightGradient, 128, 512, 28, 128, 1, 1)) ==
        Names{"convolution_weight_gradient", "split_k_reduce"});
  // 2048 x 512 by 6272 pixels: 128 tiles fill the SMs without.
  CHECK(names(gradient(Pass::WeightGradient, 128, 2048, 7, 512, 1, 1)) ==
        Names{"convolution_weight_gradient"});
  CHECK(near(us(gradient(Pass::WeightGradient, 128, 64, 56, 256, 1, 1)), 67.0, 0.10));
  CHECK(near(us(gradient(Pass::InputGradient, 128, 64, 56, 256, 1, 1)), 64.0, 0.10));
}

TEST_CASE("Gradients of windows: zeros first with a stride, and a kernel before where the weight's is split",
          "[cost]") {
  using Pass = Convolution::Pass;
  CHECK(names(gradient(Pass::InputGradient, 8, 512, 14, 512, 3, 2)) ==
        Names{"memset", "convolution_input_gradient"});
  CHECK(names(gradient(Pass::InputGradient, 8, 512, 7, 512, 3, 1)) == Names{"convolution_input_gradient"});
  CHECK(names(gradient(Pass::WeightGradient, 128, 64, 56, 64, 3, 1)) ==
        Names{"convolution_split", "convolution_weight_gradient", "split_k_reduce"});
  CHECK(names(gradient(Pass::WeightGradient, 8, 512, 7, 512, 3, 1)) == Names{"convolution_weight_gradient"});
  CHECK(near(us(gradient(Pass::WeightGradient, 128, 128, 28, 128, 3, 1)), 56.3, 0.12));
  CHECK(near(us(gradient(Pass::InputGradient, 128, 256, 14, 256, 3, 1)), 41.4, 0.12));
  CHECK(near(us(gradient(Pass::InputGradient, 128, 256, 28, 256, 3, 2)), 56.7, 0.12));
}

TEST_CASE("Attention in fp32 has kernels of its own: one forward, five backward, many times as long",
          "[cost]") {
  const Attention full{.batch = 8, .heads = 12, .query_length = 1024, .head_dim = 64, .dtype = Dtype::Tf32};
  CHECK(names(full) == Names{"attention"});
  CHECK(names(AttentionBackward{full}).size() == 5);
  // 1536 items of 64 queries, 12 on the busiest of 132 SMs, 16 blocks of keys each: 192 blocks of 4728 cycles
  // and 1.05 MFLOP at 0.165 of an SM's share of 494.7 TFLOP/s, and 7.2 us. 771 us measured.
  const double block = 4728 / 1980.0 + 4.0 * 64 * 64 * 64 / (0.16526 * 494.7e6 / 132);
  CHECK(near(us(full), 7.194 + 192 * block, 0.001));
  CHECK(near(us(full), 771.3, 0.05));
  CHECK(near(us_of(4, AttentionBackward{full}), 1820.5, 0.05));
  Attention causal = full;
  causal.causal = true;
  CHECK(near(us(causal), 488, 0.06));
  CHECK(near(us_of(4, AttentionBackward{causal}), 1124.7, 0.05));
  // Sixteen-bit attention is unchanged: a memset and a kernel.
  causal.dtype = Dtype::Bf16;
  CHECK(names(causal) == Names{"memset", "attention"});
}

TEST_CASE("tf32 products start late, and are slower the more operands lie the other way round", "[cost]") {
  const MatrixProduct forward{.m = 2048, .n = 4096, .k = 4096, .dtype = Dtype::Tf32, .output = Dtype::Tf32};
  MatrixProduct input = forward;
  input.right_transposed = false;
  const MatrixProduct weight{.m = 4096,
                             .n = 4096,
                             .k = 2048,
                             .dtype = Dtype::Tf32,
                             .output = Dtype::Tf32,
                             .left_transposed = true,
                             .right_transposed = false};
  CHECK(near(us(forward), 168.1, 0.12));
  CHECK(near(us(input), 173.6, 0.15));
  CHECK(near(us(weight), 275.0, 0.16));
  // 2.9 us later than a bf16 kernel of the same few tiles.
  CHECK(near(
      us({MatrixProduct{.m = 512, .n = 768, .k = 768, .dtype = Dtype::Tf32, .output = Dtype::Tf32}}, hot),
      6.9, 0.1));
  // A counter is cleared where tiles of 128 x 128 are more than SMs: 384, and 96.
  const auto tiles = [](std::int64_t n) {
    return names(MatrixProduct{.m = 2048, .n = n, .k = 768, .dtype = Dtype::Tf32, .output = Dtype::Tf32});
  };
  CHECK(tiles(3072) == Names{"memset", "product"});
  CHECK(tiles(768) == Names{"product"});
  // 36 tiles leave most SMs idle: split.
  CHECK(names(MatrixProduct{.m = 768,
                            .n = 768,
                            .k = 2048,
                            .dtype = Dtype::Tf32,
                            .output = Dtype::Tf32,
                            .left_transposed = true,
                            .right_transposed = false}) == Names{"product", "split_k_reduce"});
}

TEST_CASE("Fused AdamW over bf16 is bound by arithmetic, over fp32 by memory", "[cost]") {
  // 168 of 33.45 T lane-cycles an element: 199 G elements/s. 648 us measured for the 124.4 M of GPT-2 small.
  const std::vector<std::int64_t> sizes(48, 2'592'000);
  const double narrow =
      us(MultiTensor{.sizes = sizes, .lists = 4, .moves = 7, .fused = true, .dtype = Dtype::Bf16});
  CHECK(near(narrow, 648, 0.06));
  const double wide = us(MultiTensor{.sizes = sizes, .lists = 4, .moves = 7, .fused = true});
  CHECK(near(wide, 954, 0.06));
}

TEST_CASE("Sums over rows take a step of 0.27 us for each four rows of a thread, from the L2", "[cost]") {
  // 512 rows are shared by four threads a column: 32 steps in 10.2 us; 9.8 measured. 2048 rows by 32 blocks
  // more: four steps each, and 6.9 us.
  CHECK(near(us_of(0, ColumnReduction{512, 768, Dtype::Bf16, Dtype::Bf16}, hot), 9.8, 0.06));
  CHECK(near(us_of(1, ColumnReduction{2048, 768, Dtype::Bf16, Dtype::Bf16}, hot), 6.85, 0.06));
  CHECK(near(us_of(1, ColumnReduction{16384, 3072, Dtype::Bf16, Dtype::Bf16}), 38.4, 0.08));
}

TEST_CASE("float32 products run as tf32 unless the setting or the device says otherwise", "[networks]") {
  const OpGraph graph =
      build_graph(test::network_of("name: n\ninputs: {x: {shape: [8, 64]}, i: {shape: [1, 8, 8, 8]}}\nbody:\n"
                                   "  - y = linear(x, 32)\n  - z = conv2d(i, 8, kernel=3)\ngives: [y, z]\n"),
                  test::sizes(1, 1, StepKind::Inference, {}, ElementType::Fp32));
  const auto works = [&](const GpuSpec& gpu) {
    std::vector<KernelWork> list;
    for (const Op& op : graph.ops)
      for (const EagerCall& call : op.kind->eager(test::Seen(graph, op).view(), gpu))
        list.insert(list.end(), call.work.begin(), call.work.end());
    return list;
  };
  const auto dtypes = [&](const GpuSpec& gpu) {
    std::vector<Dtype> list;
    for (const KernelWork& work : works(gpu)) {
      if (const auto* product = std::get_if<MatrixProduct>(&work)) list.push_back(product->dtype);
      if (const auto* convolution = std::get_if<Convolution>(&work)) list.push_back(convolution->dtype);
    }
    return list;
  };
  CHECK(dtypes(h200()) == std::vector{Dtype::Tf32, Dtype::Tf32});
  GpuSpec highest = h200();
  highest.tf32_products = false;
  CHECK(dtypes(highest) == std::vector{Dtype::Fp32, Dtype::Tf32});
  const GpuSpec v100 = config::read_hardware(config::load_text("v100", "v100"), {});
  CHECK(dtypes(v100) == std::vector{Dtype::Fp32, Dtype::Fp32});
}

}  // namespace
}  // namespace gpusim
