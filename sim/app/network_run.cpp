// SPDX-License-Identifier: Apache-2.0
#include "sim/app/network_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/compiler/step_memory.hpp"
#include "models/graph/catalogue.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/app/pipeline_run.hpp"
#include "sim/app/plan_store.hpp"
#include "sim/app/priced.hpp"
#include "sim/config/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/eager.hpp"

namespace gpusim {
namespace {

/// The step of a network as a program.
EagerProgram network_program(const NetworkWorkload& workload, const Variant& variant, bool memory_curve) {
  return priced(workload, [&] {
    return build_eager(*workload.graph, *variant.hardware, *variant.host, host_mode(workload),
                       {.captured = variant.cuda_graph == CudaGraphMode::Full,
                        .accumulation = accumulation_of(workload),
                        .memory_curve = memory_curve});
  });
}

std::string above_buckets(std::int64_t batch) {
  return fmt::format(
      "a batch of {} is above the largest for which a CUDA graph is recorded: kernels are "
      "launched one by one",
      batch);
}
std::string padded_note(std::int64_t batch, std::int64_t padded) {
  return fmt::format(
      "a batch of {} runs as one of {}, for which a CUDA graph is recorded: {:.0f} % of the rows "
      "are padding",
      batch, padded, 100 * (1 - static_cast<double>(batch) / static_cast<double>(padded)));
}

/// Linear layers that `precision: fp8` leaves in 16 bits.
std::int64_t linears_of_16_bits(const NetworkWorkload& workload) {
  if (!workload.training || workload.training->precision != TrainingPrecision::Fp8) return 0;
  return std::count_if(workload.graph->ops.begin(), workload.graph->ops.end(),
                       [](const Op& op) { return op.phase == Phase::Forward && op.kind->name == "linear"; });
}

/// Tokens that one step makes or reads; unknown for networks without a sequence.
std::optional<double> tokens_of(const NetworkWorkload& workload) {
  const double per_sequence =
      workload.sizes.step == StepKind::Decode ? 1.0 : static_cast<double>(workload.sizes.sequence);
  return static_cast<double>(workload.sizes.batch) * per_sequence *
         static_cast<double>(accumulation_of(workload));
}

bool is_causal_attention(const Op& op) {
  return op.kind->name.starts_with("scaled_dot_product_attention") && op.attributes.has("is_causal") &&
         op.attributes.flag("is_causal");
}

/// Where the host begins each piece of the step, with the memory in use from then on.
template <class SharesOf>
std::vector<report::MemoryMark> memory_marks(const std::vector<StepMark>& marks, const SharesOf& shares_of) {
  std::vector<report::MemoryMark> result;
  result.reserve(marks.size());
  for (const StepMark& mark : marks)
    result.push_back({mark.place.thread, mark.place.instruction, shares_of(mark.memory)});
  return result;
}

/// Budgets that the ladder's steps and the knapsack do not reach: neither asks for all that is kept.
void note_missed_budgets(const CompiledStep& step, const Variant& variant, std::vector<std::string>& notes) {
  constexpr double tolerance = 0.02;
  if (!variant.compile->recompute) return;
  const double budget = variant.compile->recompute->memory_budget;
  for (const RegionRecompute& region : step.recompute)
    if (region.plan.policy == RecomputePolicy::MemoryBudget && region.plan.memory_ratio > budget + tolerance)
      notes.push_back(fmt::format(
          "a memory budget of {:.0f} % is not met in {}: {:.0f} % of what min_cut keeps stays, for what "
          "backward's products read and what must not run again is not up for choice; gpusim explain "
          "lists it",
          100 * budget, region.region, 100 * region.plan.memory_ratio));
}

BuiltProgram build_compiled_network(const NetworkWorkload& workload, const Variant& variant,
                                    const RunOptions& options, report::VariantResult& result) {
  const bool memory_curve = options.timeline;
  const auto plan = [&] { return compile_variant(workload, variant); };
  const std::shared_ptr<const CompiledStep> planned =
      options.plans ? options.plans->step(workload, *variant.compile, *variant.hardware, plan)
                    : std::make_shared<const CompiledStep>(plan());
  const CompiledStep& step = *planned;
  CompiledProgram compiled = compiled_program(workload, variant, step, memory_curve);
  result.model_flops = compiled.model_flops;
  if (workload.training)
    result.hardware_flops = executed_flops(*step.graph, workload.attention_flops, accumulation_of(workload));
  result.graph_breaks = static_cast<int>(step.captured.graph_breaks);
  const CompiledMemory& memory = step.memory;
  result.peak_memory = memory.peak;
  result.memory = report::MemorySummary{.at_peak = memory.at_peak,
                                        .peak_at = memory.peak_at,
                                        .saved = workload.training ? memory.saved : Bytes(0),
                                        .allocated = memory.outside_pool,
                                        .cuda_graph_pool = memory.pool};
  if (memory_curve) {
    std::vector<MemoryShares> curve;
    step_memory(step, static_cast<MemoryIndex>(memory.addresses.size()), *variant.hardware,
                accumulation_of(workload), &curve);
    result.memory_marks = memory_marks(compiled.built.marks, [&](std::uint32_t i) { return curve[i]; });
  }
  result.compile_time = step.compile_time;
  note_missed_budgets(step, variant, result.notes);
  for (const RegionPlan& region : step.regions)
    if (!region.not_captured.empty()) result.cuda_graphs_cut_by.push_back(region.not_captured);
  for (const BreakReport& cut : step.captured.breaks) {
    const std::string remedy = fmt::format("graph break ({}): {}", name(cut.cause), cut.remedy);
    if (std::find(result.remedies.begin(), result.remedies.end(), remedy) == result.remedies.end())
      result.remedies.push_back(remedy);
  }
  return std::move(compiled.built);
}

BuiltProgram build_eager_network(const NetworkWorkload& workload, const Variant& variant, bool memory_curve,
                                 report::VariantResult& result) {
  EagerProgram eager = network_program(workload, variant, memory_curve);
  result.model_flops = eager.model_flops;
  if (workload.training)
    result.hardware_flops =
        executed_flops(*workload.graph, workload.attention_flops, accumulation_of(workload));
  const MemoryUse& memory = eager.memory;
  result.peak_memory = memory.peak;
  // What a captured step makes lies in the CUDA graph's own pool.
  const Bytes pool = variant.cuda_graph == CudaGraphMode::Full ? memory.activations : Bytes(0);
  result.memory = report::MemorySummary{
      .at_peak = memory.at_peak,
      .peak_at = memory.peak_op == graph_none ? "" : workload.graph->ops[memory.peak_op].name,
      .saved = workload.training ? memory.saved : Bytes(0),
      .allocated = memory.peak - pool,
      .cuda_graph_pool = pool};
  if (memory_curve)
    result.memory_marks =
        memory_marks(eager.built.marks, [&](std::uint32_t i) { return eager.memory_curve[i].shares; });
  return std::move(eager.built);
}

}  // namespace

Flops executed_flops(const OpGraph& graph, AttentionFlops attention, std::int64_t accumulation) {
  std::vector<double> known(graph.ops.size(), -1);
  double sum = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind->flops == nullptr) continue;
    double& flops = known[op.like == graph_none ? i : op.like];
    if (flops < 0) {
      const OpTypes types(graph, op);
      flops = op.kind->flops(types.view(op)).value();
      if (attention == AttentionFlops::Causal && is_causal_attention(op)) flops /= 2;
    }
    sum += flops * static_cast<double>(op.phase == Phase::Optimizer ? 1 : accumulation);
  }
  return Flops(sum);
}

