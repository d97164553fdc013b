// SPDX-License-Identifier: Apache-2.0
#include "sim/app/compiled_variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "models/compiler/attention_patterns.hpp"
#include "models/compiler/buckets.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/recompile.hpp"
#include "models/compiler/step_memory.hpp"
#include "sim/app/priced.hpp"
#include "sim/config/error.hpp"
#include "sim/program/eager.hpp"
#include "sim/report/metrics.hpp"
#include "sim/scenario/network_workload.hpp"

namespace gpusim {
namespace {

/// As priced(); what the compiler refuses is told where the backend is named.
template <class Body>
auto located(const NetworkWorkload& workload, const Variant& variant, const Body& body) {
  return priced(workload, [&] {
    try {
      return body();
    } catch (const CompileError& error) {
      throw ConfigError(Diagnostic{
          .where = variant.compile_where, .path = "backend", .what = error.what(), .hint = error.hint()});
    }
  });
}

std::int64_t gpu_ops(const engine::Program& program) {
  std::int64_t ops = 0;
  for (const engine::HostThread& thread : program.threads)
    for (const engine::Instruction& i : thread.instructions) {
      if (i.call == engine::Call::Launch) ++ops;
      if (i.call == engine::Call::LaunchGraph)
        ops += static_cast<std::int64_t>(program.graphs[i.object].nodes.size());
    }
  return ops;
}

/// What `options` does with a part of it switched off.
CompileOptions bare(const CompileOptions& options) {
  CompileOptions none = options;
  FusionRules& fusion = none.mode.fusion;
  fusion.pointwise = fusion.into_reduction = fusion.after_reduction = fusion.reductions_together =
      fusion.siblings = fusion.mixed_orders = false;
  none.groups.reset();
  none.mode.simplify = {
      .dead_code = false, .inference_dropout = false, .constants = false, .common_subexpressions = false};
  none.mode.products.templates = none.mode.products.padding = false;
  none.mode.cuda_graphs = CudaGraphPolicy::None;
  none.buckets.reset();
  none.precision.reset();
  none.overrides.clear();
  none.attention_patterns = false;
  // Whatever eager autograd keeps.
  none.recompute = RecomputeOptions{
      .policy = RecomputePolicy::StoreAll, .save = {}, .recompute = {}, .rules = {}, .times = {}};
  return none;
}

bool finds_attention(const Variant& variant) {
  return variant.compile && variant.compile->backend.capture != CaptureKind::None &&
         variant.compile->backend.fused_attention && variant.compile->attention_patterns;
}

CompileOptions& of(Variant& variant) {
  return *variant.compile;
}

/// Whether padding would change a product of the step.
bool has_rows_to_fill(const CompiledStep& step, const GpuSpec& gpu) {
  for (const RegionPlan& region : step.regions)
    for (const CompiledKernel& kernel : region.kernels)
      for (const KernelWork& work : kernel.work)
        if (const auto* product = std::get_if<MatrixProduct>(&work)) {
          const MatrixProduct filled = filled_up(*product, gpu);
          if (filled.m != product->m || filled.n != product->n || filled.k != product->k) return true;
        }
  return false;
}

/// Whether both make the same of a step. Asking for what is done in any case changes nothing.
bool compile_alike(CompileOptions a, CompileOptions b) {
  for (CompileOptions* options : {&a, &b})
    if (options->recompute == RecomputeOptions()) options->recompute.reset();
  return a == b;
}

}  // namespace

bool is_compiled(const Variant& variant) {
  return variant.compile && (variant.compile->backend.capture != CaptureKind::None ||
                             !variant.compile->breaks.empty() || !variant.compile->overrides.empty());
}

std::vector<std::string> attention_notes(const NetworkWorkload& workload, const Variant& variant) {
  std::vector<std::string> notes;
  if (!finds_attention(variant)) return notes;
  std::map<std::string, std::int64_t> refusals;
  std::int64_t found = 0;
  for (const AttentionSite& site : attention_sites(*workload.forward))
    if (site.refusal.empty())
      ++found;
    else
      ++refusals[site.refusal];
  if (found > 0)
    notes.push_back(fmt::format("attention that is written out is found {} times: one kernel each", found));
  for (const auto& [why, count] : refusals)
    notes.push_back(
        fmt::format("attention is written out {} times as no pattern of the compiler has it: {}; "
                    "scaled_dot_product_attention is one kernel",
                    count, why));
  return notes;
}

void rebuild(NetworkWorkload& workload, const Variant& variant) {
  located(workload, variant, [&] {
    try {
      OpGraph forward = build_graph(*workload.network, workload.sizes, {.ops = workload.ops_max});
      // The compiler's patterns are looked for before it takes anything else apart.
      if (workload.sizes.compiled && finds_attention(variant)) forward = fuse_attention(forward);
      workload.forward = rank_forward(std::move(forward), workload.parallel);
      std::optional<ParallelPlan> parallel = workload.parallel;
      if (parallel && workload.sizes.compiled)
        parallel->compiled = variant.compile && variant.compile->regional ? CompiledPieces::Blocks
                             : parallel->compile_wrapped                  ? CompiledPieces::Buckets
                                                                          : CompiledPieces::Whole;
      workload.graph = step_graph(workload.forward, workload.training, parallel);
    } catch (const GraphError& error) {
      throw std::invalid_argument(error.what());
    }
  });
}

CompiledStep compile_variant(const NetworkWorkload& workload, const Variant& variant) {
  return located(workload, variant, [&] {
    CompiledStep step = compile_step(workload.graph, *variant.compile, *variant.hardware);
    if (accumulation_of(workload) > 1)
      step.memory = step_memory(step, static_cast<MemoryIndex>(step.memory.addresses.size()),
                                *variant.hardware, accumulation_of(workload));
    return step;
  });
}

HostOpMode host_mode(const NetworkWorkload& workload) {
  return workload.training ? HostOpMode::Grad : HostOpMode::NoGrad;
}

std::int64_t accumulation_of(const NetworkWorkload& workload) {
  return workload.training ? workload.training->accumulation : 1;
}

CompiledProgram compiled_program(const NetworkWorkload& workload, const Variant& variant,
                                 const CompiledStep& step, bool marks) {
  return located(workload, variant, [&] {
    return build_compiled(step, *variant.compile, *variant.hardware, *variant.host, host_mode(workload),
                          {.accumulation = accumulation_of(workload), .marks = marks});
  });
}

engine::SteadyOptions steady_options(const engine::Program& program) {
  constexpr std::int64_t events_max = 4'000'000;
  std::int64_t events = 1 + gpu_ops(program);
  for (const engine::HostThread& thread : program.threads)
    events += static_cast<std::int64_t>(thread.instructions.size());
  engine::SteadyOptions options;
  options.steps_max = std::clamp<std::int64_t>(events_max / events, 16, options.steps_max);
  return options;
}

Picoseconds step_time(const BuiltProgram& built, std::optional<std::int64_t> steps) {
  report::VariantResult result;
  result.steps_per_program = built.steps_per_program;
  if (!steps && built.repeats)
    result.steady = engine::run_steady(built.program, built.machine, steady_options(built.program));
  if (result.steady.period.steps == 0)
    result.isolated = engine::run(built.program, built.machine, steps.value_or(1));
  result.program = built.program;
  return report::metrics(result).step_time;
}

SizedWorkload sized(const NetworkWorkload& workload, const Variant& variant, const SizedWorkload* known) {
  SizedWorkload result{.workload = workload};
  if (!variant.compile) return result;
  NetworkSizes sizes = workload.sizes;
  sizes.compiled = variant.compile->backend.capture != CaptureKind::None;
  const std::optional<ElementType> precision = variant.compile->precision;
  if (precision &&
      (*precision == ElementType::Bf16 || *precision == ElementType::Fp16 || *precision == ElementType::Fp32))
    sizes.dtype = *precision;
  if (variant.compile->buckets) {
    const auto padded = padded_batch(*variant.compile->buckets, sizes.batch);
    result.recorded = padded.has_value();
    if (padded && *padded != sizes.batch) {
      result.padded_to = *padded;
      sizes.batch = *padded;
    }
  }
  const bool traced = workload.training && sizes.compiled;
  if (sizes == workload.sizes && !traced) return result;
  result.attention_found = sizes.compiled && finds_attention(variant);
  if (known != nullptr && sizes == known->workload.sizes &&
      result.attention_found == known->attention_found) {
    result.workload = known->workload;
    return result;
  }
  result.workload.sizes = sizes;
  if (traced) result.workload.training->functional = true;
  rebuild(result.workload, variant);
  return result;
}

std::vector<report::GainPart> gain_parts(const NetworkWorkload& workload, const Variant& variant,
                                         const SizedWorkload& whole, const BuiltProgram& built) {
  if (!variant.compile || variant.compile->backend.capture == CaptureKind::None) return {};
  const CompileOptions& full = *variant.compile;
  std::vector<report::GainPart> parts;
  const auto add = [&](const char* name, Picoseconds time) {
    // What changes nothing is not shown.
    if (!parts.empty() && parts.back().step_time == time) return;
    parts.push_back({name, time});
  };
  add("eager", step_time(located(workload, variant,
                                 [&] {
                                   return build_eager(*workload.graph, *variant.hardware, *variant.host,
                                                      host_mode(workload),
                                                      {.accumulation = accumulation_of(workload)});
                                 })
                             .built,
                         variant.steps));
  Variant partial = variant;
  of(partial) = bare(full);
  std::optional<CompileOptions> measured;
  SizedWorkload run = whole;
  std::optional<CompiledStep> step;  // That was compiled last.
  const auto measure = [&](const char* name, const std::function<bool(const CompiledStep&)>& changes = {}) {
    if (measured == of(partial)) return;  // Nothing was switched on.
    measured = of(partial);
    if (whole.recorded && compile_alike(of(partial), full)) {
      add(name, step_time(built, variant.steps));
      return;
    }
    if (changes && step && !changes(*step)) return;
    run = sized(workload, partial, &run);
    step = compile_variant(run.workload, partial);
    add(name, step_time(compiled_program(run.workload, partial, *step).built, variant.steps));
  };
  const std::vector<AttentionSite> sites = attention_sites(*workload.forward);
  const bool any_found =
      std::any_of(sites.begin(), sites.end(), [](const AttentionSite& s) { return s.refusal.empty(); });
  // Where nothing is found, looking for it changes nothing.
  of(partial).attention_patterns = full.attention_patterns && !any_found;
  measure(full.backend.python ? "calls without a dispatch each" : "calls without Python");
  of(partial).attention_patterns = full.attention_patterns;
  if (any_found) measure("attention patterns");
  of(partial).mode.simplify = full.mode.simplify;
  measure("graph passes");
  of(partial).mode.products.padding = full.mode.products.padding;
  measure("padded products",
          [&](const CompiledStep& before) { return has_rows_to_fill(before, *partial.hardware); });
  of(partial).mode.fusion = full.mode.fusion;
  of(partial).groups = full.groups;
  of(partial).mode.products = full.mode.products;
  // What is fused is chosen together with what is kept, and is slower without.
  of(partial).recompute.reset();
  measure("fusion");
  // What is done in any case is no part of its own.
  if (full.recompute != RecomputeOptions()) of(partial).recompute = full.recompute;
  of(partial).recompute_by_time = full.recompute_by_time;
  measure("what backward keeps");
  of(partial).precision = full.precision;
  measure("precision");
  of(partial).overrides = full.overrides;
  measure("better kernels");
  of(partial).mode.cuda_graphs = full.mode.cuda_graphs;
  of(partial).buckets = full.buckets;
  measure("CUDA graphs");
  return parts;
}

std::vector<report::ShapeResult> shape_steps(const NetworkWorkload& workload, const Variant& variant) {
  std::vector<report::ShapeResult> results;
  if (variant.shapes.empty()) return results;
  const bool compiled = variant.compile && variant.compile->backend.capture != CaptureKind::None;
  std::vector<ShapeCall> calls;
  for (const ShapeStep& shape : variant.shapes) calls.push_back({.sizes = {shape.batch, shape.sequence}});
  RecompileRules rules;
  std::vector<CallRecord> records(calls.size());
  if (compiled) {
    rules.dynamic = variant.compile->backend.dynamic_shapes ? variant.compile->dynamic : DynamicShapes::Never;
    rules.limit = variant.compile->recompile_limit;
    if (variant.compile->mode.cuda_graphs == CudaGraphPolicy::Trees) rules.cuda_graphs.emplace();
    records = simulate_calls(calls, rules);
  }
  struct Known {
    Picoseconds compiled{0};
    Picoseconds eager{0};
    Picoseconds compile{0};
    std::int64_t padded_to = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Known> known;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const ShapeStep& shape = variant.shapes[i];
    const auto [at, is_new] = known.try_emplace({shape.batch, shape.sequence});
    Known& sizes = at->second;
    if (is_new) {
      NetworkWorkload here = workload;
      here.sizes.batch = shape.batch;
      here.sizes.sequence = shape.sequence;
      here.where = shape.where;
      rebuild(here, variant);
      sizes.eager =
          step_time(located(here, variant,
                            [&] {
                              return build_eager(*here.graph, *variant.hardware, *variant.host,
                                                 host_mode(here), {.accumulation = accumulation_of(here)});
                            })
                        .built,
                    variant.steps);
      sizes.compiled = sizes.eager;
      if (compiled) {
        Variant run = variant;
        const SizedWorkload fitted = sized(here, run);
        if (!fitted.recorded) of(run).mode.cuda_graphs = CudaGraphPolicy::None;
        sizes.padded_to = fitted.padded_to;
        const CompiledStep step = compile_variant(fitted.workload, run);
        sizes.compiled = step_time(compiled_program(fitted.workload, run, step).built, variant.steps);
        sizes.compile = step.compile_time;
      }
    }
    report::ShapeResult result{.batch = shape.batch,
                               .sequence = shape.sequence,
                               .outcome = "eager",
                               .padded_to = sizes.padded_to,
                               .step_time = sizes.compiled};
    if (compiled) {
      const CallRecord& record = records[i];
      switch (record.outcome) {
        case CallOutcome::Compiles:
          result.outcome = record.dynamic ? "compiles, dynamic" : "compiles";
          result.compile_time = sizes.compile;
          break;
        case CallOutcome::Hits:
          result.outcome = record.dynamic ? "hits, dynamic" : "hits";
          break;
        case CallOutcome::Eager:
          result.outcome = "eager: recompile limit";
          result.step_time = sizes.eager;
          break;
      }
      if (record.graph == GraphOutcome::WarmUp) result.outcome += ", warms up";
      if (record.graph == GraphOutcome::Record) result.outcome += ", records";
      if (record.graph == GraphOutcome::Replay) result.outcome += ", replays";
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace gpusim
