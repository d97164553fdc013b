// SPDX-License-Identifier: Apache-2.0
// What the host's work and calls cost in a replay: as traced, scaled, or by a host model. Internal to
// sim/program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/program/replay.hpp"
#include "sim/program/replay_host.hpp"
#include "sim/program/replay_rules.hpp"

namespace gpusim {

/// `time` times `factor`, rounded to a picosecond; exactly `time` where the factor is 1.
Picoseconds scaled(Picoseconds time, double factor);

class ReplayCost {
 public:
  ReplayCost(const Trace& trace, const GpuSpec* hardware, const TraceRules& rules,
             const ReplayOptions& options);

  /// Host work of `thread` between two traced moments. Ask for each thread in order of time.
  Picoseconds work(std::uint32_t thread, Picoseconds from, Picoseconds to);
  /// CPU time of a call that blocks for nothing.
  Picoseconds call(const HostCall& h) const;
  /// From the start of its launch call until the stream can start op `i`.
  Picoseconds latency(std::uint32_t i) const;
  /// A traced time inside call `c`, as the call is scaled.
  Picoseconds within_call(std::uint32_t c, Picoseconds time) const;
  /// CPU time of a synchronisation that found something to wait for, without the wait.
  Picoseconds sync_call(const HostCall& h) const;
  Picoseconds sync_return(Picoseconds traced) const;
  /// Gives call `c` the median time of the calls of its name if it took longer: whether it did.
  bool cap(std::uint32_t c);

  double factor() const { return model_ ? 0 : factor_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  double automatic_factor();
  void leave_out_first_calls();
  void price_ops();
  Picoseconds traced_call(std::uint32_t c) const;
  Picoseconds priced_call(std::uint32_t c) const;

  const Trace& trace_;
  const GpuSpec* hardware_;
  const TraceRules& rules_;
  const ReplayOptions& options_;
  bool model_ = false;
  double factor_ = 1;
  std::map<std::uint32_t, Picoseconds> median_of_name_;
  std::map<std::uint32_t, Picoseconds> capped_;  ///< By call.
  struct PricedOp {
    Picoseconds start{0};
    Picoseconds time{0};
  };
  std::map<std::uint32_t, std::vector<PricedOp>> priced_;  ///< By thread, in order of start.
  std::map<std::uint32_t, std::size_t> next_priced_;
  std::vector<std::string> notes_;
};

}  // namespace gpusim
