// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/compile.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "models/compiler/lower.hpp"
#include "models/compiler/step_memory.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

LowerOptions lower_options(const CompileOptions& options) {
  LowerOptions lower;
  lower.library_norms = options.mode.fusion.library_norms;
  lower.unfuse_bias = options.mode.fusion.pointwise;
  return lower;
}

/// Inputs of the region that are not where they were a step before: what the step is given. Parameters,
/// buffers, states and what other compiled regions made stay in place.
std::vector<Bytes> moving_inputs(const OpGraph& graph, const RegionPlan& region) {
  std::set<StorageIndex> storages;
  for (const CompiledKernel& kernel : region.kernels)
    for (const KernelTouch& touch : kernel.reads) {
      const Buffer& buffer = region.loops.buffers[touch.buffer];
      if (buffer.producer == loop_none && buffer.storage != graph_none &&
          graph.storages[buffer.storage].role == Role::Input)
        storages.insert(buffer.storage);
    }
  std::vector<Bytes> bytes;
  for (const StorageIndex storage : storages) bytes.push_back(graph.storages[storage].bytes);
  return bytes;
}

}  // namespace

CompiledStep compile_step(std::shared_ptr<const OpGraph> graph, const CompileOptions& options,
                          const GpuSpec& gpu) {
  CompiledStep step;
  step.graph = std::move(graph);
  const OpGraph& ops = *step.graph;
  step.captured = capture_regions(ops, options);
  const std::vector<std::int64_t> offsets = view_offsets(ops);
  const LowerOptions lowering = lower_options(options);
  auto next = static_cast<MemoryIndex>(ops.storages.size());
  std::set<std::string> names;
  for (const Region& region : step.captured.regions) {
    RegionPlan& plan = step.regions.emplace_back();
    plan.region = region;
    if (!region.compiled) continue;
    plan.loops = lower(ops, gpu, region.first, region.last, offsets, lowering);
    plan.plan = plan_fusion(plan.loops, options.mode.fusion);
    plan.kernels = kernels_of(ops, plan.loops, plan.plan, options.backend);
    plan.memory.reserve(plan.loops.buffers.size());
    for (const Buffer& buffer : plan.loops.buffers)
      plan.memory.push_back(buffer.storage != graph_none ? buffer.storage : next++);
    for (const CompiledKernel& kernel : plan.kernels)
      if (kernel.what == KernelClass::Generated) {
        ++step.kernels;
        names.insert(kernel.name);
      }
    plan.cuda_graph = options.mode.cuda_graphs;
    if (plan.cuda_graph == CudaGraphPolicy::Trees) plan.copied_inputs = moving_inputs(ops, plan);
  }
  step.distinct_kernels = static_cast<std::int64_t>(names.size());
  std::set<OpIndex> products;
  for (const RegionPlan& region : step.regions)
    for (const CompiledKernel& kernel : region.kernels)
      if (kernel.what == KernelClass::Product) products.insert(ops.ops[kernel.op].like);
  step.products = static_cast<std::int64_t>(products.size());
  step.memory = step_memory(step, next, gpu);
  return step;
}

}  // namespace gpusim
