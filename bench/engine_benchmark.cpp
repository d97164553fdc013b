// SPDX-License-Identifier: Apache-2.0
// Speed of the engine. Compare figures of one run with each other; absolute times move with the machine.
#include <benchmark/benchmark.h>

#include "bench/workloads.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::Picoseconds;

/// One stream, 300 kernels of 1 to 5 us, launches of `c` us: an isolated step without a timeline.
void isolated_step(benchmark::State& state) {
  const Program program = gpusim::bench::launch_queue(300, Picoseconds(state.range(0) * 1'000'000));
  for (auto _ : state) benchmark::DoNotOptimize(run(program, Machine{}).totals.wall);
  state.SetItemsProcessed(state.iterations() * 300);
}
BENCHMARK(isolated_step)->Arg(6)->Arg(1)->Unit(benchmark::kMicrosecond);

void steady_step(benchmark::State& state) {
  const Program program = gpusim::bench::launch_queue(300, Picoseconds(6'000'000));
  for (auto _ : state) benchmark::DoNotOptimize(run_steady(program, Machine{}).period.wall);
}
BENCHMARK(steady_step)->Unit(benchmark::kMicrosecond);

void with_timeline(benchmark::State& state) {
  const Program program = gpusim::bench::launch_queue(state.range(0), Picoseconds(6'000'000));
  for (auto _ : state) {
    Timeline timeline;
    benchmark::DoNotOptimize(run(program, Machine{}, 1, &timeline).totals.wall);
    benchmark::DoNotOptimize(timeline.ops.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(with_timeline)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

void two_streams(benchmark::State& state) {
  const Program program = gpusim::bench::two_streams(state.range(0), Picoseconds(2'000'000));
  for (auto _ : state) benchmark::DoNotOptimize(run(program, Machine{}).totals.wall);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(two_streams)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
