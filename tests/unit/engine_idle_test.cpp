// SPDX-License-Identifier: Apache-2.0
// Idle time and its causes, on programs short enough to draw. Times in microseconds.
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/timeline.hpp"

namespace {

using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using gpusim::test::us;
using namespace gpusim::engine;

struct Idle {
  double event = 0, synchronization = 0, launch_latency = 0, gap = 0, dispatch = 0, input = 0;
};

void check_idle(const Run& run, const Idle& expected) {
  const auto& idle = run.totals.idle;
  CHECK(idle[static_cast<std::size_t>(IdleCause::Event)] == us(expected.event));
  CHECK(idle[static_cast<std::size_t>(IdleCause::Synchronization)] == us(expected.synchronization));
  CHECK(idle[static_cast<std::size_t>(IdleCause::LaunchLatency)] == us(expected.launch_latency));
  CHECK(idle[static_cast<std::size_t>(IdleCause::Gap)] == us(expected.gap));
  CHECK(idle[static_cast<std::size_t>(IdleCause::Dispatch)] == us(expected.dispatch));
  CHECK(idle[static_cast<std::size_t>(IdleCause::Input)] == us(expected.input));
  CHECK(run.totals.busy + run.totals.idle_total() == run.totals.wall);
}

}  // namespace

TEST_CASE("A host that is still working leaves the device idle by dispatch", "[engine][idle]") {
  // host |launch 6|launch 6|
  // gpu           |2|      |2|
  ProgramBuilder b;
  const Index k = b.op("k", us(2));
  b.launch(k, us(6));
  b.launch(k, us(6));
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(14));
  check_idle(run, {.dispatch = 6 + 4});
}

TEST_CASE("From the return of the launch call to the arrival it is launch latency", "[engine][idle]") {
  // call 0..4, arrives at 4 + 3 = 7
  ProgramBuilder b;
  b.launch(b.op("k", us(2)), us(4), us(7), 0);
  check_idle(gpusim::engine::run(b.program, Machine{}), {.launch_latency = 3, .dispatch = 4});
}

TEST_CASE("A launch that arrives before its call returns has no launch latency", "[engine][idle]") {
  ProgramBuilder b;
  b.launch(b.op("k", us(9)), us(4), us(1), 0);
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(10));
  check_idle(run, {.dispatch = 1});
}

TEST_CASE("Between two queued kernels it is gap", "[engine][idle]") {
  Machine machine;
  machine.gap[0][0] = us(1.5);
  ProgramBuilder b;
  const Index k = b.op("k", us(10));
  b.launch(k, us(0));
  b.launch(k, us(0));
  const Run run = gpusim::engine::run(b.program, machine);
  CHECK(run.totals.wall == us(21.5));
  check_idle(run, {.gap = 1.5});
}

TEST_CASE("A minimum period counts as gap", "[engine][idle]") {
  ProgramBuilder b;
  const Index k = b.op("k", us(1));
  b.program.ops[k].min_period = us(1.3);
  b.launch(k, us(0));
  b.launch(k, us(0));
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(2.3));
  check_idle(run, {.gap = 0.3});
}

TEST_CASE("Gaps between the nodes of a CUDA graph are gap, its start is launch latency", "[engine][idle]") {
  // call 0..2, first node at 5; nodes 5..8 and 8.5..11.5
  Machine machine;
  machine.graph_gap[0][0] = us(0.5);
  ProgramBuilder b;
  const Index k = b.op("k", us(3));
  b.program.graphs.push_back({.name = 0, .nodes = {{k, {}}, {k, {0}}}});
  b.launch_graph(0, us(2)).latency = us(5);
  const Run run = gpusim::engine::run(b.program, machine);
  CHECK(run.totals.wall == us(11.5));
  CHECK(run.totals.counts.cuda_graph_launches == 1);
  CHECK(run.totals.counts.kernels == 2);
  check_idle(run, {.launch_latency = 3, .gap = 0.5, .dispatch = 2});
}

TEST_CASE("After a synchronisation the device idles until the call returns, then for the host's work",
          "[engine][idle]") {
  // host |launch 1|sync ........... returns 11+3=14|work 5|launch 1|
  // gpu           |10            |                               |10|
  ProgramBuilder b;
  const Index k = b.op("k", us(10));
  b.launch(k, us(1));
  b.synchronize_stream(0).return_latency = us(3);
  b.work(us(5));
  b.launch(k, us(1));
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(30));
  check_idle(run, {.synchronization = 3, .dispatch = 1 + 5 + 1});
}

TEST_CASE("Every synchronisation blocks until what it names is done", "[engine]") {
  const int kind = GENERATE(0, 1, 2, 3);
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  const Index k = b.op("k", us(10));
  b.launch(k, us(1), 0);
  b.record(event, 0);
  b.launch(b.op("other", us(50)), us(1), 1);
  if (kind == 0) b.synchronize_stream(0);
  if (kind == 1) b.synchronize_event(event);
  if (kind == 2) b.synchronize_device();
  if (kind == 3) b.synchronize_stream(1);
  b.work(us(1));
  Timeline timeline;
  gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  // Stream 0 is done at 11, stream 1 at 52; the last call is 1 us of work after that.
  CHECK(gpusim::test::calls_of(timeline).back().end == us(kind <= 1 ? 12 : 53));
}

