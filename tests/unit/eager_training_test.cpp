// SPDX-License-Identifier: Apache-2.0
// A training step as a program: two host threads, micro-batches, marks.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "models/graph/data_parallel.hpp"
#include "models/graph/training.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/eager.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::literals;

HostSpec host() {
  HostSpec spec;
  spec.key = "test";
  spec.name = "test";
  spec.default_op = HostOpCost{.no_grad = 10_us};
  return spec;
}

TrainingOptions options(std::int64_t accumulation = 1) {
  TrainingOptions result;
  result.precision = TrainingPrecision::Pure;
  result.loss = LossKind::Mean;
  result.optimizer.kind = OptimizerKind::Sgd;
  result.optimizer.loop = OptimizerLoop::Fused;
  result.accumulation = accumulation;
  return result;
}

/// The mean of a layer's output, by SGD.
OpGraph layer(std::int64_t accumulation = 1) {
  const OpGraph forward = test::small_graph("  - z = linear(x, 8)\n",
                                            test::sizes(1, 1, StepKind::Training, {}, ElementType::Fp32));
  return training_graph(forward, options(accumulation));
}

EagerProgram eager(const OpGraph& graph, const HostSpec& on = host(), std::int64_t accumulation = 1) {
  return build_eager(graph, test::h200(), on, HostOpMode::Grad, {.accumulation = accumulation});
}

Picoseconds host_time(const engine::HostThread& thread) {
  Picoseconds sum{0};
  for (const engine::Instruction& i : thread.instructions) sum += i.duration;
  return sum;
}

/// The calls of a thread that are not work, each row of launches as one.
std::vector<engine::Call> calls(const engine::HostThread& thread) {
  std::vector<engine::Call> result;
  for (const engine::Instruction& i : thread.instructions) {
    if (i.call == engine::Call::Work) continue;
    if (i.call == engine::Call::Launch && !result.empty() && result.back() == i.call) continue;
    result.push_back(i.call);
  }
  return result;
}

std::ptrdiff_t launches(const EagerProgram& program) {
  std::ptrdiff_t count = 0;
  for (const engine::HostThread& thread : program.built.program.threads)
    count += std::count_if(thread.instructions.begin(), thread.instructions.end(),
                           [](const engine::Instruction& i) { return i.call == engine::Call::Launch; });
  return count;
}

TEST_CASE("backward runs on autograd's thread while the main thread waits for it") {
  using engine::Call;
  const EagerProgram step = eager(layer());
  const auto& threads = step.built.program.threads;
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].name == "main");
  CHECK(threads[1].name == "autograd");
  // Forward; backward begins, and is waited for; the optimizer.
  CHECK(calls(threads[0]) == std::vector{Call::Launch, Call::Signal, Call::Await, Call::Launch});
  CHECK(calls(threads[1]) == std::vector{Call::Await, Call::Launch, Call::Signal});
  // The threads never work at the same time: a host-bound step takes what both do.
  const engine::Steady steady = engine::run_steady(step.built.program, step.built.machine, {});
  CHECK(steady.period.wall == steady.period.steps * (host_time(threads[0]) + host_time(threads[1])));
}

TEST_CASE("a step that does not train has no thread for autograd") {
  const OpGraph forward = test::small_graph("  - z = linear(x, 8)\n");
  CHECK(eager(forward).built.program.threads.size() == 1);
  CHECK(eager(forward).built.marks.empty());
}

TEST_CASE("each autograd node costs the host what its file says") {
  HostSpec on = host();
  const Picoseconds without = host_time(eager(layer(), on).built.program.threads[1]);
  on.ops["autograd_node"] = HostOpCost{.no_grad = 3_us};
  std::int64_t nodes = 0;
  for (const Op& op : layer().ops) nodes += op.nodes;
  // The mean, the layer, and one for each of its parameters that keeps the gradient, at least.
  CHECK(nodes >= 4);
  CHECK(host_time(eager(layer(), on).built.program.threads[1]) - without == nodes * 3_us);
}

