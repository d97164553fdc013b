// SPDX-License-Identifier: Apache-2.0
// Figures and rules about utilisation, MFU, roofs and regimes, against hand arithmetic.
#include "models/cost/launch_formulas.hpp"
#include "sim/engine/engine.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

// The chapters' H100 SXM; its bf16 peak is not in their text.
constexpr BytesPerSecond h100_bandwidth{3.35e12};
constexpr FlopsPerSecond h100_bf16{989.4e12};
constexpr FlopsPerSecond a100_bf16{312e12};

TEST_CASE("S0-01: 300 ms eager against 130 ms compiled is 2.308 times, a measurement without an MFU") {
  CHECK(reproduces(300.0 / 130, {2.308, 0.0005}));
}

TEST_CASE("S0-02: from 300 to 130 ms more than half of the time goes away, 56.7 %") {
  CHECK(reproduces((300.0 - 130) / 300, {0.567, 0.0005}));
  CHECK((300.0 - 130) / 300 > 0.5);
}

TEST_CASE("S0-20: 256 MiB in 85 us are 3.158 TB/s, two passes over 128 MiB") {
  const BytesPerSecond achieved = achieved_bandwidth(256_MiB, 85_us);
  CHECK(reproduces(achieved.value(), {3.1581e12, 0.00005e12}));
  CHECK(reproduces(achieved.value(), {3.2e12, 0.05e12}));  // stated
  CHECK(256_MiB == 2 * (std::int64_t{16384} * 4096 * 2) * 1_B);
}

TEST_CASE("S0-21: 3.16 of 3.35 TB/s are 94.3 % of the roof, which would take 80.13 us") {
  CHECK(reproduces(achieved_bandwidth(256_MiB, 85_us) / h100_bandwidth, {0.943, 0.0005}));
  CHECK(reproduces(microseconds(transfer_time(256_MiB, h100_bandwidth)), {80.13, 0.005}));
}

TEST_CASE("S0-22: a matrix product at 300 TFLOP/s has headroom, 30.3 % of the dense bf16 peak") {
  CHECK(reproduces(FlopsPerSecond(300e12) / h100_bf16, {0.303, 0.0005}));
}

TEST_CASE("S1-01: half of the peak is an MFU of 0.5, which the chapter's three measured times do not reach") {
  // A claim about effort; the times are those of S1-25.
  for (const double ms : {6.812, 4.231, 3.947}) {
    CHECK(flops_utilization(Flops(584.12e9), from_seconds(ms * 1e-3), a100_bf16) < 0.5);
  }
}

TEST_CASE("S1-09: at 70 to 85 % of 2 TB/s the fused example takes 79.0 to 95.9 us") {
  const Bytes fused = 4 * (32_MiB).value() * 1_B;
  CHECK(reproduces(microseconds(transfer_time(fused, BytesPerSecond(0.85 * 2e12))), {79.0, 0.05}));
  CHECK(reproduces(microseconds(transfer_time(fused, BytesPerSecond(0.70 * 2e12))), {95.9, 0.05}));
}

TEST_CASE(
    "S1-28: the decoder layer's 584.12 GFLOP take at least 1.872 ms at 312 TFLOP/s, MFU 27.5, 44.2 and 47.4 "
    "%") {
  const double tokens = 4 * 1024;
  const double d = 2048;
  const double ffn = 8192;
  const double qkv = 2 * tokens * d * 3 * d;
  const double out = 2 * tokens * d * d;
  const double attention = 2 * 2 * tokens * 1024 * d;
  const double feed_forward = 3 * 2 * tokens * d * ffn;
  const Flops work(qkv + out + attention + feed_forward);
  CHECK(reproduces(work.value(), {584.12e9, 0.005e9}));
  CHECK(reproduces(microseconds(compute_time(work, a100_bf16)), {1872, 0.5}));
  CHECK(reproduces(flops_utilization(work, from_seconds(6.812e-3), a100_bf16), {0.275, 0.0005}));
  CHECK(reproduces(flops_utilization(work, from_seconds(4.231e-3), a100_bf16), {0.442, 0.0005}));
  CHECK(reproduces(flops_utilization(work, from_seconds(3.947e-3), a100_bf16), {0.474, 0.0005}));
}

TEST_CASE("S4-05: a model at 10 to 20 % of peak does 99 to 198 TFLOP/s on an H100") {
  for (const double share : {0.10, 0.20}) {
    const FlopsPerSecond achieved(share * h100_bf16.value());
    CHECK(achieved / h100_bf16 == Approx(share));
    CHECK(achieved.value() >= 98.9e12);
    CHECK(achieved.value() <= 197.9e12);
  }
}

