// SPDX-License-Identifier: Apache-2.0
// Device memory of a compiled step.
#pragma once

#include "models/compiler/compile.hpp"

namespace gpusim {

/// Buffers live from the kernel that makes them to the last one that reads them; a kernel may write over an
/// input of the same size that nobody reads after it (Inductor's in-place reuse). Ops that run one by one
/// live as in eager_memory(). `count`: of memory indices.
CompiledMemory step_memory(const CompiledStep& step, MemoryIndex count, const GpuSpec& gpu);

}  // namespace gpusim
