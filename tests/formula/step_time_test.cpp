// SPDX-License-Identifier: Apache-2.0
// The step-time placeholder of the first chapter: every case three times, as the figure worked by hand, as
// the closed form and as a run of the engine. Equal to the picosecond.
#include <algorithm>
#include <optional>
#include <random>

#include "models/cost/launch_formulas.hpp"
#include "sim/engine/engine.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

struct StepCase {
  Durations kernels;
  Picoseconds launch{0};
  std::optional<Picoseconds> graph_launch;
  Picoseconds length{0};
  double utilization = 0;  ///< Six decimals.
};

void check_step(const StepCase& c) {
  const StepLength by_formula = isolated_step(c.kernels, c.launch, c.graph_launch);
  CHECK(by_formula.length == c.length);
  CHECK(reproduces(by_formula.utilization(), {c.utilization, 0.5e-6}));

  const engine::Program program =
      c.graph_launch ? graph_program(c.kernels, *c.graph_launch) : eager_program(c.kernels, c.launch);
  const engine::Run run = engine::run(program, ideal_machine());
  CHECK(run.totals.wall == c.length);
  CHECK(run.totals.busy == by_formula.busy);
  CHECK(run.totals.busy == run.totals.op_sum);
  CHECK(run.totals.wall == run.totals.busy + run.totals.idle_total());
  CHECK(reproduces(utilization(run.totals), {c.utilization, 0.5e-6}));

  const engine::Steady steady = engine::run_steady(program, ideal_machine());
  const StepLength period = steady_step(c.kernels, c.launch, c.graph_launch);
  CHECK(steady.exact);
  CHECK(steady.period.wall == steady.period.steps * period.length);
  CHECK(steady.period.busy == steady.period.steps * period.busy);
}

TEST_CASE("T1: 300 kernels of 3 us behind 6 us launches take 1803 us, busy 49.9168 %") {
  check_step({.kernels = repeated(300, 3_us),
              .launch = 6_us,
              .graph_launch = {},
              .length = 1803_us,
              .utilization = 0.499168});
}

TEST_CASE("T2: 300 kernels of 3 us in one CUDA graph launched in 6 us take 906 us, busy 99.3377 %") {
  check_step({.kernels = repeated(300, 3_us),
              .launch = 6_us,
              .graph_launch = 6_us,
              .length = 906_us,
              .utilization = 0.993377});
}

TEST_CASE("T3: 300 kernels of 1 us behind 6 us launches take 1801 us, busy 16.6574 %") {
  check_step({.kernels = repeated(300, 1_us),
              .launch = 6_us,
              .graph_launch = {},
              .length = 1801_us,
              .utilization = 0.166574});
}

TEST_CASE("T4: 300 kernels of 5 us behind 6 us launches take 1805 us, busy 83.1025 %") {
  check_step({.kernels = repeated(300, 5_us),
              .launch = 6_us,
              .graph_launch = {},
              .length = 1805_us,
              .utilization = 0.831025});
}

TEST_CASE("T5: 300 kernels as long as their 6 us launches take 1806 us, busy 99.6678 %") {
  check_step({.kernels = repeated(300, 6_us),
              .launch = 6_us,
              .graph_launch = {},
              .length = 1806_us,
              .utilization = 0.996678});
}

TEST_CASE("T6: five kernels of 10 us behind 6 us launches take 56 us, busy 89.2857 %") {
  check_step({.kernels = repeated(5, 10_us),
              .launch = 6_us,
              .graph_launch = {},
              .length = 56_us,
              .utilization = 0.892857});
}

TEST_CASE("T7: one kernel of 50 us among short ones hides the launches after it, 70 us, busy 77.1429 %") {
  check_step({.kernels = {1_us, 1_us, 50_us, 1_us, 1_us},
              .launch = 6_us,
              .graph_launch = {},
              .length = 70_us,
              .utilization = 0.771429});
}

