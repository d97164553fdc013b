// SPDX-License-Identifier: Apache-2.0
// The families of kernels against arithmetic done by hand, and what must hold whatever the parameters are.
#include <cmath>
#include <string>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

GpuSpec device(const std::string& name) {
  return config::read_hardware(config::load_text(name, name), {});
}

const GpuSpec& h200() {
  static const GpuSpec gpu = device("h200");
  return gpu;
}

double us(const KernelWork& work, CacheState cache = cold, const GpuSpec& gpu = h200()) {
  return microseconds(estimate(work, gpu, cache).duration);
}

bool near(double value, double expected, double share) {
  return std::abs(value / expected - 1) <= share;
}

Pointwise add(std::int64_t n, int bytes) {
  return {n, Bytes(2 * n * bytes), Bytes(n * bytes)};
}

/// A chain of `count` functions fused into one kernel over 2^25 fp32 numbers.
InductorPointwise chain(AluFunction function, int count) {
  constexpr std::int64_t n = std::int64_t{1} << 25;
  return {n, Bytes(4 * n), Bytes(4 * n), count * lane_cycles(function, h200())};
}

}  // namespace

TEST_CASE("An fp32 add of 4096 x 4096 moves 201 MB and takes 1 us plus that over 4.5 TB/s", "[cost]") {
  const KernelEstimate cost = estimate(add(4096 * 4096, 4), h200());
  CHECK(cost.hbm_bytes == Bytes(3LL * 4 * 4096 * 4096));
  CHECK(cost.limit == KernelLimit::Memory);
  // 201.3 MB / (0.94 x 4.8 TB/s) = 44.6 us.
  CHECK(near(microseconds(cost.duration), 46.0, 0.05));
  CHECK(cost.blocks == 16384);
}

TEST_CASE("A product counts 2 m n k, and a saturated one runs at 0.8 of the dense peak", "[cost]") {
  const KernelEstimate cost = estimate(MatrixProduct{.m = 8192, .n = 8192, .k = 8192}, h200());
  CHECK(cost.flops.value() == 2.0 * 8192 * 8192 * 8192);
  CHECK(cost.limit == KernelLimit::Compute);
  const double achieved = cost.flops.value() / seconds(cost.duration) / peak(h200(), Dtype::Bf16).value();
  CHECK(achieved > 0.76);
  CHECK(achieved < 0.86);
}

TEST_CASE("A product with one row reads its weights at nine tenths of the bandwidth", "[cost]") {
  const KernelEstimate cost = estimate(MatrixProduct{.m = 1, .n = 28672, .k = 8192}, h200());
  // 470 MB / (0.9 x 4.8 TB/s) = 109 us.
  CHECK(near(microseconds(cost.duration), 109.0, 0.06));
  CHECK(cost.limit == KernelLimit::Memory);
}

TEST_CASE("One row more than a wave of tiles costs a wave", "[cost]") {
  const auto time = [](std::int64_t m) { return us(MatrixProduct{.m = m, .n = 4096, .k = 4096}); };
  CHECK(time(2 * 4096) > 1.8 * time(4096));
  CHECK(time(4096) >= time(4095));
}

TEST_CASE("Odd lengths fall to old kernels that are several times slower", "[cost]") {
  const double even = us(MatrixProduct{.m = 4096, .n = 2056, .k = 4096});
  const double odd = us(MatrixProduct{.m = 4096, .n = 2049, .k = 4096});
  CHECK(odd > 6 * even);
}

TEST_CASE("GPU ops of products: a sum after a split along k, a memset before many tiles", "[cost]") {
  const auto names = [](const MatrixProduct& work) {
    std::vector<std::string> list;
    for (const GpuOpEstimate& op : gpu_ops(work, h200())) list.emplace_back(op.name);
    return list;
  };
  CHECK(names({.m = 1, .n = 4096, .k = 14336}) == std::vector<std::string>{"product", "split_k_reduce"});
  CHECK(names({.m = 2048, .n = 4096, .k = 4096}) == std::vector<std::string>{"product"});
  CHECK(names({.m = 4096, .n = 4096, .k = 4096}) == std::vector<std::string>{"memset", "product"});
  CHECK(names({.m = 3072, .n = 3072, .k = 3072}) == std::vector<std::string>{"product"});
  CHECK(names({.m = 16, .n = 128256, .k = 4096}) == std::vector<std::string>{"memset", "product"});
}

