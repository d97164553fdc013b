// SPDX-License-Identifier: Apache-2.0
// A network's step as a program: launches, host time, cache state, capture.
#include "sim/program/eager.hpp"

#include "sim/engine/engine.hpp"
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

EagerProgram eager(const std::string& lines, const HostSpec& on = host()) {
  const OpGraph graph = test::small_graph(lines);
  return build_eager(graph, test::h200(), on, HostOpMode::NoGrad);
}

Picoseconds host_time(const EagerProgram& program) {
  Picoseconds sum{0};
  for (const engine::Instruction& i : program.built.program.threads.front().instructions) sum += i.duration;
  return sum;
}

std::size_t launches(const EagerProgram& program) {
  std::size_t count = 0;
  for (const engine::Instruction& i : program.built.program.threads.front().instructions)
    count += i.call == engine::Call::Launch;
  return count;
}

TEST_CASE("an op costs the host what its file says, the launch call included") {
  CHECK(host_time(eager("  - z = exp(x)\n")) == 10_us);
  CHECK(host_time(eager("  - z = exp(exp(exp(x)))\n")) == 30_us);
  CHECK(launches(eager("  - z = exp(exp(exp(x)))\n")) == 3);
}

TEST_CASE("a view costs the host time and launches nothing") {
  const EagerProgram program = eager("  - z = view(x, [6, 4])\n");
  CHECK(host_time(program) == 10_us);
  CHECK(launches(program) == 0);
}

TEST_CASE("launches beyond those in an op's price cost a launch call more") {
  HostSpec on = host();
  const GpuSpec gpu = test::h200();
  // 3 / x is a reciprocal and a product: two calls into the framework, a launch each.
  CHECK(host_time(eager("  - z = 3 / x\n", on)) == 20_us);
  // stack() of two parts along the last dimension copies each part; its price knows of one launch.
  const EagerProgram stacked = eager("  - z = stack([exp(x), transpose(transpose(x, 1, 2), 1, 2)], 3)\n");
  CHECK(launches(stacked) == 1 + 1);
  CHECK(host_time(stacked) == 40_us);
}

TEST_CASE("a kernel fetches its code unless it follows itself or all of the step's stays in the cache") {
  GpuSpec gpu = test::h200();
  const auto busy = [&](const std::string& lines) {
    const EagerProgram program = build_eager(test::small_graph(lines), gpu, host(), HostOpMode::NoGrad);
    Picoseconds sum{0};
    for (const engine::Instruction& i : program.built.program.threads.front().instructions)
      if (i.call == engine::Call::Launch) sum += program.built.program.ops[i.object].duration;
    return sum;
  };
  const std::string same = "  - z = exp(exp(exp(x)))\n";
  const std::string different = "  - z = exp(tanh(exp(x)))\n";
  gpu.launch.code_fetch = 0_us;
  const Picoseconds same_bare = busy(same);
  const Picoseconds different_bare = busy(different);
  const std::string large =
      "  - a = exp(tanh(exp(x)))\n  - b = linear(linear(linear(a, 8), 16), 4)\n  - z = b\n";
  const Picoseconds large_bare = busy(large);
  gpu.launch.code_fetch = 1_us;
  // Three kernels of 4 KiB stay where they are from step to step; with three products of 48 there is no room.
  CHECK(busy(same) == same_bare);
  CHECK(busy(different) == different_bare);
  CHECK(busy(large) - large_bare == 6_us);
  const std::string repeats =
      "  - a = exp(exp(exp(x)))\n  - b = linear(linear(linear(a, 8), 16), 4)\n  - z = b\n";
  gpu.launch.code_fetch = 0_us;
  const Picoseconds repeats_bare = busy(repeats);
  gpu.launch.code_fetch = 1_us;
  // The second and third exp follow themselves.
  CHECK(busy(repeats) - repeats_bare == 4_us);
}

TEST_CASE("a module adds its call to its first op") {
  HostSpec on = host();
  on.ops["module_call"] = HostOpCost{.no_grad = 4_us};
  CHECK(host_time(eager("  - z = linear(x, 8)\n", on)) == 14_us);
  CHECK(host_time(eager("  - w = parameter([8, 4])\n  - z = linear(x, weight=w)\n", on)) == 10_us);
}

TEST_CASE("what an op just wrote is read from the cache, what has gone by is not") {
  // 8 MiB activations: exp reads what exp wrote. 200 MiB between them push it out.
  const std::string head = "name: n\ninputs:\n  x: {shape: [4194304]}\n  y: {shape: [104857600]}\nbody:\n";
  const auto duration_of_last = [&](const std::string& lines) {
    const OpGraph graph = build_graph(test::network_of(head + lines + "gives: [z]\n"), test::sizes(1, 1));
    const EagerProgram program = build_eager(graph, test::h200(), host(), HostOpMode::NoGrad);
    const auto& instructions = program.built.program.threads.front().instructions;
    return program.built.program.ops[instructions[instructions.size() - 1].object].duration;
  };
  const Picoseconds warm = duration_of_last("  - a = exp(x)\n  - z = exp(a)\n");
  const Picoseconds cold = duration_of_last("  - a = exp(x)\n  - b = exp(y)\n  - z = exp(a)\n");
  CHECK(warm < cold);
}

TEST_CASE("equal ops in equal surroundings are one op of the program") {
  const OpGraph graph = build_graph(test::shipped_network("gpt2"), test::sizes(1, 128));
  const EagerProgram program = build_eager(graph, test::h200(), host(), HostOpMode::NoGrad);
  CHECK(program.built.program.ops.size() < 60);
  CHECK(launches(program) == 150);
}

TEST_CASE("model FLOPs are those of the products, two for each multiply-add") {
  // x is [2, 3, 4]; the product has 6 rows, 4 columns in, 8 out.
  const EagerProgram program = eager("  - z = exp(linear(x, 8, bias=false))\n");
  CHECK(program.model_flops == Flops(2.0 * 6 * 4 * 8));
}

TEST_CASE("the same network makes the same program, byte for byte") {
  const OpGraph graph = build_graph(test::shipped_network("llama_160m"), test::sizes(1, 128));
  const auto total = [&] {
    const EagerProgram p = build_eager(graph, test::h200(), host(), HostOpMode::NoGrad);
    return engine::run(p.built.program, p.built.machine, 3).totals;
  };
  CHECK(total().wall == total().wall);
  CHECK(total().busy == total().busy);
}

TEST_CASE("a step that is longer on the host than on the device waits for dispatch") {
  const OpGraph graph = build_graph(test::shipped_network("gpt2"), test::sizes(1, 128));
  const EagerProgram p = build_eager(graph, test::h200(), host(), HostOpMode::NoGrad);
  const engine::Steady steady = engine::run_steady(p.built.program, p.built.machine, {});
  CHECK(steady.exact);
  CHECK(steady.period.wall == steady.period.steps * host_time(p));
}

}  // namespace
