// SPDX-License-Identifier: Apache-2.0
#include "sim/app/run_variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "models/units/time_range.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/fit_memory.hpp"
#include "sim/app/limit_options.hpp"
#include "sim/app/network_run.hpp"
#include "sim/app/rank_summary.hpp"
#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/critical_path/critical_path.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "sim/report/metrics.hpp"

namespace gpusim {
namespace {

Captured captured(const BuiltProgram& built, const std::optional<GpuSpec>& hardware) {
  return capture(built.program, built.machine,
                 {.costs = cuda_graph_costs(hardware, built.program),
                  .keep_surrounding_work = !built.work_is_dispatch,
                  .step_starts = built.step_starts,
                  .threads_kept = built.threads_kept});
}

std::int64_t host_launches(const engine::Program& program) {
  std::int64_t launches = 0;
  for (const engine::HostThread& thread : program.threads)
    for (const engine::Instruction& i : thread.instructions)
      if (i.call == engine::Call::Launch || i.call == engine::Call::LaunchGraph) ++launches;
  return launches;
}

std::int64_t gpu_ops(const engine::Program& program) {
  std::int64_t ops = 0;
  for (const engine::HostThread& thread : program.threads)
    for (const engine::Instruction& i : thread.instructions) {
      if (i.call == engine::Call::Launch) ++ops;
      if (i.call == engine::Call::LaunchGraph)
        for (const engine::CudaGraph::Node& node : program.graphs[i.object].nodes)
          if (node.kind == engine::CudaGraph::NodeKind::Op) ++ops;
    }
  return ops;
}

/// A recording is replayed on the device of one stream.
bool is_on_one_device(const engine::Program& program) {
  return std::all_of(program.streams.begin(), program.streams.end(), [&](const engine::Stream& stream) {
    return stream.device == program.streams.front().device;
  });
}

/// The dtype whose peak counts: the workload's, else that of all its kernels if they have but one.
std::string dtype_of(const Workload& workload) {
  if (!workload.dtype.empty()) return workload.dtype;
  std::set<std::string> dtypes;
  const auto* kernels = std::get_if<KernelsWorkload>(&workload.source);
  if (kernels == nullptr) return {};
  const auto collect = [&](const auto& self, const std::vector<Item>& items) -> void {
    for (const Item& item : items) {
      if (const auto* kernel = std::get_if<KernelItem>(&item.what)) {
        if (!kernel->dtype.empty()) dtypes.insert(kernel->dtype);
      } else if (const auto* loop = std::get_if<LoopItem>(&item.what)) {
        self(self, loop->body);
      } else if (const auto* graph = std::get_if<CudaGraphItem>(&item.what)) {
        for (const CudaGraphItem::Node& node : graph->nodes)
          if (const auto* op = std::get_if<KernelItem>(&node.op))
            if (!op->dtype.empty()) dtypes.insert(op->dtype);
      }
    }
  };
  for (const ThreadItems& thread : kernels->threads) collect(collect, thread.items);
  return dtypes.size() == 1 ? *dtypes.begin() : std::string();
}

report::Device device_of(const GpuSpec& gpu, const std::string& dtype) {
  report::Device device;
  device.name = gpu.name;
  device.sms = gpu.sms;
  if (gpu.memory.bandwidth.value() > 0) device.bandwidth = gpu.memory.bandwidth;
  if (gpu.memory.capacity.value() > 0) device.capacity = gpu.memory.capacity;
  for (int i = 0; i < dtype_count; ++i)
    if (const auto peak = gpu.peak.find(static_cast<Dtype>(i)))
      device.peaks.emplace_back(name(static_cast<Dtype>(i)), *peak);
  if (const auto known = find_dtype(dtype)) {
    device.dtype = dtype;
    device.peak = gpu.peak.find(*known);
  }
  return device;
}

/// The known GPU that the trace was taken on. Says in `notes` what it found.
std::optional<GpuSpec> hardware_of_trace(const Trace& trace, const RunOptions& options,
                                         std::vector<std::string>& notes) {
  if (trace.devices.empty()) return std::nullopt;
  const std::string& id = trace.devices.front();
  for (const TraceDevice& device : trace.device_properties) {
    if (device.id != id || device.name.empty()) continue;
    config::SearchPath search;
    search.beside = ".";
    search.extra = options.config_folders;
    auto gpu = config::hardware_of_device(device.name, search);
    search.inputs = options.inputs;
    if (gpu && search.inputs) config::read_hardware(config::load_text(gpu->key, gpu->key), search);
    notes.push_back(
        gpu ? fmt::format("hardware: {}, from the trace's device '{}'", gpu->key, device.name)
            : fmt::format("the trace's device '{}' is not among the known hardware", device.name));
    return gpu;
  }
  notes.emplace_back("the trace does not name its device: give 'hardware' to fill what it cannot tell");
  return std::nullopt;
}

/// Steps of a network, or of a trace, are known to be too many only once they are built.
void check_run_length(const Variant& variant, const engine::Program& program, std::int64_t steps,
                      std::int64_t most) {
  std::size_t instructions = 0;
  for (const engine::HostThread& thread : program.threads) instructions += thread.instructions.size();
  if (static_cast<std::int64_t>(instructions) <= most / steps) return;
  const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
  throw ConfigError(Diagnostic{
      .where = network != nullptr ? network->where : Location{},
      .path = "steps",
      .what = fmt::format("{} steps of {} host instructions are more than {} (run_instructions_max)", steps,
                          instructions, most),
      .hint = "ask for fewer steps; one that repeats needs no number of them"});
}

bool trains(const Variant& variant) {
  const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
  return network != nullptr && network->training;
}

/// Whether the step frees and gathers parameters as it goes: hooks in Python decide when, between launches.
bool shards_parameters(const Variant& variant) {
  const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
  return network != nullptr && network->training && network->parallel && network->parallel->data > 1 &&
         network->parallel->shards_parameters();
}

report::TraceComparison compare_with_trace(const Trace& trace, const Replay& replay) {
  engine::Timeline timeline;
  engine::run(replay.built.program, replay.built.machine, 1, &timeline);
  const ReplayComparison comparison = compare(trace, replay, timeline);
  return {.traced_wall = comparison.traced_wall,
          .traced_busy = comparison.traced_busy,
          .start_error_median = comparison.start_error_median,
          .start_error_p90 = comparison.start_error_p90,
          .start_error_max = comparison.start_error_max,
          .kernels = comparison.kernels,
          .unlinked_ops = replay.statistics.unlinked_ops};
}

}  // namespace

std::shared_ptr<const Trace> TraceStore::read(const std::string& path) {
  std::shared_ptr<const Trace>& trace = traces_[path];
  if (!trace) trace = std::make_shared<const Trace>(read_trace(path, trace_limits(limits_)));
  return trace;
}

BuiltProgram build_kernels(const Variant& variant) {
  BuiltProgram built = build_program(variant);
  if (variant.cuda_graph == CudaGraphMode::Full) built.program = captured(built, variant.hardware).program;
  return built;
}

namespace {

report::VariantResult simulate(const Variant& variant, TraceStore& traces, const RunOptions& options) {
  report::VariantResult result;
  result.variant = variant.name;
  std::optional<GpuSpec> hardware = variant.hardware;
  BuiltProgram built;
  CudaGraphMode cuda_graph = variant.cuda_graph;
  if (const auto* workload = std::get_if<TraceWorkload>(&variant.workload.source)) {
    const std::shared_ptr<const Trace> trace = traces.read(workload->resolved);
    if (!hardware) {
      hardware = hardware_of_trace(*trace, options, result.notes);
    } else if (!trace->device_properties.empty() && !trace->device_properties.front().name.empty() &&
               !alias_match(*hardware, trace->device_properties.front().name)) {
      result.notes.push_back(
          fmt::format("kernel durations are those of the traced {}: {} changes launches only",
                      trace->device_properties.front().name, hardware->name));
    }
    ReplayOptions replay_options;
    replay_options.host_time = workload->host_time;
    replay_options.host_factor = workload->factor;
    replay_options.host = variant.host ? &*variant.host : nullptr;
    Replay replay = build_replay(*trace, hardware ? &*hardware : nullptr, replay_options);
    // With other host times the trace is no measure any more.
    if (variant.cuda_graph == CudaGraphMode::None && workload->host_time == TraceWorkload::HostTime::Traced)
      result.trace = compare_with_trace(*trace, replay);
    built = std::move(replay.built);
    built.work_is_dispatch = true;
  } else if (const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source)) {
    built = build_network(*network, variant, options, result, cuda_graph);
    const Bytes capacity = hardware->memory.capacity;
    if (capacity > Bytes(0) && *result.peak_memory > capacity)
      result.out_of_memory = options.fit_memory
                                 ? fit_memory(*network, variant, *result.peak_memory, traces, options)
                                 : report::OutOfMemory{.over = *result.peak_memory - capacity};
  } else {
    built = build_program(variant);
  }
  result.notes.insert(result.notes.end(), built.notes.begin(), built.notes.end());
  result.steps_per_program = built.steps_per_program;
  if (cuda_graph == CudaGraphMode::None)  // capture moves instructions
    for (const InstructionPlace& place : built.step_starts)
      if (place.thread == 0) result.step_starts.push_back(place.instruction);

