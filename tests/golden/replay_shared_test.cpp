// SPDX-License-Identifier: Apache-2.0
// Replays of measured traces against themselves and against measured steps. Skipped without the measurements.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
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

bool skipped() {
  if (fs::exists(shared + "/measured/h200/traces")) return false;
  SUCCEED("no measurements here: skipped");
  return true;
}

double micro(Picoseconds time) {
  return static_cast<double>(time.count()) * 1e-6;
}

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

namespace {

constexpr const char* eager_traces[] = {"gpt2_train_B16_T1024_eager", "gpt2_train_B16_T1024_default",
                                        "hand_ln_gelu_16384x4096_eager", "llama8b_decode_B1_S1024_eager",
                                        "seed_decoder_B4_T1024_eager"};

std::string h200_trace(const std::string& name) {
  return shared + "/measured/h200/traces/" + name + ".trace.json.gz";
}

Captured captured_of(const Replay& replay, const GpuSpec& gpu) {
  CaptureOptions options;
  options.costs = cuda_graph_costs(gpu, replay.built.program);
  options.step_starts = replay.built.step_starts;
  options.threads_kept = replay.built.threads_kept;
  return capture(replay.built.program, replay.built.machine, options);
}

/// Microseconds per step of the user once it repeats.
double steady_step(const engine::Program& program, const Replay& replay) {
  const engine::Steady steady = engine::run_steady(program, replay.built.machine);
  return micro(steady.period.wall) /
         static_cast<double>(steady.period.steps * replay.built.steps_per_program);
}

/// For each stream, the traced ops in the order in which they ran.
std::map<std::uint32_t, std::vector<std::uint32_t>> traced_order(const Trace& trace) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> order;
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) order[trace.ops[i].stream].push_back(i);
  for (auto& [stream, ops] : order)
    std::stable_sort(ops.begin(), ops.end(), [&](std::uint32_t a, std::uint32_t b) {
      return trace.ops[a].start < trace.ops[b].start;
    });
  return order;
}

std::map<std::uint32_t, std::vector<std::uint32_t>> replayed_order(const Replayed& r) {
  std::map<engine::Index, std::uint32_t> traced;
  for (std::uint32_t i = 0; i < r.replay.op_of.size(); ++i) traced[r.replay.op_of[i]] = i;
  std::map<std::uint32_t, std::vector<std::uint32_t>> order;
  for (const engine::OpRecord& record : r.timeline.ops) {
    const std::uint32_t i = traced.at(engine::op_of(r.replay.built.program, r.timeline, record));
    order[r.trace.ops[i].stream].push_back(i);
  }
  return order;
}

/// A replay of one stream by hand: the host's calls one after the other, each op at the later of its arrival
/// and the end of the one before plus its gap. Knows neither engine nor program.
struct Recurrence {
  double host = 1;
  double duration = 1;
  double latency = 1;

  std::vector<Picoseconds> starts(const Trace& trace, const TraceRules& rules, Picoseconds origin) const {
    const auto times = [](Picoseconds time, double f) {
      return Picoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * f));
    };
    std::vector<std::uint32_t> order(trace.ops.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto call = [&](std::uint32_t i) -> const TraceCall& { return trace.calls[rules.ops[i].call]; };
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return call(a).start < call(b).start; });
    std::vector<Picoseconds> result(trace.ops.size());
    Picoseconds traced = origin;
    Picoseconds now{0};
    Picoseconds previous_end = Picoseconds::min();
    for (const std::uint32_t i : order) {
      const TraceOp& op = trace.ops[i];
      now += times(call(i).start - traced, host);
      Picoseconds arrival = now;
      if (op.start < call(i).end) {
        arrival += times(op.start - call(i).start, host);
      } else {
        Picoseconds after = rules.arrival_after_call[static_cast<std::size_t>(op.kind)];
        if (previous_end == Picoseconds::min()) after = std::max(after, op.start - call(i).end);
        arrival += times(call(i).duration(), host) + times(after, latency);
      }
      result[i] =
          previous_end == Picoseconds::min() ? arrival : std::max(arrival, previous_end + rules.ops[i].gap);
      previous_end = result[i] + times(op.duration(), duration);
      now += times(call(i).duration(), host);
      traced = call(i).end;
    }
    return result;
  }
};

