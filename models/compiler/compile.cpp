// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/compile.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/compiler/compile_time.hpp"
#include "models/compiler/cuda_graph_rules.hpp"
#include "models/compiler/legality.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/memory_order.hpp"
#include "models/compiler/step_memory.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

/// Products of so few rows are compiled where templates are tried: the library's kernels do not win there by
/// more than an epilogue costs. On an H200 all five products of 16 rows became templates, of 4096 rows one of
/// seven (validation/h200/compiled_steps.csv).
constexpr std::int64_t template_rows_max = 64;

LowerOptions lower_options(const CompileOptions& options) {
  LowerOptions lower;
  lower.library_norms = options.mode.fusion.library_norms;
  lower.unfuse_bias = !options.mode.products.bias;
  lower.padding = options.mode.products.padding;
  lower.realize_all = !options.mode.fusion.pointwise || options.groups.has_value();
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

/// The groups that a user asked for, by op. Throws CompileError for names that are none of an op and for
/// groups that cannot be one kernel.
std::vector<std::int32_t> groups_by_op(const OpGraph& graph, const CompileOptions& options) {
  std::map<std::string_view, OpIndex> by_name;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) by_name.emplace(graph.ops[i].name, i);
  const FusionLegality legality(graph, options.backend, options.mode);
  std::vector<std::int32_t> group_of(graph.ops.size(), -1);
  for (std::size_t g = 0; g < options.groups->size(); ++g) {
    std::vector<OpIndex> ops;
    for (const std::string& name : (*options.groups)[g]) {
      const auto op = by_name.find(name);
      if (op == by_name.end())
        throw CompileError("a group of 'fusion' names '" + name + "', which is no op of the step",
                           "gpusim explain lists the ops of each kernel by name");
      if (group_of[op->second] >= 0)
        throw CompileError("'" + name + "' is in two groups of 'fusion'", "each op runs in one kernel");
      group_of[op->second] = static_cast<std::int32_t>(g);
      ops.push_back(op->second);
    }
    std::sort(ops.begin(), ops.end());
    if (const auto refusal = legality.refusal(ops))
      throw CompileError("these ops cannot be one kernel: " + *refusal,
                         "split the group there, or choose a backend that allows it");
  }
  return group_of;
}

/// `timed`: only where a template wins against the library's kernel; else the compiler makes all products.
void mark_templates(LoopGraph& loops, bool timed) {
  for (Loop& loop : loops.loops) {
    if (!loop.product) continue;
    for (const EagerCall& call : loop.calls)
      for (const KernelWork& work : call.work)
        if (const auto* product = std::get_if<MatrixProduct>(&work))
          loop.templated =
              loop.templated || (product->batch == 1 && (!timed || product->m <= template_rows_max));
  }
}

/// Runs products in another number format: at its rate, and reading operands of its width. Whoever makes an
/// operand writes it that way; what no generated kernel makes takes a kernel that converts it.
void change_precision(const OpGraph& graph, RegionPlan& plan, ElementType precision,
                      std::map<StorageIndex, Bytes>& narrowed) {
  const auto dtype = product_dtype(precision, false);
  if (!dtype) return;
  std::set<BufferIndex> converted;
  std::vector<CompiledKernel> kernels;
  for (CompiledKernel& kernel : plan.kernels) {
    bool changed = false;
    for (KernelWork& work : kernel.work) {
      if (auto* product = std::get_if<MatrixProduct>(&work); product != nullptr && product->batch == 1) {
        product->dtype = *dtype;
        changed = true;
      } else if (auto* groups = std::get_if<GroupedProduct>(&work)) {
        groups->dtype = *dtype;
        changed = true;
      }
    }
    if (changed)
      for (KernelTouch& touch : kernel.reads) {
        const Buffer& buffer = plan.loops.buffers[touch.buffer];
        const std::int64_t elements = touch.bytes.value() / size_of(buffer.element);
        touch.bytes = Bytes(elements * size_of(precision));
        if (buffer.producer == loop_none && graph.storages[buffer.storage].role == Role::Parameter)
          narrowed[buffer.storage] = Bytes(buffer.elements * size_of(precision));
        if (buffer.producer == loop_none || plan.loops.loops[buffer.producer].kind != LoopKind::Library ||
            !converted.insert(touch.buffer).second)
          continue;
        CompiledKernel convert;
        convert.name = "convert_to_" + std::string(name(precision));
        convert.op = kernel.op;
        convert.ops = {kernel.op};
        const Bytes read(elements * size_of(buffer.element));
        convert.work.push_back(InductorPointwise{.elements = elements, .read = read, .written = touch.bytes});
        convert.reads.push_back({touch.buffer, read});
        convert.writes.push_back({touch.buffer, touch.bytes});
        kernels.push_back(std::move(convert));
      }
    kernels.push_back(std::move(kernel));
  }
  plan.kernels = std::move(kernels);
}

