// SPDX-License-Identifier: Apache-2.0
// What a trace says beyond its summary: why the GPU was idle, what launches, synchronisations and steps cost,
// what ops achieved.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/kernel_names.hpp"
#include "sim/trace/links.hpp"
#include "sim/trace/trace.hpp"
#include "sim/trace/trace_path.hpp"

namespace gpusim {

/// Why no GPU op ran.
enum class TraceIdleCause : std::uint8_t {
  Dispatch,         ///< The host was still working towards the next launch: launch-bound.
  Input,            ///< The same in the data loader.
  Synchronization,  ///< The host had not yet returned from a call that waited for the GPU.
  LaunchLatency,    ///< The launch call had returned, its op had not started.
  Gap,              ///< The stream's own pause between two ops, up to 10 us.
  Event,            ///< The op waited for another stream.
  Unknown,          ///< The op was launched long before, or its launch is not in the trace.
};
inline constexpr std::size_t trace_idle_cause_count = 7;
/// "dispatch", "input", "synchronization", "launch_latency", "gap", "event", "unknown".
const char* name(TraceIdleCause cause);

/// A time without any GPU op, between two of them. Times are after the start of the first GPU op.
struct TraceGap {
  Picoseconds from{0};
  Picoseconds to{0};
  TraceIdleCause cause = TraceIdleCause::Unknown;  ///< The one with the most time.
  std::array<Picoseconds, trace_idle_cause_count> by_cause{};
  std::uint32_t op = trace_none;         ///< That ends it.
  std::uint32_t host_call = trace_none;  ///< Of the longest piece on the host: the call,
  std::uint32_t host_op = trace_none;    ///< or the op of the framework, of depth 0, that the host was in.
  std::uint32_t sync_call = trace_none;  ///< The call that waited for the GPU before it.

  Picoseconds duration() const { return to - from; }
};

struct TraceTimes {
  std::int64_t count = 0;
  Picoseconds total{0};
  Picoseconds median{0};  ///< Upper one of an even count.
  Picoseconds high{0};    ///< 90th percentile, nearest rank.
  Picoseconds longest{0};
};

struct TraceSyncCost {
  std::uint32_t name = trace_none;  ///< Of the call.
  TraceTimes calls;
  std::int64_t waited = 0;  ///< Calls that had to wait for a GPU op.
  Picoseconds idle{0};      ///< Time without GPU ops in gaps that began with their return.
  std::int64_t gaps = 0;    ///< Such gaps.
};

struct TraceLaunchApi {
  std::uint32_t name = trace_none;
  TraceTimes calls;
};

/// A ProfilerStep. GPU ops belong to the step in which they were launched; without a launch call, in which
/// they started.
struct TraceStepFigures {
  std::int64_t number = -1;
  Picoseconds host{0};
  Picoseconds span{0};  ///< From the start of the first of its GPU ops to the latest end of one.
  Picoseconds busy{0};
  std::int64_t kernels = 0;
  std::int64_t launches = 0;  ///< Calls that launch kernels or CUDA graphs.
};

/// Launches of CUDA graphs with equally many ops and the same first one.
struct TraceGraphFigures {
  std::int64_t nodes = 0;
  std::uint32_t first_op = trace_none;  ///< Name.
  TraceTimes calls;
  TraceTimes spans;  ///< From the start of the first op to the latest end of one.
};

/// Ops of the framework of one name and equal inputs that launched something.
struct TraceOpFigures {
  std::uint32_t name = trace_none;
  std::uint32_t inputs = trace_none;
  std::int64_t count = 0;
  Picoseconds gpu{0};           ///< Of all GPU ops that they launched.
  std::optional<double> flops;  ///< Of one; nothing where its kind or shapes are not known.
  std::optional<double> bytes;  ///< Of one, at least: inputs once, and an output like the largest of them.

  std::optional<double> flops_per_second() const;
  std::optional<double> bytes_per_second() const;
};

/// One name of work on the host and the time that the GPU was idle for it.
struct TraceDispatch {
  std::string name;
  Picoseconds idle{0};
};

struct TraceDetail {
  Picoseconds wall{0};
  Picoseconds busy{0};
  std::array<Picoseconds, trace_idle_cause_count> idle{};  ///< With `busy` the wall, to the picosecond.
  std::vector<TraceGap> gaps;                              ///< By falling length, then by time.
  std::vector<TraceDispatch> dispatch;  ///< What the host did in dispatch gaps, most first.

  std::vector<TraceLaunchApi> launch_apis;  ///< Calls that launch kernels or CUDA graphs; most first.
  TraceTimes launches;                      ///< All of them.
  std::int64_t short_kernels = 0;           ///< Kernels that took less time than the call that launched them.
  QueueLength queue;
  std::vector<TraceSyncCost> syncs;  ///< By falling time.
  std::vector<TraceStepFigures> steps;
  std::vector<TraceGraphFigures> graphs;
  std::vector<TraceOpFigures> ops;  ///< By falling time; empty without record_shapes.
  std::int64_t twice = 0;           ///< GPU ops that are listed more than once, equal in everything.
};

TraceDetail trace_detail(const Trace& trace);

/// FLOPs of one op of the framework by its name and inputs: 2 M N K for products, 2 for each multiplication
/// of a convolution, 4 B H S T D for attention, causal or not. Nothing for others.
std::optional<double> op_flops(std::string_view name, const std::vector<TraceInput>& inputs);
/// Bytes of one element by the name of its type; 0 for an unknown one.
int element_bytes(std::string_view type);
/// Bytes of all tensors that the op reads, once, and of an output like the largest.
std::optional<double> op_bytes(const std::vector<TraceInput>& inputs);

}  // namespace gpusim
