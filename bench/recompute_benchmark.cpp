// SPDX-License-Identifier: Apache-2.0
// What planning recomputation costs the simulator: which algorithm finds the minimum cut of a training
// step's joint graph fastest, what the partition into independent parts is worth, and how plans grow with the
// graph. bench/README.md has the figures.
#include <benchmark/benchmark.h>
#include <limits>
#include <string>
#include <vector>

#include "models/compiler/min_cut.hpp"
#include "models/compiler/recompute.hpp"
#include "models/compiler/recompute_nodes.hpp"
#include "models/compiler/training_regions.hpp"
#include "models/graph/network.hpp"
#include "models/graph/training.hpp"
#include "sim/app/program_memory.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"

namespace {

using namespace gpusim;

config::Node name(const char* text) {
  return config::load_text(std::string("name: ") + text, "benchmark").at("name");
}

/// The joint graph, after the passes, of GPT-2 124M with so many layers, 8 rows of 1,024 tokens, autocast.
OpGraph gpt2(std::int64_t layers) {
  static const Network network = config::read_network(name("gpt2"), config::SearchPath{});
  NetworkSizes sizes{.batch = 8, .sequence = 1024, .step = StepKind::Training, .parameters = {}};
  sizes.dtype = ElementType::Fp32;
  sizes.parameters["layers"] = layers;
  TrainingOptions training;
  training.functional = true;
  CompileOptions options;
  options.backend = config::read_backend(name("inductor"), config::SearchPath{});
  options.mode = options.backend.modes.front();
  const GpuSpec gpu = config::read_hardware(name("h200"), config::SearchPath{});
  return *training_regions(training_graph(build_graph(network, sizes), training), options, gpu)
              .recompute.front()
              .joint;
}

struct Joint {
  explicit Joint(std::int64_t layers, bool distinct = false) : graph(joint_ops(gpt2(layers), {}).graph) {
    // No two layers alike, so that each is solved by itself.
    if (distinct)
      for (JointIndex i = 0; i < graph.size(); ++i) graph[i].bytes += i;
    facts = joint_facts(graph);
    bans = find_bans(graph, facts, BanRules{});
  }
  JointGraph graph;
  JointFacts facts;
  std::vector<Ban> bans;
};

/// The whole flow network as AOTAutograd hands it to networkx: nothing taken out, nothing apart.
FlowNetwork plain_network(const Joint& joint) {
  FlowNetwork network;
  network.vertices = 2 + 2 * joint.graph.size();
  const auto entry = [](JointIndex i) { return 2 + 2 * i; };
  const auto exit = [](JointIndex i) { return 3 + 2 * i; };
  std::int64_t sum = 1;
  for (JointIndex i = 0; i < joint.graph.size(); ++i) sum += save_weight(joint.graph, joint.facts, i);
  for (JointIndex i = 0; i < joint.graph.size(); ++i) {
    const JointNode& node = joint.graph[i];
    const bool given = node.role == JointRole::Input || node.role == JointRole::Parameter;
    if (joint.facts.backward[i] != 0 && !given) {
      network.arcs.push_back({entry(i), FlowNetwork::sink, sum});
      continue;
    }
    const std::int64_t weight = node.several ? sum : save_weight(joint.graph, joint.facts, i);
    network.arcs.push_back({entry(i), exit(i), weight});
    if (joint.facts.backward[i] != 0) network.arcs.push_back({exit(i), FlowNetwork::sink, sum});
    if (joint.bans[i] != Ban::None) network.arcs.push_back({FlowNetwork::source, entry(i), sum});
    for (const JointIndex reader : joint.facts.readers_of(i))
      network.arcs.push_back({exit(i), entry(reader), sum});
  }
  return network;
}

void count(benchmark::State& state, std::size_t ops) {
  state.counters["ops"] = static_cast<double>(ops);
  state.SetComplexityN(static_cast<std::int64_t>(ops));
}

/// The flow through the whole network.
template <MaxFlow algorithm>
void whole_flow(benchmark::State& state) {
  const Joint joint(state.range(0));
  const FlowNetwork network = plain_network(joint);
  for (auto _ : state) benchmark::DoNotOptimize(sink_side(network, algorithm));
  count(state, joint.graph.size());
}
BENCHMARK(whole_flow<MaxFlow::PushRelabel>)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);
BENCHMARK(whole_flow<MaxFlow::BoykovKolmogorov>)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);
BENCHMARK(whole_flow<MaxFlow::EdmondsKarp>)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);

void layers(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t count : {12, 24, 48, 192, 768}) bench->Arg(count);
  bench->Unit(benchmark::kMillisecond)->Complexity();
}

/// The cut as it is made, layers that are no two alike.
template <MaxFlow algorithm>
void distinct_cut(benchmark::State& state) {
  const Joint joint(state.range(0), true);
  for (auto _ : state)
    benchmark::DoNotOptimize(min_cut(joint.graph, joint.facts, joint.bans, algorithm).weight);
  count(state, joint.graph.size());
}
BENCHMARK(distinct_cut<MaxFlow::PushRelabel>)->Apply(layers);
BENCHMARK(distinct_cut<MaxFlow::BoykovKolmogorov>)->Apply(layers);
BENCHMARK(distinct_cut<MaxFlow::EdmondsKarp>)->Apply(layers);

/// A whole plan: the op graph read, bans, cut, which ops run where.
void plan(benchmark::State& state) {
  const OpGraph graph = gpt2(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(plan_recompute(graph).saved_bytes);
  count(state, graph.ops.size());
}
BENCHMARK(plan)->Apply(layers);

void apply(benchmark::State& state) {
  const OpGraph graph = gpt2(state.range(0));
  const RecomputePlan made = plan_recompute(graph);
  for (auto _ : state) benchmark::DoNotOptimize(apply_recompute(graph, made).ops.size());
  count(state, graph.ops.size());
}
BENCHMARK(apply)->Arg(12)->Arg(48)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond)->Complexity();

/// 21 budgets.
void curve(benchmark::State& state) {
  const OpGraph graph = gpt2(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(budget_curve(graph).size());
  count(state, graph.ops.size());
}
BENCHMARK(curve)->Arg(12)->Arg(48)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  gpusim::keep_freed_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