  if (cuda_graph == CudaGraphMode::Full) {
    result.memory_marks.clear();
    Captured graphs = captured(built, hardware);
    for (const CaptureCut& cut : graphs.cuts)
      result.cuda_graphs_cut_by.push_back(
          cut.count == 1 ? cut.reason : fmt::format("{} ({} times a step)", cut.reason, cut.count));
    built.program = std::move(graphs.program);
  }

  std::optional<engine::Timeline> timeline;
  const std::int64_t steps = variant.steps.value_or(1);
  check_run_length(variant, built.program, steps, options.limits.run_instructions_max);
  if (options.timeline || options.critical_path) {
    const std::int64_t ops = gpu_ops(built.program);
    const std::int64_t most = options.critical_path ? std::min(options.limits.critical_path_ops_max,
                                                               options.limits.timeline_ops_max)
                                                    : options.limits.timeline_ops_max;
    if (ops > most / steps)
      throw ConfigError("steps",
                        fmt::format("{} of {} steps has more than {} GPU ops ({})",
                                    options.critical_path ? "the critical path" : "a timeline", steps, most,
                                    options.critical_path ? "critical_path_ops_max" : "timeline_ops_max"),
                        "ask for fewer steps with --steps");
    timeline.emplace();
  }
  const auto* parallel = std::get_if<NetworkWorkload>(&variant.workload.source);
  if (parallel != nullptr && !parallel->parallel) parallel = nullptr;
  const bool has_phases = options.phases && trains(variant) && cuda_graph == CudaGraphMode::None;
  if (has_phases || parallel != nullptr) {
    const ThreeSteps simulated = three_steps(built);
    if (has_phases) result.phases = phase_times(built, simulated);
    if (parallel != nullptr)
      result.ranks =
          rank_summary(*parallel->parallel, built, simulated, result.ranks ? result.ranks->bubble : 0);
  }
  result.isolated = engine::run(built.program, built.machine, steps, timeline ? &*timeline : nullptr);
  if (options.idle_intervals)
    result.idle_intervals = engine::idle_intervals(built.program, built.machine, steps);
  if (options.critical_path) {
    const CriticalPath path = critical_path(built.program, built.machine, *timeline);
    result.critical_path = report::summarize_path(
        built.program, *timeline, path, counterfactuals(built.program, built.machine, *timeline, path),
        steps * std::max<std::int64_t>(built.steps_per_program, 1));
    if (!options.timeline) timeline.reset();
  }
  if (options.steady && !variant.steps && built.repeats)
    result.steady = engine::run_steady(built.program, built.machine, steady_options(built.program));

