// SPDX-License-Identifier: Apache-2.0
// What reports are made from: per scenario its variants, per variant the program and what the engine said
// about it. Filled by the application; plain data, so tests build it by hand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/cost/collectives.hpp"
#include "models/graph/memory.hpp"
#include "models/units/quantity.hpp"
#include "sim/engine/idle_interval.hpp"
#include "sim/engine/program.hpp"
#include "sim/engine/residency.hpp"
#include "sim/engine/result.hpp"
#include "sim/report/path_summary.hpp"

namespace gpusim::report {

/// The device as far as a report needs it. Roofs that are not known stay empty; nothing is guessed.
struct Device {
  std::string name;
  std::string dtype;                        ///< Whose dense peak `peak` is; empty: unknown.
  std::optional<FlopsPerSecond> peak;       ///< Dense.
  std::optional<BytesPerSecond> bandwidth;  ///< Device memory.
  std::optional<Bytes> capacity;            ///< Device memory.
  int sms = 0;                              ///< 0: unknown.
  /// Dense peak of every dtype that is known, in the order of Dtype.
  std::vector<std::pair<std::string, FlopsPerSecond>> peaks{};
};

/// A replayed profiler trace against the trace itself. The replayed side is VariantResult::isolated.window.
struct TraceComparison {
  Picoseconds traced_wall{0};  ///< First GPU op's start to the last one's end.
  Picoseconds traced_busy{0};
  Picoseconds start_error_median{
      0};  ///< |replayed - traced| start of the GPU ops, each from the first op's start.
  Picoseconds start_error_p90{0};
  Picoseconds start_error_max{0};
  std::int64_t kernels = 0;
  std::int64_t unlinked_ops = 0;  ///< GPU ops without a launch in the trace, kept at their traced start.
};

/// What a change that nobody made would bring.
struct WhatIf {
  Picoseconds step_time{0};
  double gpu_utilization = 0;
};

/// What a compiler did for a step, one thing after the other: the step time once this and all before it is
/// on.
struct GainPart {
  std::string name;  ///< "no dispatch per op", "graph passes", "fusion", "CUDA graphs", "precision".
  Picoseconds step_time{0};
};

/// A step of a sequence of shapes.
struct ShapeResult {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::string outcome;         ///< "compiles", "compiles dynamic", "hits", "eager"; with its CUDA graph's.
  std::int64_t padded_to = 0;  ///< Batch that it runs as; 0: its own.
  Picoseconds step_time{0};    ///< Without compiling.
  Picoseconds compile_time{0};
};

/// A network's device memory.
struct MemorySummary {
  MemoryShares at_peak;      ///< By what it is taken for, at the worst moment.
  std::string peak_at;       ///< The op or kernel that runs then; empty: before the first one.
  Bytes saved{0};            ///< Activations that forward leaves behind for backward.
  Bytes allocated{0};        ///< What the framework's allocator counts: without CUDA graph trees' pool.
  Bytes cuda_graph_pool{0};  ///< Of CUDA graph trees, at most.
};

/// Memory in use from the start of a host instruction on: the framework allocates where the host calls an op.
struct MemoryMark {
  std::uint16_t thread = 0;
  engine::Index instruction = 0;
  MemoryShares shares;
};

/// What a phase of a training step takes.
struct PhaseTime {
  Picoseconds busy{0};  ///< Of its GPU ops.
  Picoseconds span{0};  ///< From the end of the last GPU op before it to the end of its own last one.
  std::int64_t gpu_ops = 0;
};

/// A step that does not fit into the device's memory.
struct OutOfMemory {
  Bytes over{0};  ///< By how much.
  /// The setting that fits with the most tokens per second.
  struct Way {
    std::vector<std::string> changes;  ///< As --set takes them: "workload.checkpointing=blocks".
    Picoseconds step_time{0};
    Bytes peak{0};
    std::optional<double> tokens_per_second;
  };
  std::optional<Way> way{};  ///< None: nothing that was tried fits, or nothing was tried.
  std::int64_t tried = 0;
};

/// Collectives of one kind, in a step.
struct CommunicationTime {
  Picoseconds busy{0};     ///< Of their kernels.
  Picoseconds exposed{0};  ///< Of that, while nothing else runs on the device.
  std::int64_t count = 0;
};

/// What a rank does with others in a step.
struct RankSummary {
  std::int64_t ranks = 1;
  std::int64_t data = 1;  ///< Of these, with batches of their own.
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::array<CommunicationTime, collective_kind_count> kinds{};  ///< By CollectiveKind.
  Picoseconds busy{0};                                           ///< With at least one collective running.
  Picoseconds exposed{0};                                        ///< Of that, with nothing else.
  double bubble = 0;      ///< Share of the step in which the pipeline has nothing for the rank.
  double straggling = 0;  ///< What waiting for the slowest rank adds to a step, as a share of it.
};

struct VariantResult {
  std::string variant = "default";
  engine::Program program;
  /// Of one step from an idle machine, or of as many as the scenario asks for.
  engine::Run isolated;
  /// period.steps == 0: not looked for. Per-step figures are then means over `isolated`.
  engine::Steady steady;
  /// A traced window may hold several steps: the engine's "step" is then so many steps of the user.
  std::int64_t steps_per_program = 1;
  /// Where they begin: instructions of the first host thread. Empty where not known.
  std::vector<engine::Index> step_starts;
  std::optional<engine::Timeline> timeline;          ///< Of `isolated`.
  std::vector<engine::IdleInterval> idle_intervals;  ///< Of `isolated`; only if asked for.
  /// By op of the program: how much of the device it has blocks on. Ops past the end: not known either.
  std::vector<std::optional<engine::Residency>> residency;
  std::optional<PathSummary> critical_path;  ///< Of `isolated`; only if asked for.

