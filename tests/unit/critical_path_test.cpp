// SPDX-License-Identifier: Apache-2.0
// Programs that one can draw: the path, the slack and the counterfactuals by hand. All times in microseconds.
#include "sim/critical_path/critical_path.hpp"

#include <string>
#include <vector>

#include "sim/engine/assertion.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using gpusim::Counterfactual;
using gpusim::CriticalPath;
using gpusim::InfinitelyFast;
using gpusim::PathResource;
using gpusim::PathSegment;
using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using gpusim::test::us;
using namespace gpusim::engine;
using Texts = std::vector<std::string>;

struct Explained {
  Program program;
  Timeline timeline;
  CriticalPath path;

  std::string owner(const PathSegment& segment) const {
    if (segment.op != no_index)
      return program.names[program.info[op_of(program, timeline, timeline.ops[segment.op])].name];
    if (segment.call != no_index) return "call " + std::to_string(segment.call);
    return "nothing";
  }
  /// "kernel 2..12 a" for each segment.
  Texts segments() const {
    Texts result;
    for (const PathSegment& segment : path.segments)
      result.push_back(std::string(gpusim::name(segment.resource)) + " " +
                       std::to_string(segment.from.count() / 1'000'000) + ".." +
                       std::to_string(segment.to.count() / 1'000'000) + " " + owner(segment));
    return result;
  }
  /// Of the first execution of the op of that name.
  Picoseconds op_slack(const std::string& name) const {
    for (std::size_t i = 0; i < timeline.ops.size(); ++i)
      if (program.names[program.info[op_of(program, timeline, timeline.ops[i])].name] == name)
        return path.op_slack[i];
    FAIL("no op " << name);
    return {};
  }
};

Explained explain(const ProgramBuilder& b, const Machine& machine = {}, std::int64_t steps = 1) {
  Explained result;
  result.program = b.program;
  const Run run = gpusim::engine::run(b.program, machine, steps, &result.timeline);
  result.path = gpusim::critical_path(b.program, machine, result.timeline);
  CHECK(result.path.makespan == run.totals.wall);
  CHECK(result.path.contradictions == 0);
  return result;
}

}  // namespace

TEST_CASE("A launch, its latency and its kernel follow each other", "[critical_path]") {
  ProgramBuilder b;
  b.launch(b.op("a", us(10)), us(2), us(5), 0);
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..2 call 0", "launch_latency 2..5 call 0", "kernel 5..15 a"});
  CHECK(e.path.of(PathResource::Host) == us(2));
  CHECK(e.path.of(PathResource::LaunchLatency) == us(3));
  CHECK(e.path.of(PathResource::Kernel) == us(10));
  CHECK(e.path.of(PathResource::Gap) == us(0));
  CHECK(e.path.op_slack == std::vector<Picoseconds>{us(0)});
}

TEST_CASE("A busy device is bound by its kernels and the gaps between them", "[critical_path]") {
  ProgramBuilder b;
  Machine machine;
  machine.gap[0][0] = us(1);
  const Index a = b.op("a", us(10));
  for (int i = 0; i < 3; ++i) b.launch(a, us(2));
  const Explained e = explain(b, machine);
  CHECK(e.segments() == Texts{"host 0..2 call 0", "kernel 2..12 a", "gap 12..13 a", "kernel 13..23 a",
                              "gap 23..24 a", "kernel 24..34 a"});
  // The second launch returned at 4, its kernel could start at 13; the third at 6 for one at 24.
  CHECK(e.path.call_slack == std::vector<Picoseconds>{us(0), us(9), us(18)});
  CHECK(merged_by_resource(e.path.segments).size() == 6);
}

TEST_CASE("A host that launches too slowly is the path, and the kernels have slack", "[critical_path]") {
  ProgramBuilder b;
  const Index a = b.op("a", us(1));
  for (int i = 0; i < 3; ++i) b.launch(a, us(4));
  const Explained e = explain(b);
  CHECK(e.segments() ==
        Texts{"host 0..4 call 0", "host 4..8 call 1", "host 8..12 call 2", "kernel 12..13 a"});
  CHECK(e.path.op_slack == std::vector<Picoseconds>{us(6), us(3), us(0)});
  const std::vector<PathSegment> merged = merged_by_resource(e.path.segments);
  REQUIRE(merged.size() == 2);
  CHECK(merged[0] == PathSegment{us(0), us(12), PathResource::Host, no_index, no_index});
  CHECK(merged[1] == PathSegment{us(12), us(13), PathResource::Kernel, no_index, no_index});
}

TEST_CASE("Input and work are told apart", "[critical_path]") {
  ProgramBuilder b;
  b.input(us(7));
  b.work(us(3));
  b.launch(b.op("a", us(1)), us(2));
  const Explained e = explain(b);
  CHECK(e.segments() ==
        Texts{"input 0..7 call 0", "host 7..10 call 1", "host 10..12 call 2", "kernel 12..13 a"});
}

