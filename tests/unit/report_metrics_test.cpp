// SPDX-License-Identifier: Apache-2.0
#include "sim/report/metrics.hpp"

#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;
using engine::IdleCause;

VariantResult with_period(std::int64_t steps, Picoseconds busy,
                          std::array<Picoseconds, engine::idle_cause_count> idle) {
  VariantResult result;
  result.steady.exact = true;
  engine::Totals& totals = result.steady.period;
  totals.steps = steps;
  totals.busy = busy;
  totals.idle = idle;
  totals.wall = busy + totals.idle_total();
  return result;
}

/// A kernel that runs alone, back to back, on a device with 1 PFLOP/s and 4 TB/s.
VariantResult busy_with(const std::string& name, Picoseconds duration, std::int64_t bytes, double flops) {
  test::ProgramBuilder builder;
  builder.launch(builder.op(name, duration, bytes, flops), 10, duration / 2);
  VariantResult result = test::simulated("only", std::move(builder.program));
  result.device.peak = FlopsPerSecond(1e15);
  result.device.bandwidth = BytesPerSecond(4e12);
  return result;
}

TEST_CASE("per-step parts add up to the rounded step time when a period spans several steps") {
  for (std::int64_t steps = 1; steps <= 12; ++steps)
    for (std::int64_t part = 0; part < 40; ++part) {
      const Metrics m = metrics(with_period(steps, Picoseconds(1000 + part),
                                            {Picoseconds(part), Picoseconds(2 * part + 1), Picoseconds(5),
                                             Picoseconds(7), Picoseconds(part / 2), Picoseconds(1)}));
      CAPTURE(steps, part);
      CHECK(m.gpu_busy + m.idle_total() == m.step_time);
      const std::int64_t whole = 1000 + part + part + 2 * part + 1 + 5 + 7 + part / 2 + 1;
      CHECK(std::abs(static_cast<double>(m.step_time.count()) -
                     static_cast<double>(whole) / static_cast<double>(steps)) <= 0.5);
      for (const Picoseconds idle : m.idle) CHECK(idle.count() >= 0);
    }
}

TEST_CASE("a cause that takes no time gets none from rounding") {
  const Metrics m = metrics(with_period(
      3, Picoseconds(100),
      {Picoseconds(0), Picoseconds(1), Picoseconds(0), Picoseconds(1), Picoseconds(0), Picoseconds(0)}));
  CHECK(m.idle_by(IdleCause::Event).count() == 0);
  CHECK(m.idle_by(IdleCause::LaunchLatency).count() == 0);
  CHECK(m.idle_by(IdleCause::Dispatch).count() == 0);
  CHECK(m.idle_by(IdleCause::Input).count() == 0);
}

TEST_CASE("a traced window of three steps is divided by three") {
  VariantResult result = with_period(1, 900_us, {});
  result.steps_per_program = 3;
  result.steady.period.counts.kernels = 30;
  result.steady.period.counts.kernel_launches = 31;
  const Metrics m = metrics(result);
  CHECK(m.step_time == 300_us);
  CHECK(m.kernels == 10);
  CHECK(m.kernel_launches == test::Approx(31.0 / 3));
  CHECK(m.period_steps == 3);
}

TEST_CASE("without a steady state the step time is the mean of the simulated steps and is marked") {
  VariantResult result;
  result.isolated.totals.steps = 4;
  result.isolated.totals.busy = 400_us;
  result.isolated.totals.wall = 400_us;
  const Metrics m = metrics(result);
  CHECK_FALSE(m.steady);
  CHECK(m.step_time == 100_us);
  CHECK(m.makespan == 400_us);
}

TEST_CASE("300 kernels of 3 us launched every 6 us take 1803 us from idle and 1800 us in the steady state") {
  const Metrics m = metrics(test::many_small_kernels());
  CHECK(m.makespan == 1803_us);
  CHECK(m.steady);
  CHECK(m.step_time == 1800_us);
  CHECK(m.gpu_busy == 900_us);
  CHECK(m.gpu_utilization == 0.5);
  CHECK(m.idle_total() == 900_us);
  CHECK(m.window.wall == 1797_us);
  CHECK(m.window.busy == 900_us);
  CHECK(m.window.idle == 897_us);
  CHECK(m.kernels == 300);
  CHECK(m.kernel_launches == 300);
  CHECK(m.regime == Regime::Overhead);
}

TEST_CASE("MFU is model FLOPs over step time and peak") {
  VariantResult result = with_period(1, 1_ms, {});
  result.device.peak = FlopsPerSecond(1e15);
  result.model_flops = Flops(4e11);
  CHECK(metrics(result).mfu == test::Approx(0.4));
}

TEST_CASE("what is not known is not guessed") {
  const Metrics m = metrics(test::many_small_kernels());
  CHECK_FALSE(m.mfu);
  CHECK_FALSE(m.hfu);
  CHECK_FALSE(m.model_flops);
  CHECK_FALSE(m.hbm_bytes);
  CHECK_FALSE(m.tokens_per_second);
}

TEST_CASE("HFU is unknown where the kernels' FLOPs do not cover the model's") {
  VariantResult result = busy_with("gemm", 100_us, 0, 5e10);
  result.model_flops = Flops(5e11);
  CHECK(metrics(result).hfu == test::Approx(0.5));
  result.model_flops = Flops(6e11);
  CHECK_FALSE(metrics(result).hfu);
}

