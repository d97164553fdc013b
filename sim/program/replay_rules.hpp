// SPDX-License-Identifier: Apache-2.0
// What a profiler trace says about launches and gaps: the rules by which a replay finds kernel starts. In
// words: docs/trace-replay.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// Used where neither the trace nor a hardware file says how long a launch takes to arrive: that of an H200.
inline constexpr Picoseconds default_arrival_after_call{1'650'000};

struct RuleOptions {
  /// Whether the length class of a gap (fast or slow, see docs/trace-replay.md) may be read off the op's own
  /// gap. The length itself never is. Off: nothing of an op's own gap enters its prediction wherever another
  /// op of the trace can stand for it.
  bool gap_modes = true;
};

/// Where an op's gap came from. Pair: ops with the same two neighbours.
enum class GapSource : std::uint8_t { None, Pair, Class, Hardware };

/// One GPU op of the trace, seen from its launch and its predecessor.
struct RuledOp {
  std::uint32_t sequence = trace_none;   ///< Into TraceRules::sequences.
  std::uint32_t position = 0;            ///< In that sequence.
  std::uint32_t call = trace_none;       ///< Its launch; trace_none: unlinked, kept at its traced start.
  std::uint32_t previous = trace_none;   ///< Op from whose end the gap counts.
  std::uint32_t waits_for = trace_none;  ///< Op of another stream whose end explains this op's start.
  bool graph = false;                    ///< Belongs to a CUDA graph launch.
  bool node = false;            ///< Follows another op of the same launch: no launch of its own binds it.
  bool first = false;           ///< First linked op of its stream: not before its traced start.
  bool starts_in_call = false;  ///< Was seen to start before its own launch call returned.
  bool queued = false;          ///< Was surely waiting when its predecessor ended: its gap is a sample.
  bool programmatic = false;    ///< Kernel that may overlap its predecessor.
  bool out_of_order = false;    ///< Unlinked because its stream ran it in another order than it was launched.
  Picoseconds observed_gap{0};  ///< Start less end of `previous`.
  Picoseconds gap{0};           ///< What the replay uses.
  GapSource source = GapSource::None;
};

/// The calls to the end of which launches arrive, and gaps between ops.
struct TraceRules {
  std::vector<RuledOp> ops;                             ///< As Trace::ops.
  std::vector<std::vector<std::uint32_t>> sequences;    ///< Per Trace::streams: ops in order of start. The
                                                        ///< nodes of a CUDA graph stand where its first one
                                                        ///< ran.
  std::vector<std::vector<std::uint32_t>> ops_of_call;  ///< As Trace::calls: linked ops in order of start.
  /// From the end of a launch call until an idle stream starts the op, by TraceOpKind.
  std::array<Picoseconds, 3> arrival_after_call{};
  std::int64_t arrival_samples = 0;  ///< 0: from the hardware file, or the default.
  Picoseconds wait_latency{0};       ///< From the end of a `waits_for` until the op starts.
  std::int64_t waits = 0;            ///< Ops with a `waits_for`.
};

/// Links ops with calls, orders them, estimates latencies and gaps. `hardware` fills what the trace cannot
/// tell; without it, gaps of which the trace has no sample are 0.
TraceRules derive_rules(const Trace& trace, const GpuSpec* hardware, const RuleOptions& options = {});

/// The launch rules' class of a traced op, from its kind, name and duration.
GapClass gap_class_of(const Trace& trace, const TraceOp& op, bool programmatic);

/// Median of `values` (upper middle), 0 without any.
Picoseconds median(std::vector<Picoseconds> values);

}  // namespace gpusim
