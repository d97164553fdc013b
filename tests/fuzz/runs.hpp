// SPDX-License-Identifier: Apache-2.0
// Scenarios run under limits that keep an input's answer below a second.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sim/app/run_variant.hpp"
#include "sim/config/names.hpp"
#include "sim/scenario/scenario_reader.hpp"

namespace gpusim::fuzz {

inline config::Limits small_limits() {
  config::Limits limits;
  limits.file_bytes = 1 << 20;
  limits.values = 20'000;
  limits.graph_ops_max = 1'500;
  limits.step_instructions_max = 20'000;
  limits.run_instructions_max = 200'000;
  limits.timeline_ops_max = 20'000;
  limits.critical_path_ops_max = 10'000;
  limits.axis_values_max = 1'000;
  limits.trace_file_bytes = 1 << 22;
  limits.trace_text_bytes = 1 << 24;
  limits.trace_whole_bytes = 1 << 24;
  return limits;
}

/// The name that inputs go by: names of files in them are looked up beside the project's scenarios.
std::string input_name();

/// Where an input's names are looked up. Files are read once for all inputs.
config::SearchPath search_path();
ScenarioOptions scenario_options();

/// Runs all variants, with timelines and critical paths, and writes every report there is.
void run_and_report(const Scenario& scenario);
void run_and_report(const Variant& variant);

}  // namespace gpusim::fuzz