  if (shards_parameters(variant)) {
    result.cuda_graphs_cut_by.emplace_back("FSDP's hooks, which free and gather parameters between launches");
  } else if (options.one_cuda_graph && cuda_graph == CudaGraphMode::None && is_on_one_device(built.program)) {
    Captured graphs = captured(built, hardware);
    if (graphs.graphs > 0 && host_launches(graphs.program) < host_launches(built.program)) try {
        report::VariantResult what_if;
        what_if.steps_per_program = built.steps_per_program;
        if (!variant.steps && built.repeats)
          what_if.steady = engine::run_steady(graphs.program, built.machine, steady_options(graphs.program));
        if (what_if.steady.period.steps == 0)
          what_if.isolated = engine::run(graphs.program, built.machine, steps);
        what_if.program = std::move(graphs.program);
        const report::Metrics m = report::metrics(what_if);
        result.one_cuda_graph =
            report::WhatIf{.step_time = m.step_time, .gpu_utilization = m.gpu_utilization};
      } catch (const engine::DeadlockError&) {
        // Captured, a thread may launch as a whole what another one waits for in the middle.
        result.notes.emplace_back("as one CUDA graph the step would be stuck: not compared");
      }
    if (result.cuda_graphs_cut_by.empty())
      for (const CaptureCut& cut : graphs.cuts) result.cuda_graphs_cut_by.push_back(cut.reason);
  }

