// SPDX-License-Identifier: Apache-2.0
// What if the step's GPU work were recorded into CUDA graphs? A program in, a program out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/program.hpp"

namespace gpusim {

/// What the host and the device spend on one launch of a CUDA graph, by its number of nodes.
struct CudaGraphCosts {
  std::function<Picoseconds(std::int64_t)> call;     ///< CPU time of cudaGraphLaunch.
  std::function<Picoseconds(std::int64_t)> latency;  ///< Start of that call until the graph can start.
  Picoseconds host_work{0};      ///< Before each launch: looking up the graph, copying inputs.
  Picoseconds event_call{0};     ///< CPU time of an event call that joins streams.
  Picoseconds event_latency{0};  ///< Start of that call until the stream can act on it.
};

/// An instruction of a host thread.
struct InstructionPlace {
  std::uint16_t thread = 0;
  engine::Index instruction = 0;
  friend auto operator<=>(const InstructionPlace&, const InstructionPlace&) = default;
};

struct CaptureOptions {
  CudaGraphCosts costs;
  /// Whether host work of a launching thread stays where it comes before the first or after the last launch
  /// of a recording. In a scenario somebody wrote it there on purpose. In a replayed trace it is what the
  /// framework did around those launches, and a replay does it no more.
  bool keep_surrounding_work = true;
  /// Instructions with which a new step begins, for programs that hold several: no CUDA graph reaches across
  /// one.
  std::vector<InstructionPlace> step_starts;
  /// Threads that are left as they are (they stand for something other than the captured code).
  std::vector<std::uint16_t> threads_kept;
  /// Ops (Program::ops) whose launches are not recorded, in rising order: a recording ends before each and
  /// the next one begins behind it. Host work before them stays.
  std::vector<engine::Index> ops_left_out{};
};

/// Why a recording had to end: a call that blocks the host until the device has done something.
struct CaptureCut {
  std::string reason;      ///< "synchronising the device after 'softmax'".
  std::int64_t count = 0;  ///< Times in one step.
  friend bool operator==(const CaptureCut&, const CaptureCut&) = default;
};

struct Captured {
  engine::Program program;
  std::vector<CaptureCut> cuts;  ///< In order of first appearance.
  std::int64_t graphs = 0;
  std::int64_t nodes = 0;
};

/// The same GPU work with every launch recorded. Between two host-blocking calls (synchronisations, blocking
/// copies) all launches of all host threads become one CUDA graph, launched where the last of them was
/// called, into the stream of the program's first launch.
///
/// - A node waits for the op before it in its stream and for the events its stream waited for; CUDA graphs
/// that the
///   program launched itself are taken apart into the new one.
/// - Host work of a launching thread between the first and the last recorded call vanishes; what stands
/// before,
///   after, or in threads that launch nothing stays, and so do input, signals, allocations and blocking
///   calls.
/// - Events that are used outside their recording are recorded or waited for once around its launch.
///
/// `machine` is used to find out in which order several host threads make their calls (that of an isolated
/// step). Throws what the engine throws for a program that is wrong or stuck.
Captured capture(const engine::Program& program, const engine::Machine& machine,
                 const CaptureOptions& options);

}  // namespace gpusim