/// Puts a plan's kernels into the order in which they need least memory (memory_order.hpp). What a backward
/// pass is given of its forward pass goes away behind its last reader; what a forward pass is given stays
/// with its caller.
void order_kernels(const OpGraph& graph, const Region& region, const LoopGraph& loops, FusionPlan& plan) {
  const bool backward = graph.ops[region.first].phase == Phase::Backward;
  std::vector<MemoryBuffer> buffers;
  for (const Buffer& buffer : loops.buffers) {
    const bool given = buffer.producer == loop_none;
    const Role role = given ? graph.storages[buffer.storage].role : Role::Activation;
    buffers.push_back({.bytes = buffer.bytes().value(),
                       .given = given,
                       .freeable = given && backward && role == Role::Activation,
                       .needed = buffer.needed});
  }
  std::vector<std::size_t> group_of(loops.loops.size(), 0);
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    for (const LoopIndex loop : plan.groups[g].loops) group_of[loop] = g;
  std::vector<std::uint8_t> leaves(loops.buffers.size(), 0);  // Its kernel, or is there before.
  for (std::size_t b = 0; b < buffers.size(); ++b) leaves[b] = buffers[b].given || buffers[b].needed;
  for (LoopIndex l = 0; l < loops.loops.size(); ++l)
    for (const Touch& touch : loops.loops[l].reads) {
      const LoopIndex maker = loops.buffers[touch.buffer].producer;
      if (maker != loop_none && group_of[maker] != group_of[l]) leaves[touch.buffer] = 1;
    }
  std::vector<MemoryStep> steps(plan.groups.size());
  const auto note = [&](std::vector<std::uint32_t>& list, BufferIndex buffer) {
    if (leaves[buffer] != 0 && std::find(list.begin(), list.end(), buffer) == list.end())
      list.push_back(buffer);
  };
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    for (const LoopIndex l : plan.groups[g].loops) {
      for (const Touch& touch : loops.loops[l].reads) {
        const LoopIndex maker = loops.buffers[touch.buffer].producer;
        if (maker == loop_none || group_of[maker] != g) note(steps[g].reads, touch.buffer);
      }
      for (const Touch& touch : loops.loops[l].writes) note(steps[g].writes, touch.buffer);
    }
  FusionPlan ordered;
  for (const std::uint32_t g : order_for_memory(steps, buffers))
    ordered.groups.push_back(std::move(plan.groups[g]));
  plan = std::move(ordered);
}