TEST_CASE("A synchronisation puts the device, the return and the host behind each other", "[critical_path]") {
  ProgramBuilder b;
  const Index a = b.op("a", us(10));
  b.launch(a, us(2));
  b.synchronize_stream(0).return_latency = us(3);
  b.launch(a, us(2));
  const bool of_the_device = GENERATE(false, true);
  if (of_the_device)
    b.program.threads[0].instructions[1] = {
        .call = Call::SynchronizeDevice, .object = 0, .return_latency = us(3)};
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..2 call 0", "kernel 2..12 a", "synchronization 12..15 call 1",
                              "host 15..17 call 2", "kernel 17..27 a"});
}

TEST_CASE("A synchronisation with an event waits for the record only", "[critical_path]") {
  ProgramBuilder b;
  const Index event = b.event("e");
  b.launch(b.op("a", us(10)), us(2));
  b.record(event, 0);
  b.launch(b.op("b", us(3)), us(2));
  b.synchronize_event(event).return_latency = us(1);
  b.work(us(10));
  const Explained e = explain(b);
  CHECK(e.segments() ==
        Texts{"host 0..2 call 0", "kernel 2..12 a", "synchronization 12..13 call 3", "host 13..23 call 4"});
  CHECK(e.op_slack("b") == us(8));  // 15 to 23
}

TEST_CASE("A synchronisation that finds everything done costs its call", "[critical_path]") {
  ProgramBuilder b;
  b.launch(b.op("a", us(1)), us(2));
  b.work(us(5));
  b.synchronize_stream(0).return_latency = us(4);
  b.program.threads[0].instructions.back().duration = us(1);
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..2 call 0", "host 2..7 call 1", "host 7..8 call 2"});
  // Done at 3; at 7 the call begins. Later than that it would return 4 us after the completion.
  CHECK(e.op_slack("a") == us(4));
}

TEST_CASE("A blocking launch returns after its op", "[critical_path]") {
  ProgramBuilder b;
  Instruction& copy = b.launch(b.op("copy", us(10)), us(2));
  copy.blocking = true;
  copy.return_latency = us(1);
  b.program.ops[0].kind = OpKind::Memcpy;
  b.program.ops[0].copy_engine = CopyEngine::DeviceToHost;
  b.work(us(4));
  const Explained e = explain(b);
  CHECK(e.segments() ==
        Texts{"host 0..2 call 0", "copy 2..12 copy", "synchronization 12..13 call 0", "host 13..17 call 1"});
}

TEST_CASE("An event carries the path from stream to stream", "[critical_path]") {
  ProgramBuilder b(1, 2);
  Machine machine;
  machine.event_latency = us(2);
  const Index event = b.event("e");
  b.launch(b.op("a", us(10)), us(1), 0);
  b.record(event, 0);
  const bool attached = GENERATE(false, true);
  b.wait(event, 1, attached);
  b.launch(b.op("b", us(5)), us(1), 1);
  b.launch(b.op("c", us(1)), us(1), 0);
  const Explained e = explain(b, machine);
  CHECK(e.segments() == Texts{"host 0..1 call 0", "kernel 1..11 a", "event 11..13 b", "kernel 13..18 b"});
  CHECK(e.op_slack("a") == us(0));
  CHECK(e.op_slack("c") == us(6));  // 11..12, and the run ends at 18
}

TEST_CASE("A record that arrives late is the host's", "[critical_path]") {
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  b.launch(b.op("a", us(2)), us(1), 0);
  b.work(us(9));
  b.record(event, 0);
  b.wait(event, 1);
  b.launch(b.op("b", us(5)), us(0), 1);
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..1 call 0", "host 1..10 call 1", "kernel 10..15 b"});
  CHECK(e.op_slack("a") == us(7));
}

TEST_CASE("A host that is blocked by a full queue waits for the op that frees a place", "[critical_path]") {
  ProgramBuilder b;
  Machine machine;
  machine.launch_queue_depth = 1;
  b.launch(b.op("a", us(10)), us(1));
  b.launch(b.op("b", us(10)), us(1));
  b.launch(b.op("c", us(10)), us(1));
  b.work(us(50));
  const Explained e = explain(b, machine);
  // b waits until a has ended; c finds b in the queue until it starts at 11; the host goes on then.
  CHECK(e.segments() == Texts{"host 0..1 call 0", "kernel 1..11 a", "host 11..61 call 3"});
  CHECK(e.op_slack("a") == us(0));
  CHECK(e.op_slack("b") == us(30));  // 11..21, c would follow it to 61
  CHECK(e.op_slack("c") == us(30));
}

