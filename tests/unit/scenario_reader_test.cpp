// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_reader.hpp"

#include "models/units/quantity.hpp"
#include "sim/app/expectations.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::literals;

namespace {

Scenario read(const std::string& text, ScenarioOptions options = {}) {
  options.metrics = metric_paths();
  return read_scenario_text(text, "test.yaml", options);
}

const KernelsWorkload& kernels(const Variant& variant) {
  return std::get<KernelsWorkload>(variant.workload.source);
}

const Item& item(const Variant& variant, std::size_t i) {
  return kernels(variant).threads[0].items.at(i);
}

}  // namespace

TEST_CASE("a kernel item reads into the struct that says the same") {
  const Scenario scenario = read(R"(
workload:
  kernels:
    - {kernel: gemm, duration: 3 us, repeat: 4, stream: compute, launch: 6 us, latency: 7 us, bytes: 256 MiB,
       flops: 2 TFLOP, dtype: bf16, blocks: 132, threads: 256, registers: 40,
       shared_memory: 48 KiB, arithmetic: 0.3, memory_hidden: true, programmatic: true, after: [ready]}
    - {record: ready}
)");
  REQUIRE(scenario.variants.size() == 1);
  CHECK(scenario.name == "test");
  CHECK(scenario.variants[0].name == "default");
  KernelItem expected;
  expected.name = "gemm";
  expected.duration.in_turn = {3_us};
  expected.repeat = 4;
  expected.stream = "compute";
  expected.launch = {.call = 6_us, .latency = 7_us, .returns = {}};
  expected.bytes = 256_MiB;
  expected.flops = Flops(2e12);
  expected.dtype = "bf16";
  expected.blocks = 132;
  expected.threads = 256;
  expected.registers = 40;
  expected.shared_memory = 48_KiB;
  expected.arithmetic = 0.3;
  expected.memory_hidden = true;
  expected.programmatic = true;
  expected.after = {"ready"};
  CHECK(item(scenario.variants[0], 0) == Item{expected});
}

TEST_CASE("every kind of item is told by its key, wherever in the item it stands") {
  const Scenario scenario = read(R"(
workload:
  kernels:
    - {repeat: 2, kernel: a, durations: [1 us, 2 us]}
    - {name: python, work: 5 us}
    - {input: 6 us}
    - {bytes: 4 B, copy: d2h, duration: 1 us, blocking: true}
    - {memset: zero, duration: 1 us}
    - {record: e, stream: s}
    - {wait: e}
    - {synchronize: device}
    - {synchronize: {stream: s}}
    - {synchronize: {event: e}}
    - {allocate: x, bytes: 1 GiB}
    - {free: x}
    - {signal: go}
    - {await: go}
    - {repeat: 3, body: [{kernel: b, duration: 1 us}]}
    - {cuda_graph: g, nodes: [{kernel: c, duration: 1 us}]}
)");
  const Variant& v = scenario.variants[0];
  CHECK(std::get<KernelItem>(item(v, 0).what).duration.in_turn == std::vector<Picoseconds>{1_us, 2_us});
  CHECK(std::get<WorkItem>(item(v, 1).what) == WorkItem{5_us, "python", false, 1});
  CHECK(std::get<WorkItem>(item(v, 2).what) == WorkItem{6_us, "", true, 1});
  CHECK(std::get<CopyItem>(item(v, 3).what).blocking);
  CHECK(std::get<CopyItem>(item(v, 3).what).direction == CopyDirection::DeviceToHost);
  CHECK(std::get<MemsetItem>(item(v, 4).what).name == "zero");
  CHECK(std::get<RecordItem>(item(v, 5).what) == RecordItem{"e", "s", {}});
  CHECK(std::get<WaitItem>(item(v, 6).what) == WaitItem{"e", "default", {}});
  CHECK(std::get<SynchronizeItem>(item(v, 7).what) ==
        SynchronizeItem{SynchronizeItem::Target::Device, "", 0, {}});
  CHECK(std::get<SynchronizeItem>(item(v, 8).what) ==
        SynchronizeItem{SynchronizeItem::Target::Stream, "s", 0, {}});
  CHECK(std::get<SynchronizeItem>(item(v, 9).what) ==
        SynchronizeItem{SynchronizeItem::Target::Event, "e", 0, {}});
  CHECK(std::get<AllocateItem>(item(v, 10).what) == AllocateItem{"x", 1_GiB});
  CHECK(std::get<FreeItem>(item(v, 11).what) == FreeItem{"x", 1_GiB});
  CHECK(std::get<SignalItem>(item(v, 12).what).signal == "go");
  CHECK(std::get<AwaitItem>(item(v, 13).what).signal == "go");
  CHECK(std::get<LoopItem>(item(v, 14).what).body.size() == 1);
  CHECK(std::get<CudaGraphItem>(item(v, 15).what).nodes.size() == 1);
}