Flops model_flops(const NetworkWorkload& workload) {
  if (workload.training && workload.parallel && workload.parallel->pipeline > 1) {
    // Of the rank's stages: forward passes, each op once.
    OpGraph stage = *workload.graph;
    for (Op& op : stage.ops)
      if (op.phase != Phase::Forward || op.recomputed) op.kind = find_op("view");
    return 3.0 * executed_flops(stage, workload.attention_flops, accumulation_of(workload));
  }
  const Flops forward = executed_flops(*workload.forward, workload.attention_flops);
  return workload.training ? 3.0 * static_cast<double>(accumulation_of(workload)) * forward : forward;
}

BuiltProgram build_network(const NetworkWorkload& workload, const Variant& variant, const RunOptions& options,
                           report::VariantResult& result, CudaGraphMode& cuda_graph) {
  if (workload.parallel && workload.parallel->pipeline > 1 && workload.parallel->stage < 0)
    return build_pipeline(workload, variant, options, result, cuda_graph);
  BuiltProgram built;
  double padding = 1;
  const auto fit = [&] { return sized(workload, variant); };
  const SizedWorkload fitted =
      options.plans && variant.compile ? options.plans->sized(workload, *variant.compile, fit) : fit();
  if (variant.compile && !fitted.recorded) result.notes.push_back(above_buckets(workload.sizes.batch));
  if (fitted.padded_to > 0) {
    // Rows that only fill the CUDA graph up are no work of the model's.
    padding = static_cast<double>(workload.sizes.batch) / static_cast<double>(fitted.padded_to);
    result.notes.push_back(padded_note(workload.sizes.batch, fitted.padded_to));
  }
  if (is_compiled(variant)) {
    Variant run = variant;
    if (!fitted.recorded) run.compile->mode.cuda_graphs = CudaGraphPolicy::None;
    built = build_compiled_network(fitted.workload, run, options, result);
    for (std::string& note : attention_notes(workload, variant)) result.notes.push_back(std::move(note));
    if (options.one_cuda_graph) result.gains = gain_parts(workload, variant, fitted, built);
  } else {
    if (variant.compile && !fitted.recorded) cuda_graph = CudaGraphMode::None;
    built = build_eager_network(fitted.workload, variant, options.timeline, result);
  }
  result.tokens = tokens_of(workload);
  if (workload.training || workload.attention_flops == AttentionFlops::Causal)
    result.model_flops = model_flops(fitted.workload);
  if (result.model_flops) result.model_flops = *result.model_flops * padding;
  if (workload.training)
    result.notes.emplace_back(workload.attention_flops == AttentionFlops::Full
                                  ? "MFU and HFU count attention in full, causal or not"
                                  : "MFU and HFU count half of causal attention");
  if (const std::int64_t left = linears_of_16_bits(workload); left > 0)
    result.notes.push_back(fmt::format(
        "{} linear layers stay in 16 bits: products of 8 bits need sizes that are multiples of 16", left));
  if (options.shapes) result.shapes = shape_steps(workload, variant);
  return built;
}

