// SPDX-License-Identifier: Apache-2.0
// The engine's rules, one by one. Times in microseconds.
#include "sim/engine/engine.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/timeline.hpp"

namespace {

using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using gpusim::test::us;
using namespace gpusim::engine;

}  // namespace

TEST_CASE("A kernel starts when its launch has arrived and not a picosecond earlier", "[engine]") {
  ProgramBuilder b;
  b.launch(b.op("k", us(1)), us(4), us(5.5), 0);
  Timeline timeline;
  gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  REQUIRE(timeline.ops.size() == 1);
  CHECK(timeline.ops[0].start == us(5.5));
  CHECK(timeline.ops[0].end == us(6.5));
  CHECK(timeline.call(timeline.ops[0].call).start == us(0));
}

TEST_CASE("Two kernels of one stream run one after the other, of two streams at once", "[engine]") {
  const auto second_stream = static_cast<std::uint16_t>(GENERATE(0, 1));
  ProgramBuilder b(1, 2);
  const Index k = b.op("k", us(10));
  b.launch(k, us(1), 0);
  b.launch(k, us(1), second_stream);
  CHECK(gpusim::engine::run(b.program, Machine{}).totals.wall == us(second_stream == 0 ? 21 : 12));
}

TEST_CASE("A full launch queue blocks the host until an entry starts", "[engine]") {
  // Depth 2, kernels of 10, calls of 1: k0 starts at 1; k1, k2 wait; the call of k3 (3..4) finds two waiting
  // and returns when k1 starts at 11.
  Machine machine;
  machine.launch_queue_depth = 2;
  ProgramBuilder b;
  const Index k = b.op("k", us(10));
  for (int i = 0; i < 5; ++i) b.launch(k, us(1));
  Timeline timeline;
  const Run run = gpusim::engine::run(b.program, machine, 1, &timeline);
  CHECK(gpusim::test::calls_of(timeline)[2].end == us(3));
  CHECK(gpusim::test::calls_of(timeline)[3].end == us(11));
  CHECK(gpusim::test::calls_of(timeline)[4].end == us(21));
  CHECK(run.queue_length_max == 2);
  CHECK(run.totals.host_blocked_queue == us(7 + 9));
  CHECK(run.totals.wall == us(51));
}

TEST_CASE("A waiting event holds a place in the launch queue, an attached one does not", "[engine]") {
  const bool attached = GENERATE(false, true);
  Machine machine;
  machine.launch_queue_depth = 2;
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  const Index k = b.op("k", us(10));
  b.launch(k, us(0), 0);
  b.record(event, 0);
  b.launch(k, us(0), 1);       // runs at once
  b.wait(event, 1, attached);  // place 1 of 2, or none
  b.launch(k, us(0), 1);       // place 2 of 2, or 1 of 2
  b.launch(k, us(0), 1);       // blocks, or takes place 2 of 2
  Timeline timeline;
  gpusim::engine::run(b.program, machine, 1, &timeline);
  CHECK(gpusim::test::calls_of(timeline).back().end == us(attached ? 0 : 10));
}

TEST_CASE("A programmatic kernel starts before its predecessor ends, never before it starts", "[engine]") {
  Machine machine;
  machine.gap[0][1] = us(-0.8);
  ProgramBuilder b;
  const Index first = b.op("first", us(GENERATE(5.0, 0.5)), 0);
  const Index second = b.op("second", us(3), 1);
  b.launch(first, us(1));
  b.launch(second, us(0));
  Timeline timeline;
  gpusim::engine::run(b.program, machine, 1, &timeline);
  const Picoseconds expected = std::max(timeline.ops[0].start, timeline.ops[0].end - us(0.8));
  CHECK(timeline.ops[1].start == expected);
  CHECK(lanes(b.program, timeline)[1] == 1);
}

TEST_CASE("The branches of a CUDA graph run at once and the graph ends with the longest", "[engine]") {
  //      a 2 -> b 10 -> d 1
  //          -> c 3  ->
  ProgramBuilder b;
  const Index a = b.op("a", us(2)), x = b.op("b", us(10)), c = b.op("c", us(3)), d = b.op("d", us(1));
  b.program.graphs.push_back({.name = 0, .nodes = {{a, {}}, {x, {0}}, {c, {0}}, {d, {1, 2}}}});
  b.launch_graph(0, us(1));
  b.launch_graph(0, us(1));
  Timeline timeline;
  const Run run = gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  REQUIRE(timeline.ops.size() == 8);
  CHECK(timeline.ops[1].start == us(3));
  CHECK(timeline.ops[2].start == us(3));
  CHECK(lanes(b.program, timeline)[2] == 1);
  CHECK(timeline.ops[3].start == us(13));
  CHECK(timeline.ops[4].start == us(14));  // two replays never overlap
  CHECK(run.totals.wall == us(27));
  CHECK(run.totals.busy == us(26));
  CHECK(run.totals.op_sum == us(32));
}