/// Captures the step, and runs the passes over its graph. Capturing costs by what is captured, not by what is
/// left of it.
CompileCounts capture(CompiledStep& step, std::shared_ptr<const OpGraph> graph, const CompileOptions& options,
                      const GpuSpec& gpu) {
  const bool compiles = options.backend.capture != CaptureKind::None;
  if (compiles && trains(*graph)) {
    TrainingRegions training = training_regions(*graph, options, gpu);
    const CompileCounts counts = compile_counts(*graph, training.captured);
    step.captured = std::move(training.captured);
    step.captured.regions = std::move(training.regions);
    step.graph = std::make_shared<const OpGraph>(std::move(training.graph));
    step.passes = std::move(training.passes);
    step.recompute = std::move(training.recompute);
    return counts;
  }
  step.captured = capture_regions(*graph, options);
  const CompileCounts counts = compile_counts(*graph, step.captured);
  if (!compiles) {
    step.graph = std::move(graph);
    return counts;
  }
  Simplified simplified = simplify(*graph, options.mode.simplify, {.regions = step.captured.regions});
  step.graph = std::make_shared<const OpGraph>(std::move(simplified.graph));
  step.captured.regions = std::move(simplified.regions);
  step.passes = std::move(simplified.passes);
  return counts;
}

}  // namespace

CompiledStep compile_step(std::shared_ptr<const OpGraph> graph, const CompileOptions& options,
                          const GpuSpec& gpu) {
  CompiledStep step;
  const bool compiles = options.backend.capture != CaptureKind::None;
  CompileCounts counts = capture(step, std::move(graph), options, gpu);
  const OpGraph& ops = *step.graph;
  const std::vector<std::int64_t> offsets = view_offsets(ops);
  const LowerOptions lowering = lower_options(options);
  const std::vector<std::int32_t> group_of =
      compiles && options.groups ? groups_by_op(ops, options) : std::vector<std::int32_t>();
  auto next = static_cast<MemoryIndex>(ops.storages.size());
  std::set<std::string> names;
  for (std::size_t r = 0; r < step.captured.regions.size(); ++r) {
    const Region& region = step.captured.regions[r];
    RegionPlan& plan = step.regions.emplace_back();
    plan.region = region;
    if (!region.compiled) continue;
    plan.loops = lower(ops, gpu, region.first, region.last, offsets, lowering);
    const ProductRules& products = options.mode.products;
    if (products.templates || products.epilogue || products.activation)
      mark_templates(plan.loops, products.templates);
    if (!group_of.empty())
      plan.plan = grouped(plan.loops, group_of);
    else if (lowering.realize_all)
      plan.plan = grouped(plan.loops, std::vector<std::int32_t>(ops.ops.size(), -1));
    else
      plan.plan = plan_fusion(plan.loops, options.mode.fusion);
    order_kernels(ops, region, plan.loops, plan.plan);
    plan.kernels = kernels_of(ops, plan.loops, plan.plan, options.backend);
    if (!products.templates)
      for (CompiledKernel& kernel : plan.kernels) kernel.slower = 1;  // built in by a library's compiler
    // 16 bits and more are the network's own dtype then; see SizedWorkload.
    if (options.precision && size_of(*options.precision) == 1)
      change_precision(ops, plan, *options.precision, step.narrowed);
    plan.memory.reserve(plan.loops.buffers.size());
    for (const Buffer& buffer : plan.loops.buffers)
      plan.memory.push_back(buffer.storage != graph_none ? buffer.storage : next++);
    for (const CompiledKernel& kernel : plan.kernels) {
      if (kernel.what != KernelClass::Generated && kernel.what != KernelClass::Template) continue;
      ++step.kernels;
      names.insert(kernel.name + '@' + std::to_string(region.same_graph));
    }
    plan.cuda_graph = options.mode.cuda_graphs;
    if (plan.cuda_graph == CudaGraphPolicy::None) continue;
    if (const auto refusal = capture_refusal(capture_facts(ops, region.first, region.last))) {
      plan.cuda_graph = CudaGraphPolicy::None;
      plan.not_captured = *refusal;
    } else if (plan.cuda_graph == CudaGraphPolicy::Trees) {
      plan.copied_inputs = moving_inputs(ops, step, r);
    }
  }
  step.distinct_kernels = static_cast<std::int64_t>(names.size());
  counts.kernels = step.distinct_kernels;
  step.products = counts.products;
  if (compiles) step.compile_time = compile_time(options.mode.compile, counts, options.warm_cache);
  step.memory = step_memory(step, next, gpu);
  return step;
}

}  // namespace gpusim