TEST_CASE("a node of a CUDA graph waits for the node before it unless needs says otherwise") {
  const Scenario scenario = read(R"(
workload:
  kernels:
    - cuda_graph: g
      nodes:
        - {kernel: a, duration: 1 us, id: a}
        - {kernel: b, duration: 1 us, id: b}
        - {kernel: c, duration: 1 us, id: c, needs: []}
        - {kernel: d, duration: 1 us, needs: [c, a, c]}
)");
  const auto& graph = std::get<CudaGraphItem>(item(scenario.variants[0], 0).what);
  CHECK(graph.nodes[0].needs.empty());
  CHECK(graph.nodes[1].needs == std::vector<std::size_t>{0});
  CHECK(graph.nodes[2].needs.empty());
  CHECK(graph.nodes[3].needs == std::vector<std::size_t>{0, 2});
}

TEST_CASE("variants merge maps and replace lists and scalars") {
  const Scenario scenario = read(R"(
seed: 1
steps: 10
workload:
  kernels: [{kernel: a, duration: 1 us}, {kernel: b, duration: 1 us}]
  dtype: bf16
variants:
  same:
  other: {seed: 2, workload: {kernels: [{kernel: c, duration: 2 us}]}}
)");
  REQUIRE(scenario.variants.size() == 2);
  const Variant& same = scenario.variants[0];
  const Variant& other = scenario.variants[1];
  CHECK(same.seed == 1);
  CHECK(other.seed == 2);
  CHECK(other.steps == 10);
  CHECK(kernels(same).threads[0].items.size() == 2);
  CHECK(kernels(other).threads[0].items.size() == 1);
  CHECK(other.workload.dtype == "bf16");
}

TEST_CASE("a map over the name of hardware changes that hardware") {
  const std::string text = R"(
hardware: h200
workload: {kernels: []}
variants:
  plain: {}
  faster: {hardware: {memory: {bandwidth: 6 TB/s}}}
)";
  const Scenario scenario = read(text);
  const GpuSpec& plain = *scenario.variants[0].hardware;
  GpuSpec faster = *scenario.variants[1].hardware;
  CHECK(faster.memory.bandwidth == BytesPerSecond(6e12));
  CHECK(plain.memory.bandwidth != faster.memory.bandwidth);
  faster.memory.bandwidth = plain.memory.bandwidth;
  CHECK(faster == plain);

  ScenarioOptions options;
  options.sets = {"hardware.memory.bandwidth=6 TB/s"};
  CHECK(read(text, options).variants[0].hardware->memory.bandwidth == BytesPerSecond(6e12));
}

TEST_CASE("--set applies before variants are laid over") {
  ScenarioOptions options;
  options.sets = {"seed=5", "variants.b.seed=6", "workload.kernels.0.duration=4 us"};
  const Scenario scenario = read(R"(
seed: 1
workload: {kernels: [{kernel: a, duration: 1 us}]}
variants: {a: {}, b: {seed: 2}, c: {seed: 3}}
)",
                                 options);
  CHECK(scenario.variants[0].seed == 5);
  CHECK(scenario.variants[1].seed == 6);
  CHECK(scenario.variants[2].seed == 3);
  CHECK(std::get<KernelItem>(item(scenario.variants[0], 0).what).duration.in_turn[0] == 4_us);
}

