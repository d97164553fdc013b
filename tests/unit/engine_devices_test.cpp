// SPDX-License-Identifier: Apache-2.0
// Streams that share a device, several devices, CUDA graphs that meet events and copies.
#include <random>

#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/random_program.hpp"
#include "tests/support/sharing_run.hpp"
#include "tests/support/timeline.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using gpusim::test::us;
using Kind = CudaGraph::NodeKind;

/// 100 SMs; a kernel can draw 1 TB/s, an SM as much as it likes.
Machine machine() {
  Machine m;
  m.sharing.sms = 100;
  m.sharing.bandwidth_top = 1e12;
  return m;
}

/// A kernel of `blocks` blocks, each of which fills an SM.
Index kernel(ProgramBuilder& b, Picoseconds duration, std::int64_t blocks, std::int64_t bytes = 0) {
  const Index op = b.op("k", duration);
  b.program.info[op].footprint = static_cast<Index>(b.program.footprints.size());
  b.program.footprints.push_back(
      {.blocks = blocks, .threads_per_block = 2048, .registers_per_thread = 16, .bytes = bytes});
  return op;
}

/// In order of their launches.
std::vector<OpRecord> run_ops(const ProgramBuilder& b, const Machine& m, Run* run = nullptr) {
  Timeline timeline;
  const Run result = gpusim::engine::run(b.program, m, 1, &timeline);
  CHECK(result.totals.busy + result.totals.idle_total() == result.totals.wall);
  if (run != nullptr) *run = result;
  std::vector<OpRecord> ops(timeline.ops.begin(), timeline.ops.end());
  std::sort(ops.begin(), ops.end(), [](const OpRecord& x, const OpRecord& y) {
    return std::tie(x.call, x.node) < std::tie(y.call, y.node);
  });
  return ops;
}

}  // namespace

TEST_CASE("Kernels that fit beside each other run at once", "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  b.launch(kernel(b, us(10), 50), us(0), 0);
  b.launch(kernel(b, us(20), 50), us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[0].start == us(0));
  CHECK(ops[0].end == us(10));
  CHECK(ops[1].start == us(0));
  CHECK(ops[1].end == us(20));
}

TEST_CASE("A kernel that fills the device makes that of another stream wait", "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  b.launch(kernel(b, us(10), 100), us(0), 0);
  b.launch(kernel(b, us(20), 100), us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[0].end == us(10));
  CHECK(ops[1].start == us(10));
  CHECK(ops[1].end == us(30));
}

TEST_CASE("Two kernels that want the memory share it", "[engine][sharing]") {
  // Each draws 0.8 of the 1 TB/s alone: together they cannot be done before 16 MB / 1 TB/s.
  ProgramBuilder b(1, 2);
  b.launch(kernel(b, us(10), 50, 8'000'000), us(0), 0);
  b.launch(kernel(b, us(10), 50, 8'000'000), us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[0].end == ops[1].end);
  CHECK(ops[0].end >= us(16));
  CHECK(ops[0].end < us(20));
  Run run;
  run_ops(b, machine(), &run);
  CHECK(run.totals.op_sum == 2 * ops[0].end);
  CHECK(run.totals.busy == ops[0].end);
}

TEST_CASE("What follows a slowed kernel waits for its real end", "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  const Index done = b.event("done");
  b.launch(kernel(b, us(10), 50, 8'000'000), us(0), 0);
  b.launch(kernel(b, us(10), 50, 8'000'000), us(0), 1);
  b.record(done, 0);
  b.launch(kernel(b, us(5), 50), us(0), 0);
  b.wait(done, 1, true);
  b.launch(kernel(b, us(1), 50), us(0), 1);
  b.synchronize_event(done);
  Timeline timeline;
  gpusim::engine::run(b.program, machine(), 1, &timeline);
  const auto ops = run_ops(b, machine());
  CHECK(ops[2].start == ops[0].end);
  CHECK(ops[3].start == ops[0].end);
  CHECK(gpusim::test::calls_of(timeline).back().end == ops[0].end);
}

