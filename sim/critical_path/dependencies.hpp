// SPDX-License-Identifier: Apache-2.0
// The moments of a timeline and what each of them came after. Internal to the critical path.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/program.hpp"
#include "sim/engine/result.hpp"

namespace gpusim {

using Moment = std::uint32_t;
inline constexpr Moment no_moment = engine::no_index;

/// Why a moment comes after another, at equal times the first binds.
enum class Rule : std::uint8_t {
  Work,         ///< The host's own time: work and calls that launch nothing.
  LaunchCall,   ///< The host's own time in a call that launches.
  Input,        ///< The host's own time, waiting for input.
  Run,          ///< An op runs.
  Fired,        ///< An event, with its latency.
  Latency,      ///< A launch is on its way.
  Arrival,      ///< It has arrived.
  Order,        ///< What must be over first; takes no time.
  Gap,          ///< From the end of an op to the start of the next.
  Period,       ///< From the start of an op to the start of the next.
  CopyEngine,   ///< The copy before.
  Place,        ///< A place in the launch queue became free.
  Completion,   ///< What a synchronisation waits for, with its return latency.
  OtherThread,  ///< A signal, or a thread that was too many steps behind.
};

/// `moment` >= `before` + `weight`.
struct Dependency {
  Moment moment = 0;
  Moment before = 0;
  Picoseconds weight{0};
  /// Completion: holds only if `before` is later than this one, the start of the call.
  Moment unless_by = no_moment;
  Rule rule = Rule::Order;
};

/// Moments are numbered: 0 is the beginning of the run; then the ends of the calls, thread by thread; then
/// start and end of each op; then all others. Those of calls and ops were observed.
struct Dependencies {
  Dependencies(const engine::Program& program, const engine::Machine& machine,
               const engine::Timeline& timeline);

  static constexpr Moment origin = 0;
  Moment call_end(engine::Index call) const {
    return first_call[call % first_call.size()] + static_cast<Moment>(call / first_call.size());
  }
  Moment op_start(engine::Index op) const { return first_op + 2 * op; }
  Moment op_end(engine::Index op) const { return first_op + 2 * op + 1; }
  bool is_observed(Moment moment) const { return observed[moment]; }
  std::size_t size() const { return time.size(); }

  std::vector<Moment> first_call;  ///< By thread.
  Moment first_op = 0;
  std::vector<Picoseconds> time;     ///< Observed, or a first estimate.
  std::vector<bool> observed;        ///< Else `time` follows from the dependencies.
  std::vector<engine::Index> owner;  ///< Op, or call where the top bit is set.
  std::vector<Dependency> list;

  static constexpr engine::Index call_bit = engine::Index{1} << 31;
};

}  // namespace gpusim