TEST_CASE(
    "S4-06: closing 60 to 80 % of the gap from 10 to 20 % of peak needs 4.2 to 6.4 times, not the stated 1.2 "
    "to 2") {
  const double low = 0.10 + 0.6 * 0.90;
  const double high = 0.20 + 0.8 * 0.80;
  CHECK(reproduces(low, {0.64, 0.0005}));
  CHECK(reproduces(high, {0.84, 0.0005}));
  CHECK(reproduces(low / 0.10, {6.4, 0.05}));
  CHECK(reproduces(high / 0.20, {4.2, 0.05}));
  const auto gap_closed = [](double start, double speedup) {
    return (start * speedup - start) / (1 - start);
  };
  CHECK(reproduces(gap_closed(0.10, 1.2), {0.02, 0.005}));
  CHECK(reproduces(gap_closed(0.20, 2.0), {0.25, 0.005}));
  for (const double speedup : {1.2, 1.3, 1.8, 2.0}) {
    CHECK_FALSE(gap_closed(0.10, speedup) >= 0.6);
    CHECK_FALSE(gap_closed(0.20, speedup) >= 0.6);
  }
  CHECK(gap_closed(0.20, 5.0) > 0.8);  // only the largest TensorRT figure gets there
}

TEST_CASE("S4-08: the H100's roofs meet at 295.3 FLOP/byte") {
  CHECK(reproduces(ridge_intensity(h100_bf16, h100_bandwidth), {295.3, 0.05}));
  CHECK(reproduces(ridge_intensity(h100_bf16, h100_bandwidth), {295, 0.5}));  // stated
  CHECK(reproduces(295 * h100_bandwidth.value(), {988.2e12, 0.1e12}));
}

TEST_CASE(
    "S4-09: a batch-1 bf16 matrix-vector product does 1 FLOP per byte, and reaches the ridge at batch 295") {
  const std::int64_t weights = 8192 * 8192;
  const auto intensity = [&](std::int64_t batch) {
    return arithmetic_intensity(Flops(2.0 * static_cast<double>(weights * batch)), Bytes(2 * weights));
  };
  const double ridge = ridge_intensity(h100_bf16, h100_bandwidth);
  CHECK(intensity(1) == 1);
  CHECK(intensity(1) < ridge);
  CHECK(intensity(295) < ridge);
  CHECK(intensity(296) > ridge);
}

TEST_CASE("S4-10: below 30 % SM utilisation suggests overhead, up to 80 % memory, above it compute") {
  // A rule of thumb: thresholds are parameters.
  CHECK(first_look(0.29) == FirstLook::Overhead);
  CHECK(first_look(0.30) == FirstLook::Memory);
  CHECK(first_look(0.80) == FirstLook::Memory);
  CHECK(first_look(0.81) == FirstLook::Compute);
  CHECK(first_look(0.45, {.overhead_below = 0.50}) == FirstLook::Overhead);
}

TEST_CASE("S4-60: weights alone allow 766 tok/s/GPU at batch 32 in bf16, not the stated 850 and 1,100") {
  const double weights_per_gpu = 70e9 * 2 / 2;  // bf16, two GPUs
  const double step = weights_per_gpu / h100_bandwidth.value();
  CHECK(reproduces(step * 1e3, {20.90, 0.005}));
  const double roof = 32 / step / 2;
  CHECK(reproduces(roof, {766, 0.5}));
  CHECK_FALSE(roof >= 850);
  CHECK_FALSE(roof >= 1100);
  CHECK(36 / step / 2 >= 850);  // batches that would do, with no other cost
  CHECK_FALSE(35 / step / 2 >= 850);
  CHECK(46 / step / 2 >= 1100);
  CHECK_FALSE(45 / step / 2 >= 1100);
}

TEST_CASE(
    "S4-61: weights alone allow 1,531 tok/s/GPU at batch 32 in FP8, not the stated 2,200; 4,400 need batch "
    "92") {
  const double bytes = 70e9;
  const double one_gpu = 32 / (bytes / h100_bandwidth.value());
  const double two_gpus = 32 / (bytes / 2 / h100_bandwidth.value()) / 2;
  CHECK(reproduces(one_gpu, {1531, 0.5}));
  CHECK(two_gpus == Approx(one_gpu));
  CHECK_FALSE(one_gpu >= 2200);
  CHECK(92 / (bytes / h100_bandwidth.value()) >= 4400);
  CHECK_FALSE(91 / (bytes / h100_bandwidth.value()) >= 4400);
  CHECK_FALSE(64 / (bytes / h100_bandwidth.value()) >= 4400);  // the build's largest batch
}