TEST_CASE("after a profiler every launch costs the host more, on the thread that makes it") {
  HostSpec on = host();
  on.ops["after_profiler"] = HostOpCost{.no_grad = 3_us, .grad = 4_us, .backward = 7_us};
  on.ops["after_profiler_node"] = HostOpCost{.no_grad = 1_us};
  const EagerProgram before = eager(layer(), on);
  on.after_profiler = true;
  const EagerProgram after = eager(layer(), on);
  const auto made = [](const engine::HostThread& thread) {
    return std::count_if(thread.instructions.begin(), thread.instructions.end(),
                         [](const engine::Instruction& i) { return i.call == engine::Call::Launch; });
  };
  for (const std::size_t t : {std::size_t{0}, std::size_t{1}}) {
    const engine::HostThread& thread = after.built.program.threads[t];
    CHECK(host_time(thread) - host_time(before.built.program.threads[t]) ==
          made(thread) * (t == 0 ? 4_us : 7_us));
  }
}

TEST_CASE("a checkpointed block costs the host its hooks, on the way in and when it is made again") {
  const OpGraph forward = build_graph(
      test::network_of(
          "name: small\ninputs:\n  x: {shape: [batch, 16]}\nblocks:\n  block:\n    takes: [x]\n    body:\n"
          "      - x = linear(tanh(linear(x, 64)), 16)\n    gives: [x]\n"
          "body:\n  - repeat: 3\n    body:\n      - x = block(x)\n  - z = x\ngives: [z]\n"),
      test::sizes(4, 1, StepKind::Training, {}, ElementType::Fp32));
  TrainingOptions how = options();
  how.checkpointing = Checkpointing::Blocks;
  const OpGraph graph = training_graph(forward, how);
  HostSpec on = host();
  for (const char* op : {"checkpoint", "checkpoint_tensor", "checkpoint_again", "checkpoint_tensor_again"})
    on.ops[op] = HostOpCost{.no_grad = 0_us};
  const EagerProgram bare = eager(graph, on);
  const auto times = [&](const char* op, std::size_t thread) {
    HostSpec priced = on;
    priced.ops[op] = HostOpCost{.no_grad = 100_us};
    const EagerProgram step = eager(graph, priced);
    const auto more = [&](std::size_t t) {
      return host_time(step.built.program.threads[t]) - host_time(bare.built.program.threads[t]);
    };
    CHECK(more(1 - thread) == 0_us);
    return more(thread) / 100_us;
  };
  CHECK(times("checkpoint", 0) == 3);
  CHECK(times("checkpoint_again", 1) == 3);
  // Of each block: what goes into a product and its weight, twice, and tanh's result. The first block's input
  // needs no gradient, so the weight of its first product is read by nobody.
  CHECK(times("checkpoint_tensor", 0) == 5 + 5 + 4);
  CHECK(times("checkpoint_tensor_again", 1) == 5 + 5 + 4);
  // Nothing of it without checkpointing.
  on.ops["checkpoint"] = on.ops["checkpoint_tensor"] = HostOpCost{.no_grad = 100_us};
  const OpGraph plain = training_graph(forward, options());
  CHECK(host_time(eager(plain, on).built.program.threads[0]) ==
        host_time(eager(plain).built.program.threads[0]));
}

TEST_CASE("forward records for backward, what the engine and the optimizer call does not") {
  HostSpec on = host();
  on.default_op = HostOpCost{.no_grad = 10_us, .grad = 20_us};
  const EagerProgram slow = eager(layer(), on);
  const EagerProgram fast = eager(layer());
  // The forward ops alone, 10 us more each: the layer, its mean and the modules are all that Python calls.
  std::int64_t forward = 0;
  for (const Op& op : layer().ops) forward += op.phase == Phase::Forward;
  const auto& threads = slow.built.program.threads;
  CHECK(host_time(threads[0]) - host_time(fast.built.program.threads[0]) == forward * 10_us);
  CHECK(host_time(threads[1]) == host_time(fast.built.program.threads[1]));
}

