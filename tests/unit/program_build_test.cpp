// SPDX-License-Identifier: Apache-2.0
#include "sim/program/build.hpp"

#include "sim/engine/engine.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::literals;
using engine::Call;

namespace {

Variant variant_of(const std::string& text) {
  return read_scenario_text(text, "test.yaml").variants.at(0);
}

BuiltProgram build(const std::string& text) {
  return build_program(variant_of(text));
}

std::vector<Call> calls(const engine::HostThread& thread) {
  std::vector<Call> result;
  for (const auto& instruction : thread.instructions) result.push_back(instruction.call);
  return result;
}

}  // namespace

TEST_CASE("an item is one op whatever its repeat, and one launch for each") {
  const BuiltProgram built =
      build("workload: {kernels: [{kernel: a, duration: 3 us, repeat: 300, launch: 6 us}]}");
  CHECK(built.program.ops.size() == 1);
  REQUIRE(built.program.threads.size() == 1);
  CHECK(built.program.threads[0].name == "main");
  REQUIRE(built.program.threads[0].instructions.size() == 300);
  const engine::Instruction& launch = built.program.threads[0].instructions[299];
  CHECK(launch.call == Call::Launch);
  CHECK(launch.duration == 6_us);
  CHECK(launch.latency == 6_us);
}

TEST_CASE("without hardware kernel i starts at the later of its launch and its predecessor's end") {
  const BuiltProgram built = build(R"(
workload:
  kernels:
    - {kernel: k, durations: [1 us, 1 us, 50 us, 1 us, 1 us], repeat: 5, launch: 6 us}
)");
  engine::Timeline timeline;
  engine::run(built.program, built.machine, 1, &timeline);
  REQUIRE(timeline.ops.size() == 5);
  Picoseconds end{0};
  for (std::size_t i = 0; i < 5; ++i) {
    const Picoseconds issued = 6_us * static_cast<std::int64_t>(i + 1);
    CHECK(timeline.ops[i].start == std::max(issued, end));
    end = timeline.ops[i].end;
  }
  CHECK(end == 70_us);
}

TEST_CASE("durations are taken in turn over all executions of the item in a step") {
  const BuiltProgram built = build(R"(
workload:
  kernels:
    - {repeat: 2, body: [{kernel: k, durations: [1 us, 2 us, 3 us], repeat: 2}]}
)");
  std::vector<Picoseconds> durations;
  for (const auto& instruction : built.program.threads[0].instructions)
    durations.push_back(built.program.ops[instruction.object].duration);
  CHECK(durations == std::vector<Picoseconds>{1_us, 2_us, 3_us, 1_us});
}

TEST_CASE("launches take the hardware's times where the item gives none") {
  const Variant variant = variant_of(R"(
hardware: h200
workload:
  kernels:
    - {kernel: a, duration: 3 us}
    - {kernel: b, duration: 3 us, launch: 6 us}
    - {kernel: c, duration: 3 us, launch: 6 us, latency: 9 us}
)");
  const LaunchSpec& launch = variant.hardware->launch;
  const auto instructions = build_program(variant).program.threads[0].instructions;
  CHECK(instructions[0].duration == launch.call);
  CHECK(instructions[0].latency == launch.call + launch.arrival_after_call);
  CHECK(instructions[1].duration == 6_us);
  CHECK(instructions[1].latency == 6_us + launch.arrival_after_call);
  CHECK(instructions[2].latency == 9_us);
}

TEST_CASE("copies without a duration take the hardware's latency and bandwidth") {
  const Variant variant = variant_of(R"(
hardware: h200
workload:
  kernels:
    - {copy: h2d, bytes: 128 MiB}
    - {copy: d2h, bytes: 128 MiB, duration: 2 ms}
)");
  const auto ops = build_program(variant).program.ops;
  CHECK(ops[0].duration == host_to_device_time(*variant.hardware, 128_MiB));
  CHECK(ops[0].copy_engine == engine::CopyEngine::HostToDevice);
  CHECK(ops[1].duration == 2_ms);
  CHECK(ops[1].copy_engine == engine::CopyEngine::DeviceToHost);
  CHECK(static_cast<GapClass>(ops[0].gap_class) == GapClass::Memcpy);
}

TEST_CASE("kernels get the gap class of their length") {
  const auto ops = build(R"(
hardware: h200
workload:
  kernels:
    - {kernel: short, duration: 3999 ns}
    - {kernel: long, duration: 4 us}
    - {kernel: pdl, duration: 9 us, programmatic: true}
)")
                       .program.ops;
  CHECK(static_cast<GapClass>(ops[0].gap_class) == GapClass::ShortKernel);
  CHECK(static_cast<GapClass>(ops[1].gap_class) == GapClass::LongKernel);
  CHECK(static_cast<GapClass>(ops[2].gap_class) == GapClass::Programmatic);
}

TEST_CASE("waits given by after ride on the launch") {
  const auto built = build(R"(
workload:
  kernels:
    - {record: e, stream: other}
    - {kernel: a, duration: 1 us, after: [e]}
    - {wait: e}
)");
  const auto& instructions = built.program.threads[0].instructions;
  CHECK(calls(built.program.threads[0]) ==
        std::vector<Call>{Call::Record, Call::StreamWait, Call::Launch, Call::StreamWait});
  CHECK(instructions[1].attached);
  CHECK(instructions[1].stream == instructions[2].stream);
  CHECK_FALSE(instructions[3].attached);
}

TEST_CASE("a repeated node of a CUDA graph becomes a chain, and what needs it needs the last of it") {
  const auto built = build(R"(
workload:
  kernels:
    - cuda_graph: g
      repeat: 2
      nodes:
        - {kernel: a, duration: 1 us, repeat: 3, id: a}
        - {kernel: b, duration: 1 us, needs: []}
        - {kernel: c, duration: 1 us, needs: [a]}
)");
  REQUIRE(built.program.graphs.size() == 1);
  const auto& nodes = built.program.graphs[0].nodes;
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[0].after.empty());
  CHECK(nodes[1].after == std::vector<engine::Index>{0});
  CHECK(nodes[2].after == std::vector<engine::Index>{1});
  CHECK(nodes[3].after.empty());
  CHECK(nodes[4].after == std::vector<engine::Index>{2});
  CHECK(calls(built.program.threads[0]) == std::vector<Call>{Call::LaunchGraph, Call::LaunchGraph});
}

TEST_CASE("a free gives back what was allocated under its name") {
  const auto built = build("workload: {kernels: [{allocate: x, bytes: 1 GiB}, {free: x}]}");
  const auto& instructions = built.program.threads[0].instructions;
  CHECK(built.program.sizes.at(instructions[0].object) == 1 << 30);
  CHECK(built.program.sizes.at(instructions[1].object) == 1 << 30);
  CHECK(engine::run(built.program, built.machine).final_bytes == 0);
}

TEST_CASE("a step beyond the engine's clock is refused") {
  CHECK_THROWS_WITH(build("workload: {kernels: [{kernel: a, duration: 36000 s, repeat: 3}]}"),
                    test::ContainsSubstring("step_time_max"));
}

TEST_CASE("where nobody prices a CUDA graph its launch costs the median launch") {
  const auto built =
      build("workload: {kernels: [{kernel: a, duration: 1 us, launch: 6 us, latency: 8 us, repeat: 9}]}");
  const CudaGraphCosts costs = cuda_graph_costs(std::nullopt, built.program);
  CHECK(costs.call(1) == 6_us);
  CHECK(costs.call(4096) == 6_us);
  CHECK(costs.latency(1) == 8_us);
}
