// SPDX-License-Identifier: Apache-2.0
// The engine and a plainly written event queue (bench/plain_event_queue.hpp), two readings of docs/engine.md
// and of the rule for sharing a device, give the same times.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "bench/plain_event_queue.hpp"
#include "bench/workloads.hpp"
#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::engine;
using bench::Numbers;

namespace {

void check_same(const Program& program, const Machine& machine) {
  Timeline timeline;
  const Run ours = run(program, machine, 1, &timeline);
  std::uint64_t sum_end = 0;
  for (const OpRecord& op : timeline.ops) sum_end += static_cast<std::uint64_t>(op.end.count());
  const bench::PlainResult plain = bench::run_plain(program, machine);
  CHECK(plain.ops == static_cast<std::int64_t>(timeline.ops.size()));
  CHECK(plain.finish == ours.last_op_end.count());
  CHECK(plain.busy == ours.totals.busy.count());
  CHECK(plain.op_sum == ours.totals.op_sum.count());
  CHECK(plain.sum_end == sum_end);
  CHECK(plain.host_end == timeline.threads[0].call_end.back().count());
}

/// A kernel of any shape; one in eight shares nothing.
Index random_kernel(Program& program, Numbers& numbers) {
  GpuOp op;
  op.duration = Picoseconds(numbers.between(500'000, 40'000'000));
  op.gap_class = static_cast<GapClass>(numbers.between(0, 1));
  if (numbers.between(0, 9) == 0) op.gap_before = Picoseconds(numbers.between(0, 2'000'000));
  OpInfo info{.name = 0};
  if (numbers.between(0, 7) > 0) {
    Footprint f;
    const std::int64_t blocks[] = {8, 132, 600, 3000, 100'000};
    f.blocks = numbers.between(1, blocks[numbers.between(0, 4)]);
    f.threads_per_block = static_cast<std::int32_t>(32 * numbers.between(1, 32));
    f.registers_per_thread = static_cast<std::int32_t>(8 * numbers.between(2, 12));
    if (numbers.between(0, 3) == 0) f.shared_memory_per_block = numbers.between(1, 200'000);
    if (numbers.between(0, 1) == 1) f.bytes = op.duration.count() * numbers.between(1, 5000) / 1000;
    if (numbers.between(0, 1) == 1) f.arithmetic = static_cast<double>(numbers.between(0, 100)) / 100;
    f.memory_hidden = numbers.between(0, 5) == 0;
    info.footprint = static_cast<Index>(program.footprints.size());
    program.footprints.push_back(f);
  }
  return program.add(op, info);
}

CudaGraph random_graph(Program& program, Numbers& numbers) {
  CudaGraph graph{.name = 0, .nodes = {}};
  const std::int64_t nodes = numbers.between(1, 16);
  for (std::int64_t i = 0; i < nodes; ++i) {
    CudaGraph::Node node{.op = random_kernel(program, numbers), .after = {}};
    for (std::int64_t before = std::max<std::int64_t>(0, i - 3); before < i; ++before)
      if (numbers.between(0, 1) == 1) node.after.push_back(static_cast<Index>(before));
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

Program random_program(Numbers& numbers) {
  Program program;
  program.names = {"kernel"};
  const std::int64_t streams = numbers.between(2, 4);
  for (std::int64_t i = 0; i < streams; ++i)
    program.streams.push_back({std::to_string(i), numbers.between(0, 7) == 0 ? 1 : 0});
  program.events = {"a", "b", "c"};
  program.threads = {{"main", {}, {}}};
  const std::int64_t graphs = numbers.between(1, 4);
  for (std::int64_t i = 0; i < graphs; ++i) program.graphs.push_back(random_graph(program, numbers));
  LargeVector<Instruction>& out = program.threads[0].instructions;
  const Picoseconds call(numbers.between(100'000, 6'000'000));
  const auto launch = [&](Call kind, std::uint16_t stream, Index object) {
    out.push_back({.call = kind,
                   .stream = stream,
                   .object = object,
                   .duration = call,
                   .latency = call + Picoseconds(numbers.between(-100'000, 3'000'000))});
  };
  const std::int64_t count = numbers.between(5, 60);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto stream = static_cast<std::uint16_t>(numbers.between(0, streams - 1));
    const auto event = static_cast<Index>(numbers.between(0, 2));
    switch (numbers.between(0, 9)) {
      case 0:
      case 1:
        launch(Call::LaunchGraph, stream, static_cast<Index>(numbers.between(0, graphs - 1)));
        out.push_back({.call = Call::Record, .stream = stream, .object = event});
        break;
      case 2:
        out.push_back({.call = Call::StreamWait, .attached = true, .stream = stream, .object = event});
        launch(Call::Launch, stream, random_kernel(program, numbers));
        break;
      case 3:
        launch(Call::StreamWait, stream, event);
        break;
      case 4:
        launch(Call::Record, stream, event);
        break;
      default:
        launch(Call::Launch, stream, random_kernel(program, numbers));
        break;
    }
  }
  // An event that is recorded nowhere would be waited for for ever.
  for (Index event = 0; event < 3; ++event) launch(Call::Record, 0, event);
  return program;
}

Machine random_machine(Numbers& numbers) {
  Machine machine = bench::sharing_machine();
  const std::int32_t depths[] = {1, 3, 10, 1024};
  machine.launch_queue_depth = depths[numbers.between(0, 3)];
  machine.event_latency = Picoseconds(numbers.between(0, 2'000'000));
  machine.graph_class = static_cast<GapClass>(numbers.between(0, 1));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      machine.gap[i][j] = Picoseconds(numbers.between(0, 2'000'000));
      machine.graph_gap[i][j] = Picoseconds(numbers.between(0, 1'000'000));
    }
  if (numbers.between(0, 3) == 0) machine.sharing.bandwidth_per_sm = 0;
  if (numbers.between(0, 3) == 0) machine.sharing.sms = static_cast<std::int32_t>(numbers.between(1, 20));
  if (numbers.between(0, 9) == 0) machine.sharing.sms = 0;
  return machine;
}

}  // namespace

TEST_CASE("A plain event queue gives the engine's times on graphs and kernels that share a device",
          "[sharing]") {
  for (const std::int64_t n : {1, 100, 1000, 20'000}) {
    INFO(n << " kernels");
    check_same(bench::sharing_graphs(n, Picoseconds(5'000'000)), bench::sharing_machine());
  }
}

TEST_CASE("A plain event queue gives the engine's times on the launch queue and on two streams") {
  for (const std::int64_t call : {6'000'000, 2'000'000, 200'000})
    for (const bool two : {false, true}) {
      INFO("calls of " << call << " ps, " << (two ? "two streams" : "one stream"));
      check_same(bench::launches(5000, Picoseconds(call), two), Machine{});
    }
}

TEST_CASE("A plain event queue gives the engine's times on random programs that share devices", "[sharing]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Numbers numbers(seed * 7919 + 1);
    const Machine machine = random_machine(numbers);
    check_same(random_program(numbers), machine);
  }
}