TEST_CASE("Eager ops launch as many GPU ops as PyTorch does", "[cost]") {
  const auto count = [](const KernelWork& work) { return gpu_ops(work, h200()).size(); };
  using Kind = RowReduction::Kind;
  CHECK(count(RowReduction{Kind::LayerNorm, 4096, 4096}) == 1);
  CHECK(count(RowReduction{Kind::LayerNormBackward, 4096, 4096}) == 2);
  CHECK(count(RowReduction{Kind::LayerNormBackward, 196608, 1024}) == 6);
  CHECK(count(FullReduction{128256}) == 1);
  CHECK(count(FullReduction{1 << 24}) == 2);
  CHECK(count(ColumnReduction{512, 4096}) == 1);
  CHECK(count(ColumnReduction{4096, 4096}) == 2);
  const Attention attention{.batch = 1, .heads = 32, .query_length = 512, .head_dim = 128};
  CHECK(count(attention) == 2);
  CHECK(count(AttentionBackward{attention}) == 4);
  CHECK(count(AttentionDecode{1, 32, 8, 4096, 128}) == 2);
  CHECK(count(AttentionDecode{64, 32, 8, 4096, 128}) == 1);
  CHECK(count(EmbeddingBackward{2048, 4096, 128256}) == 2);
  CHECK(count(GroupedProduct{.groups = 8, .rows = 512, .n = 14336, .k = 2048}) == 2);
  CHECK(count(BatchNorm{.batch = 64, .channels = 64, .spatial = 56 * 56}) == 3);
}

TEST_CASE("Nothing to do is no GPU op", "[cost]") {
  CHECK(gpu_ops(Pointwise{}, h200()).empty());
  CHECK(gpu_ops(MatrixProduct{}, h200()).empty());
  CHECK(gpu_ops(RowReduction{}, h200()).empty());
  CHECK(gpu_ops(Convolution{}, h200()).empty());
  CHECK(gpu_ops(Memset{}, h200()).empty());
  CHECK(estimate(Gather{}, h200()).duration == Picoseconds{0});
}

TEST_CASE("Chains of cheap functions are free, those of expensive ones are not", "[cost]") {
  // Measured: 24 fused mul take as long as one; 24 fused cos twelve times as long as one.
  CHECK(us(chain(AluFunction::Mul, 24)) < 1.05 * us(chain(AluFunction::Mul, 1)));
  CHECK(us(chain(AluFunction::Add, 24)) < 1.05 * us(chain(AluFunction::Add, 1)));
  CHECK(us(chain(AluFunction::Exp, 1)) < 1.05 * us(chain(AluFunction::Mul, 1)));
  const double cosines = us(chain(AluFunction::Cos, 24)) / us(chain(AluFunction::Cos, 1));
  CHECK(cosines > 10);
  CHECK(cosines < 14);
}

TEST_CASE("LayerNorm and GELU written by hand fuse to 131 us, the built-in pair to 156 us", "[cost]") {
  // 16384 x 4096 in bf16, read once and written once. By hand: two dependent sums, then the row again with
  // one tanh; built in: Welford, then the row again with GELU by erf.
  InductorRowReduction by_hand;
  by_hand.rows = 16384;
  by_hand.columns = 4096;
  by_hand.read = by_hand.written = Bytes(2LL * 16384 * 4096);
  by_hand.shared = Bytes(4 * 4096);
  by_hand.reductions = 2;
  by_hand.lane_cycles = lane_cycles(AluFunction::Tanh, h200());
  CHECK(near(us(by_hand), 131, 0.10));

  InductorRowReduction built_in = by_hand;
  built_in.reductions = 1;
  built_in.reduction = InductorRowReduction::Reduction::Welford;
  built_in.lane_cycles = lane_cycles(AluFunction::Gelu, h200());
  CHECK(near(us(built_in), 156, 0.10));
  CHECK(us(built_in) > us(by_hand));
}

