// SPDX-License-Identifier: Apache-2.0
// From a variant's list of kernels to what the engine runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "sim/engine/program.hpp"
#include "sim/engine/residency.hpp"
#include "sim/program/capture.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Where the host begins a piece of a network's step: an op, or a compiled kernel.
struct StepMark {
  InstructionPlace place;
  Phase phase = Phase::Forward;
  std::uint32_t memory = 0;  ///< Which point of the step's memory curve holds while it runs.
};

/// A program with the machine it runs on.
struct BuiltProgram {
  engine::Program program;
  engine::Machine machine;
  /// By op of the program: how much of the device it has blocks on; none where that is not known. Of what
  /// build_program() makes: empty, residencies() tells.
  std::vector<std::optional<engine::Residency>> residency;
  /// A traced window may hold several steps of the user.
  std::int64_t steps_per_program = 1;
  /// Where each of these steps after the first begins.
  std::vector<InstructionPlace> step_starts;
  /// Threads that stand for something other than code which could be captured.
  std::vector<std::uint16_t> threads_kept;
  /// Whether the host work around the launches is the framework's own, so that a replay of CUDA graphs is
  /// without it.
  bool work_is_dispatch = false;
  /// Whether one program may follow another, so that there is a steady step.
  bool repeats = true;
  std::vector<std::string> notes;  ///< What a reader of the results should know.
  /// Of a training step, and of any network's if the builder was asked for it: by thread and instruction.
  std::vector<StepMark> marks;
};

/// What the footprints of a program's ops come to. Copies over a link have no block anywhere; other ops
/// without a footprint are not known, and none is on a machine whose SMs are not.
std::vector<std::optional<engine::Residency>> residencies(const engine::Program& program,
                                                          const engine::Machine& machine);

/// The machine that the launch model of `hardware` describes, and what of it kernels of several streams
/// share. Without hardware: no gaps, no latencies, nothing shared, and a launch queue without end.
engine::Machine build_machine(const std::optional<GpuSpec>& hardware);

/// Lays out repeats and loops, prices what has no duration of its own, and names everything by index. A
/// kernel, copy or memset item becomes one GpuOp for each of its durations, whatever its repeat.
///
/// A kernel has a footprint if its blocks and their threads are given. On hardware whose SMs are known,
/// copies within the device and memsets of known bytes have one too and use no copy engine.
///
/// Launches without times of their own: with hardware its launch model, without hardware 0 for the call; the
/// latency is the call plus the hardware's `arrival_after_call`. Throws ConfigError if the step takes longer
/// than the engine's clock can count.
BuiltProgram build_program(const Variant& variant);

/// What the launch model says about CUDA graphs. Where it says nothing (no hardware, or none of it about
/// them), the launch of a CUDA graph costs as much as the median launch call of `program`.
CudaGraphCosts cuda_graph_costs(const std::optional<GpuSpec>& hardware, const engine::Program& program);

}  // namespace gpusim
