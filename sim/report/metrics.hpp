// SPDX-License-Identifier: Apache-2.0
// The figures of one variant, and the one list of them that JSON, CSV and `expect` share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/kernel_ranking.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

/// What limits the step.
///   Overhead       no GPU op runs for at least a third of the step, waiting for input not counted; or
///   kernels far
///                  below both roofs take more than half of the GPU ops' time.
///   Communication  collectives take more than half of the GPU ops' time.
///   Compute        kernels bound by arithmetic do.
///   Memory         kernels bound by device memory traffic do, memsets and copies on the device included.
///   Mixed          none of them, or the kernels' FLOPs and bytes are not known.
enum class Regime : std::uint8_t { Overhead, Memory, Compute, Communication, Mixed };
const char* name(Regime regime);  ///< "overhead", "memory", "compute", "communication", "mixed".

/// All figures are of one step of the user. Times are rounded to the picosecond such that
/// step_time == gpu_busy + sum of idle still holds.
struct Metrics {
  std::string variant;
  Picoseconds step_time{0};  ///< Steady; where there is no steady step, the mean over those simulated.
  Picoseconds makespan{0};   ///< Of the isolated run: first host instruction to last completion.
  bool steady = false;
  Picoseconds gpu_busy{0};
  double gpu_utilization = 0;  ///< gpu_busy / step_time.
  std::array<Picoseconds, engine::idle_cause_count> idle{};

  double gpu_ops = 0;  ///< Counts are whole unless a traced window holds a broken number of steps.
  double kernels = 0;
  double memcpys = 0;
  double memsets = 0;
  double kernel_launches = 0;
  double cuda_graph_launches = 0;
  double synchronizations = 0;
  int graph_breaks = 0;

  std::optional<double> mfu;  ///< Model FLOPs over step time and dense peak of the compute dtype.
  std::optional<double> hfu;  ///< The kernels' FLOPs instead. Unknown unless they cover the model's.
  std::optional<double> model_flops;
  std::optional<double> hbm_bytes;  ///< Known only if every kernel's bytes are.
  std::optional<double> tokens_per_second;
  std::int64_t peak_memory_bytes = 0;
  Regime regime = Regime::Mixed;
  Picoseconds compile_time{0};

  /// All simulated steps of the isolated run, from the first GPU op's start to the last one's end.
  struct Window {
    std::int64_t steps = 0;
    Picoseconds wall{0};
    Picoseconds busy{0};
    Picoseconds idle{0};
  } window;

  Picoseconds host_work{0};           ///< Of all host threads: calls and work, without blocking.
  Picoseconds host_blocked{0};        ///< In synchronisations, blocking copies and waits for other threads.
  Picoseconds host_blocked_queue{0};  ///< Because a launch queue was full.
  std::int64_t launch_queue_max = 0;  ///< Most entries waiting in one stream, in the isolated run.
  std::int64_t period_steps = 0;      ///< Steps after which the steady state repeats; 0: no steady state.

  std::optional<double> hardware_flops;  ///< Of the kernels, recomputation included.
  std::optional<MemorySummary> memory;
  std::optional<std::array<PhaseTime, 3>> phases;
  std::optional<OutOfMemory> out_of_memory;
  std::optional<RankSummary> ranks;

  /// Shares of the step, both with the time in which no op runs: SMs with at least one block, and warps on
  /// the SMs of all that they have room for. Known only if every op's blocks are. Of ops that run beside each
  /// other the sum, at most gpu_utilization.
  std::optional<double> sm_active;
  std::optional<double> occupancy;

  Picoseconds idle_total() const;
  Picoseconds idle_by(engine::IdleCause cause) const { return idle[static_cast<std::size_t>(cause)]; }
};

Metrics metrics(const VariantResult& result);
/// Only what times and counts tell: the figures of time_figures(). The rest stays as in Metrics{}.
Metrics time_metrics(const engine::Run& isolated, const engine::Steady& steady,
                     std::int64_t steps_per_program);
/// The same with the kernels already ranked.
Metrics metrics(const VariantResult& result, const KernelRanking& ranking);

/// One figure under its name in JSON, dots between the levels: "step_time_us", "idle_us.dispatch",
/// "window.wall_us".
struct Field {
  std::string path;
  Value value;
};

/// A figure that time_metrics() knows.
struct TimeFigure {
  std::string_view path;
  Value (*get)(const Metrics&);
};
/// In the order of fields(), with the values that it has.
std::span<const TimeFigure> time_figures();

/// Every figure in the order of the JSON contract.
std::vector<Field> fields(const Metrics& metrics);

/// The JSON path of a figure that is named by it or without its unit ("step_time"); nullopt if there is none.
std::optional<std::string> path_of_field(std::string_view name);

/// The value at `path`, which may be a JSON path or one without its unit ("step_time", "idle.dispatch");
/// nullopt if there is no such figure.
std::optional<Value> find_field(const Metrics& metrics, std::string_view path);

}  // namespace gpusim::report
