// SPDX-License-Identifier: Apache-2.0
// SM active and occupancy, of one kernel and of a step.
#include "sim/engine/residency.hpp"

#include "sim/report/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim {
namespace {

using namespace gpusim::literals;
using engine::Footprint;
using engine::Residency;
using engine::SharingMachine;

/// 100 SMs of 2,048 threads: 64 warps each, 6,400 in all.
SharingMachine hundred_sms() {
  SharingMachine machine;
  machine.sms = 100;
  return machine;
}

TEST_CASE("25 blocks on 100 SMs keep a quarter of them active, and one of 128 threads fills 4 of 64 warps") {
  const Residency r = residency({.blocks = 25, .threads_per_block = 128}, hundred_sms());
  CHECK(r.sm_active == test::Approx(0.25));
  CHECK(r.occupancy == test::Approx(25.0 * 4 / 6400));
}

TEST_CASE("the last wave holds only the blocks that are left") {
  // 1,024 threads: two blocks an SM, 200 at once. 250 are a full wave and one of 50 blocks on 50 SMs.
  const Residency r = residency({.blocks = 250, .threads_per_block = 1024}, hundred_sms());
  CHECK(r.sm_active == test::Approx((1 + 0.5) / 2));
  CHECK(r.occupancy == test::Approx(250.0 * 32 / (2 * 6400)));
}

TEST_CASE("of more than four waves no tail is seen") {
  // 128 threads of few registers: 16 blocks an SM, 1,600 at once; 8,001 are five waves and one block.
  const Residency r = residency({.blocks = 8001, .threads_per_block = 128}, hundred_sms());
  CHECK(r.sm_active == 1);
  CHECK(r.occupancy == 1);
}

TEST_CASE("registers and shared memory keep warps off an SM") {
  // A product's block: 384 threads of 168 registers are 64,512 of 65,536, so one block an SM: 12 of 64 warps.
  CHECK(residency({.blocks = 100, .threads_per_block = 384, .registers_per_thread = 168}, hundred_sms())
            .occupancy == test::Approx(12.0 / 64));
  // 100 KiB, and one that CUDA keeps: two of them fit into 228 KiB.
  const Residency shared = residency(
      {.blocks = 1000, .threads_per_block = 128, .shared_memory_per_block = 100 * 1024}, hundred_sms());
  CHECK(shared.occupancy == test::Approx(2.0 * 4 / 64));
}

TEST_CASE("a memset of 1 MiB is 256 blocks of 256 threads") {
  const Residency r = engine::transfer_residency(1 << 20, hundred_sms());
  CHECK(r.sm_active == 1);
  CHECK(r.occupancy == test::Approx(256.0 * 8 / 6400));
}

/// Ten kernels of 3 us that keep half of the SMs active with a tenth of the warps, each launched by a call of
/// `call`.
report::VariantResult ten_kernels(Picoseconds call) {
  test::ProgramBuilder builder;
  builder.launch(builder.op("kernel", 3_us), 10, call);
  report::VariantResult result = test::simulated("only", std::move(builder.program));
  result.residency = {Residency{.sm_active = 0.5, .occupancy = 0.1}};
  return result;
}

TEST_CASE("a step that starves for launches has SM active and occupancy as low as its kernels are rare") {
  // 30 us of kernels in 60 us.
  const report::Metrics starved = report::metrics(ten_kernels(6_us));
  CHECK(starved.gpu_utilization == 0.5);
  CHECK(starved.sm_active.value() == test::Approx(0.25));
  CHECK(starved.occupancy.value() == test::Approx(0.05));
  // Launched faster than they run: back to back.
  const report::Metrics busy = report::metrics(ten_kernels(1_us));
  CHECK(busy.gpu_utilization == 1);
  CHECK(busy.sm_active.value() == test::Approx(0.5));
  CHECK(busy.occupancy.value() == test::Approx(0.1));
}

TEST_CASE("a kernel whose blocks are not known leaves SM active and occupancy unknown") {
  report::VariantResult result = ten_kernels(6_us);
  result.residency = {std::nullopt};
  CHECK_FALSE(report::metrics(result).sm_active);
  result.residency.clear();
  CHECK_FALSE(report::metrics(result).occupancy);
}

TEST_CASE("kernels beside each other keep no more SMs active than there are") {
  // Two kernels of 10 us at the same time, each on three quarters of the SMs.
  test::ProgramBuilder builder;
  builder.program.streams.push_back({"second", 0});
  const engine::Index op = builder.op("kernel", 10_us);
  builder.call(engine::Call::Launch, 0_us, op);
  builder.call(engine::Call::Launch, 0_us, op).stream = 1;
  builder.call(engine::Call::SynchronizeDevice, 0_us, 0);
  report::VariantResult result = test::simulated("only", std::move(builder.program));
  result.residency = {Residency{.sm_active = 0.75, .occupancy = 0.2}};
  const report::Metrics m = report::metrics(result);
  CHECK(m.step_time == 10_us);
  CHECK(m.sm_active.value() == test::Approx(1.0));
  CHECK(m.occupancy.value() == test::Approx(0.4));
  // On two devices there is no one share of the SMs.
  result.program.streams[1].device = 1;
  CHECK_FALSE(report::metrics(result).sm_active);
}

}  // namespace
}  // namespace gpusim