TEST_CASE("memory traffic is known only if every op's is") {
  test::ProgramBuilder builder;
  builder.launch(builder.op("known", 5_us, 1000), 2, 1_us);
  CHECK(metrics(test::simulated("a", builder.program)).hbm_bytes == 2000.0);
  builder.launch(builder.op("unknown", 5_us), 1, 1_us);
  CHECK_FALSE(metrics(test::simulated("b", builder.program)).hbm_bytes);
}

TEST_CASE("a kernel at 94 % of the bandwidth makes the step memory-bound") {
  // 256 MiB in 71.4 us at 4 TB/s.
  CHECK(metrics(busy_with("layer_norm", 71'390'000_ps, 268'435'456, 1e6)).regime == Regime::Memory);
}

TEST_CASE("a large matrix product makes the step compute-bound") {
  CHECK(metrics(busy_with("gemm", 200_us, 100'000'000, 1.4e11)).regime == Regime::Compute);
}

TEST_CASE("kernels at a tenth of both roofs are overhead") {
  CHECK(metrics(busy_with("tiny", 10_us, 4'000'000, 1e9)).regime == Regime::Overhead);
}

TEST_CASE("a step of collectives is communication-bound whatever their bytes") {
  CHECK(metrics(busy_with("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100_us, 390'000'000, 0)).regime ==
        Regime::Communication);
}

TEST_CASE("a busy GPU whose kernels are not known is mixed") {
  CHECK(metrics(busy_with("something", 10_us, 0, 0)).regime == Regime::Mixed);
}

TEST_CASE("waiting for input alone is not overhead") {
  VariantResult result = with_period(1, 100_us, {0_us, 0_us, 0_us, 0_us, 0_us, 900_us});
  CHECK(metrics(result).regime == Regime::Mixed);
  result = with_period(1, 100_us, {0_us, 0_us, 0_us, 0_us, 50_us, 0_us});
  CHECK(metrics(result).regime == Regime::Overhead);
  result = with_period(1, 100_us, {0_us, 0_us, 0_us, 0_us, 49'999'999_ps, 0_us});
  CHECK(metrics(result).regime == Regime::Mixed);
}

TEST_CASE("kernels rank by total time, equal ones by name") {
  test::ProgramBuilder builder;
  builder.launch(builder.op("b", 2_us), 3, 1_us);
  builder.launch(builder.op("a", 3_us), 2, 1_us);
  builder.launch(builder.op("c", 7_us), 1, 1_us);
  const KernelRanking ranking = rank_kernels(test::simulated("x", builder.program));
  REQUIRE(ranking.kernels.size() == 3);
  CHECK(ranking.kernels[0].name == "c");
  CHECK(ranking.kernels[1].name == "a");
  CHECK(ranking.kernels[2].name == "b");
  CHECK(ranking.kernels[2].count == 3);
  CHECK(ranking.kernels[2].mean() == 2_us);
  CHECK(ranking.total == 19_us);
}

TEST_CASE("the ranking from the program equals the one from the timeline") {
  VariantResult result = test::one_cuda_graph();
  const KernelRanking from_timeline = rank_kernels(result);
  result.timeline.reset();
  const KernelRanking from_program = rank_kernels(result);
  REQUIRE(from_program.kernels.size() == 1);
  CHECK(from_program.kernels[0].count == 300);
  CHECK(from_program.kernels[0].total == from_timeline.kernels[0].total);
  CHECK(from_program.total == from_timeline.total);
}

TEST_CASE("256 MiB in 85 us on 3.35 TB/s reach 94.3 % of the memory roof") {
  VariantResult result = busy_with("layer_norm", 85_us, 268'435'456, 0);
  result.device.bandwidth = BytesPerSecond(3.35e12);
  const KernelRanking ranking = rank_kernels(result);
  REQUIRE(ranking.kernels[0].memory_share);
  CHECK(*ranking.kernels[0].memory_share == test::Approx(0.943).margin(0.0005));
  CHECK(ranking.kernels[0].bound == Bound::Memory);
}

TEST_CASE("a figure is found by its JSON path and without its unit") {
  const Metrics m = metrics(test::many_small_kernels());
  CHECK(find_field(m, "step_time_us") == Value(m.step_time));
  CHECK(find_field(m, "step_time") == Value(m.step_time));
  CHECK(find_field(m, "idle_us.dispatch") == Value(m.idle_by(IdleCause::Dispatch)));
  CHECK(find_field(m, "idle.dispatch") == Value(m.idle_by(IdleCause::Dispatch)));
  CHECK(find_field(m, "window.wall") == Value(m.window.wall));
  CHECK(find_field(m, "kernels") == Value(std::int64_t{300}));
  CHECK(find_field(m, "mfu") == Value());
  CHECK(find_field(m, "peak_memory") == Value(std::int64_t{0}));
  CHECK(find_field(m, "regime") == Value(std::string("overhead")));
  CHECK_FALSE(find_field(m, "step_tim"));
  CHECK_FALSE(find_field(m, ""));
}

TEST_CASE("no two figures share a path, nor a path without units") {
  std::set<std::string> paths;
  for (const Field& field : fields(Metrics{})) CHECK(paths.insert(field.path).second);
}

}  // namespace
}  // namespace gpusim::report
