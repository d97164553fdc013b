// SPDX-License-Identifier: Apache-2.0
// The host side of a traced window, tidied up: which calls matter, what the synchronisations waited for, and
// which thread continues another's work. Internal to sim/program.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/replay_rules.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// What a call means to the replay. Calls that mean nothing become host work.
enum class HostAction : std::uint8_t { Launch, Record, StreamWait, Synchronize };

struct HostCall {
  std::uint32_t call = trace_none;  ///< Into Trace::calls.
  std::uint32_t thread = trace_none;
  HostAction action = HostAction::Launch;
  Picoseconds start{0};
  Picoseconds end{0};  ///< Before a call nested in it: there.
  // Record, StreamWait, and Synchronize for an event:
  std::uint32_t event = trace_none;  ///< Dense over the replay's recorded events.
  // Record, StreamWait, Synchronize for a stream:
  std::uint32_t stream = trace_none;
  // Synchronize:
  bool device = false;
  std::uint32_t device_index = 0;
  std::uint32_t waits_for = trace_none;  ///< Op after whose launch an event has to be recorded for it.
  bool blocked = false;                  ///< The completion came after the call's start.
  Picoseconds completion{0};             ///< Traced, of all that it waits for.
};

struct HostView {
  std::vector<HostCall> calls;  ///< By start.
  /// Threads whose calls never overlap: one continues where the other left off. The first marks the steps.
  std::vector<std::uint32_t> chained;
  std::vector<std::uint32_t> independent;  ///< The rest.
  std::vector<Picoseconds> steps;          ///< Starts of the ProfilerSteps of the first thread, by time.
  Picoseconds start{0};                    ///< Of the window.
  Picoseconds end{0};
  Picoseconds warm_up{0};  ///< Host time of the first step that was left out.
  std::uint32_t recorded_events = 0;
  std::int64_t recorded_waits = 0;
  std::int64_t ignored_synchronizations =
      0;  ///< Returned before what they wait for: clocks or unknown streams.
};

HostView view_host(const Trace& trace, const TraceRules& rules);

}  // namespace gpusim