TEST_CASE("T8: a kernel of 50 us before three short ones takes 59 us with them, busy 89.8305 %") {
  check_step({.kernels = {50_us, 1_us, 1_us, 1_us},
              .launch = 6_us,
              .graph_launch = {},
              .length = 59_us,
              .utilization = 0.898305});
}

TEST_CASE("T9: 140 kernels of 1 us behind 8 us launches take 1121 us, busy 12.4888 %") {
  check_step({.kernels = repeated(140, 1_us),
              .launch = 8_us,
              .graph_launch = {},
              .length = 1121_us,
              .utilization = 0.124888});
}

TEST_CASE("T10: the 140 kernels in one CUDA graph launched in 8 us take 148 us, busy 94.5946 %") {
  check_step({.kernels = repeated(140, 1_us),
              .launch = 8_us,
              .graph_launch = 8_us,
              .length = 148_us,
              .utilization = 0.945946});
}

TEST_CASE("T11: a CUDA-graph launch of 0 us counts as given, 3 us, always busy") {
  check_step(
      {.kernels = {1_us, 2_us}, .launch = 6_us, .graph_launch = 0_us, .length = 3_us, .utilization = 1});
}

TEST_CASE("T12: one kernel of 4 us behind a 6 us launch takes 10 us, busy 40 %") {
  check_step({.kernels = {4_us}, .launch = 6_us, .graph_launch = {}, .length = 10_us, .utilization = 0.4});
}

TEST_CASE("T13: free launches leave the sum of the kernels, 6 us, always busy") {
  check_step(
      {.kernels = {1_us, 2_us, 3_us}, .launch = 0_us, .graph_launch = {}, .length = 6_us, .utilization = 1});
}

TEST_CASE("T14: no kernels take no time and have utilisation 0") {
  check_step({.kernels = {}, .launch = 6_us, .graph_launch = {}, .length = 0_us, .utilization = 0});
  CHECK(isolated_step({}, 6_us, 6_us) == StepLength{});
}

TEST_CASE("T15: kernels of 1, 2, 3, 4, 5 us sixty times behind 6 us launches take 1805 us, busy 49.8615 %") {
  check_step({.kernels = cycled({1, 2, 3, 4, 5}, 60),
              .launch = 6_us,
              .graph_launch = {},
              .length = 1805_us,
              .utilization = 0.498615});
}

TEST_CASE("T16: the same in one CUDA graph launched in 6 us take 906 us, busy 99.3377 %") {
  check_step({.kernels = cycled({1, 2, 3, 4, 5}, 60),
              .launch = 6_us,
              .graph_launch = 6_us,
              .length = 906_us,
              .utilization = 0.993377});
}

TEST_CASE("R-03: each kernel starts at the later of its launch's end and its predecessor's end") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Durations kernels(random() % 40);
    for (Picoseconds& duration : kernels) duration = Picoseconds(random() % 20'000'000);
    const Picoseconds launch(random() % 12'000'000);
    const bool as_graph = random() % 4 == 0;
    const std::optional<Picoseconds> graph_launch =
        as_graph ? std::optional(Picoseconds(random() % 9'000'000)) : std::nullopt;
    const engine::Program program =
        graph_launch ? graph_program(kernels, *graph_launch) : eager_program(kernels, launch);
    engine::Timeline timeline;
    const engine::Run run = engine::run(program, ideal_machine(), 1, &timeline);
    // An empty CUDA graph is still launched; an empty step is nothing, by convention.
    if (!kernels.empty()) CHECK(run.totals.wall == isolated_step(kernels, launch, graph_launch).length);

    REQUIRE(timeline.ops.size() == kernels.size());
    Picoseconds previous_end{0};
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const Picoseconds issued = graph_launch ? *graph_launch : static_cast<std::int64_t>(i + 1) * launch;
      const engine::OpRecord& op = timeline.ops[i];
      REQUIRE(op.start == std::max(issued, previous_end));
      REQUIRE(op.end == op.start + kernels[i]);
      previous_end = op.end;
    }
  }
}

}  // namespace
}  // namespace gpusim::test