TEST_CASE("A synchronisation with an idle device costs its own time only", "[engine]") {
  ProgramBuilder b;
  auto& sync = b.synchronize_device();
  sync.duration = us(1.7);
  sync.return_latency = us(9);
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(1.7));
  check_idle(run, {.synchronization = 1.7});
}

TEST_CASE("Waiting for input is input", "[engine][idle]") {
  ProgramBuilder b;
  b.input(us(100));
  b.launch(b.op("k", us(5)), us(2));
  check_idle(gpusim::engine::run(b.program, Machine{}), {.dispatch = 2, .input = 100});
}

TEST_CASE("From the firing of an event to the op that waited it is event", "[engine][idle]") {
  // stream 0: 0..10 fires at 10; stream 1 starts at 10 + 1.5
  Machine machine;
  machine.event_latency = us(1.5);
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  b.launch(b.op("a", us(10)), us(0), 0);
  b.record(event, 0);
  b.wait(event, 1);
  b.launch(b.op("b", us(5)), us(0), 1);
  const Run run = gpusim::engine::run(b.program, machine);
  CHECK(run.totals.wall == us(16.5));
  check_idle(run, {.event = 1.5});
}

TEST_CASE("An event recorded late passes the blame to the host that recorded it", "[engine][idle]") {
  // The record is called at 20 and arrives at 22 (call 1, latency 2); the kernel waits since 0 and starts
  // at 22.5.
  Machine machine;
  machine.event_latency = us(0.5);
  ProgramBuilder b(2, 2);
  const Index event = b.event("e");
  b.wait(event, 1);
  b.launch(b.op("b", us(5)), us(0), 1);
  b.thread = 1;
  b.work(us(20));
  auto& record = b.record(event, 0);
  record.duration = us(1);
  record.latency = us(2);
  const Run run = gpusim::engine::run(b.program, machine);
  CHECK(run.totals.wall == us(27.5));
  check_idle(run, {.event = 0.5, .launch_latency = 1, .dispatch = 21});
}

TEST_CASE("Awaiting another thread passes the blame to what that thread did", "[engine][idle]") {
  // t0 |await ................ 30|launch 2|      t1 |input 20|work 10|signal|
  ProgramBuilder b(2, 1);
  const Index go = b.signal("go");
  b.await(go);
  b.launch(b.op("k", us(5)), us(2));
  b.thread = 1;
  b.input(us(20));
  b.work(us(10));
  b.signal_to(go);
  check_idle(gpusim::engine::run(b.program, Machine{}), {.dispatch = 12, .input = 20});
}

TEST_CASE("One idle interval is split where its cause changes", "[engine][idle]") {
  // The first kernel ends at 11. sync returns at 14, input until 24, work until 27, call until 29, arrival
  // at 32.
  ProgramBuilder b;
  const Index k = b.op("k", us(10));
  b.launch(k, us(1));
  b.synchronize_device().return_latency = us(3);
  b.input(us(10));
  b.work(us(3));
  b.launch(k, us(2), us(5), 0);
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(42));
  check_idle(run, {.synchronization = 3, .launch_latency = 3, .dispatch = 1 + 3 + 2, .input = 10});
}

TEST_CASE("Host time hidden behind a running kernel is not idle time", "[engine][idle]") {
  // First kernel 1..51. Meanwhile the host works until 41; the launch arrives at 43 and the kernel starts
  // at 51.
  ProgramBuilder b;
  b.launch(b.op("long", us(50)), us(1));
  b.work(us(40));
  b.launch(b.op("short", us(5)), us(2));
  check_idle(gpusim::engine::run(b.program, Machine{}), {.dispatch = 1});
}

TEST_CASE("An op of another stream hides idle time", "[engine][idle]") {
  // stream 0: 1..3 and 23..25; stream 1: 2..12. Idle: 0..1 and 12..23 (work 2..22, call 22..23).
  ProgramBuilder b(1, 2);
  const Index k = b.op("k", us(2));
  b.launch(k, us(1), 0);
  b.launch(b.op("long", us(10)), us(1), 1);
  b.work(us(20));
  b.launch(k, us(1), 0);
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(25));
  CHECK(run.totals.busy == us(1 + 10 + 2));
  CHECK(run.totals.op_sum == us(2 + 10 + 2));
  check_idle(run, {.dispatch = 1 + 11});
}

TEST_CASE("The time from the last op to the end of the host belongs to what the host did", "[engine][idle]") {
  ProgramBuilder b;
  b.launch(b.op("k", us(2)), us(1));
  b.work(us(10));
  const Run run = gpusim::engine::run(b.program, Machine{});
  CHECK(run.totals.wall == us(11));
  CHECK(run.window.wall == us(2));
  CHECK(run.window.idle_total() == us(0));
  check_idle(run, {.dispatch = 1 + 8});
}
