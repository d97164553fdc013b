// SPDX-License-Identifier: Apache-2.0
// A network's step as eager PyTorch runs it: one op after the other, one launch per kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/memory.hpp"
#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/program/build.hpp"

namespace gpusim {

struct EagerProgram {
  BuiltProgram built;
  Flops model_flops{0};
  MemoryUse memory;
};

/// Lays out the step of `graph` on one host thread and one stream.
///
/// Host: an op costs what the host file says of it (launch calls included) and its modules what a module call
/// costs; launches beyond the first of an op cost a launch call more. GPU: each op's kernels as models/cost
/// prices them, each input as warm in the L2 as the traffic since its last use allows, in a step that follows
/// one of its kind.
///
/// Throws NoCalibrationError (models/cost), NoPeakError, NoHostOpError where the files cannot price an op.
///
/// A device with a power limit runs its products slower where the step, repeated, would draw more
/// (models/cost/power.hpp). `captured`: the step will run as CUDA graphs, so that the host does not give the
/// device time to cool.
EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         bool captured = false);

}  // namespace gpusim
