// SPDX-License-Identifier: Apache-2.0
// A network's step as compiled code runs it: a call per kernel, or a CUDA graph per region.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/compiler/compile.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/program/build.hpp"

namespace gpusim {

struct CompiledProgram {
  BuiltProgram built;
  Flops model_flops{0};  ///< Of all that runs, as the catalogue counts it: of what runs again, again.
  Bytes traffic{0};      ///< What the kernels of compiled regions move between them, caches aside.
};

struct CompiledLayout {
  std::int64_t accumulation = 1;  ///< Micro-batches of a training step (TrainingOptions).
  bool marks = false;             ///< Where its pieces begin, also for a step that does not train.
};

/// Lays out a compiled step on one stream. Host threads are as in build_eager(): regions of the backward pass
/// run on autograd's. Marks count kernels, and ops that run by themselves, as step_memory() does.
///
/// Host: a compiled region costs its guards, one per parameter, the call of its code, and a call per kernel
/// (CompiledHostOps names the costs in the host file); in backward an `autograd_node` for itself and for each
/// gradient of a parameter that it makes takes the place of guards; one that is replayed as a CUDA graph
/// costs checks, the copies of inputs that moved, and one launch. Ops between compiled regions run as in
/// build_eager(). GPU: as in build_eager(), kernels as the plan has them.
///
/// Throws NoCalibrationError, NoPeakError, NoHostOpError where the files cannot price something.
CompiledProgram build_compiled(const CompiledStep& step, const CompileOptions& options, const GpuSpec& gpu,
                               const HostSpec& host, HostOpMode mode, const CompiledLayout& layout = {});

}  // namespace gpusim