TEST_CASE("A programmatic launch cuts off the end of the kernel before it", "[critical_path]") {
  ProgramBuilder b;
  Machine machine;
  machine.gap[0][1] = us(-4);
  b.launch(b.op("a", us(10), 0), us(1));
  b.launch(b.op("b", us(10), 1), us(1));
  const Explained e = explain(b, machine);
  CHECK(e.segments() == Texts{"host 0..1 call 0", "kernel 1..7 a", "kernel 7..17 b"});
  CHECK(e.op_slack("a") == us(0));
}

TEST_CASE("A minimum period is a gap, whatever the kernel does meanwhile", "[critical_path]") {
  ProgramBuilder b;
  const Index a = b.op("a", us(1));
  b.program.ops[a].min_period = us(5);
  b.launch(a, us(1));
  b.launch(a, us(1));
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..1 call 0", "gap 1..6 a", "kernel 6..7 a"});
  CHECK(e.path.op_slack == std::vector<Picoseconds>{us(4), us(0)});
}

TEST_CASE("Copies of two streams wait for their engine", "[critical_path]") {
  ProgramBuilder b(1, 2);
  for (const char* name : {"first", "second"}) {
    const Index copy = b.op(name, us(10));
    b.program.ops[copy].kind = OpKind::Memcpy;
    b.program.ops[copy].copy_engine = CopyEngine::HostToDevice;
  }
  b.launch(0, us(1), 0);
  b.launch(1, us(1), 1);
  const Explained e = explain(b);
  CHECK(e.segments() == Texts{"host 0..1 call 0", "copy 1..11 first", "copy 11..21 second"});
}

TEST_CASE("A CUDA graph is bound by its longest branch", "[critical_path]") {
  ProgramBuilder b;
  Machine machine;
  machine.graph_gap[0][0] = us(1);
  CudaGraph graph;
  graph.name = b.program.intern("graph");
  for (const auto& [name, duration] :
       {std::pair("fork", 2.0), std::pair("long", 8.0), std::pair("short", 3.0), std::pair("join", 2.0)})
    graph.nodes.push_back({b.op(name, us(duration)), {}, CudaGraph::NodeKind::Op});
  graph.nodes[1].after = {0};
  graph.nodes[2].after = {0};
  graph.nodes[3].after = {1, 2};
  b.program.graphs.push_back(graph);
  b.launch_graph(0, us(3));
  const Explained e = explain(b, machine);
  CHECK(e.segments() == Texts{"host 0..3 call 0", "kernel 3..5 fork", "gap 5..6 long", "kernel 6..14 long",
                              "gap 14..15 join", "kernel 15..17 join"});
  CHECK(e.op_slack("short") == us(5));
}

TEST_CASE("Events inside CUDA graphs couple streams", "[critical_path]") {
  ProgramBuilder b(1, 2);
  Machine machine;
  machine.event_latency = us(1);
  const Index event = b.event("e");
  CudaGraph records;
  records.name = b.program.intern("records");
  records.nodes.push_back({b.op("a", us(10)), {}, CudaGraph::NodeKind::Op});
  records.nodes.push_back({event, {0}, CudaGraph::NodeKind::Record});
  CudaGraph waits = records;
  waits.nodes[0] = {event, {}, CudaGraph::NodeKind::Wait};
  waits.nodes[1] = {b.op("b", us(4)), {0}, CudaGraph::NodeKind::Op};
  b.program.graphs = {records, waits};
  b.launch_graph(0, us(1), 0);
  b.launch_graph(1, us(1), 1);
  const Explained e = explain(b, machine);
  CHECK(e.segments() ==
        Texts{"host 0..1 call 0", "kernel 1..11 a", "event 11..12 call 1", "kernel 12..16 b"});
}

TEST_CASE("A thread that awaits another one continues its path", "[critical_path]") {
  ProgramBuilder b(2);
  const Index signal = b.signal("g");
  b.thread = 0;
  b.work(us(9));
  b.signal_to(signal);
  b.thread = 1;
  b.work(us(2));
  b.await(signal);
  b.launch(b.op("a", us(4)), us(1));
  const Explained e = explain(b);
  // Calls of two threads are numbered in turn: 0 and 2 are the first thread's.
  CHECK(e.segments() == Texts{"host 0..9 call 0", "host 9..10 call 5", "kernel 10..14 a"});
  CHECK(e.path.call_slack[1] == us(7));
}

TEST_CASE("A thread that is eight steps ahead waits for the slow one", "[critical_path]") {
  ProgramBuilder b(2);
  b.thread = 0;
  b.work(us(10));
  b.thread = 1;
  b.work(us(1));
  const Explained e = explain(b, {}, 12);
  CHECK(e.path.makespan == us(120));
  CHECK(e.path.of(PathResource::Host) == us(120));
  // Its last step began when the slow one had done 3: at 30, and 1 for itself.
  CHECK(e.path.call_slack[23] == us(120 - 31));
}