TEST_CASE("--variant picks variants and leaves out expectations about others") {
  ScenarioOptions options;
  options.variants = {"b"};
  options.steps = 7;
  options.seed = 8;
  const Scenario scenario = read(R"(
workload: {kernels: []}
variants: {a: {}, b: {}}
expect:
  - {path: a.step_time, equals: 1 us}
  - {path: b.step_time, equals: 1 us}
  - {path: b.step_time, max: 1, relative_to: a}
)",
                                 options);
  REQUIRE(scenario.variants.size() == 1);
  CHECK(scenario.variants[0].name == "b");
  CHECK(scenario.variants[0].steps == 7);
  CHECK(scenario.variants[0].seed == 8);
  REQUIRE(scenario.expectations.size() == 1);
  CHECK(scenario.expectations[0].variant == "b");
}

TEST_CASE("expectations carry a unit exactly where the figure's name does not") {
  const Scenario scenario = read(R"(
workload: {kernels: []}
expect:
  - {path: step_time, equals: 1.5 ms, within: 5 %}
  - {path: step_time_us, equals: 1500, within: 1}
  - {path: default.idle.dispatch, min: 1 us, max: 2 us}
  - {path: peak_memory, max: 1 GiB}
  - {path: hbm_bytes, equals: 1 KiB}
  - {path: gpu_utilization, equals: 50 %}
  - {path: regime, not: compute}
  - {path: steady, equals: true}
  - {path: mfu, equals: null}
)");
  const auto& e = scenario.expectations;
  REQUIRE(e.size() == 10);
  CHECK(e[0].metric == "step_time_us");
  CHECK(e[0].value == Expectation::Value(1500_us));
  CHECK(e[0].within->relative);
  CHECK(e[0].within->value == Approx(0.05));
  CHECK(e[1].value == Expectation::Value(1500.0));
  CHECK_FALSE(e[1].within->relative);
  CHECK(e[2].metric == "idle_us.dispatch");
  CHECK(e[2].relation == Expectation::Relation::Min);
  CHECK(e[3].relation == Expectation::Relation::Max);
  CHECK(e[3].value == Expectation::Value(2_us));
  CHECK(e[4].metric == "peak_memory_bytes");
  CHECK(e[4].value == Expectation::Value(1073741824.0));
  CHECK(e[5].value == Expectation::Value(1024.0));
  CHECK(e[6].value == Expectation::Value(0.5));
  CHECK(e[7].value == Expectation::Value(std::string("compute")));
  CHECK(e[8].value == Expectation::Value(true));
  CHECK(e[9].value == Expectation::Value(std::monostate{}));
}

TEST_CASE("streams are on the devices that are said, peer copies go to one, events stand in CUDA graphs") {
  const Scenario scenario = read(R"(
workload:
  streams: {far: {device: 1}, gone: {device: 2}}
  kernels:
    - {copy: peer, to: 1, bytes: 1 MiB, duration: 3 us}
    - {synchronize: {device: 1}}
    - cuda_graph: g
      stream: far
      nodes:
        - {wait: go, id: w}
        - {copy: peer, to: 0, duration: 1 us}
        - {record: done, needs: [w]}
    - {synchronize: {event: done}}
variants:
  one: {workload: {streams: {gone: null}}}
)");
  const Variant& v = scenario.variants[0];
  CHECK(kernels(v).streams == std::vector<StreamPlace>{{"far", 1}});
  const auto& copy = std::get<CopyItem>(item(v, 0).what);
  CHECK(copy.direction == CopyDirection::Peer);
  CHECK(copy.to == 1);
  CHECK(std::get<SynchronizeItem>(item(v, 1).what).device == 1);
  const auto& graph = std::get<CudaGraphItem>(item(v, 2).what);
  CHECK(std::get<WaitItem>(graph.nodes[0].op).event == "go");
  CHECK(std::get<RecordItem>(graph.nodes[2].op).event == "done");
  CHECK(graph.nodes[2].needs == std::vector<std::size_t>{0});
}
