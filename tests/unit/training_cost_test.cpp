// SPDX-License-Identifier: Apache-2.0
// What training steps launch and how long it takes, against what an H200 did.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/cost/instruction_cache.hpp"
#include "models/cost/kernel_work.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

const GpuSpec& h200() {
  static const GpuSpec gpu = test::h200();
  return gpu;
}
std::size_t count(const KernelWork& work) {
  return gpu_ops(work, h200()).size();
}
double us(const KernelWork& work) {
  return microseconds(estimate(work, h200()).duration);
}
/// Of its second GPU op.
double second(const KernelWork& work) {
  return microseconds(gpu_ops(work, h200()).at(1).cost.duration);
}
bool near(double value, double expected, double share) {
  return std::abs(value / expected - 1) <= share;
}

/// The gradient of a weight [m, n] over k rows.
MatrixProduct weight_gradient(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k, .left_transposed = true, .right_transposed = false};
}

TEST_CASE("Gradients are split along k where tiles of the result leave SMs idle", "[cost]") {
  // Of 132 SMs, tiles of 128 x 128 take 36, and 144 in two waves; 108 are enough. Tiles of 64 x 128 are
  // 128 for 1024 x 1024.
  CHECK(count(weight_gradient(768, 768, 16384)) == 2);
  CHECK(count(weight_gradient(3072, 768, 16384)) == 2);
  CHECK(count(weight_gradient(2304, 768, 16384)) == 1);
  CHECK(count(weight_gradient(1024, 1024, 8192)) == 1);
  // Over 12,608 rows as well (64 images of 197 patches), over 8,192 no longer.
  CHECK(count(weight_gradient(768, 768, 12608)) == 2);
  CHECK(count(weight_gradient(768, 768, 8192)) == 1);
  CHECK(count(weight_gradient(3072, 768, 8192)) == 1);
  CHECK(count(weight_gradient(768, 768, 512)) == 1);
  // 24 tiles, very deep: the gradient of what a head of 50304 classes was given for 512 rows.
  CHECK(count(MatrixProduct{.m = 512, .n = 768, .k = 50304, .right_transposed = false}) == 2);
  CHECK(count(MatrixProduct{.m = 512, .n = 768, .k = 50304}) == 1);
}

TEST_CASE("The gradient of an input is split for few rows or a deep vocabulary", "[cost]") {
  const auto input_gradient = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return MatrixProduct{.m = m, .n = n, .k = k, .right_transposed = false};
  };
  CHECK(count(input_gradient(256, 1024, 4096)) == 2);
  CHECK(count(input_gradient(512, 1024, 4096)) == 1);
  CHECK(count(input_gradient(2048, 768, 50304)) == 2);
  CHECK(count(input_gradient(4096, 768, 50304)) == 1);
}

TEST_CASE("Sorted additions sort their places by as many bytes as these have", "[cost]") {
  // Two counters cleared, histogram, its sums, a pass of two ops for each byte, the additions.
  Scatter added{.rows = 4096, .row_bytes = Bytes(4096), .add = true};
  CHECK(count(added) == 1);
  const double atomic = us(added);
  added.sorted_places = 2048;
  CHECK(count(added) == 4 + 2 * 2 + 1);
  added.sorted_places = 200;
  CHECK(count(added) == 4 + 2 * 1 + 1);
  // None is atomic: 16.8 MB read and written.
  CHECK(microseconds(gpu_ops(added, h200()).back().cost.duration) < atomic);
}

TEST_CASE("Code that does not fit into the instruction cache is waited for", "[cost]") {
  CHECK(instruction_stall(20, 20 * instruction_cache_share("cos")) == 0);
  // 40 take two caches: each second one is missed, 8.1 cycles for it.
  CHECK(instruction_stall(40, 40 * instruction_cache_share("cos")) == Approx(40 * 8.1 / 2));
  // 45 tanh fit, and any number of short functions.
  CHECK(instruction_stall(45, 45 * instruction_cache_share("tanh")) == Approx(0).margin(1e-9));
  CHECK(instruction_cache_share("mul") == 0);
}

