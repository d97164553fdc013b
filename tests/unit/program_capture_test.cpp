// SPDX-License-Identifier: Apache-2.0
#include "sim/program/capture.hpp"

#include "sim/engine/engine.hpp"
#include "sim/program/build.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::literals;
using engine::Call;
using engine::Index;

namespace {

CaptureOptions options() {
  CaptureOptions result;
  result.costs.call = [](std::int64_t) { return 6_us; };
  result.costs.latency = [](std::int64_t) { return 6_us; };
  return result;
}

Captured captured(const std::string& items, const CaptureOptions& with = options()) {
  const Scenario scenario = read_scenario_text("workload:\n  kernels:\n" + items, "test.yaml");
  const BuiltProgram built = build_program(scenario.variants[0]);
  Captured result = capture(built.program, built.machine, with);
  // Whatever comes out has to be a program, and to run.
  engine::check(result.program, built.machine);
  const auto before = engine::run(built.program, built.machine).totals.counts;
  const auto after = engine::run(result.program, built.machine).totals.counts;
  CHECK(before.kernels == after.kernels);
  CHECK(before.memcpys == after.memcpys);
  CHECK(before.memsets == after.memsets);
  return result;
}

std::vector<Call> calls(const engine::HostThread& thread) {
  std::vector<Call> result;
  for (const auto& instruction : thread.instructions) result.push_back(instruction.call);
  return result;
}

/// Of the last graph: the recorded one, where there is but one.
std::vector<std::vector<Index>> edges(const Captured& c) {
  std::vector<std::vector<Index>> result;
  for (const auto& node : c.program.graphs.back().nodes) result.push_back(node.after);
  return result;
}

using Edges = std::vector<std::vector<Index>>;
using Calls = std::vector<Call>;

double in_seconds(Picoseconds time) {
  return static_cast<double>(time.count()) / 1e12;
}

}  // namespace

TEST_CASE("launches of one stream become one CUDA graph that is a chain") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 3 us, launch: 6 us, repeat: 3}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph});
  CHECK(edges(c) == Edges{{}, {0}, {1}});
  CHECK(c.graphs == 1);
  CHECK(c.nodes == 3);
  CHECK(c.cuts.empty());
}

TEST_CASE("300 launches of 6 us become one, and the kernels run back to back") {
  const Scenario scenario = read_scenario_text(
      "workload: {kernels: [{kernel: a, duration: 3 us, launch: 6 us, repeat: 300}]}", "test.yaml");
  const BuiltProgram built = build_program(scenario.variants[0]);
  const Captured c = capture(built.program, built.machine, options());
  CHECK(engine::run(built.program, built.machine).totals.wall == 1803_us);
  CHECK(engine::run(c.program, built.machine).totals.wall == 906_us);
}

TEST_CASE("events between streams become edges of the CUDA graph") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 1 us, stream: s}
    - {record: e, stream: s}
    - {kernel: b, duration: 1 us, stream: s}
    - {kernel: c, duration: 1 us, stream: t, after: [e]}
    - {record: f, stream: t}
    - {wait: f, stream: s}
    - {kernel: d, duration: 1 us, stream: s}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph});
  CHECK(edges(c) == Edges{{}, {0}, {0}, {1, 2}});
}

TEST_CASE("a recording that only waits passes on what it waited for") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 1 us, stream: s}
    - {record: e, stream: s}
    - {wait: e, stream: t}
    - {record: f, stream: t}
    - {kernel: b, duration: 1 us, stream: u, after: [f]}
)");
  CHECK(edges(c) == Edges{{}, {0}});
}

TEST_CASE("host work between recorded launches vanishes, before and after it stays") {
  const std::string items = R"(
    - {work: 10 us, name: before}
    - {kernel: a, duration: 1 us}
    - {work: 20 us, name: between}
    - {input: 5 us}
    - {kernel: b, duration: 1 us}
    - {work: 30 us, name: after}
)";
  CHECK(calls(captured(items).program.threads[0]) ==
        Calls{Call::Work, Call::Input, Call::LaunchGraph, Call::Work});
  CaptureOptions replay = options();
  replay.keep_surrounding_work = false;
  CHECK(calls(captured(items, replay).program.threads[0]) == Calls{Call::Input, Call::LaunchGraph});
}

