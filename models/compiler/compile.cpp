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
  lower.unfuse_bias = !options.mode.products.bias;
  return lower;
}

/// Inputs of a region that are not where they were a step before: what the step is given, what ops that run
/// one by one made, and views that another region took of memory that stays (they come as tensors of their
/// own). Parameters, buffers and states stay, and so does what a CUDA graph of another region made.
std::vector<Bytes> moving_inputs(const OpGraph& graph, const CompiledStep& step, std::size_t index) {
  const Region& region = step.captured.regions[index];
  std::set<TensorIndex> moving;
  for (OpIndex i = region.first; i < region.last; ++i)
    for (const TensorIndex t : graph.ops[i].inputs) {
      if (t == graph_none) continue;
      const GraphTensor& tensor = graph.tensors[t];
      if (tensor.producer != graph_none && tensor.producer >= region.first) continue;
      const Role role = graph.storages[tensor.storage].role;
      bool moves = role == Role::Input;
      if (tensor.producer != graph_none) {
        const auto maker = std::find_if(
            step.captured.regions.begin(), step.captured.regions.end(),
            [&](const Region& r) { return tensor.producer >= r.first && tensor.producer < r.last; });
        moves = role != Role::Activation || maker == step.captured.regions.end() || !maker->compiled;
      }
      if (moves) moving.insert(t);
    }
  std::vector<Bytes> bytes;
  for (const TensorIndex t : moving) bytes.push_back(stored_bytes(graph.tensors[t].type));
  return bytes;
}

}  // namespace

CompiledStep compile_step(std::shared_ptr<const OpGraph> graph, const CompileOptions& options,
                          const GpuSpec& gpu) {
  CompiledStep step;
  step.captured = capture_regions(*graph, options);
  step.graph = std::move(graph);
  const OpGraph& ops = *step.graph;
  const std::vector<std::int64_t> offsets = view_offsets(ops);
  const LowerOptions lowering = lower_options(options);
  auto next = static_cast<MemoryIndex>(ops.storages.size());
  std::set<std::string> names;
  for (std::size_t r = 0; r < step.captured.regions.size(); ++r) {
    const Region& region = step.captured.regions[r];
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
    if (plan.cuda_graph == CudaGraphPolicy::Trees) plan.copied_inputs = moving_inputs(ops, step, r);
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
