// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/result.hpp"

#include <numeric>

namespace gpusim::engine {

const char* name(IdleCause cause) {
  switch (cause) {
    case IdleCause::Event:
      return "event";
    case IdleCause::Synchronization:
      return "synchronization";
    case IdleCause::LaunchLatency:
      return "launch_latency";
    case IdleCause::Gap:
      return "gap";
    case IdleCause::Dispatch:
      return "dispatch";
    case IdleCause::Input:
      return "input";
  }
  return "unknown";
}

Picoseconds Totals::idle_total() const {
  return std::accumulate(idle.begin(), idle.end(), Picoseconds(0));
}

Totals operator-(Totals a, const Totals& b) {
  a.steps -= b.steps;
  a.wall -= b.wall;
  a.busy -= b.busy;
  a.op_sum -= b.op_sum;
  for (std::size_t i = 0; i < a.idle.size(); ++i) a.idle[i] -= b.idle[i];
  a.host_work -= b.host_work;
  a.host_blocked -= b.host_blocked;
  a.host_blocked_queue -= b.host_blocked_queue;
  a.counts.kernels -= b.counts.kernels;
  a.counts.memcpys -= b.counts.memcpys;
  a.counts.memsets -= b.counts.memsets;
  a.counts.kernel_launches -= b.counts.kernel_launches;
  a.counts.cuda_graph_launches -= b.counts.cuda_graph_launches;
  a.counts.synchronizations -= b.counts.synchronizations;
  return a;
}

}  // namespace gpusim::engine
