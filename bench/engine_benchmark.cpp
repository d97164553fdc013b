// SPDX-License-Identifier: Apache-2.0
// Speed of the engine. Compare figures of one run with each other; absolute times move with the machine.
#include <benchmark/benchmark.h>

#include "bench/plain_event_queue.hpp"
#include "bench/workloads.hpp"

namespace {

using namespace gpusim;
using engine::Machine;
using engine::Program;
using engine::Run;
using engine::Timeline;

using RunFunction = Run (*)(const Program&, const Machine&, std::int64_t, Timeline*);

/// Runs `program` again and again; items are kernels.
void measure(benchmark::State& state, RunFunction run, const Program& program, const Machine& machine,
             std::int64_t kernels, bool keep) {
  for (auto _ : state) {
    Timeline timeline;
    benchmark::DoNotOptimize(run(program, machine, 1, keep ? &timeline : nullptr).totals.wall);
    benchmark::DoNotOptimize(timeline.ops.data());
  }
  state.SetItemsProcessed(state.iterations() * kernels);
}

/// One stream, 300 kernels of 1 to 5 us, launches of `us`: an isolated step without a timeline.
void isolated_step(benchmark::State& state) {
  measure(state, engine::run, bench::launch_queue(300, Picoseconds(state.range(0) * 1'000'000)), Machine{},
          300, false);
}
BENCHMARK(isolated_step)->ArgName("call_us")->Arg(6)->Arg(1)->Unit(benchmark::kMicrosecond);

/// The step that repeats, of the same.
void steady_step(benchmark::State& state) {
  const Program program = bench::launch_queue(300, Picoseconds(6'000'000));
  for (auto _ : state) benchmark::DoNotOptimize(engine::run_steady(program, Machine{}).period.wall);
}
BENCHMARK(steady_step)->Unit(benchmark::kMicrosecond);

/// lq and 2s, 10^5 kernels. Arguments: nanoseconds of a launch; whether a timeline is kept.
template <bool two, RunFunction run>
void launches(benchmark::State& state) {
  measure(state, run, bench::launches(100'000, Picoseconds(state.range(0) * 1000), two), Machine{}, 100'000,
          state.range(1) != 0);
}
void launch_arguments(benchmark::internal::Benchmark* cases) {
  cases->ArgNames({"call_ns", "timeline"})
      ->ArgsProduct({{6000, 2000, 200}, {0, 1}})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(launches<false, engine::run>)->Name("lq")->Apply(launch_arguments);
BENCHMARK(launches<true, engine::run>)->Name("2s")->Apply(launch_arguments);
BENCHMARK(launches<false, engine::run_event_by_event>)->Name("lq_event_by_event")->Apply(launch_arguments);
BENCHMARK(launches<true, engine::run_event_by_event>)->Name("2s_event_by_event")->Apply(launch_arguments);

/// sg, 10^4 kernels.
void sg(benchmark::State& state) {
  measure(state, engine::run, bench::sharing_graphs(10'000, Picoseconds(5'000'000)), bench::sharing_machine(),
          10'000, state.range(0) != 0);
}
BENCHMARK(sg)->ArgName("timeline")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// The same by the plain event queue.
void sg_plain(benchmark::State& state) {
  const Program program = bench::sharing_graphs(10'000, Picoseconds(5'000'000));
  const Machine machine = bench::sharing_machine();
  for (auto _ : state) benchmark::DoNotOptimize(bench::run_plain(program, machine).finish);
  state.SetItemsProcessed(state.iterations() * 10'000);
}
BENCHMARK(sg_plain)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