  if (hardware) {
    std::string dtype = dtype_of(variant.workload);
    if (std::holds_alternative<NetworkWorkload>(variant.workload.source)) {
      // Products run at the rate of what they are computed in: fp32 tensors as tf32 where there is such.
      if (variant.compile && variant.compile->precision)
        dtype = std::string(name(*variant.compile->precision));
      if (dtype == "fp32" && hardware->tf32_products && hardware->peak.find(Dtype::Tf32)) dtype = "tf32";
    }
    result.device = device_of(*hardware, dtype);
  }
  if (variant.host) result.host = variant.host->name;
  if (variant.workload.model_flops.value() > 0) result.model_flops = variant.workload.model_flops;
  result.timeline = std::move(timeline);
  result.residency =
      built.residency.empty() ? residencies(built.program, built.machine) : std::move(built.residency);
  result.program = std::move(built.program);
  return result;
}

}  // namespace

report::VariantResult run_variant(const Variant& variant, TraceStore& traces, const RunOptions& options) {
  try {
    return simulate(variant, traces, options);
  } catch (const TimeRangeError& error) {
    const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
    throw ConfigError(Diagnostic{.where = network != nullptr ? network->where : Location{},
                                 .path = "workload",
                                 .what = error.what(),
                                 .hint = "check the units of sizes, rates and speeds"});
  }
}

report::ScenarioReport run_scenario(const Scenario& scenario, TraceStore& traces, const RunOptions& options) {
  report::ScenarioReport result;
  result.scenario = scenario.name;
  result.description = scenario.description;
  result.file = scenario.file;
  std::vector<report::Metrics> metrics;
  for (const Variant& variant : scenario.variants) {
    try {
      result.variants.push_back(run_variant(variant, traces, options));
    } catch (const engine::DeadlockError& error) {
      throw engine::DeadlockError(
          fmt::format("{}: error: variant '{}' is stuck\n{}", scenario.file, variant.name, error.what()));
    } catch (const engine::TimeLimitError& error) {
      throw engine::TimeLimitError(
          fmt::format("{}: error: variant '{}': {}\n  hint: check the units of the durations, or ask for "
                      "fewer steps with --steps",
                      scenario.file, variant.name, error.what()));
    } catch (const ConfigError& error) {
      // What only shows while building has no place in the file.
      std::vector<Diagnostic> diagnostics = error.diagnostics();
      for (Diagnostic& diagnostic : diagnostics)
        if (diagnostic.where.file.empty()) diagnostic.where.file = scenario.file;
      throw ConfigError(std::move(diagnostics));
    }
    if (!scenario.expectations.empty()) metrics.push_back(report::metrics(result.variants.back()));
  }
  result.expectations = check_expectations(scenario.expectations, metrics);
  return result;
}

}  // namespace gpusim