TEST_CASE("An asynchronous copy lets the host go on, a blocking one holds it", "[engine]") {
  const bool blocking = GENERATE(false, true);
  ProgramBuilder b;
  const Index copy = b.op("copy", us(20));
  b.program.ops[copy].kind = OpKind::Memcpy;
  b.program.ops[copy].copy_engine = CopyEngine::DeviceToHost;
  auto& launch = b.launch(copy, us(2));
  launch.blocking = blocking;
  launch.return_latency = us(3);
  b.work(us(1));
  Timeline timeline;
  gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  CHECK(gpusim::test::calls_of(timeline).back().start == us(blocking ? 25 : 2));
}

TEST_CASE("Copies of one direction take turns on their engine, of two directions run at once", "[engine]") {
  const bool same = GENERATE(false, true);
  ProgramBuilder b(1, 2);
  const Index up = b.op("up", us(10)), down = b.op("down", us(10));
  for (const Index copy : {up, down}) {
    b.program.ops[copy].kind = OpKind::Memcpy;
    b.program.ops[copy].copy_engine = CopyEngine::HostToDevice;
  }
  if (!same) b.program.ops[down].copy_engine = CopyEngine::DeviceToHost;
  b.launch(up, us(1), 0);
  b.launch(down, us(1), 1);
  CHECK(gpusim::engine::run(b.program, Machine{}).totals.wall == us(same ? 21 : 12));
}

TEST_CASE("A wait takes the latest record called before it", "[engine]") {
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  b.launch(b.op("a", us(10)), us(0), 0);
  b.record(event, 0);
  b.wait(event, 1);  // the record after a
  b.launch(b.op("b", us(100)), us(0), 0);
  b.record(event, 0);
  b.launch(b.op("c", us(1)), us(0), 1);
  Timeline timeline;
  gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  CHECK(timeline.ops.back().start == us(10));
}

TEST_CASE("A wait before its own thread's first record waits for nothing, as in CUDA", "[engine]") {
  ProgramBuilder b(1, 2);
  const Index event = b.event("buffer free");
  b.wait(event, 1);
  b.launch(b.op("use", us(5)), us(0), 1);
  b.record(event, 1);
  CHECK(gpusim::engine::run(b.program, Machine{}).totals.wall == us(5));
  // From the second step on it waits for the record of the step before.
  CHECK(gpusim::engine::run(b.program, Machine{}, 3).totals.wall == us(15));
}

TEST_CASE("A wait for an event that nobody records is a deadlock that names both", "[engine]") {
  ProgramBuilder b(1, 2);
  const Index event = b.event("never");
  b.program.streams[1].name = "side";
  b.wait(event, 1);
  b.launch(b.op("k", us(5)), us(2), 1);
  b.synchronize_stream(1);
  using gpusim::test::ContainsSubstring;
  CHECK_THROWS_WITH(
      gpusim::engine::run(b.program, Machine{}),
      ContainsSubstring("stream 'side' (2 entries) waits for event 'never', which nobody records, "
                        "as host thread 'thread0' (step 0, instruction 0) asked") &&
          ContainsSubstring("host thread 'thread0' (step 0, instruction 2) synchronizes with stream 'side'"));
  CHECK_THROWS_AS(run_steady(b.program, Machine{}), DeadlockError);
}

TEST_CASE("A thread that records an event itself does not wait for another's record of it", "[engine]") {
  ProgramBuilder b(2, 2);
  const Index event = b.event("e");
  b.wait(event, 0);
  b.launch(b.op("k", us(5)), us(0), 0);
  b.record(event, 0);
  b.thread = 1;
  b.work(us(50));
  b.record(event, 1);
  CHECK(gpusim::engine::run(b.program, Machine{}).totals.counts.kernels == 1);
}

