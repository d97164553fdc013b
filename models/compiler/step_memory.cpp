// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/step_memory.hpp"

#include <algorithm>
#include <utility>

#include "models/graph/caching_allocator.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/memory.hpp"

namespace gpusim {
namespace {

/// What runs between two moments at which memory is taken or given back.
struct Item {
  std::vector<MemoryIndex> reads;
  std::vector<MemoryIndex> writes;
  Bytes workspace{0};
  bool in_place = false;  ///< May write over what it reads last.
};

std::vector<Item> items_of(const CompiledStep& step, const GpuSpec& gpu, std::vector<Bytes>& sizes,
                           bool& has_product) {
  const OpGraph& graph = *step.graph;
  std::vector<Item> items;
  for (const RegionPlan& plan : step.regions) {
    if (!plan.region.compiled) {
      for (OpIndex i = plan.region.first; i < plan.region.last; ++i) {
        const Op& op = graph.ops[i];
        Item& item = items.emplace_back();
        for (const TensorIndex t : op.inputs)
          if (t != graph_none) item.reads.push_back(graph.tensors[t].storage);
        for (const TensorIndex t : op.outputs) item.writes.push_back(graph.tensors[t].storage);
        const OpTypes types(graph, op);
        for (const EagerCall& call : op.kind->eager(types.view(op), gpu))
          item.workspace = std::max(item.workspace, call.workspace);
        has_product = has_product || op.kind->fusion == FusionClass::Product;
      }
      continue;
    }
    for (std::size_t b = 0; b < plan.memory.size(); ++b)
      if (step.narrowed.count(plan.memory[b]) == 0)
        sizes[plan.memory[b]] = std::max(sizes[plan.memory[b]], plan.loops.buffers[b].bytes());
    for (const CompiledKernel& kernel : plan.kernels) {
      Item& item = items.emplace_back();
      for (const KernelTouch& touch : kernel.reads) item.reads.push_back(plan.memory[touch.buffer]);
      for (const KernelTouch& touch : kernel.writes) item.writes.push_back(plan.memory[touch.buffer]);
      item.workspace = kernel.workspace;
      item.in_place = kernel.what == KernelClass::Generated;
      has_product = has_product || kernel.what == KernelClass::Product;
    }
  }
  return items;
}

}  // namespace

CompiledMemory step_memory(const CompiledStep& step, MemoryIndex count, const GpuSpec& gpu) {
  const OpGraph& graph = *step.graph;
  CompiledMemory use;
  use.addresses.assign(count, -1);
  std::vector<Bytes> sizes(count, Bytes(0));
  for (std::size_t s = 0; s < graph.storages.size(); ++s) sizes[s] = graph.storages[s].bytes;
  for (const auto& [storage, bytes] : step.narrowed) sizes[storage] = bytes;
  bool has_product = false;
  const std::vector<Item> items = items_of(step, gpu, sizes, has_product);
  constexpr std::size_t never = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last(count, never);
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const MemoryIndex m : items[i].reads) last[m] = i;
    for (const MemoryIndex m : items[i].writes) last[m] = i;
  }
  for (const TensorIndex t : graph.outputs) last[graph.tensors[t].storage] = items.size();

  CachingAllocator allocator;
  std::vector<CachingAllocator::Block> block(count, 0);
  std::vector<std::uint8_t> held(count, 0);
  const auto take = [&](MemoryIndex m) {
    block[m] = allocator.allocate(sizes[m]);
    use.addresses[m] = allocator.address(block[m]);
    held[m] = 1;
  };
  std::vector<std::uint8_t> resident(count, 0);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const Role role = graph.storages[s].role;
    if (role == Role::Activation || role == Role::Gradient) continue;
    take(static_cast<MemoryIndex>(s));
    resident[s] = 1;
  }
  if (has_product) allocator.allocate(product_workspace);
  use.resident = allocator.in_use();
  use.peak = use.resident;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    for (const MemoryIndex m : item.writes) {
      if (held[m] != 0) continue;
      bool reused = false;
      if (item.in_place)
        for (const MemoryIndex r : item.reads)
          if (held[r] != 0 && resident[r] == 0 && last[r] == i && sizes[r] == sizes[m]) {
            block[m] = block[r];
            use.addresses[m] = use.addresses[r];
            held[m] = 1;
            held[r] = 0;
            reused = true;
            break;
          }
      if (!reused) take(m);
    }
    const bool extra = item.workspace > Bytes(0);
    const CachingAllocator::Block temporary = extra ? allocator.allocate(item.workspace) : 0;
    if (allocator.in_use() > use.peak) {
      use.peak = allocator.in_use();
      use.activations = use.peak - use.resident;
    }
    if (extra) allocator.free(temporary);
    for (const std::vector<MemoryIndex>* list : {&item.reads, &item.writes})
      for (const MemoryIndex m : *list)
        if (held[m] != 0 && resident[m] == 0 && last[m] == i) {
          allocator.free(block[m]);
          held[m] = 0;
        }
  }
  return use;
}

}  // namespace gpusim
