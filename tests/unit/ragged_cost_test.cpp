// SPDX-License-Identifier: Apache-2.0
// What shapes cost that do not fill their kernel's blocks. Figures: validation/h200/kernels-drawn.csv.
#include <algorithm>
#include <cmath>

#include "models/cost/kernel_work.hpp"
#include "models/units/time_range.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

const GpuSpec& h200() {
  static const GpuSpec gpu = config::read_hardware(config::load_text("h200", "h200"), {});
  return gpu;
}

double us(const KernelWork& work, CacheState cache = hot) {
  return microseconds(estimate(work, h200(), cache).duration);
}

double gelu_us(std::int64_t elements) {
  return us(
      Pointwise{elements, Bytes(2 * elements), Bytes(2 * elements), lane_cycles(AluFunction::Gelu, h200())});
}

double softmax_us(std::int64_t rows, std::int64_t columns) {
  return us(RowReduction{.kind = RowReduction::Kind::Softmax, .rows = rows, .columns = columns});
}

double rms_norm_us(std::int64_t columns) {
  return us(RowReduction{.kind = RowReduction::Kind::RmsNorm, .rows = 2, .columns = columns});
}

double attention_us(std::int64_t length, std::int64_t dim, bool causal) {
  return us(Attention{.batch = 8, .heads = 16, .query_length = length, .head_dim = dim, .causal = causal});
}

}  // namespace

TEST_CASE("A last block that is not full does its elements one by one, 128 at a time", "[cost]") {
  // Blocks of 1024 elements; 19,224 are 18 of them and 792, which 128 threads do in seven rounds: 1.60 us
  // measured for GELU, 1.1 us for full blocks.
  CHECK(gelu_us(19 * 1024) < 1.15);
  CHECK(std::abs(gelu_us(19224) / 1.60 - 1) < 0.1);
  // A round more is 0.07 us; 128 elements more in the same round are next to nothing.
  CHECK(gelu_us(18 * 1024 + 128) - gelu_us(18 * 1024 + 1) < 0.001);
  CHECK(gelu_us(18 * 1024 + 129) - gelu_us(18 * 1024 + 128) > 0.04);
}

TEST_CASE("Heads of 80 features cost what heads of 128 do", "[cost]") {
  CHECK(attention_us(2048, 80, true) == attention_us(2048, 128, true));
  CHECK(attention_us(2048, 64, true) < 0.9 * attention_us(2048, 80, true));
}

TEST_CASE("Keys that do not fill the last block cost a mask in all of them, unless there is one already",
          "[cost]") {
  // 2047 keys are as many blocks of 128 as 2048.
  CHECK(attention_us(2047, 64, false) > 1.05 * attention_us(2048, 64, false));
  CHECK(attention_us(2047, 64, true) == attention_us(2048, 64, true));
}

TEST_CASE("A warp's softmax goes over the next power of two, up to 2048 columns", "[cost]") {
  CHECK(std::abs(softmax_us(4096, 600) / softmax_us(4096, 1024) - 1) < 0.02);
  CHECK(softmax_us(4096, 512) < 0.75 * softmax_us(4096, 600));
  // 64 elements for each lane, one after the other: 7.5 us measured for 111 x 1543.
  CHECK(std::abs(softmax_us(111, 1543) / 7.46 - 1) < 0.1);
  CHECK(softmax_us(111, 2049) < 0.5 * softmax_us(111, 2048));
}

TEST_CASE("Norms go over their rows in rounds of 512 columns", "[cost]") {
  CHECK(rms_norm_us(513) == rms_norm_us(1024));
  CHECK(rms_norm_us(1025) > rms_norm_us(1024));
  CHECK(std::abs(rms_norm_us(856) / 1.89 - 1) < 0.1);  // Measured: 1.888 us.
}

TEST_CASE("Strided operands of four bytes are worked off slower than those of two", "[cost]") {
  // 3842 x 5704, rows times a column: 57.1 us in bf16 and 69.0 us in fp32 measured, though neither is bound
  // by its 88 and 175 MB at 4.5 TB/s.
  constexpr std::int64_t n = 3842 * 5704;
  const auto strided = [&](int size) {
    return us(Pointwise{.elements = n,
                        .read = Bytes(n * size),
                        .written = Bytes(n * size),
                        .access = Pointwise::Access::Strided},
              cold);
  };
  CHECK(std::abs(strided(2) / 57.1 - 1) < 0.1);
  CHECK(std::abs(strided(4) / 69.0 - 1) < 0.1);
}

TEST_CASE("x[i] has no kernel of its own for few rows, an embedding has", "[cost]") {
  const Gather embedding{.rows = 4, .row_bytes = Bytes(896), .table_bytes = Bytes(8000)};
  Gather expression = embedding;
  expression.by_expression = true;
  CHECK(us(embedding) > 2 * us(expression));  // 2.5 and 1.06 us measured.
}

TEST_CASE("An optimizer over more elements than 2^42 is refused, not laid out kernel by kernel", "[cost]") {
  MultiTensor step;
  step.sizes = {std::int64_t{1} << 41, std::int64_t{1} << 41, 1};
  CHECK_THROWS_AS(us(step), TimeRangeError);
}

TEST_CASE("An elementwise op cut into more than 65,536 kernels is refused", "[cost]") {
  // 2^48 bytes are 2^17 parts of 2^31.
  constexpr std::int64_t bytes = std::int64_t{1} << 48;
  Pointwise op{bytes / 2, Bytes(bytes), Bytes(bytes)};
  op.parts = pointwise_parts(Bytes(bytes));
  CHECK_THROWS_AS(us(op), TimeRangeError);
}

TEST_CASE("Few places are sorted by one kernel, more by a kernel for each byte", "[cost]") {
  const auto ops = [](std::int64_t rows) {
    return gpu_ops(Scatter{.rows = rows,
                           .row_bytes = Bytes(4096),
                           .add = true,
                           .dtype = Dtype::Bf16,
                           .sorted_places = 1024},
                   h200(), hot)
        .size();
  };
  CHECK(ops(2304) == 2);              // The sort, the addition.
  CHECK(ops(2305) == 4 + 2 * 2 + 1);  // Clearing, counting; two bytes of places; the addition.
}

TEST_CASE(
    "The input of a convolution whose result has as many bytes is still padded from three channels to eight",
    "[cost]") {
  // ViT's patches: 32 x 3 x 224 x 224 and 32 x 768 x 14 x 14 are 9.6 MB each. The layout of the input took 70
  // us, that of the result 9.
  Convolution patches;
  patches.batch = 32;
  patches.channels = 3;
  patches.height = patches.width = 224;
  patches.out_channels = 768;
  patches.kernel_height = patches.kernel_width = patches.stride = 16;
  patches.channels_last = false;
  double longest = 0;
  for (const GpuOpEstimate& op : gpu_ops(patches, h200(), cold))
    if (op.name == "convolution_layout") longest = std::max(longest, microseconds(op.cost.duration));
  CHECK(longest > 50);
}