  Device device;
  std::string host;                  ///< Its name; empty: unknown.
  std::optional<Flops> model_flops;  ///< Of one step of the user; without recomputation.
  /// Of one step of the user, with recomputation, by the same counting. Absent: what the kernels' own figures
  /// add up to.
  std::optional<Flops> hardware_flops;
  std::optional<double> tokens;  ///< Of one step of the user.
  std::optional<Bytes>
      peak_memory;  ///< Where it is known beforehand; else from the allocations of the program.

  std::optional<MemorySummary> memory;             ///< Of a network.
  std::vector<MemoryMark> memory_marks;            ///< Of each thread in order; only if asked for.
  std::optional<OutOfMemory> out_of_memory;        ///< Of a network that does not fit.
  std::optional<std::array<PhaseTime, 3>> phases;  ///< Of a training step, by Phase.
  std::optional<RankSummary> ranks;                ///< Of one of several ranks.

  int graph_breaks = 0;
  std::vector<std::string> cuda_graphs_cut_by;  ///< What could not be captured, in words.
  Picoseconds compile_time{0};
  std::vector<GainPart> gains;        ///< Of a compiled network, from eager on; empty: not worked out.
  std::vector<ShapeResult> shapes;    ///< In order; empty: all steps have the workload's sizes.
  std::vector<std::string> remedies;  ///< For each kind of graph break: what to write instead.

  std::optional<TraceComparison> trace;
  std::optional<WhatIf> one_cuda_graph;  ///< The same GPU ops as one CUDA graph per step.
  std::vector<std::string> notes;        ///< Such as "launch parameters transferred from h200".
};

/// A figure in a report. Times print as microseconds with six decimals; monostate is unknown (null).
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Picoseconds>;

struct ExpectationResult {
  std::string path;      ///< As the user wrote it.
  std::string relation;  ///< "equals", "min", "max", "not".
  Value expected;
  Value actual;
  std::string within;       ///< As the user wrote it; may be empty.
  std::string relative_to;  ///< Variant; may be empty.
  std::string where;        ///< "file:line:column"; may be empty.
  bool pass = false;
};

struct ScenarioReport {
  std::string scenario;
  std::string description;
  std::string file;   ///< As given by the user.
  std::string input;  ///< Digest of what it was worked out from: "sha256:..."; empty: unknown.
  std::vector<VariantResult> variants;
  std::vector<ExpectationResult> expectations;
};

}  // namespace gpusim::report
