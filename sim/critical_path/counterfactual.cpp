// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/critical_path/critical_path.hpp"

namespace gpusim {

using engine::Call;

const char* name(InfinitelyFast what) {
  switch (what) {
    case InfinitelyFast::Host:
      return "host";
    case InfinitelyFast::Launches:
      return "launches";
    case InfinitelyFast::Kernels:
      return "kernels";
  }
  return "unknown";
}

engine::Program infinitely_fast(engine::Program program, InfinitelyFast what) {
  constexpr Picoseconds none{0};
  if (what == InfinitelyFast::Kernels) {
    for (engine::GpuOp& op : program.ops) {
      op.duration = none;
      op.distribution = engine::no_index;
    }
    return program;
  }
  for (engine::HostThread& thread : program.threads)
    for (engine::Instruction& in : thread.instructions) {
      if (in.call == Call::Input) continue;
      if (what == InfinitelyFast::Host) {
        // What of the latency is the call's own time goes with it.
        in.latency -= std::min(in.latency, in.duration);
        in.duration = none;
      } else if (in.call == Call::Launch || in.call == Call::LaunchGraph) {
        in.latency = none;
        in.duration = none;
      } else {
        in.latency = std::min(in.latency, in.duration);
      }
    }
  return program;
}

std::optional<double> Counterfactual::speedup(Picoseconds before) const {
  if (!makespan || *makespan <= Picoseconds(0)) return std::nullopt;
  return static_cast<double>(before.count()) / static_cast<double>(makespan->count());
}

std::array<Counterfactual, infinitely_fast_count> counterfactuals(const engine::Program& program,
                                                                  const engine::Machine& machine,
                                                                  const engine::Timeline& timeline,
                                                                  const CriticalPath& path) {
  std::size_t steps = 0;
  for (const engine::Timeline::Thread& thread : timeline.threads)
    steps = std::max(steps, thread.step_start.size());
  std::array<Counterfactual, infinitely_fast_count> result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].what = static_cast<InfinitelyFast>(i);
    result[i].order_kept = path.order_kept[i];
    try {
      result[i].makespan =
          engine::run(infinitely_fast(program, result[i].what), machine, static_cast<std::int64_t>(steps))
              .totals.wall;
    } catch (const engine::DeadlockError&) {
      // Threads that raced for an event may now miss each other.
    }
  }
  return result;
}

}  // namespace gpusim