void check_recurrence(const std::string& file, const Recurrence& recurrence) {
  ReplayOptions options;
  options.host_time = TraceWorkload::HostTime::Factor;
  options.host_factor = recurrence.host;
  options.kernel_duration_factor = recurrence.duration;
  options.launch_latency_factor = recurrence.latency;
  const Replayed r = replay_file(file, options);
  const std::optional<GpuSpec> hardware = hardware_of(r.trace);
  const TraceRules rules = derive_rules(r.trace, hardware ? &*hardware : nullptr);
  const std::vector<Picoseconds> expected = recurrence.starts(r.trace, rules, r.replay.origin);
  REQUIRE(r.timeline.ops.size() == expected.size());
  std::int64_t different = 0;
  for (const engine::OpRecord& record : r.timeline.ops) {
    const auto at = std::find(r.replay.op_of.begin(), r.replay.op_of.end(),
                              engine::op_of(r.replay.built.program, r.timeline, record));
    if (record.start != expected[static_cast<std::size_t>(at - r.replay.op_of.begin())]) ++different;
  }
  INFO(file);
  CHECK(different == 0);
}

void check_counterfactuals(const std::string& file) {
  check_recurrence(file, {});
  check_recurrence(file, {.host = 0.5, .duration = 1, .latency = 1});
  check_recurrence(file, {.host = 1, .duration = 2, .latency = 1});
  check_recurrence(file, {.host = 1, .duration = 1, .latency = 3});
  check_recurrence(file, {.host = 0.5, .duration = 2, .latency = 3});
}

}  // namespace

TEST_CASE("Replays of H200 traces give the traced wall within 1 % and starts within 3 us in the median") {
  if (skipped()) return;
  for (const std::string& file : traces_below(shared + "/measured/h200/traces")) {
    const Replayed r = replay_file(file);
    INFO(file);
    CHECK(std::abs(r.comparison.wall_error) < 0.001);
    CHECK(r.comparison.start_error_median <= std::chrono::microseconds(2));
    CHECK(r.comparison.start_error_p90 <= std::chrono::microseconds(4));
    CHECK(r.comparison.start_error_max <= std::chrono::microseconds(6));
    // Without looking at an op's own gap at all.
    ReplayOptions own_left_out;
    own_left_out.rules.gap_modes = false;
    const Replayed blind = replay_file(file, own_left_out);
    CHECK(std::abs(blind.comparison.wall_error) < 0.001);
    CHECK(blind.comparison.start_error_median <= std::chrono::microseconds(5));
  }
}

TEST_CASE("Two streams and a gradient exchange replay within 1 % of the traced wall") {
  if (skipped()) return;
  for (const std::string& file : traces_below(shared + "/measured/h200x2/traces")) {
    const Replayed r = replay_file(file);
    CHECK(std::abs(r.comparison.wall_error) < 0.001);
    CHECK(r.comparison.start_error_median <= std::chrono::microseconds(6));
    CHECK(r.replay.statistics.inferred_waits > 10);
  }
}

TEST_CASE("A replay runs the same kernels and launches in the same order") {
  if (skipped()) return;
  for (const std::string& file : all_traces()) {
    const Replayed r = replay_file(file);
    INFO(file);
    const auto kernels = std::count_if(r.trace.ops.begin(), r.trace.ops.end(),
                                       [](const TraceOp& op) { return op.kind == TraceOpKind::Kernel; });
    CHECK(r.run.totals.counts.kernels == kernels);
    CHECK(r.run.totals.counts.gpu_ops() == static_cast<std::int64_t>(r.trace.ops.size()));
    if (r.replay.statistics.unlinked_ops == 0) CHECK(replayed_order(r) == traced_order(r.trace));
    const auto graphs = std::count_if(r.trace.calls.begin(), r.trace.calls.end(), [](const TraceCall& call) {
      return call.kind == TraceCallKind::GraphLaunch;
    });
    CHECK(r.run.totals.counts.cuda_graph_launches == graphs);
  }
}

TEST_CASE("Every public trace replays, AMD's, one without GPU ops and one with a CUDA graph of 421 kernels") {
  if (skipped()) return;
  const std::vector<std::string> files = traces_below(shared + "/traces/public");
  CHECK(files.size() >= 12);
  std::size_t largest_graph = 0;
  for (const std::string& file : files) {
    INFO(file);
    const Replayed r = replay_file(file);
    CHECK(std::abs(r.comparison.wall_error) < 0.01);
    for (const engine::CudaGraph& graph : r.replay.built.program.graphs)
      largest_graph = std::max(largest_graph, graph.nodes.size());
    const GpuSpec none;
    CHECK_NOTHROW(engine::run_steady(captured_of(r.replay, none).program, r.replay.built.machine));
  }
  CHECK(largest_graph == 421);
}

TEST_CASE("Faster hosts, slower kernels and later arrivals agree with arithmetic to the picosecond") {
  check_counterfactuals(std::string(GPUSIM_SOURCE_DIR) +
                        "/tests/data/traces/seed_decoder_B4_T1024_eager.trace.json.gz");
  if (skipped()) return;
  for (const char* name : eager_traces) check_counterfactuals(h200_trace(name));
}