TEST_CASE("S4-78: 15 % SM utilisation reads as overhead, the target of 65 % does not") {
  CHECK(first_look(0.15) == FirstLook::Overhead);
  CHECK(first_look(0.65) == FirstLook::Memory);
}

TEST_CASE("S4-83: the worked example's 18 % SM utilisation reads as overhead") {
  CHECK(first_look(0.18) == FirstLook::Overhead);
}

TEST_CASE(
    "S4-84: prefill can do 7,059 tok/s/GPU at full peak, so 85,000 and 106,000 are 12 and 15 times too "
    "many") {
  const double flops_per_token = 2 * 70e9;
  const double roof = 295 * h100_bandwidth.value() / flops_per_token;
  CHECK(reproduces(roof, {7059, 0.5}));
  CHECK_FALSE(85'000 <= roof);
  CHECK_FALSE(106'000 <= roof);
  CHECK(reproduces(85'000 / roof, {12.0, 0.05}));
  // As an MFU: over one, which nothing can have.
  CHECK(flops_utilization(Flops(85'000 * flops_per_token), from_seconds(1), h100_bf16) > 1);
}

TEST_CASE("S4-94: 28 % SM utilisation after CUDA graphs still reads as overhead, which is not eliminated") {
  CHECK(first_look(0.28) == FirstLook::Overhead);
  CHECK_FALSE(first_look(0.28) == FirstLook::Memory);
}

TEST_CASE(
    "S4-95: the stated utilisations mean more busy time per token after each step, which fusion cannot do") {
  const auto busy_us = [](double utilization, double tokens_per_second) {
    return utilization / tokens_per_second * 1e6;
  };
  CHECK(reproduces(busy_us(0.18, 850), {212, 0.5}));
  CHECK(reproduces(busy_us(0.28, 1100), {255, 0.5}));
  CHECK(reproduces(busy_us(0.28, 1100) / busy_us(0.18, 850), {1.20, 0.005}));
  CHECK(reproduces(busy_us(0.28, 2860), {98, 0.5}));
  CHECK(reproduces(busy_us(0.72, 4400), {164, 0.5}));
  CHECK(reproduces(busy_us(0.72, 4400) / busy_us(0.28, 2860), {1.67, 0.005}));
  CHECK_FALSE(busy_us(0.28, 1100) <= busy_us(0.18, 850));
  CHECK_FALSE(busy_us(0.72, 4400) <= busy_us(0.28, 2860));
}

TEST_CASE(
    "S4-99: a share of at most 1 cannot give both x2 from faster products and +30 % from faster attention") {
  CHECK(overall_speedup(1, 2) == Approx(2));
  CHECK(overall_speedup(0.99, 2) < 2);  // x2 needs the whole step to be matrix products
  const auto share_for = [](double overall, double factor) { return (1 - 1 / overall) / (1 - 1 / factor); };
  CHECK(reproduces(share_for(1.3, 1.5), {0.692, 0.0005}));
  CHECK(reproduces(share_for(1.3, 1.3), {1, 1e-9}));
  CHECK_FALSE(share_for(2, 2) + share_for(1.3, 1.5) <= 1);
}

TEST_CASE(
    "D4-F1: 18 % utilisation and neither roof near: launches are the cost, and one CUDA graph removes them") {
  const Durations kernels = repeated(480, 1_us);
  const engine::Run eager = engine::run(eager_program(kernels, 5_us), ideal_machine());
  const engine::Run graph = engine::run(graph_program(kernels, 5_us), ideal_machine());
  CHECK(first_look(utilization(eager.totals)) == FirstLook::Overhead);
  CHECK(first_look(utilization(graph.totals)) == FirstLook::Compute);  // the device, at last, is the limit
}

TEST_CASE("D4-I2: 18, 13 and 11 ms are 1.385x and 1.636x, and 20 minutes of tuning pay after 600,000 calls") {
  CHECK(reproduces(18.0 / 13, {1.3846, 0.00005}));
  CHECK(reproduces(18.0 / 11, {1.6364, 0.00005}));
  CHECK(reproduces(13.0 / 11, {1.1818, 0.00005}));
  const Picoseconds tuning = 20 * 60 * 1000 * 1_ms;
  CHECK(break_even_calls(tuning, 13_ms - 11_ms) == 600'000);
  CHECK(break_even_calls(tuning, 18_ms - 11_ms) == 171'429);
  CHECK(break_even_calls(tuning, 0_ms) == std::nullopt);
  const double calls_per_hour = 1e6 / 24;
  CHECK(reproduces(600'000 / calls_per_hour, {14.4, 0.05}));
  CHECK(reproduces(171'429 / calls_per_hour, {4.114, 0.0005}));
}

TEST_CASE(
    "R-05: compute-bound above the ridge, memory-bound below, overhead-bound where launches take longer than "
    "both") {
  // A square product, a LayerNorm, 300 tiny kernels.
  const double n = 8192;
  const Flops product(2 * n * n * n);
  const Bytes operands(3 * 8192 * 8192 * 2);
  CHECK(arithmetic_intensity(product, operands) > ridge_intensity(h100_bf16, h100_bandwidth));
  CHECK(roofline_time(operands, h100_bandwidth, product, h100_bf16) == compute_time(product, h100_bf16));
  const Flops norm(8.0 * 16384 * 4096);
  CHECK(arithmetic_intensity(norm, 256_MiB) < ridge_intensity(h100_bf16, h100_bandwidth));
  CHECK(roofline_time(256_MiB, h100_bandwidth, norm, h100_bf16) == transfer_time(256_MiB, h100_bandwidth));
  const StepLength tiny = steady_step(repeated(300, 1_us), 6_us);
  CHECK(tiny.length > tiny.busy);
}

TEST_CASE(
    "R-06: removing the launches gains next to nothing with long kernels and launch / kernel with short "
    "ones") {
  const auto gain = [](Picoseconds d) {
    const Durations kernels = repeated(300, d);
    return seconds(engine::run_steady(eager_program(kernels, 6_us), ideal_machine()).period.wall) /
           seconds(engine::run_steady(graph_program(kernels, 6_us), ideal_machine()).period.wall);
  };
  CHECK(gain(500_us) == Approx(1).epsilon(1e-9));
  CHECK(gain(1_us) == Approx(6).epsilon(1e-9));
}

TEST_CASE(
    "R-07: batch-1 decode is memory-bound by its intensity and overhead-bound behind launches of 5 us") {
  const Picoseconds kernel =
      roofline_time(Bytes(2 * 1024 * 1024), h100_bandwidth, Flops(2.0 * 1024 * 1024), h100_bf16);
  CHECK(kernel == transfer_time(Bytes(2 * 1024 * 1024), h100_bandwidth));
  CHECK(kernel < 1_us);
  CHECK(first_look(
            utilization(engine::run(eager_program(repeated(300, kernel), 5_us), ideal_machine()).totals)) ==
        FirstLook::Overhead);
  const Picoseconds prefill =
      roofline_time(Bytes(3 * 8192 * 8192 * 2), h100_bandwidth, Flops(2.0 * 8192 * 8192 * 8192), h100_bf16);
  CHECK(first_look(
            utilization(engine::run(eager_program(repeated(300, prefill), 5_us), ideal_machine()).totals)) ==
        FirstLook::Compute);
}

TEST_CASE("R-08: a faster launch moves the overhead-bound step alone, a faster kernel the others alone") {
  const auto step = [](Picoseconds d, Picoseconds launch) {
    return engine::run_steady(eager_program(repeated(200, d), launch), ideal_machine()).period.wall / 200;
  };
  CHECK(step(1_us, 6_us) == 6_us);
  CHECK(step(1_us, 3_us) == 3_us);    // overhead-bound: the launch is the remedy
  CHECK(step(500_ns, 6_us) == 6_us);  // and a faster kernel is none
  CHECK(step(80_us, 6_us) == 80_us);
  CHECK(step(80_us, 3_us) == 80_us);  // device-bound: the launch is no remedy
  CHECK(step(40_us, 6_us) == 40_us);
}

TEST_CASE("R-09: after a CUDA graph the first look warns as long as utilisation is below 30 %") {
  CHECK(first_look(0.18) == FirstLook::Overhead);
  CHECK(first_look(0.28) == FirstLook::Overhead);
  CHECK(first_look(0.72) == FirstLook::Memory);
  CHECK(first_look(0.94) == FirstLook::Compute);
}

TEST_CASE("R-119: a kernel is judged by its bytes per second and its FLOP per second against the two roofs") {
  CHECK(reproduces(achieved_bandwidth(256_MiB, 85_us) / h100_bandwidth, {0.943, 0.0005}));
  CHECK(reproduces(achieved_flops(Flops(8.0 * 16384 * 4096), 85_us) / h100_bf16, {0.0064, 0.00005}));
  CHECK(reproduces(achieved_flops(Flops(300e12), from_seconds(1)) / h100_bf16, {0.303, 0.0005}));
}

}  // namespace
}  // namespace gpusim::test