TEST_CASE("On one stream footprints change nothing", "[engine][sharing]") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    auto random = gpusim::test::random_program(seed, {.copies = false, .threads_max = 1, .streams_max = 1});
    for (CudaGraph& graph : random.program.graphs)
      for (Index i = 0; i < graph.nodes.size(); ++i)
        graph.nodes[i].after = i == 0 ? std::vector<Index>{} : std::vector<Index>{i - 1};
    const Run without = run(random.program, random.machine);
    random.machine.sharing = machine().sharing;
    random.program.footprints = {{.blocks = 1000, .bytes = 1'000'000}};
    for (OpInfo& info : random.program.info) info.footprint = 0;
    const Run with = run(random.program, random.machine);
    if (!(with.totals == without.totals)) FAIL("seed " << seed);
    CHECK(takes_fast_path(random.program, random.machine));
  }
}

TEST_CASE("Branches of a CUDA graph share the device", "[engine][sharing][graph]") {
  ProgramBuilder b;
  const Index big = kernel(b, us(10), 100);
  b.program.graphs.push_back({.name = b.program.intern("g"),
                              .nodes = {{big, {}, Kind::Op}, {big, {}, Kind::Op}, {big, {0, 1}, Kind::Op}}});
  b.launch_graph(0, us(1));
  Machine m = machine();
  m.graph_gap[0][0] = us(0.5);
  const auto ops = run_ops(b, m);
  CHECK(ops[0].start == us(1));
  CHECK(ops[1].start == us(11));  // one after the other: each fills the device
  CHECK(ops[2].start == us(21.5));
}

TEST_CASE("A device is shared with its own streams only", "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  b.program.streams[1].device = 1;
  b.launch(kernel(b, us(10), 100), us(0), 0);
  b.launch(kernel(b, us(20), 100), us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[1].start == us(0));
  CHECK(ops[1].end == us(20));
}

TEST_CASE("Copies over the host link do not slow kernels, nor kernels them", "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  const Index copy = b.op("copy", us(30));
  b.program.ops[copy].kind = OpKind::Memcpy;
  b.program.ops[copy].copy_engine = CopyEngine::HostToDevice;
  b.launch(kernel(b, us(10), 100, 8'000'000), us(0), 0);
  b.launch(copy, us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[0].end == us(10));
  CHECK(ops[1].start == us(0));
  CHECK(ops[1].end == us(30));
}

TEST_CASE("A peer copy keeps both its devices' links busy", "[engine][devices]") {
  ProgramBuilder b(1, 3);
  b.program.streams[1].device = 1;
  b.program.streams[2].device = 2;
  const auto peer = [&](std::uint8_t to) {
    const Index op = b.op("p2p", us(10));
    b.program.ops[op].kind = OpKind::Memcpy;
    b.program.ops[op].copy_engine = CopyEngine::Peer;
    b.program.ops[op].peer = to;
    return op;
  };
  b.launch(peer(1), us(0), 0);  // 0 to 1
  b.launch(peer(1), us(0), 2);  // 2 to 1: the way into 1 is taken
  b.launch(peer(0), us(0), 1);  // 1 to 0: the other direction is free
  const auto ops = run_ops(b, Machine{});
  CHECK(ops[0].start == us(0));
  CHECK(ops[1].start == us(10));
  CHECK(ops[2].start == us(0));
}

TEST_CASE("Synchronising a device waits for its streams, not for others", "[engine][devices]") {
  ProgramBuilder b(1, 2);
  b.program.streams[1].device = 1;
  b.launch(b.op("short", us(5)), us(1), 0);
  b.launch(b.op("long", us(50)), us(1), 1);
  b.synchronize_device();  // device 0
  Timeline timeline;
  gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  CHECK(gpusim::test::calls_of(timeline).back().end == us(6));
}

