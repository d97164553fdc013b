// SPDX-License-Identifier: Apache-2.0
// What it costs to bring work to a GPU: calls, latencies, gaps, queues, CUDA graphs.
//
// Durations of GPU ops in gpusim are those that a profiler shows. They include about half a microsecond of
// start and drain even for an empty kernel, so the gaps here are fitted to them and are smaller than the time
// that a launch takes on the device. docs/hardware.md derives every number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/time_table.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// What an op is to its neighbours in a stream: rows and columns of the gap tables.
enum class GapClass : std::uint8_t {
  ShortKernel = 0,   ///< Runs for less than `short_kernel_limit`.
  LongKernel = 1,    ///< Longer: its writes are still being flushed when it has ended.
  Memset = 2,        ///< Runs on a copy engine or as a tiny kernel, as the driver likes.
  Memcpy = 3,        ///< Between host and device, by a copy engine.
  Programmatic = 4,  ///< A kernel launched with programmatic stream serialisation.
  CudaGraph = 5,     ///< A whole CUDA graph.
};
inline constexpr int gap_class_count = 6;
inline constexpr Picoseconds short_kernel_limit{4'000'000};

/// "short_kernel", "long_kernel", "memset", "memcpy", "programmatic", "cuda_graph".
std::string_view name(GapClass gap_class);

/// The gap from an op of one class (row) to the next one of the stream (column).
struct GapTable {
  std::array<std::array<Picoseconds, gap_class_count>, gap_class_count> gap{};

  Picoseconds& at(GapClass before, GapClass after) {
    return gap[static_cast<std::size_t>(before)][static_cast<std::size_t>(after)];
  }
  Picoseconds at(GapClass before, GapClass after) const {
    return gap[static_cast<std::size_t>(before)][static_cast<std::size_t>(after)];
  }
  bool operator==(const GapTable&) const = default;
};

struct CudaGraphLaunchSpec {
  TimeTable call;  ///< CPU time of the launch call, by number of nodes.
  Picoseconds arrival_after_call{
      0};                      ///< From the end of the call until the first node can start on an idle stream.
  Picoseconds replay_work{0};  ///< Host work around one replay besides the call itself (framework, Python).
  bool operator==(const CudaGraphLaunchSpec&) const = default;
};

struct LaunchSpec {
  Picoseconds call{0};                ///< CPU time of one kernel launch call, without a profiler.
  Picoseconds copy_call{0};           ///< The same for an asynchronous copy.
  Picoseconds memset_call{0};         ///< The same for a memset.
  Picoseconds arrival_after_call{0};  ///< From the end of a call until an idle stream starts the op.
  std::int32_t queue_depth = 1024;    ///< Waiting entries that a stream takes before the host blocks.
  Picoseconds event_record{0};        ///< CPU time of recording an event.
  Picoseconds stream_wait{0};         ///< CPU time of making a stream wait for an event.
  Picoseconds event_latency{0};       ///< From the firing of an event until an op that waited for it starts.
  Picoseconds sync_call{0};           ///< CPU time of a synchronisation that has nothing to wait for.
  Picoseconds sync_return{0};         ///< From the completion waited for until the call returns.
  GapTable gap;                       ///< In a stream.
  GapTable graph_gap;                 ///< Between the nodes of a CUDA graph.
  TimeTable min_period;  ///< Least time from one kernel's start to the next one's, by blocks, in a stream.
  TimeTable graph_min_period;  ///< The same in a CUDA graph.
  Picoseconds code_fetch{0};   ///< What a kernel takes longer after another one than after itself.
  Picoseconds pdl_overlap{0};  ///< How long before its predecessor's end a programmatic kernel starts.
  CudaGraphLaunchSpec cuda_graph;
  bool transferred = false;  ///< The numbers were measured on another device than the one they stand for.

  bool operator==(const LaunchSpec&) const = default;
};

/// Kinds of GPU op that the gap tables tell apart.
enum class LaunchedOp : std::uint8_t {
  Kernel,
  Memset,
  HostCopy,    ///< Host to device or back.
  DeviceCopy,  ///< Within the device: the driver runs it as a kernel, and its gaps are a kernel's.
  CudaGraph,
};

/// The class of an op. `duration` decides for kernels and device copies alone, `programmatic` for kernels.
GapClass gap_class(LaunchedOp op, Picoseconds duration, bool programmatic = false);

/// Least time from the start of a kernel of `blocks` blocks to the start of the next one of its stream.
/// Unknown number of blocks: pass 0, which counts as one.
inline Picoseconds min_period(const LaunchSpec& launch, std::int64_t blocks) {
  return launch.min_period.at(blocks);
}
/// The same inside a CUDA graph.
inline Picoseconds graph_min_period(const LaunchSpec& launch, std::int64_t blocks) {
  return launch.graph_min_period.at(blocks);
}
/// CPU time of launching a CUDA graph of `nodes` nodes.
inline Picoseconds graph_call_time(const LaunchSpec& launch, std::int64_t nodes) {
  return launch.cuda_graph.call.at(nodes);
}

/// Something impossible in a spec: where (a path of YAML keys) and what.
struct SpecProblem {
  std::string path;
  std::string what;
  bool operator==(const SpecProblem&) const = default;
};

/// Everything that is impossible in `launch`; empty if it can be simulated. Paths begin at the spec
/// ("gap.memset").
std::vector<SpecProblem> problems(const LaunchSpec& launch);

}  // namespace gpusim
