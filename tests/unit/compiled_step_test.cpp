// SPDX-License-Identifier: Apache-2.0
// Compiled steps: what is launched, recorded, copied and kept, on networks of a few ops.
#include "models/compiler/compile.hpp"

#include "sim/engine/engine.hpp"
#include "sim/program/compiled.hpp"
#include "sim/program/eager.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::literals;

CompileOptions inductor(CudaGraphPolicy graphs = CudaGraphPolicy::None) {
  CompileOptions options;
  options.backend.key = "inductor";
  options.backend.name = "TorchInductor";
  options.backend.capture = CaptureKind::Dynamo;
  options.backend.kernel_prefix = "triton_";
  options.mode.cuda_graphs = graphs;
  options.backend.modes.push_back(options.mode);
  return options;
}

HostSpec host() {
  HostSpec spec;
  spec.default_op = HostOpCost{.no_grad = 10_us};
  spec.ops["compiled_region"] = HostOpCost{.no_grad = 30_us, .launches = 0};
  spec.ops["compiled_guard"] = HostOpCost{.no_grad = 1_us, .launches = 0};
  spec.ops["compiled_kernel"] = HostOpCost{.no_grad = 12_us};
  spec.ops["compiled_library"] = HostOpCost{.no_grad = 15_us};
  spec.ops["compiled_replay"] = HostOpCost{.no_grad = 50_us, .launches = 0};
  return spec;
}

std::shared_ptr<const OpGraph> graph_of(const std::string& inputs, const std::string& lines) {
  return std::make_shared<const OpGraph>(
      build_graph(test::network_of("name: n\ninputs:\n" + inputs + "body:\n" + lines + "gives: [z]\n"),
                  test::sizes(1, 1)));
}

struct Built {
  CompiledStep step;
  CompiledProgram program;
};
Built build(const std::string& inputs, const std::string& lines, const CompileOptions& options) {
  Built built;
  built.step = compile_step(graph_of(inputs, lines), options, test::h200());
  built.program = build_compiled(built.step, options, test::h200(), host(), HostOpMode::NoGrad);
  return built;
}

Picoseconds host_time(const CompiledProgram& program) {
  Picoseconds sum{0};
  for (const engine::Instruction& i : program.built.program.threads.front().instructions) sum += i.duration;
  return sum;
}
std::size_t calls(const CompiledProgram& program, engine::Call call) {
  std::size_t count = 0;
  for (const engine::Instruction& i : program.built.program.threads.front().instructions)
    count += i.call == call;
  return count;
}

using Group = std::vector<std::string>;
using Groups = std::vector<Group>;
const std::string matrix = "  x: {shape: [4096, 1024]}\n";

TEST_CASE("a compiled region costs its call, its guards and a call per kernel") {
  const Built built =
      build(matrix, "  - h = linear(exp(x), 1024, bias=false)\n  - z = relu(h)\n", inductor());
  // exp; product; relu. One parameter is guarded.
  CHECK(calls(built.program, engine::Call::Launch) == 3);
  CHECK(host_time(built.program) == 30_us + 1_us + 12_us + 15_us + 12_us);
}

TEST_CASE("a CUDA graph tree replays a region in one launch behind the copies of what moved") {
  const Built built = build(matrix, "  - h = linear(exp(x), 1024, bias=false)\n  - z = relu(h)\n",
                            inductor(CudaGraphPolicy::Trees));
  CHECK(calls(built.program, engine::Call::LaunchGraph) == 1);
  CHECK(calls(built.program, engine::Call::Launch) == 1);  // x: 8 MiB in one kernel
  REQUIRE(built.step.regions.size() == 1);
  CHECK(built.step.regions[0].copied_inputs == std::vector<Bytes>{Bytes(4096 * 1024 * 2)});
  CHECK(built.program.built.program.graphs.front().nodes.size() == 3);
}

TEST_CASE("a CUDA graph recorded by hand copies and checks nothing") {
  const Built built = build(matrix, "  - z = relu(exp(x) + 1.0)\n", inductor(CudaGraphPolicy::Whole));
  CHECK(calls(built.program, engine::Call::Launch) == 0);
  CHECK(built.step.regions[0].copied_inputs.empty());
  CHECK(host_time(built.program) < 50_us);
}

TEST_CASE("piecewise CUDA graphs leave attention out") {
  const std::string inputs = "  q: {shape: [1, 8, 256, 64]}\n";
  const std::string lines =
      "  - a = exp(q)\n  - y = scaled_dot_product_attention(a, a, a)\n  - z = relu(y)\n";
  const Built built = build(inputs, lines, inductor(CudaGraphPolicy::Piecewise));
  CHECK(calls(built.program, engine::Call::LaunchGraph) == 2);
  CHECK(calls(built.program, engine::Call::Launch) >= 1);
}

