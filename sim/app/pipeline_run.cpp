// SPDX-License-Identifier: Apache-2.0
#include "sim/app/pipeline_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "models/graph/pipeline.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/app/network_run.hpp"
#include "sim/app/priced.hpp"
#include "sim/engine/engine.hpp"
#include "sim/scenario/network_workload.hpp"

namespace gpusim {
namespace {

/// One of the pipeline's ranks.
struct StageRun {
  std::int64_t rank = 0;
  std::int64_t alike = 1;  ///< Ranks that do the same.
  BuiltProgram built{};
  report::VariantResult result{};
  Picoseconds pass{0};  ///< A micro-batch, forward and backward.
};

}  // namespace

BuiltProgram build_pipeline(const NetworkWorkload& workload, const Variant& variant,
                            const RunOptions& options, report::VariantResult& result,
                            CudaGraphMode& cuda_graph) {
  const std::int64_t ranks = workload.parallel->pipeline;
  const std::int64_t passes = workload.parallel->microbatches;
  std::vector<StageRun> stages;
  stages.push_back({.rank = 0});
  if (ranks > 2) stages.push_back({.rank = 1, .alike = ranks - 2});
  stages.push_back({.rank = ranks - 1});
  for (StageRun& stage : stages) {
    NetworkWorkload one = workload;
    one.parallel->stage = stage.rank;
    one.graph = priced(workload, [&] {
      try {
        return step_graph(one.forward, one.training, one.parallel);
      } catch (const GraphError& error) {
        throw std::invalid_argument(error.what());
      }
    });
    stage.result = result;
    stage.built = build_network(one, variant, options, stage.result, cuda_graph);
    const Picoseconds step = step_time(stage.built, std::nullopt);
    const Picoseconds optimizer =
        phase_times(stage.built, three_steps(stage.built))[static_cast<std::size_t>(Phase::Optimizer)].span;
    stage.pass = (step - std::min(optimizer, step)) / passes;
  }
  StageRun& slowest = *std::max_element(stages.begin(), stages.end(),
                                        [](const StageRun& a, const StageRun& b) { return a.pass < b.pass; });
  Picoseconds others{0};
  for (const StageRun& stage : stages) others += stage.alike * stage.pass;
  others -= slowest.pass;
  const Picoseconds bubble = others / workload.parallel->chunks;
  engine::Program& program = slowest.built.program;
  program.names.emplace_back("pipeline bubble");
  // The host would run ahead of a bubble: it belongs behind what the device has to do.
  engine::HostThread& main = program.threads.front();
  main.add({.call = engine::Call::SynchronizeDevice,
            .object = 0,
            .duration = variant.hardware->launch.sync_call,
            .return_latency = variant.hardware->launch.sync_return});
  main.add({.call = engine::Call::Input, .duration = bubble},
           static_cast<engine::Index>(program.names.size() - 1));
  result = std::move(slowest.result);
  const double kept = passes_in_flight(*workload.parallel, slowest.rank) - 1;
  if (result.memory && result.peak_memory && kept > 0) {
    const Bytes more(std::llround(kept * static_cast<double>(result.memory->saved.value())));
    *result.peak_memory += more;
    result.memory->at_peak[MemoryKind::Activations] += more;
    result.memory->allocated += more;
  }
  const double work = static_cast<double>(passes) * static_cast<double>(slowest.pass.count());
  result.ranks.emplace();
  result.ranks->bubble = static_cast<double>(bubble.count()) / (work + static_cast<double>(bubble.count()));
  result.notes.push_back(
      fmt::format("of {} pipeline ranks the slowest is shown, rank {}", ranks, slowest.rank));
  return std::move(slowest.built);
}

}  // namespace gpusim
