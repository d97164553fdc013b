// SPDX-License-Identifier: Apache-2.0
// How often each op of a program ran and for how long. Internal to sim/report.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/result.hpp"

namespace gpusim::report {

/// Executions and their summed duration of an op of the program.
struct OpExecutions {
  std::int64_t count = 0;
  Picoseconds total{0};
};

struct CountedOps {
  std::vector<OpExecutions> of_op;  ///< By index into Program::ops.
  std::int64_t steps = 1;           ///< Of the engine.
};

/// From the timeline where there is one, else from the program (a random duration counts with its mean).
CountedOps count_ops(const VariantResult& result);

/// Bytes with which an op loads the device's memory. A copy on the device reads and writes what it moves; one
/// over the host link touches device memory once. 0 where unknown.
double memory_traffic(const engine::GpuOp& op, const engine::OpInfo& info);

}  // namespace gpusim::report
