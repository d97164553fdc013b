// SPDX-License-Identifier: Apache-2.0
// What compiling a step costs the simulator, and how it grows with the graph: passes, lowering, fusion, all
// of it. bench/README.md has the figures.
#include <benchmark/benchmark.h>

#include <memory>

#include "models/compiler/compile.hpp"
#include "models/compiler/lower.hpp"
#include "models/graph/network.hpp"
#include "models/graph/training.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"

namespace {

using namespace gpusim;

const config::SearchPath search{};

config::Node name(const char* text) {
  return config::load_text(std::string("name: ") + text, "benchmark").at("name");
}

const GpuSpec& h200() {
  static const GpuSpec gpu = config::read_hardware(name("h200"), search);
  return gpu;
}

std::shared_ptr<const OpGraph> llama(std::int64_t layers) {
  static const Network network = config::read_network(name("llama3_8b"), search);
  NetworkSizes sizes{.sequence = 1024, .step = StepKind::Decode, .parameters = {}};
  sizes.parameters["layers"] = layers;
  return std::make_shared<const OpGraph>(build_graph(network, sizes));
}

CompileOptions inductor() {
  CompileOptions options;
  options.backend = config::read_backend(name("inductor"), search);
  options.mode = options.backend.modes.front();
  return options;
}

void count_ops(benchmark::State& state, const OpGraph& graph) {
  state.counters["ops"] = static_cast<double>(graph.ops.size());
  state.SetComplexityN(static_cast<std::int64_t>(graph.ops.size()));
}

void compile(benchmark::State& state) {
  const auto graph = llama(state.range(0));
  const CompileOptions options = inductor();
  for (auto _ : state) benchmark::DoNotOptimize(compile_step(graph, options, h200()).kernels);
  count_ops(state, *graph);
}
BENCHMARK(compile)->RangeMultiplier(2)->Range(8, 512)->Unit(benchmark::kMillisecond)->Complexity();

/// A training step of GPT-2 with so many layers, 16 rows of 1,024 tokens: joint graph, cut, both passes.
void compile_training(benchmark::State& state) {
  const Network network = config::read_network(name("gpt2"), search);
  NetworkSizes sizes{.batch = 16, .sequence = 1024, .step = StepKind::Training, .parameters = {}};
  sizes.dtype = ElementType::Fp32;
  sizes.parameters["layers"] = state.range(0);
  TrainingOptions training;
  training.functional = true;
  const auto graph = std::make_shared<const OpGraph>(training_graph(build_graph(network, sizes), training));
  const CompileOptions options = inductor();
  for (auto _ : state) benchmark::DoNotOptimize(compile_step(graph, options, h200()).kernels);
  count_ops(state, *graph);
}
BENCHMARK(compile_training)->RangeMultiplier(2)->Range(12, 192)->Unit(benchmark::kMillisecond)->Complexity();

void passes(benchmark::State& state) {
  const auto graph = llama(state.range(0));
  const CompileOptions options = inductor();
  for (auto _ : state) benchmark::DoNotOptimize(simplify(*graph, options.mode.simplify).graph.ops.size());
  count_ops(state, *graph);
}
BENCHMARK(passes)->RangeMultiplier(4)->Range(8, 512)->Unit(benchmark::kMillisecond)->Complexity();

void lowering(benchmark::State& state) {
  const auto graph = llama(state.range(0));
  const std::vector<std::int64_t> offsets = view_offsets(*graph);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        lower(*graph, h200(), 0, static_cast<OpIndex>(graph->ops.size()), offsets).loops.size());
  count_ops(state, *graph);
}
BENCHMARK(lowering)->RangeMultiplier(4)->Range(8, 512)->Unit(benchmark::kMillisecond)->Complexity();

void fusion(benchmark::State& state) {
  const auto graph = llama(state.range(0));
  const LoopGraph loops =
      lower(*graph, h200(), 0, static_cast<OpIndex>(graph->ops.size()), view_offsets(*graph));
  for (auto _ : state) benchmark::DoNotOptimize(plan_fusion(loops, FusionRules{}).groups.size());
  count_ops(state, *graph);
}
BENCHMARK(fusion)->RangeMultiplier(8)->Range(8, 4096)->Unit(benchmark::kMillisecond)->Complexity();

}  // namespace

BENCHMARK_MAIN();
