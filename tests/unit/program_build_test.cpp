// SPDX-License-Identifier: Apache-2.0
#include "sim/program/build.hpp"

#include <algorithm>

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

double in_seconds(Picoseconds time) {
  return static_cast<double>(time.count()) / 1e12;
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

TEST_CASE("a kernel with bytes and no duration takes the longer of the roofs, after a copy's latency") {
  // 1.5 us + 24 MB / 4.8 TB/s = 6.5 us; 1.5 us + 9.89 GFLOP at the bf16 peak of 989 TFLOP/s = 11.5 us.
  const BuiltProgram built = build(R"(
hardware: {base: h200, memory: {bandwidth: 4.8 TB/s}, peak: {bf16: 989 TFLOP/s}, copy: {latency: 1.5 us}}
workload:
  kernels:
    - {kernel: reads, bytes: 24 MB}
    - {kernel: multiplies, bytes: 24 MB, flops: 9.89 GFLOP, dtype: bf16}
    - {kernel: of no dtype, bytes: 24 MB, flops: 9.89 GFLOP}
)");
  REQUIRE(built.program.ops.size() == 3);
  CHECK(built.program.ops[0].duration == 6500_ns);
  CHECK(built.program.ops[1].duration == 11500_ns);
  CHECK(built.program.ops[2].duration == 6500_ns);
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

TEST_CASE("a kernel has a footprint exactly when its blocks and their threads are given") {
  const auto built = build(R"(
hardware: h200
workload:
  kernels:
    - {kernel: a, duration: 10 us, bytes: 13.2 MB, blocks: 264, threads: 256}
    - {kernel: b, duration: 10 us, bytes: 1 MB, blocks: 264}
    - {kernel: c, duration: 10 us, blocks: 7, threads: 64, registers: 40, shared_memory: 48 KiB, arithmetic: 0.3,
       memory_hidden: true}
)");
  const engine::Program& program = built.program;
  REQUIRE(program.footprints.size() == 2);
  CHECK(program.info[0].footprint == 0);
  CHECK(program.info[1].footprint == engine::no_index);
  CHECK(program.info[2].footprint == 1);
  const engine::Footprint& a = program.footprints[0];
  CHECK(a.blocks == 264);
  CHECK(a.threads_per_block == 256);
  CHECK(a.registers_per_thread == 32);
  CHECK(a.bytes == 13'200'000);
  // 1320 GB/s over 132 SMs are 10 GB/s each: 2.1 % of their issue slots.
  CHECK(a.arithmetic == test::Approx(0.021));
  CHECK(program.footprints[1] == engine::Footprint{.blocks = 7,
                                                   .threads_per_block = 64,
                                                   .registers_per_thread = 40,
                                                   .shared_memory_per_block = 48 * 1024,
                                                   .bytes = 0,
                                                   .arithmetic = 0.3,
                                                   .memory_hidden = true});
}

TEST_CASE("traffic takes no more issue slots than its kernel can draw, and follows the duration") {
  const auto footprints = build(R"(
hardware: h200
workload:
  distributions: {d: {uniform: {min: 5 us, max: 15 us}}}
  kernels:
    - {kernel: few_sms, duration: 1 us, bytes: 1 GB, blocks: 1, threads: 256}
    - {kernel: all_sms, duration: 1 us, bytes: 1 GB, blocks: 999, threads: 256}
    - {kernel: turns, durations: [10 us, 20 us], bytes: 13.2 MB, blocks: 132, threads: 256}
    - {kernel: random, distribution: d, bytes: 13.2 MB, blocks: 132, threads: 256}
    - {kernel: empty, duration: 0 us, bytes: 1 MB, blocks: 132, threads: 256}
)")
                              .program.footprints;
  REQUIRE(footprints.size() == 6);
  CHECK(footprints[0].arithmetic == test::Approx(0.21));                 // 100 GB/s an SM
  CHECK(footprints[1].arithmetic == test::Approx(0.0021 * 4250 / 132));  // 4.25 TB/s in all
  CHECK(footprints[2].arithmetic == test::Approx(0.021));
  CHECK(footprints[3].arithmetic == test::Approx(0.0105));
  CHECK(footprints[4].arithmetic == test::Approx(0.021));
  CHECK(footprints[5].arithmetic == 0);
}

TEST_CASE("the machine shares what the hardware says, and nothing where it says nothing") {
  const auto sharing = [](const std::string& hardware) {
    return build("hardware: " + hardware + "\nworkload: {kernels: []}").machine.sharing;
  };
  const engine::SharingMachine h200 = sharing("h200");
  CHECK(h200.sms == 132);
  CHECK(h200.threads_per_sm == 2048);
  CHECK(h200.registers_per_sm == 65536);
  CHECK(h200.shared_memory_per_sm == 228 * 1024);
  CHECK(h200.blocks_per_sm == 32);
  CHECK(h200.bandwidth_top == test::Approx(4.25e12));
  CHECK(h200.bandwidth_per_sm == 100e9);
  const engine::SharingMachine t4 = sharing("t4");
  CHECK(t4.threads_per_sm == 1024);
  CHECK(t4.blocks_per_sm == 16);
  CHECK(t4.bandwidth_per_sm == 0);
  CHECK(sharing("{base: h200, memory: {bandwidth_top: 4 TB/s}}").bandwidth_top == 4e12);
  CHECK(sharing("{base: h200, sm: null}").sms == 0);
  CHECK(sharing("mi300x").sms == 0);
  CHECK(sharing("null").sms == 0);
}

TEST_CASE("copies within the device and memsets are kernels where the hardware's SMs are known") {
  const std::string items = R"(
workload:
  kernels:
    - {copy: d2d, bytes: 1 GiB}
    - {memset: zero, bytes: 1 GiB}
    - {memset: small, bytes: 4 B}
    - {copy: d2d, duration: 1 us}
    - {copy: h2d, bytes: 1 GiB, duration: 1 ms}
)";
  const engine::Program known = build("hardware: h200" + items).program;
  REQUIRE(known.footprints.size() == 3);
  CHECK(known.footprints[0].blocks == 8 * 132);
  CHECK(known.footprints[0].threads_per_block == 256);
  CHECK(known.footprints[0].bytes == std::int64_t{2} << 30);
  CHECK(known.footprints[1].bytes == std::int64_t{1} << 30);
  CHECK(known.footprints[2].blocks == 1);
  CHECK(known.ops[0].copy_engine == engine::CopyEngine::None);
  CHECK(known.info[0].bytes == std::int64_t{1} << 30);
  CHECK(known.ops[3].copy_engine == engine::CopyEngine::DeviceToDevice);
  CHECK(known.info[3].footprint == engine::no_index);
  CHECK(known.ops[4].copy_engine == engine::CopyEngine::HostToDevice);
  CHECK(known.info[4].footprint == engine::no_index);
  const engine::Program unknown = build("hardware: mi300x" + items).program;
  CHECK(unknown.footprints.empty());
  CHECK(unknown.ops[0].copy_engine == engine::CopyEngine::DeviceToDevice);
}

TEST_CASE("a copy within the device halves the bandwidth of a kernel beside it") {
  const std::string items = R"(
workload:
  kernels:
    - {kernel: a, duration: 1 ms, launch: 0 us, latency: 0 us, bytes: 4.25 GB, blocks: 264, threads: 256}
    - {copy: d2d, duration: 1 ms, launch: 0 us, latency: 0 us, bytes: 2.125 GB, stream: other}
)";
  const auto wall = [&](const std::string& hardware) {
    const auto built = build("hardware: " + hardware + items);
    return in_seconds(engine::run(built.program, built.machine, 1).totals.wall);
  };
  // 8.5 GB at 4.25 TB/s, but for the end, when the copy's last blocks are alone.
  CHECK(wall("{base: h200, launch: {gap: 0 us}}") == test::Approx(2e-3).epsilon(1e-2));
  CHECK(wall("{base: h200, sm: null, launch: {gap: 0 us}}") == test::Approx(1e-3));
}