ThreeSteps three_steps(const BuiltProgram& built) {
  ThreeSteps steps;
  engine::run(built.program, built.machine, ThreeSteps::last + 1, &steps.timeline);
  steps.order = steps.timeline.ops_in_order();
  return steps;
}

std::array<report::PhaseTime, 3> phase_times(const BuiltProgram& built, const ThreeSteps& steps) {
  std::array<report::PhaseTime, 3> phases{};
  if (built.marks.empty()) return phases;
  std::vector<std::vector<StepMark>> marks(built.program.threads.size());
  for (const StepMark& mark : built.marks) marks[mark.place.thread].push_back(mark);
  const engine::Timeline& timeline = steps.timeline;
  std::optional<Picoseconds> before;  // End of the last op.
  for (const engine::Index i : steps.order) {
    const engine::OpRecord& record = timeline.ops[i];
    const engine::CallRecord call = timeline.call(record.call);
    if (call.step == ThreeSteps::last) {
      // What stands before the first mark of a thread belongs to it.
      const std::vector<StepMark>& of_thread = marks[call.thread];
      const auto next = std::upper_bound(
          of_thread.begin(), of_thread.end(), call.instruction,
          [](engine::Index at, const StepMark& mark) { return at < mark.place.instruction; });
      if (of_thread.empty()) continue;
      const StepMark& mark = next == of_thread.begin() ? *next : *(next - 1);
      report::PhaseTime& phase = phases[static_cast<std::size_t>(mark.phase)];
      phase.busy += record.end - record.start;
      phase.span += record.end - before.value_or(record.start);
      ++phase.gpu_ops;
    }
    before = record.end;
  }
  return phases;
}

}  // namespace gpusim