TEST_CASE("calls that block the host cut the recording and are named") {
  const Captured c = captured(R"(
    - {kernel: forward, duration: 1 us, repeat: 2}
    - {copy: d2h, name: item, bytes: 4 B, duration: 1 us, blocking: true}
    - {kernel: backward, duration: 1 us, repeat: 2}
    - {synchronize: device}
    - {kernel: optimizer, duration: 1 us}
    - {synchronize: device}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph, Call::Launch, Call::LaunchGraph,
                                             Call::SynchronizeDevice, Call::LaunchGraph,
                                             Call::SynchronizeDevice});
  REQUIRE(c.cuts.size() == 2);
  CHECK(c.cuts[0].reason == "blocking on 'item' after 'forward'");
  CHECK(c.cuts[1].reason == "synchronising the device after 'backward'");
  CHECK(c.graphs == 3);
}

TEST_CASE("a call that blocks after the step's last launch cuts nothing") {
  CHECK(captured(R"(
    - {synchronize: device}
    - {kernel: a, duration: 1 us}
    - {synchronize: device}
)")
            .cuts.empty());
}

TEST_CASE("equal cuts are counted, not repeated") {
  const Captured c = captured(R"(
    - {repeat: 4, body: [{kernel: a, duration: 1 us}, {synchronize: device}]}
)");
  REQUIRE(c.cuts.size() == 1);
  CHECK(c.cuts[0].count == 3);
}

TEST_CASE("CUDA graphs that the program launches are taken apart into the new one") {
  const Captured c = captured(R"(
    - {kernel: before, duration: 1 us}
    - cuda_graph: child
      nodes:
        - {kernel: a, duration: 1 us, id: a}
        - {kernel: b, duration: 1 us, needs: [a]}
        - {kernel: c, duration: 1 us, needs: [a]}
    - {kernel: after, duration: 1 us}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph});
  CHECK(edges(c) == Edges{{}, {0}, {1}, {1}, {2, 3}});
}

TEST_CASE("an event that is used outside the recording is recorded after its launch") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 5 us}
    - {record: done}
    - {kernel: b, duration: 5 us}
    - {synchronize: {event: done}}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph, Call::Record, Call::SynchronizeEvent});
}

TEST_CASE("a wait for an event of an earlier recording stays before the launch") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 5 us, stream: s}
    - {record: done, stream: s}
    - {synchronize: device}
    - {kernel: b, duration: 5 us, stream: t, after: [done]}
)");
  CHECK(calls(c.program.threads[0]) ==
        Calls{Call::LaunchGraph, Call::Record, Call::SynchronizeDevice, Call::StreamWait, Call::LaunchGraph});
}

TEST_CASE("what is not recorded finds the recorded work of other streams") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 50 us, stream: s}
    - {kernel: b, duration: 5 us, stream: t}
    - {copy: d2h, bytes: 4 B, duration: 1 us, stream: t, blocking: true}
    - {kernel: b, duration: 5 us, stream: t}
    - {synchronize: {stream: t}}
)");
  // The copy runs in its own stream and has to wait for the CUDA graph in the other one.
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph, Call::Record, Call::StreamWait, Call::Launch,
                                             Call::LaunchGraph, Call::SynchronizeStream});
  const auto& instructions = c.program.threads[0].instructions;
  CHECK(instructions[5].stream == instructions[0].stream);
}

TEST_CASE("launches of several host threads are recorded in the order of their calls") {
  const Scenario scenario = read_scenario_text(R"(
workload:
  kernels:
    - {kernel: forward, duration: 1 us, launch: 5 us, repeat: 2}
    - {signal: backward}
    - {await: done}
    - {kernel: optimizer, duration: 1 us, launch: 5 us}
  threads:
    autograd:
      - {await: backward}
      - {work: 3 us}
      - {kernel: backward, duration: 1 us, launch: 5 us}
      - {work: 3 us}
      - {signal: done}
    loader:
      - {work: 7 us}
)",
                                               "test.yaml");
  const BuiltProgram built = build_program(scenario.variants[0]);
  const Captured c = capture(built.program, built.machine, options());
  CHECK(calls(c.program.threads[0]) == Calls{Call::Signal, Call::Await, Call::LaunchGraph});
  CHECK(calls(c.program.threads[1]) == Calls{Call::Await, Call::Signal});
  CHECK(calls(c.program.threads[2]) == Calls{Call::Work});
  REQUIRE(c.graphs == 1);
  std::vector<std::string> names;
  for (const auto& node : c.program.graphs.back().nodes)
    names.push_back(c.program.names[c.program.info[node.op].name]);
  CHECK(names == std::vector<std::string>{"forward", "forward", "backward", "optimizer"});
  CHECK(engine::run(c.program, built.machine).totals.wall == 10_us);
}

TEST_CASE("no CUDA graph reaches across the start of a step") {
  CaptureOptions two_steps = options();
  two_steps.step_starts = {{0, 2}};
  const Captured c = captured(R"(
    - {kernel: a, duration: 1 us, repeat: 4}
)",
                              two_steps);
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph, Call::LaunchGraph});
  CHECK(c.cuts.empty());
}