TEST_CASE("The first thread that does anything marks the steps", "[engine][steady]") {
  ProgramBuilder b(2, 1);
  b.thread = 1;
  b.launch(b.op("k", us(10)), us(2));
  const Steady steady = run_steady(b.program, Machine{});
  CHECK(steady.exact);
  CHECK(steady.period.wall == us(10));
  CHECK(steady.period.counts.kernels == 1);
}

TEST_CASE("Time beyond the clock is an error, never a wrapped number", "[engine]") {
  ProgramBuilder b;
  const Index k = b.op("k", Picoseconds(std::int64_t{1} << 60));
  b.launch(k, us(1));
  CHECK(gpusim::engine::run(b.program, Machine{}).totals.busy.count() == std::int64_t{1} << 60);
  CHECK_THROWS_AS(gpusim::engine::run(b.program, Machine{}, 1000), TimeLimitError);
  b.program.ops[k].duration = time_max + Picoseconds(1);
  CHECK_THROWS_AS(gpusim::engine::run(b.program, Machine{}), TimeLimitError);
}

TEST_CASE("Two threads that await each other are a deadlock that names both", "[engine]") {
  ProgramBuilder b(2, 1);
  const Index x = b.signal("x"), y = b.signal("y");
  b.await(x);
  b.signal_to(y);
  b.thread = 1;
  b.await(y);
  b.signal_to(x);
  using gpusim::test::ContainsSubstring;
  CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}),
                    ContainsSubstring("'thread0' (step 0, instruction 0) awaits signal 'x'") &&
                        ContainsSubstring("'thread1' (step 0, instruction 0) awaits signal 'y'"));
}

TEST_CASE("Memory is counted when the call returns, and the peak is kept", "[engine]") {
  ProgramBuilder b;
  b.program.sizes = {100, 50, 20};
  b.add({.call = Call::Allocate, .object = 0, .duration = us(1)});
  b.add({.call = Call::Allocate, .object = 1, .duration = us(1)});
  b.add({.call = Call::Free, .object = 0, .duration = us(1)});
  b.add({.call = Call::Allocate, .object = 2, .duration = us(1)});
  Timeline timeline;
  const Run run = gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  CHECK(run.peak_bytes == 150);
  CHECK(run.final_bytes == 70);
  REQUIRE(timeline.memory.size() == 4);
  CHECK(timeline.memory[1].at == us(2));
  CHECK(timeline.memory[1].bytes == 150);
  // A step that leaks is steady in time all the same.
  CHECK(run_steady(b.program, Machine{}).exact);
}

TEST_CASE("A launch-bound step repeats with the host's period, a device-bound one with the device's",
          "[engine][steady]") {
  const double kernel = GENERATE(1.0, 3.0, 6.0, 7.0, 20.0);
  ProgramBuilder b;
  const Index k = b.op("k", us(kernel));
  for (int i = 0; i < 300; ++i) b.launch(k, us(6));
  const Steady steady = run_steady(b.program, Machine{});
  CHECK(steady.exact);
  CHECK(steady.period.steps == 1);
  CHECK(steady.period.wall == us(300 * std::max(kernel, 6.0)));
  CHECK(steady.period.busy == us(300 * kernel));
  CHECK(steady.period.idle[static_cast<std::size_t>(IdleCause::Dispatch)] ==
        us(300 * std::max(0.0, 6 - kernel)));
}

TEST_CASE("A period may span several steps", "[engine][steady]") {
  // Two streams of different speed behind short queues: the host is blocked by one and then the other.
  Machine machine;
  machine.launch_queue_depth = 3;
  ProgramBuilder b(1, 2);
  const Index k = b.op("k", us(7)), l = b.op("l", us(5));
  b.launch(k, us(1), 0);
  b.launch(l, us(2), 1);
  b.work(us(1));
  const Steady steady = run_steady(b.program, machine);
  CHECK(steady.exact);
  CHECK(steady.period.wall == us(7) * steady.period.steps);
}

TEST_CASE("A slow drift is not taken for a period", "[engine][steady]") {
  // Host 100.0 us, device 100.1 us a step: it looks periodic until the queue is full, with 1024 places after
  // a million steps. Nothing is faster than the device, and a queue of two places shows that it can keep its
  // pace.
  ProgramBuilder b;
  b.launch(b.op("k", us(100.1)), us(100));
  const Steady steady = run_steady(b.program, Machine{});
  CHECK(steady.exact);
  CHECK(steady.period.wall == us(100.1) * steady.period.steps);
  CHECK(steady.warmup_steps > 1000);
}

