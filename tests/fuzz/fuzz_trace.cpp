// SPDX-License-Identifier: Apache-2.0
#include "sim/app/limit_options.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "sim/report/trace_report.hpp"
#include "sim/trace_use/calibrate_trace.hpp"
#include "sim/trace_use/diff.hpp"
#include "sim/trace_use/import.hpp"
#include "sim/trace_use/what_if.hpp"
#include "sim/trace_use/what_if_report.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {
namespace {

const GpuSpec& gpu() {
  static const GpuSpec made = config::read_hardware(config::load_text("h200", "input"), search_path());
  return made;
}
const HostSpec& host() {
  static const HostSpec made =
      config::read_host(config::load_text("xeon-h200-cloud", "input"), search_path());
  return made;
}

void summed_up(const Trace& trace) {
  const report::TraceAnalysis analysis(trace);
  require(!report::trace_summary_text(trace, analysis).empty(), "no summary");
  check_json(report::trace_summary_json(trace, analysis));
  require(!summary_csv_row(analysis.summary).empty(), "no row");
  check_json(report::trace_path_json(trace, analysis.path, 10));
  require(!report::trace_path_text(trace, analysis.path, 10).empty(), "no path");
}

void replayed(const Trace& trace, TraceWorkload::HostTime host_time) {
  ReplayOptions options;
  options.host_time = host_time;
  options.host = &host();
  const Replay replay = build_replay(trace, &gpu(), options);
  engine::Timeline timeline;
  engine::run(replay.built.program, replay.built.machine, 1, &timeline);
  if (host_time == TraceWorkload::HostTime::Traced) compare(trace, replay, timeline);
}

/// What is imported reads back and runs.
void imported(const Trace& trace, bool fold) {
  ImportOptions options;
  options.gpu = gpu();
  options.fold = fold;
  const ImportedScenario made = import_trace(trace, options);
  if (made.instructions > small_limits().step_instructions_max / 2) return;
  run_and_report(read_scenario_text(made.yaml, input_name(), scenario_options()));
}

void changed(const Trace& trace) {
  WhatIfOptions options;
  options.gpu = gpu();
  options.host = host();
  options.find_gpu = [](const std::string&, const std::string&) { return gpu(); };
  std::vector<TraceChange> changes;
  for (const char* change : {"cuda_graph", "compile", "kernel=*:2x", "host=2x", "no_sync"})
    changes.push_back(parse_change(change));
  const WhatIf result = what_if(trace, changes, options);
  check_json(what_if_json(result));
  require(!what_if_text(result).empty(), "no prediction");
}

}  // namespace

void trace(std::string_view text) {
  std::optional<Trace> read;
  answered([&] { read = read_trace_bytes(text, "input.json", trace_limits(small_limits())); });
  if (!read) return;
  const Trace& trace = *read;
  answered([&] { summed_up(trace); });
  answered([&] { replayed(trace, TraceWorkload::HostTime::Traced); });
  answered([&] { replayed(trace, TraceWorkload::HostTime::Auto); });
  answered([&] { replayed(trace, TraceWorkload::HostTime::Model); });
  answered([&] {
    const TraceDiff diff = diff_traces(trace, trace);
    require(diff.difference() == Picoseconds(0), "a trace differs from itself");
    check_json(diff_json(diff));
    require(!diff_text(diff).empty(), "no difference told");
  });
  answered([&] { imported(trace, true); });
  answered([&] { imported(trace, false); });
  answered([&] { changed(trace); });
  answered([&] { fit_host({trace}, {gpu()}, host()); });
}

}  // namespace gpusim::fuzz