TEST_CASE("streams, synchronisations and peer copies go to the device that is said") {
  const engine::Program program = build(R"(
workload:
  streams: {far: {device: 2}}
  kernels:
    - {kernel: a, duration: 10 us, launch: 1 us}
    - {kernel: b, duration: 20 us, launch: 1 us, stream: far}
    - {copy: peer, to: 2, bytes: 1 MiB, duration: 5 us, launch: 1 us}
    - {synchronize: {device: 2}}
    - {synchronize: device}
)")
                                      .program;
  REQUIRE(program.streams.size() == 2);
  CHECK(program.streams[0].device == 0);
  CHECK(program.streams[1].device == 2);
  CHECK(program.ops[2].copy_engine == engine::CopyEngine::Peer);
  CHECK(program.ops[2].peer == 2);
  CHECK(program.names[program.info[2].name] == "Memcpy PtoP");
  const auto& instructions = program.threads[0].instructions;
  CHECK(instructions[3].object == 2);
  CHECK(instructions[4].object == 0);
  // a from 1 to 11 us, the copy until 16; b on the other device from 2 to 22.
  CHECK(engine::run(program, engine::Machine{}, 1).totals.wall == 22_us);
}

TEST_CASE("events in a CUDA graph release other streams while it runs, and hold it up") {
  const BuiltProgram built = build(R"(
workload:
  kernels:
    - {kernel: first, duration: 30 us, launch: 1 us, latency: 1 us, stream: other}
    - {record: first, stream: other, launch: 0 us, latency: 0 us}
    - cuda_graph: g
      launch: 1 us
      latency: 1 us
      nodes:
        - {kernel: a, duration: 10 us, id: a}
        - {record: a, needs: [a]}
        - {wait: first, id: w, needs: [a]}
        - {kernel: b, duration: 10 us, needs: [w]}
    - {kernel: c, duration: 5 us, launch: 1 us, latency: 1 us, stream: third, after: [a]}
)");
  engine::Timeline timeline;
  engine::run(built.program, built.machine, 1, &timeline);
  std::vector<std::pair<Picoseconds, Picoseconds>> times;
  for (const engine::OpRecord& op : timeline.ops) times.emplace_back(op.start, op.end);
  std::sort(times.begin(), times.end());
  // first 1 to 31; a 2 to 12; c after a; b after first.
  CHECK(times == std::vector<std::pair<Picoseconds, Picoseconds>>{
                     {1_us, 31_us}, {2_us, 12_us}, {12_us, 17_us}, {31_us, 41_us}});
}
