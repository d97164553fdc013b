// SPDX-License-Identifier: Apache-2.0
#include "sim/app/explain_command.hpp"

#include <set>
#include <utility>
#include <vector>

#include "models/compiler/recompute_curve.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/config/error.hpp"
#include "sim/report/explain_report.hpp"

namespace gpusim {

namespace {

/// Steps with each setting that keeps other tensors than those before it.
std::vector<CurvePoint> curve_of(const NetworkWorkload& workload, const Variant& variant) {
  std::vector<CurvePoint> points;
  std::set<std::vector<std::pair<std::vector<TensorIndex>, std::vector<OpIndex>>>> known;
  Variant one = variant;
  for (const RecomputeSetting& setting : curve_settings()) {
    one.compile->recompute = with_setting(variant.compile->recompute.value_or(RecomputeOptions()), setting);
    const CompiledStep step = compile_variant(workload, one);
    CurvePoint point{.setting = setting};
    std::vector<std::pair<std::vector<TensorIndex>, std::vector<OpIndex>>> kept;
    for (const RegionRecompute& region : step.recompute) {
      kept.emplace_back(region.plan.saved, region.plan.run_again);
      point.saved += region.plan.saved_bytes;
      point.flops_again += region.plan.flops_again;
    }
    if (kept.empty() || !known.insert(std::move(kept)).second) continue;
    point.time = step_time(compiled_program(workload, one, step).built, variant.steps);
    point.peak = step.memory.peak;
    points.push_back(point);
  }
  mark_front(points);
  return points;
}

}  // namespace

std::vector<report::ExplainedVariant> explained_variants(const Scenario& scenario, bool curve) {
  std::vector<report::ExplainedVariant> variants;
  for (const Variant& variant : scenario.variants) {
    const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
    if (network == nullptr || !is_compiled(variant)) continue;
    report::ExplainedVariant& explained = variants.emplace_back();
    explained.variant = variant.name;
    explained.options = *variant.compile;
    const NetworkWorkload workload = sized(*network, variant).workload;
    explained.step = compile_variant(workload, variant);
    if (curve) explained.curve = curve_of(workload, variant);
    explained.compile_seconds = seconds(explained.step.compile_time);
  }
  return variants;
}

std::string explain(const Scenario& scenario, const std::string& format, bool curve,
                    const std::string& input) {
  const std::vector<report::ExplainedVariant> variants = explained_variants(scenario, curve);
  if (variants.empty()) {
    Diagnostic problem;
    problem.where.file = scenario.file;
    problem.path = "backend";
    problem.what = "no variant is compiled: there is nothing to explain";
    problem.hint = "give a network a backend, for example 'backend: inductor'";
    throw ConfigError(std::move(problem));
  }
  return format == "json"
             ? report::explain_json(scenario.name, variants, {.version = GPUSIM_VERSION, .input = input})
             : report::explain_text(scenario.name, variants);
}

}  // namespace gpusim