TEST_CASE("Rows up to 1024 columns stay in registers, longer ones are looped over", "[cost]") {
  InductorRowReduction row;
  row.rows = 16384;
  row.columns = 1024;
  row.read = row.written = Bytes(2LL * 16384 * 1024);
  CHECK(gpu_ops(row, h200()).front().name == "fused_reduction");
  row.columns = 1025;
  CHECK(gpu_ops(row, h200()).front().name == "fused_looped_reduction");
  row.form = InductorRowReduction::Form::Persistent;
  CHECK(gpu_ops(row, h200()).front().name == "fused_reduction");
}

TEST_CASE("A second pass over rows that do not fit the L2 reads the memory again", "[cost]") {
  const auto traffic = [](std::int64_t columns) {
    InductorRowReduction row;
    row.rows = 2048;
    row.columns = columns;
    row.read = row.written = Bytes(2 * 2048 * columns);
    const KernelEstimate cost = estimate(row, h200());
    return static_cast<double>(cost.hbm_bytes.value()) / static_cast<double>(4 * 2048 * columns);
  };
  CHECK(near(traffic(8192), 1.0, 0.01));
  CHECK(near(traffic(131072), 1.5, 0.01));
}

TEST_CASE("Data in the L2 makes a kernel faster, never slower", "[cost]") {
  for (const std::int64_t n : {1 << 12, 1 << 18, 1 << 21, 1 << 23}) {
    CHECK(us(add(n, 2), hot) <= us(add(n, 2), cold));
    CHECK(us(RowReduction{RowReduction::Kind::Sum, n / 1024, 1024}, hot) <=
          us(RowReduction{RowReduction::Kind::Sum, n / 1024, 1024}, cold));
  }
  CHECK(cold_share(Bytes(20'000'000), h200()) == 0);
  CHECK(cold_share(Bytes(60'000'000), h200()) == 1);
  const double between = cold_share(Bytes(43'000'000), h200());
  CHECK(between > 0.2);
  CHECK(between < 0.8);
}

TEST_CASE("More work never takes less time", "[cost]") {
  double pointwise = 0, norm = 0, softmax = 0, gather = 0, attention = 0, decode = 0, fused = 0;
  const auto grows = [](double& before, double now) {
    CHECK(now >= before);
    before = now;
  };
  for (std::int64_t n = 1; n <= 1 << 17; n *= 2) {
    grows(pointwise, us(add(n * 1024, 2)));
    grows(norm, us(RowReduction{RowReduction::Kind::LayerNorm, n, 1024}));
    grows(softmax, us(RowReduction{RowReduction::Kind::Softmax, n, 1024}));
    // Up to 16 rows go one after the other, so 32 take less time than 16.
    if (n > 16) grows(gather, us(Gather{n, Bytes(2048), Bytes(1 << 30)}));
    grows(decode, us(AttentionDecode{64, 32, 8, n, 128}));
    grows(fused, us(InductorPointwise{n * 1024, Bytes(n * 2048), Bytes(n * 2048), 10}));
    // Keys that do not fill a block of 128 cost a mask: 64 take more time than 128.
    if (n >= 128 && n <= 1 << 13)
      grows(attention, us(Attention{.batch = 1, .heads = 32, .query_length = n, .head_dim = 128}));
  }
}

TEST_CASE("Causal attention is never slower than full, and half of it when long", "[cost]") {
  const auto time = [](std::int64_t length, bool causal) {
    return us(Attention{.batch = 4, .heads = 32, .query_length = length, .head_dim = 128, .causal = causal});
  };
  for (const std::int64_t length : {512, 1024, 2048, 8192, 32768})
    CHECK(time(length, true) <= time(length, false));
  CHECK(near(time(32768, true) / time(32768, false), 0.5, 0.1));
}