TEST_CASE("threads that stand for something else are left alone") {
  CaptureOptions keep = options();
  keep.threads_kept = {0};
  const Captured c = captured(R"(
    - {kernel: a, duration: 1 us, repeat: 2}
    - {synchronize: device}
)",
                              keep);
  CHECK(calls(c.program.threads[0]) == Calls{Call::Launch, Call::Launch, Call::SynchronizeDevice});
  CHECK(c.graphs == 0);
}

TEST_CASE("gaps that belong to a stream do not follow an op into the CUDA graph") {
  engine::Program program;
  program.names = {"a"};
  program.streams = {{"s", 0}};
  program.add({.duration = 1_us, .gap_before = 9_us}, {.name = 0});
  engine::Instruction launch;
  launch.call = Call::Launch;
  launch.object = 0;
  program.threads = {{"main", {launch, launch}, {}}};
  const Captured c = capture(program, {}, options());
  REQUIRE(c.nodes == 2);
  for (const auto& node : c.program.graphs.back().nodes)
    CHECK(c.program.ops[node.op].gap_before == engine::gap_from_table);
  CHECK(c.program.ops.size() == 2);
}

TEST_CASE("a recorded fork and join runs its branches at once, sharing the device as the streams did") {
  const auto wall = [](const std::string& what) {
    const Scenario scenario = read_scenario_text(R"(
hardware: {base: h200, launch: {gap: 0 us, graph_gap: 0 us, event_latency: 0 us, arrival_after_call: 0 us}}
workload:
  kernels:
    - {kernel: before, duration: 100 us, launch: 0 us, latency: 0 us}
    - {record: fork, launch: 0 us, latency: 0 us}
    - {kernel: a, duration: 1 ms, launch: 0 us, latency: 0 us, )" +
                                                     what + R"(}
    - {kernel: b, duration: 1 ms, launch: 0 us, latency: 0 us, stream: other, after: [fork], )" +
                                                     what + R"(}
    - {record: join, stream: other, launch: 0 us, latency: 0 us}
    - {kernel: after, duration: 100 us, launch: 0 us, latency: 0 us, after: [join]}
)",
                                                 "test.yaml");
    const BuiltProgram built = build_program(scenario.variants[0]);
    CaptureOptions free;
    free.costs.call = free.costs.latency = [](std::int64_t) { return Picoseconds(0); };
    const Captured c = capture(built.program, built.machine, free);
    CHECK(edges(c) == Edges{{}, {0}, {0}, {1, 2}});
    CHECK(c.program.footprints == built.program.footprints);
    const double streams = in_seconds(engine::run(built.program, built.machine, 1).totals.wall);
    const double graph = in_seconds(engine::run(c.program, built.machine, 1).totals.wall);
    CHECK(graph == test::Approx(streams).epsilon(1e-3));
    return graph;
  };
  // All of the memory's bandwidth each: 8.5 GB at 4.25 TB/s between two of 0.1 ms.
  CHECK(wall("bytes: 4.25 GB, blocks: 528, threads: 256") == test::Approx(2.2e-3).epsilon(2e-3));
  CHECK(wall("blocks: 66, threads: 1024, arithmetic: 1") == test::Approx(1.2e-3).epsilon(2e-3));
  // One has no room beside the other.
  CHECK(wall("blocks: 1056, threads: 256") == test::Approx(2.2e-3).epsilon(2e-3));
}

TEST_CASE("events of a CUDA graph that is taken apart become edges of the recording") {
  const Captured c = captured(R"(
    - {kernel: a, duration: 1 us, stream: s}
    - {record: e, stream: s}
    - {cuda_graph: g, stream: t, nodes: [{kernel: b, duration: 1 us}, {wait: e}, {kernel: c, duration: 1 us}, {record: f}]}
    - {kernel: d, duration: 1 us, stream: s, after: [f]}
)");
  // a, b, c, record, d: the wait is an edge from a to c, and d stands behind a and the record.
  CHECK(edges(c) == Edges{{}, {}, {0, 1}, {2}, {0, 3}});
  CHECK(calls(c.program.threads[0]) == Calls{Call::LaunchGraph});
}

TEST_CASE("a recording of nothing but waits for what is recorded in it leaves nothing to launch") {
  const Captured c = captured(R"(
    - {record: e}
    - {cuda_graph: g, nodes: [{wait: e}]}
    - {synchronize: device}
)");
  CHECK(calls(c.program.threads[0]) == Calls{Call::SynchronizeDevice});
  CHECK(c.graphs == 0);
}
