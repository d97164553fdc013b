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
  Flops model_flops{0};  ///< Of all ops that run, as the catalogue counts them: of those run again, again.
  MemoryUse memory;
  std::vector<MemoryPoint> memory_curve;  ///< If it was asked for.
};

struct EagerOptions {
  /// The step will run as CUDA graphs, so that the host does not give the device time to cool.
  bool captured = false;
  std::int64_t accumulation = 1;  ///< Micro-batches of a training step (TrainingOptions).
  bool memory_curve = false;      ///< Memory op by op, and marks where they begin.
};

/// Lays out the step of `graph` on one stream. The main thread runs forward and optimizer; backward runs on
/// autograd's thread, which begins when forward has been dispatched and for which the main thread waits.
///
/// Host: an op costs what the host file says of it (launch calls included) and its modules what a module call
/// costs; launches beyond the first of an op cost a launch call more. `mode` is that of forward, and of what
/// checkpointing runs again; backward's own ops cost what the file says of them in backward, and each node
/// that the engine enters an `autograd_node`. GPU: each op's kernels as models/cost
/// prices them, each input as warm in the L2 as the traffic since its last use allows, in a step that follows
/// one of its kind.
///
/// Throws NoCalibrationError (models/cost), NoPeakError, NoHostOpError where the files cannot price an op.
///
/// A device with a power limit runs its products slower where the step, repeated, would draw more
/// (models/cost/power.hpp).
EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         const EagerOptions& options = {});

}  // namespace gpusim