TEST_CASE("A CUDA graph records events for others and waits for theirs", "[engine][graph]") {
  ProgramBuilder b(1, 2);
  const Index outside = b.event("outside");
  const Index inside = b.event("inside");
  const Index op = b.op("k", us(10));
  // 0: k, 1: record after it, 2: wait for `outside`, 3: k after both.
  b.program.graphs.push_back({.name = b.program.intern("g"),
                              .nodes = {{op, {}, Kind::Op},
                                        {inside, {0}, Kind::Record},
                                        {outside, {}, Kind::Wait},
                                        {op, {0, 2}, Kind::Op}}});
  b.launch(b.op("before", us(30)), us(1), 1);
  b.record(outside, 1);
  b.launch_graph(0, us(1), 0);
  b.wait(inside, 1, true);
  b.launch(b.op("after", us(1)), us(1), 1);
  Run run;
  const auto ops = run_ops(b, Machine{}, &run);
  REQUIRE(ops.size() == 4);
  CHECK(ops[0].start == us(1));   // before
  CHECK(ops[1].start == us(2));   // node 0
  CHECK(ops[2].start == us(31));  // node 3: `outside` fires at 31
  CHECK(ops[3].start == us(31));  // after: `inside` fired at 12, its stream is busy until 31
}

TEST_CASE("A wait inside a CUDA graph for an event that was never recorded ends in a deadlock that says so",
          "[engine][graph]") {
  ProgramBuilder b;
  const Index never = b.event("never");
  b.program.graphs.push_back({.name = b.program.intern("g"), .nodes = {{never, {}, Kind::Wait}}});
  b.launch_graph(0, us(1));
  CHECK_THROWS_WITH(gpusim::engine::run(b.program, Machine{}),
                    gpusim::test::ContainsSubstring("CUDA graph 'g' waits for an event"));
}

TEST_CASE("A CUDA graph may wait for an event that it records itself", "[engine][graph]") {
  ProgramBuilder b;
  const Index event = b.event("e");
  const Index op = b.op("k", us(10));
  b.program.graphs.push_back(
      {.name = b.program.intern("g"),
       .nodes = {
           {op, {}, Kind::Op}, {event, {0}, Kind::Record}, {event, {}, Kind::Wait}, {op, {2}, Kind::Op}}});
  b.launch_graph(0, us(1));
  const auto ops = run_ops(b, Machine{});
  REQUIRE(ops.size() == 2);
  CHECK(ops[1].start == us(11));
}

TEST_CASE("Copies inside a CUDA graph use the copy engines", "[engine][graph]") {
  ProgramBuilder b(1, 2);
  const Index copy = b.op("copy", us(10));
  b.program.ops[copy].kind = OpKind::Memcpy;
  b.program.ops[copy].copy_engine = CopyEngine::HostToDevice;
  const Index set = b.op("set", us(2));
  b.program.ops[set].kind = OpKind::Memset;
  b.program.graphs.push_back({.name = b.program.intern("g"),
                              .nodes = {{copy, {}, Kind::Op}, {copy, {}, Kind::Op}, {set, {0}, Kind::Op}}});
  b.launch(copy, us(0), 1);
  b.launch_graph(0, us(0), 0);
  Run run;
  const auto ops = run_ops(b, Machine{}, &run);
  CHECK(ops[0].start == us(0));
  CHECK(ops[1].start == us(10));
  CHECK(ops[2].start == us(20));
  CHECK(ops[3].start == us(20));  // the memset after the first copy
  CHECK(run.totals.counts.memcpys == 3);
  CHECK(run.totals.counts.memsets == 1);
}

