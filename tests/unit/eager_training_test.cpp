// SPDX-License-Identifier: Apache-2.0
// A training step as a program: two host threads, micro-batches, marks.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

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

}  // namespace
