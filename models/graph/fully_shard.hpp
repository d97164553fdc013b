// SPDX-License-Identifier: Apache-2.0
// FSDP's and ZeRO-3's part of data_parallel.hpp. Internal to models/graph.
#pragma once

#include "models/graph/op_graph.hpp"
#include "models/graph/parallel_plan.hpp"

namespace gpusim {

/// See data_parallel_step(). Throws GraphError as it does.
OpGraph fully_sharded_step(OpGraph step, const ParallelPlan& plan);

}  // namespace gpusim
