// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/what_if_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/format.hpp"

namespace gpusim {
namespace {

using report::exact_microseconds;
using report::exact_number;
using report::json_string;
using report::left;
using report::right;
using report::shorten;
using report::time_text;

constexpr std::size_t width = 80;

std::string error_text(const PredictedStep& step) {
  if (!step.error) return "unknown";
  return *step.error == 0 ? "-" : fmt::format("+-{:.0f} %", *step.error * 100);
}

std::string row(const PredictedStep& step, const PredictedStep& baseline) {
  const double times = step.step_time > Picoseconds(0) ? static_cast<double>(baseline.step_time.count()) /
                                                             static_cast<double>(step.step_time.count())
                                                       : 0;
  const double busy = step.step_time > Picoseconds(0) ? static_cast<double>(step.gpu_busy.count()) /
                                                            static_cast<double>(step.step_time.count())
                                                      : 0;
  return left(shorten(report::printable(step.change), 28), 28) +
         right(time_text(step.step_time, baseline.step_time), 12) + right(error_text(step), 9) +
         right(fmt::format("{:.2f}x", times), 9) + right(report::percent_text(busy), 10) +
         right(fmt::format("{:.0f}", step.launches), 10);
}

void note(std::string& text, std::string_view first, std::string_view what) {
  bool begun = false;
  for (const std::string& line :
       report::wrap(report::printable(what), width - std::max<std::size_t>(first.size(), 4))) {
    text += (begun ? "    " : std::string(first)) + line + "\n";
    begun = true;
  }
}

std::string json_step(const PredictedStep& step, const PredictedStep& baseline, const char* indent) {
  std::string notes;
  for (const std::string& n : step.notes) notes += (notes.empty() ? "" : ", ") + json_string(n);
  const double speedup = step.step_time > Picoseconds(0) ? static_cast<double>(baseline.step_time.count()) /
                                                               static_cast<double>(step.step_time.count())
                                                         : 0;
  return fmt::format(
      "{0}{{\"change\": {1}, \"step_time_us\": {2}, \"error\": {3}, \"speedup\": {4},\n"
      "{0} \"gpu_busy_us\": {5}, \"gpu_ops\": {6}, \"launches\": {7}, \"notes\": [{8}]}}",
      indent, json_string(step.change), exact_microseconds(step.step_time),
      step.error ? exact_number(*step.error) : "null", exact_number(speedup),
      exact_microseconds(step.gpu_busy), exact_number(step.gpu_ops), exact_number(step.launches), notes);
}

}  // namespace

std::string what_if_text(const WhatIf& result) {
  std::string text = shorten(report::printable(result.trace), width) + "\n";
  text += fmt::format("  on {}\n\n", result.gpu.empty() ? "unknown hardware" : result.gpu);
  text += left("change", 28) + right("step", 12) + right("error", 9) + right("speed", 9) +
          right("GPU busy", 10) + right("launches", 10) + "\n";
  text += row(result.traced, result.baseline) + "\n";
  text += row(result.baseline, result.baseline) + "\n";
  for (const PredictedStep& step : result.alone) text += row(step, result.baseline) + "\n";
  if (result.together) text += row(*result.together, result.baseline) + "\n";
  text += "\n";
  for (const PredictedStep& step : result.alone) {
    if (step.notes.empty()) continue;
    note(text, "", step.change + ":");
    for (const std::string& n : step.notes) note(text, "  - ", n);
  }
  note(
      text, "",
      fmt::format("error: the worst seen in steps that could be measured (replay {:.1f} %, {}), those of "
                  "changes and {:.0f} % of fused kernels' time added as squares; unknown: no such change was "
                  "ever measured",
                  record_of_baseline().worst * 100, record_of_baseline().measured, fused_kernel_error * 100));
  for (const std::string& n : result.notes) note(text, "note: ", n);
  return text;
}

std::string what_if_json(const WhatIf& result) {
  std::string text = "{\"trace\": " + json_string(result.trace) +
                     ",\n \"gpu\": " + (result.gpu.empty() ? std::string("null") : json_string(result.gpu)) +
                     ",\n \"traced\":\n";
  text += json_step(result.traced, result.baseline, "  ") + ",\n \"baseline\":\n" +
          json_step(result.baseline, result.baseline, "  ") + ",\n \"changes\": [";
  for (std::size_t i = 0; i < result.alone.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + json_step(result.alone[i], result.baseline, "  ");
  text += "],\n \"together\":";
  text += result.together ? "\n" + json_step(*result.together, result.baseline, "  ") : std::string(" null");
  text += ",\n \"notes\": [";
  for (std::size_t i = 0; i < result.notes.size(); ++i)
    text += (i == 0 ? "" : ", ") + json_string(result.notes[i]);
  return text + "]}\n";
}

}  // namespace gpusim
