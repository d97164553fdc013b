// SPDX-License-Identifier: Apache-2.0
// Many steps at the price of one period.
#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/random_program.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::test::ProgramBuilder;
using gpusim::test::random_program;
using gpusim::test::us;

bool equal(const Run& a, const Run& b) {
  return a.totals == b.totals && a.window == b.window && a.first_op_start == b.first_op_start &&
         a.last_op_end == b.last_op_end && a.peak_bytes == b.peak_bytes && a.final_bytes == b.final_bytes;
}

/// One kernel a step; the host takes `host`, the kernel `kernel`.
ProgramBuilder pair(gpusim::Picoseconds host, gpusim::Picoseconds kernel) {
  ProgramBuilder b;
  b.launch(b.op("k", kernel), host);
  return b;
}

}  // namespace

TEST_CASE("A thousand steps at the price of a period are those of the plain simulation",
          "[engine][period]") {
  int repeated = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const auto random = random_program(seed, {.instructions_max = 12});
    const auto steps = static_cast<std::int64_t>(1000 + seed % 7);
    const auto skipped = run_by_period(random.program, random.machine, steps, 2'000);
    if (!skipped) continue;
    ++repeated;
    if (!equal(*skipped, run_event_by_event(random.program, random.machine, steps))) FAIL("seed " << seed);
  }
  CHECK(repeated > 400);
}

TEST_CASE("A machine on which something has not happened yet repeats all the same", "[engine][period]") {
  // Times that never were stand at the smallest time there is; they must not count as moving away from now.
  for (const std::uint64_t seed : {10'008u, 10'044u, 10'117u}) {
    INFO("seed " << seed);
    const auto random = random_program(seed, {.distributions = false});
    CHECK(run_steady(random.program, random.machine, {.steps_max = 50, .instructions_max = 100}).exact);
    const auto skipped = run_by_period(random.program, random.machine, 1000, 2'000);
    REQUIRE(skipped);
    CHECK(equal(*skipped, run_event_by_event(random.program, random.machine, 1000)));
  }
}

TEST_CASE("A billion steps are a billion periods", "[engine][period]") {
  const std::int64_t n = 1'000'000'000;
  const Run host_bound = run(pair(us(6), us(2)).program, Machine{}, n);
  CHECK(host_bound.totals.wall == n * us(6) + us(2));
  CHECK(host_bound.totals.busy == n * us(2));
  CHECK(host_bound.totals.counts.kernels == n);
  CHECK(host_bound.totals.steps == n);
  CHECK(host_bound.last_op_end == host_bound.totals.wall);
  const Run device_bound = run(pair(us(2), us(6)).program, Machine{}, n);
  CHECK(device_bound.totals.wall == us(2) + n * us(6));
}

TEST_CASE("A device that falls behind by 0.1 us a step is right at 1, 10^5, 10^6 and 10^8 steps",
          "[engine][period]") {
  const ProgramBuilder b = pair(us(100), us(100.1));
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{100'000}, std::int64_t{1'000'000},
                               std::int64_t{100'000'000}}) {
    const Run run = gpusim::engine::run(b.program, Machine{}, n);
    CHECK(run.totals.wall == us(100) + n * us(100.1));
    CHECK(run.totals.busy == n * us(100.1));
    // The host is ahead by 0.1 us a step until the queue holds 1024 kernels and blocks it: the launch of kernel k
    // ends at 100 k, or when kernel k - 1024 starts.
    const std::int64_t free_steps = 1'024 * 1'001;
    CHECK((run.totals.host_blocked_queue > us(0)) == (n > free_steps));
  }
  const Run slower_host = gpusim::engine::run(pair(us(100.1), us(100)).program, Machine{}, 1'000'000);
  CHECK(slower_host.totals.wall == 1'000'000 * us(100.1) + us(100));
  CHECK(slower_host.totals.host_blocked_queue == us(0));
}

TEST_CASE("A leak grows with the steps that are left out", "[engine][period]") {
  ProgramBuilder b = pair(us(6), us(2));
  b.program.sizes = {1000, 400};
  b.add({.call = Call::Allocate, .object = 0, .duration = us(1)});
  b.add({.call = Call::Free, .object = 1, .duration = us(1)});
  const auto skipped = run_by_period(b.program, Machine{}, 5'000, 10'000);
  REQUIRE(skipped);
  CHECK(equal(*skipped, run_event_by_event(b.program, Machine{}, 5'000)));
  CHECK(skipped->final_bytes == 5'000 * 600);
  CHECK(skipped->peak_bytes == 4'999 * 600 + 1000);
}