TEST_CASE("A device that is slower than the host sets the pace, however long the queue", "[engine][steady]") {
  Machine machine;
  machine.launch_queue_depth = 1 << 30;
  ProgramBuilder b;
  b.launch(b.op("k", us(900)), us(6));
  const Steady steady = run_steady(b.program, machine);
  CHECK(steady.exact);
  CHECK(steady.period.wall == us(900) * steady.period.steps);
  CHECK(steady.period.busy == steady.period.wall);
}

TEST_CASE("Where no repetition is found the mean is the slower side's", "[engine][steady]") {
  // Two threads: the order of things is not fixed, so no short queue proves anything, and the long one never
  // fills.
  Machine machine;
  machine.launch_queue_depth = 1 << 30;
  ProgramBuilder b(2, 2);
  b.launch(b.op("k", us(900)), us(6), 0);
  b.thread = 1;
  b.launch(b.op("l", us(30)), us(10), 1);
  const Steady steady = run_steady(b.program, machine, {.steps_max = 1000});
  CHECK_FALSE(steady.exact);
  CHECK(steady.period.steps == 500);
  CHECK(steady.period.wall == us(900 * 500));
}

TEST_CASE("Random durations give a mean, said not to be exact", "[engine][steady]") {
  ProgramBuilder b;
  const Index k = b.op("k", us(0));
  Distribution uniform;
  uniform.name = "uniform";
  uniform.a = us(10);
  uniform.b = us(20);
  b.program.distributions = {uniform};
  b.program.ops[k].distribution = 0;
  b.program.seed = 7;
  b.launch(k, us(1));
  const Steady steady = run_steady(b.program, Machine{}, {.steps_max = 4096});
  CHECK_FALSE(steady.exact);
  const double mean =
      static_cast<double>(steady.period.wall.count()) / static_cast<double>(steady.period.steps) * 1e-6;
  // 3,000 draws of deviation 2.9 us: the mean is within 0.2 us with more than 99.9 %.
  CHECK(mean == gpusim::test::Approx(15.0).margin(0.2));
  CHECK(steady.period.busy + steady.period.idle_total() == steady.period.wall);
}

TEST_CASE("Every distribution has the mean it says and no negative draw", "[engine]") {
  using Kind = Distribution::Kind;
  struct Case {
    Kind kind;
    double mean_us;
  };
  // A lognormal's mean is its median times exp(sigma^2 / 2).
  const auto [kind, mean_us] = GENERATE(Case{Kind::Uniform, 20}, Case{Kind::Normal, 10},
                                        Case{Kind::Lognormal, 10 * 1.1331484530668263},
                                        Case{Kind::Exponential, 10}, Case{Kind::Choice, 4});
  Distribution d;
  d.kind = kind;
  d.a = us(10);
  d.b = us(kind == Kind::Uniform ? 30 : 2);
  d.shape = 0.5;
  d.choices = {us(1), us(2), us(9)};
  double sum = 0;
  Picoseconds least = Picoseconds::max();
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    const Picoseconds value = draw(d, mix(1, static_cast<std::uint64_t>(i), 2, 3));
    least = std::min(least, value);
    sum += static_cast<double>(value.count()) * 1e-6;
  }
  CHECK(least >= Picoseconds(0));
  CHECK(sum / n == gpusim::test::Approx(mean_us).epsilon(0.01));
}

TEST_CASE("Programs that break the rules of their types are refused by name", "[engine]") {
  using gpusim::test::ContainsSubstring;
  ProgramBuilder b;
  const Index k = b.op("k", us(1));
  b.launch(k, us(1));
  SECTION("a stream that does not exist") {
    b.program.threads[0].instructions[0].stream = 3;
    CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}), ContainsSubstring("stream does not exist"));
  }
  SECTION("a negative duration") {
    b.program.ops[k].duration = us(-1);
    CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}), ContainsSubstring("duration is negative"));
  }
  SECTION("a cyclic CUDA graph") {
    b.program.graphs.push_back({.name = 0, .nodes = {{k, {1}}, {k, {0}}}});
    CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}),
                      ContainsSubstring("waits for a node that is not before it"));
  }
  SECTION("a wait that rides on nothing") {
    b.wait(b.event("e"), 0, true);
    CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}), ContainsSubstring("no launch to ride on"));
  }
}