TEST_CASE("with accumulation forward and backward run for each micro-batch, the optimizer once") {
  const std::ptrdiff_t once = launches(eager(layer()));
  const OpGraph graph = layer(3);
  std::ptrdiff_t adds = 0;
  std::ptrdiff_t optimizer = 0;
  for (const Op& op : graph.ops) {
    adds += op.accumulates;
    optimizer += op.phase == Phase::Optimizer;
  }
  // The weight's and the bias's gradients are added to those of the micro-batches before: not the first's.
  CHECK(adds == 2);
  CHECK(optimizer == 1);  // One kernel: two small tensors.
  CHECK(launches(eager(graph, host(), 3)) == 3 * (once - optimizer) + 2 * adds + optimizer);
  using engine::Call;
  CHECK(calls(eager(graph, host(), 2).built.program.threads[0]) ==
        std::vector{Call::Launch, Call::Signal, Call::Await, Call::Launch, Call::Signal, Call::Await,
                    Call::Launch});
}

TEST_CASE("marks name the phase and the point of the memory curve of each op that runs") {
  const OpGraph graph = layer(2);
  const EagerProgram step =
      build_eager(graph, test::h200(), host(), HostOpMode::Grad, {.accumulation = 2, .memory_curve = true});
  const std::vector<StepMark>& marks = step.built.marks;
  // All ops in both passes, but the optimizer in the second alone, and no adding up in the first.
  const auto ops = graph.ops.size();
  REQUIRE(marks.size() == 2 * (ops - 1) - 2 + 1);
  CHECK(step.memory_curve.size() == 2 * (ops - 1) + 1);
  CHECK(marks.front().phase == Phase::Forward);
  CHECK(marks.back().phase == Phase::Optimizer);
  CHECK(marks.back().memory == step.memory_curve.size() - 1);
  for (const StepMark& mark : marks) {
    CHECK(mark.place.thread == (mark.phase == Phase::Backward ? 1 : 0));
    CHECK(graph.ops[step.memory_curve[mark.memory].op].phase == mark.phase);
  }
}

TEST_CASE("FSDP's gathers wait for each other and for what was taken apart, not for computation") {
  TrainingOptions training = options();
  ParallelPlan plan;
  plan.data = 2;
  plan.kind = DataKind::Fsdp;
  const OpGraph forward = build_graph(
      test::network_of(
          "name: two\ninputs: {x: {shape: [4, 8]}}\nblocks:\n  block:\n    takes: [x]\n    body:\n"
          "      - y = linear(x, 8)\n    gives: [y]\nbody:\n  - repeat: 3\n    body:\n"
          "      - x = block(x)\ngives: [x]\n"),
      test::sizes(1, 1, StepKind::Training, {}, ElementType::Fp32));
  GpuSpec gpu = test::h200();
  LinkSpec link;
  link.key = link.name = "link";
  link.bandwidth = link.ring = BytesPerSecond(1e11);
  link.channels = 8;
  link.protocols[static_cast<std::size_t>(LinkProtocol::Simple)].hop = 1_us;
  gpu.links = Interconnect{.intra = link};
  const EagerProgram step =
      build_eager(data_parallel_step(training_graph(forward, training), plan), gpu, host(), HostOpMode::Grad);
  REQUIRE(step.built.program.streams.size() == 3);  // Everything else, "gather" and "reduce".
  std::int64_t records = 0;
  for (const engine::Instruction& i : step.built.program.threads.front().instructions)
    if (i.call == engine::Call::Record && i.stream == 0) ++records;
  // One that the first gather waits for, and one behind each of three units taken apart.
  CHECK(records == 4);
}

}  // namespace
