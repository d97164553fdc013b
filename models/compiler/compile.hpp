// SPDX-License-Identifier: Apache-2.0
// A step as a compiler leaves it: which kernels it launches, region by region, and what memory they use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/compiler/capture_regions.hpp"
#include "models/compiler/kernels.hpp"
#include "models/compiler/options.hpp"
#include "models/compiler/simplify.hpp"
#include "models/compiler/training_regions.hpp"
#include "models/graph/memory.hpp"
#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// Memory of a step: storages of the op graph first, then what only compiled code knows.
using MemoryIndex = std::uint32_t;

struct RegionPlan {
  Region region;
  /// What it launches; empty for a region whose ops run one by one.
  std::vector<CompiledKernel> kernels;
  LoopGraph loops;
  FusionPlan plan;
  std::vector<MemoryIndex> memory;  ///< By buffer of `loops`.
  /// How it is launched; None with a reason where the mode asked for more.
  CudaGraphPolicy cuda_graph = CudaGraphPolicy::None;
  std::string not_captured;
  /// Inputs that a CUDA graph tree copies before each replay: given anew in each step.
  std::vector<Bytes> copied_inputs;
  std::int64_t distinct_kernels = 0;
};

struct CompiledMemory {
  Bytes resident{0};  ///< Parameters, buffers, states, inputs, the products' workspace.
  Bytes peak{0};
  Bytes activations{0};  ///< And gradients, alive at the worst moment.
  MemoryShares at_peak;  ///< Their sum is `peak`.
  std::string peak_at;   ///< The kernel or op that runs then.
  Bytes saved{0};        ///< Activations alive when forward is done.
  /// What CUDA graph trees hold in their private pool at most: all that their regions make. The framework
  /// does not count it: torch.cuda.max_memory_allocated() says `outside_pool`. `peak` is of both together.
  Bytes pool{0};
  Bytes outside_pool{0};
  std::vector<std::int64_t> addresses;  ///< By MemoryIndex.
};

struct CompiledStep {
  std::shared_ptr<const OpGraph> graph;  ///< After the passes over it.
  CapturedStep captured;
  std::vector<RegionPlan> regions;
  CompiledMemory memory;
  std::int64_t kernels = 0;           ///< Calls of generated code in a step.
  std::int64_t distinct_kernels = 0;  ///< That are compiled.
  std::int64_t products = 0;          ///< Distinct matrix products.
  std::vector<Simplification> passes;
  std::vector<RegionRecompute> recompute;  ///< Of a training step: what each region keeps.
  /// Parameters that are stored in another format than the graph has them in, for products of 8 bits.
  std::map<StorageIndex, Bytes> narrowed;
  Picoseconds compile_time{0};  ///< Of the first call, beyond a step.
};

/// Plans a step of `graph`. A training step comes as training_graph() makes it, functional where the backend
/// compiles. Throws CompileError for what the backend refuses.
CompiledStep compile_step(std::shared_ptr<const OpGraph> graph, const CompileOptions& options,
                          const GpuSpec& gpu);

}  // namespace gpusim
