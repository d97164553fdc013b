// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_diff_command.hpp"

#include <filesystem>
#include <memory>
#include <sstream>

#include "sim/app/expectations.hpp"
#include "sim/app/limit_options.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/report/chrome_trace.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/trace_use/diff.hpp"

namespace gpusim {
namespace {

/// What a profiler would have recorded of a simulated variant.
Trace simulated(const std::string& file, const std::string& variant, const Surroundings& surroundings) {
  ScenarioOptions options;
  if (!variant.empty()) options.variants = {variant};
  options.metrics = metric_paths();
  options.config_folders = surroundings.config_folders;
  options.files = std::make_shared<config::FileStore>(surroundings.limits);
  options.limits = surroundings.limits;
  const Scenario scenario = read_scenario(file, options);
  Variant first = scenario.variants.front();
  if (!first.steps) first.steps = simulated_steps;
  TraceStore traces(surroundings.limits);
  RunOptions run;
  run.timeline = true;
  run.one_cuda_graph = false;
  run.fit_memory = false;
  run.config_folders = surroundings.config_folders;
  run.limits = surroundings.limits;
  const report::VariantResult result = run_variant(first, traces, run);
  std::ostringstream text;
  report::ChromeTraceOptions trace;
  trace.device_name = result.device.name;
  trace.steps_per_program = result.steps_per_program;
  trace.step_starts = result.step_starts;
  report::write_chrome_trace(text, result.program, *result.timeline, trace);
  return read_trace_bytes(text.str(), file + " (" + first.name + ", simulated)",
                          trace_limits(surroundings.limits));
}

Trace side(const std::string& file, const std::string& variant, const Surroundings& surroundings) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".yaml" || extension == ".yml") return simulated(file, variant, surroundings);
  return read_trace(file, trace_limits(surroundings.limits));
}

}  // namespace

ExitCode run_trace_diff(const DiffArguments& arguments, const Surroundings& surroundings) {
  const Trace a = side(arguments.a, arguments.variant_a, surroundings);
  const Trace b = side(arguments.b, arguments.variant_b, surroundings);
  DiffOptions options;
  if (arguments.steps != "auto") options.one_step = arguments.steps == "one";
  const TraceDiff diff = diff_traces(a, b, options);
  surroundings.out(arguments.format == "json" ? diff_json(diff)
                                              : diff_text(diff, static_cast<std::size_t>(arguments.rows)));
  return ExitCode::Done;
}

}  // namespace gpusim
