// SPDX-License-Identifier: Apache-2.0
// Replays of measured traces against themselves and against measured steps. Skipped without the measurements.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "sim/config/hardware_reader.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

namespace fs = std::filesystem;

const std::string shared = GPUSIM_SHARED_DIR;

std::optional<GpuSpec> hardware_of(const Trace& trace) {
  config::SearchPath search;
  for (const TraceDevice& device : trace.device_properties)
    if (!device.name.empty()) return config::hardware_of_device(device.name, search);
  return std::nullopt;
}

double micro(Picoseconds time) { return static_cast<double>(time.count()) * 1e-6; }

struct Replayed {
  Trace trace;
  Replay replay;
  engine::Run run;
  engine::Timeline timeline;
  ReplayComparison comparison;
};

Replayed replay_file(const std::string& path, const ReplayOptions& options = {}) {
  Replayed r;
  r.trace = read_trace(path);
  const std::optional<GpuSpec> hardware = hardware_of(r.trace);
  r.replay = build_replay(r.trace, hardware ? &*hardware : nullptr, options);
  r.run = engine::run(r.replay.built.program, r.replay.built.machine, 1, &r.timeline);
  r.comparison = compare(r.trace, r.replay, r.timeline);
  return r;
}

std::vector<std::string> traces_below(const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".gz") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> all_traces() {
  std::vector<std::string> files;
  for (const char* folder : {"/measured/h200/traces", "/measured/h200x2/traces", "/traces/public"})
    for (const std::string& file : traces_below(shared + folder)) files.push_back(file);
  return files;
}

}  // namespace

TEST_CASE("Table of replay errors", "[.table]") {
  for (const std::string& file : all_traces()) {
    std::cout << fs::path(file).filename().string() << "\n";
    for (const bool modes : {true, false}) {
      ReplayOptions options;
      options.rules.gap_modes = modes;
      const Replayed r = replay_file(file, options);
      const ReplayComparison& c = r.comparison;
      std::cout << fmt::format("  {} wall {:+.3f} % start {:.2f} / {:.2f} / {:.2f} us {}\n", modes ? "modes" : "none ",
                               100 * c.wall_error, micro(c.start_error_median), micro(c.start_error_p90),
                               micro(c.start_error_max), c.worst_op.substr(0, 50));
      const ReplayStatistics& s = r.replay.statistics;
      if (modes)
        std::cout << fmt::format(
            "  ops {} unlinked {} ooo {} in-call {} queued {} pair/class/hw {}/{}/{} pdl {} graphs {} waits {}+{} syncs {} ({}) "
            "blocking copies {} blocked {} hand-offs {} threads {} ({}) c {:.3f} ({}) wl {:.3f} steps {}\n",
            s.gpu_ops, s.unlinked_ops, s.out_of_order_ops, s.ops_starting_in_call, s.queued_ops, s.gaps_from_pairs,
            s.gaps_from_classes, s.gaps_from_hardware, s.programmatic_ops, s.cuda_graph_launches, s.inferred_waits,
            s.recorded_waits, s.synchronizations, s.blocking_synchronizations, s.blocking_copies, s.blocked_launches,
            s.hand_offs, s.host_threads, s.independent_threads, micro(s.arrival_after_call), s.arrival_samples,
            micro(s.wait_latency), r.replay.built.steps_per_program);
      if (modes)
        for (const std::string& note : r.replay.built.notes) std::cout << "    " << note << "\n";
    }
  }
}
