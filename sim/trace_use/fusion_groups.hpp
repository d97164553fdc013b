// SPDX-License-Identifier: Apache-2.0
// Which kernels of a trace a compiler could run as one, and how long that one would take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/trace/trace.hpp"
#include "sim/trace_use/kernel_traits.hpp"

namespace gpusim {

/// How the duration of a fused kernel was found.
enum class FusedPrice : std::uint8_t {
  Model,      ///< models/cost, from elements and number formats of names and grids.
  Traffic,    ///< The members' time, by the share of their traffic that is left.
  Durations,  ///< The same, with the traffic itself estimated from the members' durations.
};

struct FusedGroup {
  std::vector<std::uint32_t> members;  ///< Into Trace::ops, in order of the stream; at least two.
  std::string name;
  Picoseconds apart{0};     ///< Sum of the members' durations.
  Picoseconds together{0};  ///< Of the one kernel.
  FusedPrice price = FusedPrice::Durations;
};

/// What the caller knows about the trace's ops.
struct FusionInput {
  const Trace& trace;
  const TraceRules& rules;
  const std::vector<Picoseconds>& durations;  ///< Of each op.
  const GpuSpec* gpu = nullptr;  ///< Prices fused kernels; none, or without calibration: by bytes.
};

/// Everything that may be joined: runs of pointwise kernels, row reductions and norms of one stream, host
/// thread and step between which nothing else runs. Within a run kernels of the same number of elements are
/// one group, each taken to go on with what the one before made: the group reads what its first kernel reads
/// and writes what its last one writes. Further operands of later kernels are taken for values of the group
/// itself, but in backward for what forward kept or what comes from another branch. Sums over rows stay
/// kernels of their own; weights' gradients of a norm are made by the kernel of its backward.
std::vector<FusedGroup> fuse_all(const FusionInput& input);

/// Neighbours in a stream that both match `pattern` (see matches_pattern), whatever they are. Their names
/// need not be known: then each is taken to read as much as it writes, its traffic told by its duration.
std::vector<FusedGroup> fuse_named(const FusionInput& input, const std::string& pattern);

/// Launches that cannot be joined with those before: other threads, steps, or what runs in a CUDA graph.
class LaunchPlaces {
 public:
  LaunchPlaces(const Trace& trace, const TraceRules& rules);
  /// The ProfilerStep in which op `i` was launched; 0 before the first and where there is none.
  std::size_t step_of(std::uint32_t i) const;
  bool can_follow(std::uint32_t before, std::uint32_t i) const;
  bool is_plain(std::uint32_t i) const;  ///< Launched by a call of its own.
  /// Launched within an annotation of torch.optim ("Optimizer.step#AdamW.step").
  bool in_optimizer(std::uint32_t i) const;
  /// Host time between two traced moments that such annotations of `thread` cover.
  Picoseconds optimizer_time(std::uint32_t thread, Picoseconds from, Picoseconds to) const;

 private:
  const Trace& trace_;
  const TraceRules& rules_;
  std::vector<Picoseconds> steps_;
  std::vector<TraceSpan> optimizer_;
};

}  // namespace gpusim