TEST_CASE("Replays of one CUDA graph never overlap, whatever their streams", "[engine][graph]") {
  const bool events = GENERATE(false, true);
  ProgramBuilder b(1, 2);
  const Index op = b.op("k", us(10));
  const Index event = b.event("e");
  CudaGraph graph{.name = b.program.intern("g"), .nodes = {{op, {}, Kind::Op}}};
  if (events) graph.nodes.push_back({event, {0}, Kind::Record});
  b.program.graphs = {graph, graph};
  b.launch_graph(0, us(0), 0);
  b.launch_graph(0, us(0), 1);
  b.launch_graph(1, us(0), 1);  // another graph
  const auto ops = run_ops(b, Machine{});
  CHECK(ops[0].start == us(0));
  CHECK(ops[1].start == us(10));
  CHECK(ops[2].start == us(20));
}

TEST_CASE("A programmatic launch starts before the end of a predecessor that others slow down",
          "[engine][sharing]") {
  ProgramBuilder b(1, 2);
  b.launch(kernel(b, us(10), 20, 8'000'000), us(0), 0);
  const Index next = kernel(b, us(10), 20);
  b.program.ops[next].gap_before = -us(1);
  b.launch(next, us(0), 0);
  b.launch(kernel(b, us(10), 20, 8'000'000), us(0), 1);
  const auto ops = run_ops(b, machine());
  CHECK(ops[0].end >= us(16));
  CHECK(std::abs((ops[1].start - (ops[0].end - us(1))).count()) <= 1);
}

TEST_CASE("A steady step that shares the device equals the plain simulation of its periods",
          "[engine][sharing][steady]") {
  ProgramBuilder b(1, 2);
  const Index done = b.event("done");
  b.launch(kernel(b, us(30), 60, 20'000'000), us(4), 0);
  b.launch(kernel(b, us(20), 60, 15'000'000), us(4), 1);
  b.record(done, 1);
  b.launch(kernel(b, us(7), 30), us(4), 1);
  b.wait(done, 0, true);
  b.launch(kernel(b, us(9), 100, 5'000'000), us(4), 0);
  const Steady steady = run_steady(b.program, machine());
  REQUIRE(steady.exact);
  const std::int64_t from = steady.warmup_steps + 10;
  const std::int64_t to = from + 1'000 * steady.period.steps;
  const Totals difference = run_event_by_event(b.program, machine(), to).totals -
                            run_event_by_event(b.program, machine(), from).totals;
  CHECK(difference == add(Totals{}, steady.period, 1'000));
}

TEST_CASE("The engine runs kernels on a shared device as the rule says", "[engine][sharing]") {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Machine m;
  m.sharing = gpusim::test::h200();
  for (int round = 0; round < 300; ++round) {
    const std::int64_t count = 2 + below(3);
    ProgramBuilder b(1, static_cast<int>(count));
    std::vector<gpusim::test::Arrival> arrivals;
    Picoseconds at{0};
    for (std::int64_t i = 0; i < count; ++i) {
      at += Picoseconds(below(100'000'000));
      const gpusim::test::Arrival arrival{.footprint = {.blocks = 1 + below(600),
                                                        .threads_per_block = 256 << below(3),
                                                        .bytes = below(2) * below(1'000'000'000),
                                                        .arithmetic = 0.01 * static_cast<double>(below(101))},
                                          .alone = Picoseconds(1 + below(300'000'000)),
                                          .at = at};
      const Index op = b.op("k", arrival.alone);
      b.program.info[op].footprint = static_cast<Index>(i);
      b.program.footprints.push_back(arrival.footprint);
      b.work(at - (arrivals.empty() ? Picoseconds(0) : arrivals.back().at));
      b.launch(op, us(0), us(0), static_cast<std::uint16_t>(i));
      arrivals.push_back(arrival);
    }
    SharedDevice device(m.sharing);
    const auto expected = run_shared(device, arrivals);
    const auto ops = run_ops(b, m);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      INFO("round " << round << ", kernel " << i);
      REQUIRE(ops[i].start == expected[i].start);
      REQUIRE(ops[i].end == expected[i].end);
    }
  }
}
