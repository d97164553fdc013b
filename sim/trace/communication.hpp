// SPDX-License-Identifier: Apache-2.0
// Collectives of a trace: how long they run, and how much of that nothing else hides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/trace/trace.hpp"

namespace gpusim {

/// Kernels of one collective, size and group.
struct TraceCommunication {
  std::string name;        ///< As the trace has it ("allreduce"); the kernel's name where it does not say.
  std::string dtype;       ///< "Float"; empty where not stated.
  std::int64_t bytes = 0;  ///< Of the larger buffer of a rank; 0 where not stated.
  std::int64_t group_size = -1;  ///< -1 where not stated.
  std::int64_t count = 0;
  Picoseconds total{0};
  Picoseconds exposed{0};  ///< Of `total`, while no other GPU op of the same device ran.
  Picoseconds shortest{0};

  Picoseconds hidden() const { return total - exposed; }
  /// Bus bandwidth of the shortest one, as nccl-tests count it, in bytes per second: what rings send by the
  /// time. A kernel that waits for other ranks looks slower. 0 where bytes or group are not stated.
  double bus_bytes_per_second() const;
};

/// Collectives that one step launched.
struct TraceStepCommunication {
  std::int64_t number = -1;  ///< Of ProfilerStep#N.
  std::int64_t count = 0;
  Picoseconds total{0};
  Picoseconds exposed{0};
};

struct TraceCommunications {
  std::vector<TraceCommunication> kinds;      ///< By falling total, then by name.
  std::vector<TraceStepCommunication> steps;  ///< As Trace::steps; those without collectives too.
  Picoseconds total{0};
  Picoseconds exposed{0};
};

/// Kernels that kernel_group() takes for communication. A kernel belongs to the step in which its launch call
/// began.
TraceCommunications trace_communication(const Trace& trace);

}  // namespace gpusim
