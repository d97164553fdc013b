// SPDX-License-Identifier: Apache-2.0
// The fast path and the event loop are two programs for one semantics.
#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/engine_compare.hpp"
#include "tests/support/random_program.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::Picoseconds;
using gpusim::test::difference;
using gpusim::test::random_program;
using gpusim::test::RandomProgram;
using gpusim::test::RandomProgramOptions;

/// How many of them took the fast path.
std::uint64_t compare(std::uint64_t first, std::uint64_t count, const RandomProgramOptions& options) {
  std::uint64_t fast = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const RandomProgram random = random_program(seed, options);
    const auto steps = static_cast<std::int64_t>(1 + seed % 3);
    if (const char* what = difference(random, steps)) FAIL("seed " << seed << ": " << what << " differ");
    if (takes_fast_path(random.program, random.machine)) ++fast;
  }
  return fast;
}

}  // namespace

TEST_CASE("The fast path and the event loop give the same bytes on 100,000 random programs",
          "[engine][one_pass]") {
  CHECK(compare(1'000'000, 60'000, {.copies = false, .threads_max = 1, .streams_max = 1}) == 60'000);
  CHECK(compare(2'000'000, 40'000, {.copies = false, .threads_max = 1, .streams_max = 4}) > 30'000);
  CHECK(compare(3'000'000, 10'000, {.distributions = true, .threads_max = 1, .streams_max = 3}) > 2'000);
}

TEST_CASE("The fast path blocks the host at the same calls as the event loop at every queue depth",
          "[engine][one_pass]") {
  // Two streams, launches much shorter than kernels, and kernels into the second one only now and then.
  RandomProgram many;
  many.program.names = {"op"};
  many.program.streams = {{"often", 0}, {"seldom", 0}};
  many.program.threads.resize(1);
  for (int i = 0; i < 5'000; ++i) {
    GpuOp op;
    op.duration = Picoseconds(1'000'000 + 1'000 * (i % 7));
    op.kind = i % 11 == 0 ? OpKind::Memset : OpKind::Kernel;
    many.program.threads[0].instructions.push_back({.call = Call::Launch,
                                                    .stream = static_cast<std::uint16_t>(i % 100 == 99),
                                                    .object = many.program.add(op, {.name = 0}),
                                                    .duration = Picoseconds(200'000),
                                                    .latency = Picoseconds(700'000)});
  }
  for (const std::int32_t depth : {1, 2, 31, 32, 33, 100, 1000, 1024, 1500, 2048, 3000, 1'000'000}) {
    many.machine.launch_queue_depth = depth;
    const char* what = difference(many, 2);
    INFO("depth " << depth);
    CHECK((what == nullptr ? std::string() : what) == std::string());
    CHECK(takes_fast_path(many.program, many.machine));
  }
}

TEST_CASE("The fast path leaves durations of seconds and times near the end of the clock to others",
          "[engine][one_pass]") {
  for (const std::int64_t seconds : {1, 2, 1'000'000, 2'000'000}) {
    RandomProgram slow;
    slow.program.names = {"op"};
    slow.program.streams = {{"0", 0}};
    slow.program.threads.resize(1);
    GpuOp op;
    op.duration = Picoseconds(1'000'000'000'000 * seconds);
    op.gap_before = seconds == 2 ? op.duration : gap_from_table;
    const Index index = slow.program.add(op, {.name = 0});
    for (int i = 0; i < 4; ++i)
      slow.program.threads[0].instructions.push_back({.call = Call::Launch,
                                                      .object = index,
                                                      .duration = Picoseconds(1'000'000),
                                                      .latency = Picoseconds(2'000'000)});
    INFO(seconds << " s");
    if (seconds < 1'000'000) {
      CHECK(difference(slow, 1) == nullptr);
    } else {
      CHECK_THROWS_AS(run(slow.program, slow.machine), TimeLimitError);
      CHECK_THROWS_AS(run_event_by_event(slow.program, slow.machine), TimeLimitError);
    }
  }
}
