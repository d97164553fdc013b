// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runs.hpp"

#include <sstream>

#include "sim/app/compiled_variant.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/explain_command.hpp"
#include "sim/report/chrome_trace.hpp"
#include "sim/report/report.hpp"
#include "tests/fuzz/answer.hpp"

namespace gpusim::fuzz {
namespace {

std::shared_ptr<config::FileStore> known_files() {
  static const auto files = std::make_shared<config::FileStore>(small_limits());
  return files;
}

RunOptions run_options() {
  RunOptions options;
  options.limits = small_limits();
  options.timeline = true;
  options.idle_intervals = true;
  options.critical_path = true;
  return options;
}

void check_report(const report::ScenarioReport& made) {
  require(!report::to_text(made).empty(), "a report without text");
  check_json(report::to_json({made}, "fuzz"));
  require(!report::to_csv({made}, "fuzz").empty(), "a report without rows");
  for (const report::VariantResult& result : made.variants) {
    if (!result.timeline) continue;
    std::ostringstream trace;
    report::write_chrome_trace(trace, result.program, *result.timeline, {.memory = result.memory_marks});
    check_json(trace.str());
  }
}

}  // namespace

std::string input_name() {
  return std::string(GPUSIM_SOURCE_DIR) + "/scenarios/input.yaml";
}

config::SearchPath search_path() {
  config::SearchPath search;
  search.beside = std::string(GPUSIM_SOURCE_DIR) + "/scenarios";
  search.files = known_files();
  return search;
}

ScenarioOptions scenario_options() {
  ScenarioOptions options;
  options.metrics = metric_paths();
  options.files = known_files();
  options.limits = small_limits();
  return options;
}

void run_and_report(const Scenario& scenario) {
  TraceStore traces(small_limits());
  check_report(run_scenario(scenario, traces, run_options()));
  const bool compiled = std::any_of(scenario.variants.begin(), scenario.variants.end(), [](const Variant& v) {
    return std::holds_alternative<NetworkWorkload>(v.workload.source) && is_compiled(v);
  });
  if (!compiled) return;
  check_json(explain(scenario, "json", false, "fuzz"));
  require(!explain(scenario, "text", false, "fuzz").empty(), "nothing explained");
}

void run_and_report(const Variant& variant) {
  Scenario scenario;
  scenario.name = "input";
  scenario.file = "input";
  scenario.variants.push_back(variant);
  run_and_report(scenario);
}

}  // namespace gpusim::fuzz
