// SPDX-License-Identifier: Apache-2.0
// Device memory of a compiled step.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compiler/compile.hpp"

namespace gpusim {

/// Buffers live from the kernel that makes them to the last one that reads them, in backward too; a kernel
/// may write over an input of the same size that nobody reads after it (Inductor's in-place reuse). Ops that
/// run one by one live as in eager_memory(), and so do gradients. `count`: of memory indices.
///
/// `accumulation`: as in eager_memory(). `curve`, unless null, gets what is in use while each kernel, and
/// each op that runs by itself, runs: in the order in which they do, of several micro-batches the first two.
CompiledMemory step_memory(const CompiledStep& step, MemoryIndex count, const GpuSpec& gpu,
                           std::int64_t accumulation = 1, std::vector<MemoryShares>* curve = nullptr);

}  // namespace gpusim
