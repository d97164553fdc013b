// SPDX-License-Identifier: Apache-2.0
// What a run was waiting for, moment by moment: the longest path through the dependencies of a timeline, how
// much slack everything beside it has, and what an infinitely fast part of the machine would give.
// docs/critical-path.md has it in words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/program.hpp"
#include "sim/engine/result.hpp"

namespace gpusim {

/// What a stretch of the critical path is spent on.
enum class PathResource : std::uint8_t {
  Kernel,           ///< A kernel or memset runs, for no longer than it takes alone.
  Copy,             ///< A copy runs.
  Sharing,          ///< An op runs longer than alone, or waits for room, because others share its device.
  Gap,              ///< Between ops of a stream or nodes of a CUDA graph: gaps and minimum periods.
  Event,            ///< From the firing of an event to the start of what waited for it.
  LaunchLatency,    ///< From the return of a call to its arrival at the device.
  Host,             ///< CPU work and calls.
  Input,            ///< The host waits for input.
  Synchronization,  ///< From a completion to the return of the call that waited for it.
};
inline constexpr std::size_t path_resource_count = 9;
/// "kernel", "copy", "sharing", "gap", "event", "launch_latency", "host", "input", "synchronization".
const char* name(PathResource resource);

/// A piece of the path. It belongs to an op (the one that runs, or whose start is delayed) or to a call.
struct PathSegment {
  Picoseconds from{0};
  Picoseconds to{0};
  PathResource resource = PathResource::Host;
  engine::Index op = engine::no_index;    ///< Into Timeline::ops, or no_index.
  engine::Index call = engine::no_index;  ///< Call number, or no_index.

  Picoseconds duration() const { return to - from; }
  friend bool operator==(const PathSegment&, const PathSegment&) = default;
};

/// What is imagined to take no time at all.
enum class InfinitelyFast : std::uint8_t {
  Host,  ///< Calls and work take no CPU time. Input, launch latency and the return of synchronisations stay.
  Launches,  ///< Launch calls take no CPU time, and nothing takes time on its way to the device.
  Kernels,   ///< GPU ops, copies too, have no duration. Gaps and minimum periods stay.
};
inline constexpr std::size_t infinitely_fast_count = 3;
/// "host", "launches", "kernels".
const char* name(InfinitelyFast what);

struct CriticalPath {
  Picoseconds makespan{0};
  /// From 0 to the makespan without a hole; none is empty, and two that follow each other differ.
  std::vector<PathSegment> segments;
  /// Sums of `segments`, by PathResource: together the makespan.
  std::array<Picoseconds, path_resource_count> by_resource{};
  /// How much later an op could end, all else as it was, without lengthening the run: by index into
  /// Timeline::ops. 0 on the path.
  std::vector<Picoseconds> op_slack;
  /// The same of calls, by call number. A launch can be on the path and have some: if only its op waits for
  /// it.
  std::vector<Picoseconds> call_slack;
  /// The longest path with the weights of one resource set to 0, by InfinitelyFast. The order in which ops
  /// meet at copy engines, shared streams and shared devices is kept, so it is the makespan only where that
  /// cannot change.
  std::array<Picoseconds, infinitely_fast_count> order_kept{};
  /// Of the part of Sharing that is not an op's own time: moments later than every rule says. 0 unless
  /// kernels share a device, or threads met at a full launch queue at the same instant and who came first
  /// cannot be told.
  Picoseconds unexplained{0};
  /// Rules that the timeline breaks. 0 but for the same reasons: a programmatic launch can be scheduled on a
  /// prediction which sharing turns wrong.
  std::size_t contradictions = 0;

  Picoseconds of(PathResource resource) const { return by_resource[static_cast<std::size_t>(resource)]; }
};

/// Explains a timeline of `program` on `machine`; all steps of it, from the idle machine to the last
/// completion. Durations of ops are those observed. At equal times the binding dependency is the first of:
/// the event, the arrival, the previous entry of the stream; of the host's own time and what it waits for,
/// its own. Linear in calls and ops up to sorting. Throws InternalError if the timeline is not one of
/// `program`.
CriticalPath critical_path(const engine::Program& program, const engine::Machine& machine,
                           const engine::Timeline& timeline);

/// Neighbouring segments of one resource as one: which resource bound each moment. They bear no op and no
/// call.
std::vector<PathSegment> merged_by_resource(const std::vector<PathSegment>& segments);

/// The program with a part of it taking no time.
engine::Program infinitely_fast(engine::Program program, InfinitelyFast what);

struct Counterfactual {
  InfinitelyFast what = InfinitelyFast::Host;
  /// Of a new simulation: exact, queues and sharing and all. Nothing if the changed program is stuck.
  std::optional<Picoseconds> makespan;
  Picoseconds order_kept{0};  ///< See CriticalPath.

  /// Of `before` over the new makespan; nothing where that is unknown or 0.
  std::optional<double> speedup(Picoseconds before) const;
};

/// Runs the program anew for each, as many steps as `timeline` has.
std::array<Counterfactual, infinitely_fast_count> counterfactuals(const engine::Program& program,
                                                                  const engine::Machine& machine,
                                                                  const engine::Timeline& timeline,
                                                                  const CriticalPath& path);

}  // namespace gpusim