TEST_CASE("A kernel slowed by another one shows what it lost", "[critical_path]") {
  ProgramBuilder b(1, 2);
  Machine machine;
  machine.sharing.sms = 2;
  machine.sharing.bandwidth_top = 1e12;
  Footprint footprint;
  footprint.blocks = 2;
  footprint.threads_per_block = 1024;
  footprint.bytes = 50'000'000;  // in 50 us all that the memory gives
  b.program.footprints = {footprint};
  for (const char* name : {"a", "b"}) {
    const Index op = b.op(name, us(50));
    b.program.info[op].footprint = 0;
  }
  b.launch(0, us(1), 0);
  b.launch(1, us(1), 1);
  const Explained e = explain(b, machine);
  CHECK(e.path.of(PathResource::Sharing) > us(20));
  CHECK(e.path.of(PathResource::Kernel) + e.path.of(PathResource::Sharing) + e.path.of(PathResource::Host) ==
        e.path.makespan);
  const auto ended = e.timeline.ops[e.path.segments.back().op];
  CHECK(e.path.segments.back().resource == PathResource::Sharing);
  CHECK(ended.end == e.path.makespan);
}

TEST_CASE("At equal times the event binds before the launch and the launch before the op",
          "[critical_path]") {
  ProgramBuilder b(1, 2);
  const Index event = b.event("e");
  b.launch(b.op("a", us(5)), us(1), 0);  // 1..6
  b.record(event, 0);
  b.launch(b.op("b", us(4)), us(1), 1);  // 2..6
  b.work(us(3));
  b.wait(event, 1, true);
  SECTION("event") {
    b.launch(b.op("c", us(4)), us(1), 1);  // arrives at 6 too
    CHECK(explain(b).segments() == Texts{"host 0..1 call 0", "kernel 1..6 a", "kernel 6..10 c"});
  }
  SECTION("launch") {
    b.program.ops[0].duration = us(2);
    b.launch(b.op("c", us(4)), us(1), 1);
    CHECK(explain(b).segments() == Texts{"host 0..1 call 0", "host 1..2 call 2", "host 2..5 call 3",
                                         "host 5..6 call 5", "kernel 6..10 c"});
  }
}

TEST_CASE("An infinitely fast part leaves what the others take", "[critical_path]") {
  ProgramBuilder b;
  Machine machine;
  machine.gap[0][0] = us(1);
  b.input(us(3));
  b.work(us(10));
  b.launch(b.op("a", us(20)), us(2), us(5), 0);
  b.launch(b.op("b", us(20)), us(2), us(5), 0);
  b.synchronize_stream(0).return_latency = us(4);
  const Explained e = explain(b, machine);
  // 13 + 5, then 20 + 1 + 20, then 4.
  REQUIRE(e.path.makespan == us(63));
  const auto all = counterfactuals(e.program, machine, e.timeline, e.path);
  REQUIRE(all.size() == 3);
  CHECK(all[0].what == InfinitelyFast::Host);
  CHECK(*all[0].makespan == us(3 + 3 + 41 + 4));
  CHECK(*all[1].makespan == us(13 + 41 + 4));
  // The second launch arrives at 20, after the gap.
  CHECK(*all[2].makespan == us(13 + 2 + 5 + 4));
  for (const Counterfactual& c : all) CHECK(*c.makespan == c.order_kept);
  CHECK(*all[1].speedup(e.path.makespan) == gpusim::test::Approx(63.0 / 58));
}

TEST_CASE("A program that does nothing has no path", "[critical_path]") {
  const ProgramBuilder b;
  const Explained e = explain(b);
  CHECK(e.path.segments.empty());
  CHECK(e.path.makespan == us(0));
  const auto all = counterfactuals(e.program, {}, e.timeline, e.path);
  CHECK_FALSE(all[0].speedup(us(0)).has_value());
}

TEST_CASE("A timeline of another program is refused", "[critical_path]") {
  ProgramBuilder b;
  b.launch(b.op("a", us(1)), us(1));
  Timeline timeline;
  run(b.program, Machine{}, 1, &timeline);
  timeline.threads.emplace_back();
  CHECK_THROWS_AS(gpusim::critical_path(b.program, Machine{}, timeline), gpusim::InternalError);
}

TEST_CASE("Resources and parts have the names that reports print", "[critical_path]") {
  CHECK(std::string(gpusim::name(PathResource::Kernel)) == "kernel");
  CHECK(std::string(gpusim::name(PathResource::Synchronization)) == "synchronization");
  CHECK(std::string(gpusim::name(InfinitelyFast::Launches)) == "launches");
}