TEST_CASE("what has to be read on the host is not recorded") {
  CompileOptions options = inductor(CudaGraphPolicy::Trees);
  options.breaks.push_back({.after = "h", .cause = BreakCause::Item});
  const Built built = build(matrix, "  - h = exp(x)\n  - z = relu(h)\n", options);
  CHECK(built.step.regions.size() == 2);
  CHECK(calls(built.program, engine::Call::LaunchGraph) == 2);
  // The number that the host reads, and the copy of x; exp's result stays where its CUDA graph made it.
  CHECK(calls(built.program, engine::Call::Launch) == 2);
}

TEST_CASE("no fusion crosses a graph break") {
  CompileOptions options = inductor();
  CHECK(build(matrix, "  - h = exp(x)\n  - z = relu(h)\n", options).step.kernels == 1);
  options.breaks.push_back({.after = "h", .cause = BreakCause::Print});
  CHECK(build(matrix, "  - h = exp(x)\n  - z = relu(h)\n", options).step.kernels == 2);
}

TEST_CASE("groups that a user names become kernels, all other ops stay alone") {
  CompileOptions options = inductor();
  options.groups = Groups{Group{"a", "b"}};
  const Built built = build(matrix, "  - a = exp(x)\n  - b = relu(a)\n  - z = sin(b)\n", options);
  REQUIRE(built.step.regions[0].kernels.size() == 2);
  CHECK(built.step.regions[0].kernels[0].ops.size() == 2);
  CHECK(built.step.regions[0].kernels[0].read() == Bytes(4096 * 1024 * 2));

  options.groups = Groups{Group{"a", "nothing"}};
  CHECK_THROWS_AS(build(matrix, "  - a = exp(x)\n  - z = relu(a)\n", options), CompileError);
  options.groups = Groups{Group{"a", "z"}};
  CHECK_THROWS_AS(
      build(matrix, "  - a = linear(x, 1024, bias=false)\n  - z = linear(a, 1024, bias=false)\n", options),
      CompileError);
}

TEST_CASE("a better kernel changes its own duration alone") {
  CompileOptions options = inductor();
  const std::string lines = "  - h = linear(exp(x), 1024, bias=false)\n  - z = relu(h)\n";
  const Built plain = build(matrix, lines, options);
  options.overrides.push_back({.op = "linear", .source = "test", .speedup = 2.0});
  const Built better = build(matrix, lines, options);
  const auto& before = plain.program.built.program.ops;
  const auto& after = better.program.built.program.ops;
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool product = plain.program.built.program.info[i].flops > 1e9;
    CHECK(after[i].duration.count() ==
          (product ? (before[i].duration.count() + 1) / 2 : before[i].duration.count()));
  }
}

TEST_CASE("products in 8 bits run at their rate and read half the bytes") {
  CompileOptions options = inductor();
  const std::string lines = "  - z = linear(relu(x), 1024, bias=false)\n";
  const Built bf16 = build(matrix, lines, options);
  options.precision = ElementType::Fp8;
  const Built fp8 = build(matrix, lines, options);
  CHECK(fp8.step.regions[0].kernels.back().read() * 2 == bf16.step.regions[0].kernels.back().read());
  CHECK(fp8.program.model_flops == bf16.program.model_flops);
}

TEST_CASE("a compiled step computes as much as an eager one and moves no more") {
  for (const char* name : {"gpt2", "llama_160m", "encoder", "seed_decoder", "layer_norm_gelu"}) {
    NetworkSizes sizes = test::sizes(2, 64);
    if (std::string(name) != "layer_norm_gelu" && std::string(name) != "seed_decoder")
      sizes.parameters["layers"] = std::int64_t{2};
    const auto graph = std::make_shared<const OpGraph>(build_graph(test::shipped_network(name), sizes));
    const CompileOptions options = inductor();
    const CompiledStep step = compile_step(graph, options, test::h200());
    const CompiledProgram program = build_compiled(step, options, test::h200(), host(), HostOpMode::NoGrad);
    const EagerProgram eager = build_eager(*graph, test::h200(), host(), HostOpMode::NoGrad);
    CHECK(program.model_flops == eager.model_flops);
    // Addends of a residual stay until they are added up, so it may be a little more.
    CHECK(static_cast<double>(step.memory.peak.value()) <=
          1.1 * static_cast<double>(eager.memory.peak.value()));
    std::int64_t eager_traffic = 0;
    for (const engine::OpInfo& info : eager.built.program.info) eager_traffic += info.bytes;
    CHECK(program.built.program.ops.size() < eager.built.program.ops.size() + 40);
    CHECK(step.kernels > 0);
  }
}

TEST_CASE("kernel memory that nobody reads any more is given back") {
  // Four tensors of 8 MiB in turn: two are alive at a time, besides input and weights.
  const Built built = build(matrix,
                            "  - a = linear(x, 1024, bias=false)\n  - b = linear(a, 1024, bias=false)\n"
                            "  - c = linear(b, 1024, bias=false)\n  - z = linear(c, 1024, bias=false)\n",
                            inductor());
  CHECK(built.step.memory.activations == Bytes(2 * 4096 * 1024 * 2));
}

}  // namespace