TEST_CASE("A convolution of one pixel is a product; strides skip pixels", "[cost]") {
  Convolution plain{.batch = 64, .channels = 64, .height = 56, .width = 56, .out_channels = 256};
  const MatrixProduct product{
      .m = 64 * 56 * 56, .n = 256, .k = 64, .dtype = Dtype::Fp16, .output = Dtype::Fp16};
  CHECK(near(us(plain), us(product), 0.05));
  CHECK(estimate(plain, h200()).flops == estimate(product, h200()).flops);
  Convolution strided = plain;
  strided.stride = 2;
  CHECK(strided.out_height() == 28);
  CHECK(near(estimate(strided, h200()).flops.value(), estimate(plain, h200()).flops.value() / 4, 1e-9));
  Convolution window = plain;
  window.kernel_height = window.kernel_width = 3;
  window.padding = 1;
  CHECK(window.out_height() == 56);
  CHECK(estimate(window, h200()).flops.value() == 9 * estimate(plain, h200()).flops.value());
}

TEST_CASE("Copies over the link are those of the hardware file", "[cost]") {
  const Bytes bytes(1 << 24);
  CHECK(estimate(Memcpy{bytes, Memcpy::Direction::HostToDevice}, h200()).duration ==
        host_to_device_time(h200(), bytes));
  CHECK(gpu_ops(Memcpy{bytes, Memcpy::Direction::DeviceToHost}, h200()).front().kind == GpuOpKind::Memcpy);
}

TEST_CASE("A device without calibration is an error that says what to write", "[cost]") {
  GpuSpec bare = h200();
  bare.calibration.reset();
  try {
    estimate(add(1024, 2), bare);
    FAIL("no error");
  } catch (const NoCalibrationError& error) {
    CHECK(std::string(error.what()).find("calibration: {base: h200}") != std::string::npos);
  }
}

TEST_CASE("A number format that the device has no rate for is an error", "[cost]") {
  const GpuSpec a100 = device("a100_80gb");
  CHECK_THROWS_AS(estimate(MatrixProduct{.m = 512, .n = 512, .k = 512, .dtype = Dtype::Fp8}, a100),
                  NoPeakError);
}

TEST_CASE("Borrowed calibrations say whose they are", "[cost]") {
  CHECK(h200().calibration->transferred_from.empty());
  for (const char* name : {"a100_80gb", "h100_sxm", "l40s", "mi300x", "rtx4090", "b200", "t4", "v100"}) {
    INFO(name);
    CHECK(device(name).calibration->transferred_from == "h200");
  }
}

// Public measurements of other GPUs (docs/accuracy.md names them and states the errors): the H200's shapes,
// scaled by datasheet peaks, must come within these shares.
TEST_CASE("Large products on other GPUs are within 10 % of public measurements", "[cost][transfer]") {
  const auto tflops = [](const char* name) {
    const GpuSpec gpu = device(name);
    const KernelEstimate cost = estimate(MatrixProduct{.m = 8192, .n = 8192, .k = 8192}, gpu);
    return cost.flops.value() / seconds(cost.duration) / 1e12;
  };
  CHECK(near(tflops("a100_80gb"), 271.2, 0.10));
  CHECK(near(tflops("h100_sxm"), 794.5, 0.10));
  CHECK(near(tflops("b200"), 1745, 0.10));
  CHECK(near(tflops("rtx4090"), 155.4, 0.10));
  CHECK(near(tflops("mi300x"), 668, 0.10));
}

TEST_CASE("Long copies on other GPUs are within 13 % of public measurements", "[cost][transfer]") {
  const auto rate = [](const char* name) {
    constexpr std::int64_t n = std::int64_t{1} << 28;
    return 8.0 * n / (us(Pointwise{n, Bytes(4 * n), Bytes(4 * n)}, cold, device(name)) * 1e-6) / 1e9;
  };
  CHECK(near(rate("a100_80gb"), 1732, 0.12));
  CHECK(near(rate("a100_40gb"), 1381, 0.12));
  CHECK(near(rate("h100_pcie"), 1704, 0.13));
  CHECK(near(rate("l40s"), 770, 0.12));
  CHECK(near(rate("v100"), 802, 0.12));
}
