// SPDX-License-Identifier: Apache-2.0
#include "sim/app/explain_command.hpp"

#include <utility>
#include <vector>

#include "sim/app/compiled_variant.hpp"
#include "sim/config/error.hpp"
#include "sim/report/explain_report.hpp"

namespace gpusim {

std::string explain(const Scenario& scenario, const std::string& format) {
  std::vector<report::ExplainedVariant> variants;
  for (const Variant& variant : scenario.variants) {
    const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
    if (network == nullptr || !is_compiled(variant)) continue;
    report::ExplainedVariant& explained = variants.emplace_back();
    explained.variant = variant.name;
    explained.options = *variant.compile;
    explained.step = compile_variant(sized(*network, variant).workload, variant);
    explained.compile_seconds = seconds(explained.step.compile_time);
  }
  if (variants.empty()) {
    Diagnostic problem;
    problem.where.file = scenario.file;
    problem.path = "backend";
    problem.what = "no variant is compiled: there is nothing to explain";
    problem.hint = "give a network a backend, for example 'backend: inductor'";
    throw ConfigError(std::move(problem));
  }
  return format == "json" ? report::explain_json(scenario.name, variants)
                          : report::explain_text(scenario.name, variants);
}

}  // namespace gpusim