TEST_CASE("A transposed operand needs rows of 16 bytes as it lies", "[cost]") {
  // [k, 50257]: 50257 is odd. As [m, k] k alone counts.
  const double aligned = us(MatrixProduct{.m = 50257, .n = 768, .k = 16384});
  CHECK(us(weight_gradient(50257, 768, 16384)) > 5 * aligned);
}

TEST_CASE("An elementwise op is halved until offsets of bytes fit 32 bits", "[cost]") {
  CHECK(pointwise_parts(Bytes(2147483647)) == 1);
  CHECK(pointwise_parts(Bytes(2147483648)) == 2);
  CHECK(pointwise_parts(Bytes(16384LL * 50304 * 4)) == 2);
  CHECK(pointwise_parts(Bytes(5'000'000'000)) == 4);
  Pointwise whole{.elements = 1 << 30, .read = Bytes(1LL << 31), .written = Bytes(1LL << 32)};
  Pointwise cut = whole;
  cut.parts = 2;
  CHECK(count(cut) == 2);
  CHECK(near(us(cut), us(whole), 0.01));
}

TEST_CASE("The loss of 16384 tokens of 50304 classes takes what was measured", "[cost]") {
  using Kind = RowReduction::Kind;
  const RowReduction log_softmax{Kind::LogSoftmax, 16384, 50304, Dtype::Bf16, Dtype::Bf16};
  CHECK(near(us(log_softmax), 1102, 0.08));
  RowReduction softmax = log_softmax;
  softmax.kind = Kind::Softmax;
  CHECK(us(log_softmax) < us(softmax));
  CHECK(near(us(RowReduction{Kind::SoftmaxBackward, 16384, 50304, Dtype::Bf16, Dtype::Bf16}), 1520, 0.1));
  // In fp32 nothing of three passes stays in the L2: 4 x 1.65 GB over 4.5 TB/s.
  CHECK(near(us(RowReduction{Kind::LogSoftmax, 8192, 50304, Dtype::Fp32, Dtype::Fp32}), 1577, 0.08));
  // A warp takes 1.25 ns a row; zeros come at 4.7 TB/s, in halves.
  const LossGather loss{.rows = 16384, .classes = 50304, .dtype = Dtype::Fp32};
  CHECK(near(us(loss), 0.95 + 16384 * 0.00125, 0.02));
  LossGather backward = loss;
  backward.backward = true;
  CHECK(count(backward) == 3);
  CHECK(near(us(backward), 350 + 354 + 18.9, 0.05));
}

TEST_CASE("The backward of attention is as long as measured, kernel by kernel", "[cost]") {
  // Memset, row sums, the products, the conversion to 16 bits: what a profiler showed.
  const auto check = [](const Attention& forward, double sums, double products, double conversion) {
    const std::vector<GpuOpEstimate> ops = gpu_ops(AttentionBackward{forward}, h200());
    REQUIRE(ops.size() == 4);
    CHECK(near(microseconds(ops[1].cost.duration), sums, 0.1));
    CHECK(near(microseconds(ops[2].cost.duration), products, 0.1));
    CHECK(near(microseconds(ops[3].cost.duration), conversion, 0.1));
  };
  check({.batch = 16, .heads = 12, .query_length = 1024, .head_dim = 64, .causal = true}, 27.7, 220.7, 24.2);
  check({.batch = 4, .heads = 32, .query_length = 2048, .head_dim = 128}, 65.6, 1176, 55.8);
  // The arithmetic of the smaller ones: 12.6 M elements, 4 bytes of each at 0.427 x 4.8 TB/s, 6 at 1.71 times
  // that.
  const double elements = 16 * 12 * 1024 * 64;
  check({.batch = 16, .heads = 12, .query_length = 1024, .head_dim = 64, .causal = true},
        0.95 + elements * 4 / (0.427 * 4.8e6), 219.0, 0.95 + elements * 6 / (1.71 * 0.427 * 4.8e6));
}

TEST_CASE("An embedding's gradient sorts more than 3072 rows", "[cost]") {
  // One kernel, 26 ns a row: 27.8 us measured for 1024 positions.
  const EmbeddingBackward positions{.rows = 1024, .columns = 768, .table_rows = 1024, .dtype = Dtype::Fp32};
  CHECK(count(positions) == 2);
  CHECK(near(second(positions), 1.24 + 1024 * 0.026, 0.02));
  // The table of 1 GB is not in the L2: twice that. 111.2 us measured.
  const EmbeddingBackward tokens{.rows = 2048, .columns = 4096, .table_rows = 128256};
  CHECK(near(second(tokens), 1.24 + 2048 * 0.052, 0.02));
  CHECK(count(EmbeddingBackward{.rows = 3072, .columns = 8, .table_rows = 8}) == 2);
  // Numbering, two memsets, histogram and its sums, 8 digits of a memset and a kernel each, the zeros, seven
  // small kernels, two that add.
  CHECK(count(EmbeddingBackward{.rows = 3073, .columns = 8, .table_rows = 8}) == 5 + 16 + 1 + 7 + 2);
}

TEST_CASE("Fused AdamW moves 28 bytes a parameter, slower where sizes are no multiple of four", "[cost]") {
  // 320 chunks of 65536 elements in one kernel: 587 MB at 0.77 x 4.8 TB/s. 154 to 158 us measured.
  const MultiTensor even{.sizes = {320 * 65536}, .lists = 4, .moves = 7, .fused = true};
  CHECK(count(even) == 1);
  CHECK(near(us(even), 1 + 320 * 65536 * 28 / (0.77 * 4.8e6), 0.01));
  // 1 element less: as 837837 elements each were, 184 us.
  const MultiTensor odd{.sizes = {320 * 65536 - 1}, .lists = 4, .moves = 7, .fused = true};
  CHECK(near(us(odd), 184, 0.06));
}

TEST_CASE("A pass of foreach reads and writes at 0.74 of the bandwidth", "[cost]") {
  // 320 chunks of 65536 elements, 8 bytes each: 46.7 to 50 us measured.
  const MultiTensor pass{.sizes = {320 * 65536}, .lists = 1, .moves = 2};
  CHECK(near(us(pass), 1 + 320 * 65536 * 8 / (0.74 * 4.8e6), 0.01));
}

TEST_CASE("Training steps of GPT-2 launch the GPU ops that were measured on an H200", "[networks]") {
  struct Row {
    std::int64_t batch;
    std::int64_t sequence;
    std::int64_t layers;
    std::int64_t features;
    std::int64_t heads;
    Checkpointing checkpointing;
    std::size_t measured;  ///< validation/h200/training.csv
    double busy;           ///< us, the sum of their durations.
  };
  for (const Row& row : {Row{16, 1024, 12, 768, 12, Checkpointing::None, 936, 42352},
                         Row{2, 256, 12, 768, 12, Checkpointing::None, 724, 4761},
                         Row{8, 1024, 24, 1024, 16, Checkpointing::None, 1616, 52931},
                         Row{8, 1024, 24, 1024, 16, Checkpointing::Blocks, 2120, 63753}}) {
    TrainingOptions options;
    options.optimizer.loop = OptimizerLoop::Fused;
    options.checkpointing = row.checkpointing;
    const OpGraph forward =
        build_graph(test::shipped_network("gpt2"),
                    test::sizes(row.batch, row.sequence, StepKind::Training,
                                {{"layers", row.layers}, {"d_model", row.features}, {"heads", row.heads}},
                                ElementType::Fp32));
    const OpGraph step = training_graph(forward, options);
    INFO(row.batch << " x " << row.sequence << ", " << row.layers << " layers");
    CHECK(test::eager_gpu_ops(step, h200()).size() == row.measured);
    double busy = 0;
    for (const Op& op : step.ops)
      for (const EagerCall& call : op.kind->eager(test::Seen(step, op).view(), h200()))
        for (const KernelWork& work : call.work) busy += us(work);
    // All operands from the memory, which small steps find in the L2.
    CHECK(busy / row.busy > 0.9);
    CHECK(busy / row.busy < 1.13);
  }
}

}  // namespace
}  // namespace gpusim
