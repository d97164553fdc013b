// SPDX-License-Identifier: Apache-2.0
// From the text of a scenario to the text of its report, in a process that has done so before: what one
// answer costs where many are asked for. bench/README.md has the budgets and the figures.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "models/compiler/compile.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/program_memory.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"
#include "sim/program/eager.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario_reader.hpp"

namespace {

using namespace gpusim;

constexpr const char* llama_decode = R"(name: Llama-8B decode
hardware: h200
host: xeon-h200-cloud
workload: {network: llama3_8b, step: decode, batch: 1, sequence: 1024}
)";

constexpr const char* gpt2_prefill = R"(name: GPT-2 prefill
hardware: h200
host: xeon-h200-cloud
workload: {network: gpt2, step: prefill, batch: 1, sequence: 1024}
)";

constexpr const char* gpt2_training = R"(name: GPT-2 training
hardware: h200
host: xeon-h200-cloud
workload: {network: gpt2, step: training, batch: 16, sequence: 1024, optimizer: adamw_fused}
)";

constexpr const char* gpt2_training_compiled = R"(name: GPT-2 training, compiled
hardware: h200
host: xeon-h200-cloud
workload: {network: gpt2, step: training, batch: 16, sequence: 1024, optimizer: adamw_fused}
backend: inductor
)";

constexpr const char* llama_training_compiled = R"(name: Llama-3-70B training, compiled
hardware: h200
host: xeon-h200-cloud
workload: {network: llama3_70b, step: training, batch: 1, sequence: 2048, optimizer: adamw_fused}
backend: inductor
)";

constexpr const char* kernels = R"(name: 300 kernels
hardware: h200
workload: {kernels: [{kernel: k, duration: 3 us, repeat: 300}]}
)";

/// Of a process that stays: configurations are read once.
ScenarioOptions warm_options() {
  ScenarioOptions result;
  result.metrics = metric_paths();
  result.files = std::make_shared<config::FileStore>();
  return result;
}

/// Everything: scenario, network, hardware and host read, step built, isolated and steady step simulated, the
/// same as one CUDA graph for the advice, the report written.
void parse_to_report(benchmark::State& state, const char* text) {
  const ScenarioOptions options = warm_options();
  for (auto _ : state) {
    TraceStore traces;
    const Scenario scenario = read_scenario_text(text, "scenario.yaml", options);
    benchmark::DoNotOptimize(report::to_text(run_scenario(scenario, traces)).size());
  }
}
BENCHMARK_CAPTURE(parse_to_report, llama_decode, llama_decode)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse_to_report, gpt2_prefill, gpt2_prefill)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse_to_report, kernels, kernels)->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(parse_to_report, gpt2_training, gpt2_training)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse_to_report, gpt2_training_compiled, gpt2_training_compiled)
    ->Unit(benchmark::kMillisecond);

/// A compiled step planned: traced, taken apart, simplified, cut, fused; nothing simulated.
void compile(benchmark::State& state, const char* text) {
  const Scenario scenario = read_scenario_text(text, "scenario.yaml", warm_options());
  const Variant& variant = scenario.variants.front();
  const SizedWorkload run = sized(std::get<NetworkWorkload>(variant.workload.source), variant);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        compile_step(run.workload.graph, *variant.compile, *variant.hardware).regions.size());
  state.counters["ops"] = static_cast<double>(run.workload.graph->ops.size());
}
BENCHMARK_CAPTURE(compile, gpt2_training, gpt2_training_compiled)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, llama3_70b_training, llama_training_compiled)->Unit(benchmark::kMillisecond);

/// Its parts.
void read(benchmark::State& state, const char* text) {
  const ScenarioOptions options = warm_options();
  for (auto _ : state)
    benchmark::DoNotOptimize(read_scenario_text(text, "scenario.yaml", options).variants.size());
}
BENCHMARK_CAPTURE(read, llama_decode, llama_decode)->Unit(benchmark::kMillisecond);

void read_h200(benchmark::State& state) {
  const config::SearchPath search;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        config::read_hardware(config::load_text("{base: h200}", "scenario.yaml"), search).sms);
}
BENCHMARK(read_h200)->Unit(benchmark::kMillisecond);

void run(benchmark::State& state, const char* text) {
  const Scenario scenario = read_scenario_text(text, "scenario.yaml", warm_options());
  for (auto _ : state) {
    TraceStore traces;
    benchmark::DoNotOptimize(run_scenario(scenario, traces).variants.size());
  }
}
BENCHMARK_CAPTURE(run, llama_decode, llama_decode)->Unit(benchmark::kMillisecond);

void graph(benchmark::State& state, const char* text) {
  const Scenario scenario = read_scenario_text(text, "scenario.yaml", warm_options());
  const auto& workload = std::get<NetworkWorkload>(scenario.variants.front().workload.source);
  for (auto _ : state) benchmark::DoNotOptimize(build_graph(*workload.network, workload.sizes).ops.size());
}
BENCHMARK_CAPTURE(graph, llama_decode, llama_decode)->Unit(benchmark::kMillisecond);

void eager(benchmark::State& state, const char* text) {
  const Scenario scenario = read_scenario_text(text, "scenario.yaml", warm_options());
  const Variant& variant = scenario.variants.front();
  const auto& workload = std::get<NetworkWorkload>(variant.workload.source);
  const OpGraph graph = build_graph(*workload.network, workload.sizes);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        build_eager(graph, *variant.hardware, *variant.host, HostOpMode::NoGrad).built.program.ops.size());
}
BENCHMARK_CAPTURE(eager, llama_decode, llama_decode)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  gpusim::keep_freed_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
