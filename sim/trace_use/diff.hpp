// SPDX-License-Identifier: Apache-2.0
// Two traces, kernel by kernel: what appeared, vanished, got slower or faster, and what became of the time in
// which no GPU op ran. Every picosecond of the difference is in one row.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// Why no GPU op ran, told from a trace by itself. Of a stretch before an op, the part until its launch call
/// returned is `Synchronization` where a host thread stood in a call that waits for the device, else
/// `Dispatch`. What follows is `Gap` where the launch must have arrived before the op before it ended, else
/// `LaunchLatency`. `Event`: the op waited for another stream. `Unknown`: its launch is not in the trace.
enum class TraceIdle : std::uint8_t { Dispatch, Synchronization, LaunchLatency, Gap, Event, Unknown };
inline constexpr int trace_idle_count = 6;
const char* name(TraceIdle cause);

struct DiffRow {
  enum class Change : std::uint8_t { Matched, Renamed, Appeared, Vanished };
  Change change = Change::Matched;
  std::string group;   ///< "matmul", "attention", "communication", "elementwise & other", "memcpy", "memset".
  std::string name_a;  ///< Empty: appeared.
  std::string name_b;  ///< Empty: vanished; else as name_a but where it was renamed.
  std::int64_t count_a = 0;
  std::int64_t count_b = 0;
  Picoseconds time_a{0};  ///< Sum of durations.
  Picoseconds time_b{0};
  Picoseconds difference() const { return time_b - time_a; }
};

struct DiffSide {
  std::string file;
  std::int64_t steps = 0;  ///< In the trace; 0: none marked.
  std::int64_t step = -1;  ///< The one that is compared; -1: the whole window.
  Picoseconds wall{0};     ///< Of what is compared: see TraceDiff.
  Picoseconds sum{0};      ///< Of durations.
  /// Sum of durations less the time in which at least one op ran. Ops that reach over the ends of a step
  /// count whole in the sum.
  Picoseconds overlap{0};
  std::array<Picoseconds, trace_idle_count> idle{};
};

/// wall = sum - overlap + idle, on both sides, to the picosecond; so are the differences of all rows.
struct TraceDiff {
  DiffSide a;
  DiffSide b;
  std::vector<DiffRow> rows;  ///< Largest |difference| first.
  Picoseconds difference() const { return b.wall - a.wall; }
};

struct DiffOptions {
  /// Compare one step of each (that of median length, from its first op's start to the next step's) rather
  /// than the whole windows. Absent: where the numbers of steps differ.
  std::optional<bool> one_step;
};

/// Streams are matched by name, the others by the time of their ops; steps by number. In each pair, kernels
/// are aligned by name; what is left between two that correspond is aligned by the framework's op behind
/// them, and then by kind: products, attention, communication, copies and memsets always, other kernels where
/// there are as many on both sides (renamed). Throws ConfigError where a trace has no GPU op.
TraceDiff diff_traces(const Trace& a, const Trace& b, const DiffOptions& options = {});

/// At most `rows` kernels in the text; JSON has them all.
std::string diff_text(const TraceDiff& diff, std::size_t rows = 20);
std::string diff_json(const TraceDiff& diff);

}  // namespace gpusim
