// SPDX-License-Identifier: Apache-2.0
// Programs whose times are set by axes.
#include "models/units/quantity.hpp"
#include "sim/engine/engine.hpp"
#include "sim/sweep/knobs.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::literals;
using gpusim::sweep::Built;
using gpusim::sweep::Knobs;
using Values = std::vector<std::uint32_t>;

namespace {

/// Two kernels, each launched twice; calls and durations as given.
Built step(Picoseconds call, Picoseconds first, Picoseconds second) {
  Built built;
  engine::Program& program = built.program;
  program.names = {"k"};
  program.streams = {{"default", 0}};
  program.threads.push_back({"main", {}, {}});
  for (const Picoseconds duration : {first, second}) {
    engine::GpuOp op;
    op.duration = duration;
    engine::OpInfo info;
    info.name = 0;
    program.add(op, info);
  }
  for (const engine::Index op : {0U, 1U, 0U, 1U}) {
    engine::Instruction launch;
    launch.call = engine::Call::Launch;
    launch.object = op;
    launch.duration = call;
    launch.latency = call;
    program.threads.front().add(launch);
  }
  return built;
}

}  // namespace

TEST_CASE("A program is put together from what each axis changes") {
  // Axis 0: launches of 1, 2, 3 us. Axis 1: the second kernel takes 5 or 7 us. The base has 2 us and 5 us.
  Knobs knobs(step(2_us, 4_us, 5_us), Values{3, 2}, Values{1, 0});
  for (std::uint32_t i = 0; i < 3; ++i)
    REQUIRE(knobs.add(0, i, step(Picoseconds(1'000'000) * (i + 1), 4_us, 5_us)));
  REQUIRE(knobs.add(1, 0, step(2_us, 4_us, 5_us)));
  REQUIRE(knobs.add(1, 1, step(2_us, 4_us, 7_us)));
  REQUIRE(knobs.finish());
  Knobs::Setting setting(knobs);
  for (const auto& [call, second] : {std::pair(2U, 1U), {0U, 0U}, {0U, 1U}, {1U, 0U}, {2U, 0U}}) {
    const Built expected = step(Picoseconds(1'000'000) * (call + 1), 4_us, second == 1 ? 7_us : 5_us);
    const Built& built = setting.set(Values{call, second});
    CHECK(same_times(built, expected));
    CHECK(engine::run(built.program, built.machine).totals ==
          engine::run(expected.program, expected.machine).totals);
  }
}

TEST_CASE("Two axes that change one op have no knobs") {
  Knobs knobs(step(2_us, 4_us, 5_us), Values{2, 2}, Values{0, 0});
  REQUIRE(knobs.add(0, 0, step(2_us, 4_us, 5_us)));
  REQUIRE(knobs.add(0, 1, step(2_us, 4_us, 6_us)));
  REQUIRE(knobs.add(1, 0, step(2_us, 4_us, 5_us)));
  REQUIRE(knobs.add(1, 1, step(2_us, 4_us, 9_us)));
  CHECK_FALSE(knobs.finish());
}

TEST_CASE("Another number of launches is another program, not another time") {
  Knobs knobs(step(2_us, 4_us, 5_us), Values{2}, Values{0});
  Built more = step(2_us, 4_us, 5_us);
  more.program.threads.front().add(more.program.threads.front().instructions.front());
  REQUIRE(knobs.add(0, 0, step(2_us, 4_us, 5_us)));
  CHECK_FALSE(knobs.add(0, 1, more));
}

TEST_CASE("Values that cannot be built are not known, the others are") {
  Knobs knobs(step(2_us, 4_us, 5_us), Values{3}, Values{1});
  knobs.add_broken(0, 0);
  REQUIRE(knobs.add(0, 1, step(2_us, 4_us, 5_us)));
  REQUIRE(knobs.add(0, 2, step(3_us, 4_us, 5_us)));
  REQUIRE(knobs.finish());
  CHECK_FALSE(knobs.known(Values{0}));
  CHECK(knobs.known(Values{2}));
  Knobs::Setting setting(knobs);
  CHECK(same_times(setting.set(Values{2}), step(3_us, 4_us, 5_us)));
}

TEST_CASE("Instructions that move apart at a later value are told apart") {
  const auto with_calls = [](Picoseconds even, Picoseconds odd) {
    Built built = step(even, 4_us, 5_us);
    for (std::size_t i = 1; i < 4; i += 2) built.program.threads.front().instructions[i].duration = odd;
    return built;
  };
  Knobs knobs(with_calls(1_us, 1_us), Values{3}, Values{0});
  REQUIRE(knobs.add(0, 0, with_calls(1_us, 1_us)));
  REQUIRE(knobs.add(0, 1, with_calls(2_us, 2_us)));
  REQUIRE(knobs.add(0, 2, with_calls(3_us, 9_us)));
  REQUIRE(knobs.finish());
  Knobs::Setting setting(knobs);
  CHECK(same_times(setting.set(Values{2}), with_calls(3_us, 9_us)));
  CHECK(same_times(setting.set(Values{1}), with_calls(2_us, 2_us)));
  CHECK(same_times(setting.set(Values{0}), with_calls(1_us, 1_us)));
}