TEST_CASE("Unprofiled steps follow from profiled traces by the launch call alone") {
  if (skipped()) return;
  struct Row {
    const char* name;
    double measured;  ///< us, steps.csv
    double within;
  };
  // The requirement is 10 % for the first row, the only one that is bound by the host.
  const Row rows[] = {
      {"llama8b_decode_B1_S1024_eager", 34556, 0.06}, {"gpt2_train_B16_T1024_eager", 43700, 0.02},
      {"gpt2_train_B16_T1024_default", 34323, 0.03},  {"seed_decoder_B4_T1024_eager", 1020, 0.05},
      {"hand_ln_gelu_16384x4096_eager", 1542, 0.03},  {"seed_decoder_B4_T1024_reduce-overhead", 1028, 0.06}};
  for (const Row& row : rows) {
    ReplayOptions options;
    options.host_time = TraceWorkload::HostTime::Auto;
    const Replayed r = replay_file(h200_trace(row.name), options);
    INFO(row.name);
    CHECK(std::abs(steady_step(r.replay.built.program, r.replay) / row.measured - 1) < row.within);
  }
}

TEST_CASE("One CUDA graph per step predicts the measured one from the eager trace") {
  if (skipped()) return;
  const double measured = 8152;  // us, steps.csv, cudagraph
  for (const auto mode : {TraceWorkload::HostTime::Traced, TraceWorkload::HostTime::Auto}) {
    ReplayOptions options;
    options.host_time = mode;
    const Replayed r = replay_file(h200_trace("llama8b_decode_B1_S1024_eager"), options);
    const Captured captured = captured_of(r.replay, *hardware_of(r.trace));
    CHECK(captured.graphs == 3);
    CHECK(captured.nodes == 5709);
    // With the gap of this machine's captured step, 0.464 us, it would be -0.6 %; the file has 0.38, for other
    // machines and networks show 0.30 to 0.41.
    CHECK(std::abs(steady_step(captured.program, r.replay) / measured - 1) < 0.035);
  }
}

TEST_CASE("Table of replay errors", "[.table]") {
  std::cout << "| trace | GPU ops | wall | start error, us: median / 90 % / worst | own gap left out: wall | "
               "median / 90 % / worst | worst op |\n";
  for (const std::string& file : all_traces()) {
    const Replayed r = replay_file(file);
    ReplayOptions options;
    options.rules.gap_modes = false;
    const Replayed blind = replay_file(file, options);
    const auto errors = [](const ReplayComparison& c) {
      return fmt::format("{:+.3f} % | {:.2f} / {:.2f} / {:.2f}", 100 * c.wall_error,
                         micro(c.start_error_median), micro(c.start_error_p90), micro(c.start_error_max));
    };
    std::cout << fmt::format("| {} | {} | {} | {} | {} |\n", fs::path(file).filename().string(),
                             r.trace.ops.size(), errors(r.comparison), errors(blind.comparison),
                             r.comparison.worst_op.substr(0, 60));
  }
}

TEST_CASE("Table of what replays rest on", "[.table]") {
  std::cout << "| trace | in call | queued | gaps: pair/class/hardware | programmatic | waits | hand-offs | "
               "arrival, us (samples) |\n";
  for (const std::string& file : all_traces()) {
    const Replayed r = replay_file(file);
    const ReplayStatistics& s = r.replay.statistics;
    std::cout << fmt::format("| {} | {} | {} | {}/{}/{} | {} | {}+{} | {} | {:.2f} ({}) |\n",
                             fs::path(file).filename().string(), s.ops_starting_in_call, s.queued_ops,
                             s.gaps_from_pairs, s.gaps_from_classes, s.gaps_from_hardware, s.programmatic_ops,
                             s.recorded_waits, s.inferred_waits, s.hand_offs, micro(s.arrival_after_call),
                             s.arrival_samples);
    for (const std::string& note : r.replay.built.notes) std::cout << "  " << note << "\n";
  }
}

TEST_CASE("Table of predicted steps", "[.table]") {
  std::cout << "| trace | factor | unprofiled step, us | one CUDA graph a step, us | host as traced, us |\n";
  for (const std::string& file : traces_below(shared + "/measured/h200/traces")) {
    ReplayOptions options;
    options.host_time = TraceWorkload::HostTime::Auto;
    const Replayed r = replay_file(file, options);
    const Replayed traced = replay_file(file);
    std::cout << fmt::format("| {} | {:.3f} | {:.1f} | {:.1f} | {:.1f} |\n",
                             fs::path(file).filename().string(), r.replay.statistics.host_factor,
                             steady_step(r.replay.built.program, r.replay),
                             steady_step(captured_of(r.replay, *hardware_of(r.trace)).program, r.replay),
                             steady_step(traced.replay.built.program, traced.replay));
  }
}
