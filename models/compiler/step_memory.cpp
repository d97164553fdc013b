// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/step_memory.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/graph/caching_allocator.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/memory.hpp"

namespace gpusim {
namespace {

constexpr std::size_t never = static_cast<std::size_t>(-1);

/// What runs between two moments at which memory is taken or given back.
struct Item {
  std::vector<MemoryIndex> reads;
  std::vector<MemoryIndex> writes;
  Bytes workspace{0};
  Phase phase = Phase::Forward;
  bool recomputed = false;
  bool product = false;
  bool in_place = false;     ///< May write over what it reads last.
  bool pooled = false;       ///< Runs in a CUDA graph tree.
  bool accumulates = false;  ///< Op::accumulates: reads[0] += reads[1].
  std::string_view name;
};

class StepMemory {
 public:
  StepMemory(const CompiledStep& step, MemoryIndex count, const GpuSpec& gpu,
             std::vector<MemoryShares>* curve)
      : step_(step),
        graph_(*step.graph),
        gpu_(gpu),
        curve_(curve),
        sizes_(count, Bytes(0)),
        kinds_(memory_kinds(graph_)),
        places_(count) {
    use_.addresses.assign(count, -1);
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) sizes_[s] = graph_.storages[s].bytes;
    for (const auto& [storage, bytes] : step.narrowed) sizes_[storage] = bytes;
    kinds_.resize(count, MemoryKind::Activations);
  }

  CompiledMemory run(std::int64_t accumulation) {
    list_items();
    find_lifetimes();
    take_residents();
    std::size_t passes_end = 0;  // Of what runs once for each micro-batch.
    std::size_t forward_end = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].phase != Phase::Optimizer) passes_end = i + 1;
      if (items_[i].phase == Phase::Forward) forward_end = i + 1;
    }
    // From the second micro-batch on, one is like the other.
    const std::int64_t passes = std::min<std::int64_t>(accumulation, 2);
    for (std::int64_t pass = 0; pass < passes; ++pass)
      for (std::size_t i = 0; i < (pass + 1 < passes ? passes_end : items_.size()); ++i) {
        run(i, pass);
        if (i + 1 == forward_end) use_.saved = std::max(use_.saved, now_[MemoryKind::Activations]);
      }
    return std::move(use_);
  }

 private:
  void list_items() {
    for (const RegionPlan& plan : step_.regions) {
      if (!plan.region.compiled) {
        for (OpIndex i = plan.region.first; i < plan.region.last; ++i) list(graph_.ops[i]);
        continue;
      }
      list(plan);
    }
  }

  void list(const Op& op) {
    Item& item = items_.emplace_back();
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) item.reads.push_back(graph_.tensors[t].storage);
    for (const TensorIndex t : op.outputs) item.writes.push_back(graph_.tensors[t].storage);
    item.workspace = workspace(op);
    item.phase = op.phase;
    item.product = op.kind->fusion == FusionClass::Product;
    item.accumulates = op.accumulates;
    item.name = op.name;
  }

  /// What an op that runs by itself takes while it runs.
  Bytes workspace(const Op& op) {
    if (workspaces_.empty()) workspaces_.resize(graph_.ops.size());
    std::optional<Bytes>& known = workspaces_[op.like];
    if (known) return *known;
    known = Bytes(0);
    const OpTypes types(graph_, op);
    for (const EagerCall& call : op.kind->eager(types.view(op), gpu_))
      known = std::max(*known, call.workspace);
    return *known;
  }

  void list(const RegionPlan& plan) {
    for (std::size_t b = 0; b < plan.memory.size(); ++b)
      if (step_.narrowed.count(plan.memory[b]) == 0)
        sizes_[plan.memory[b]] = std::max(sizes_[plan.memory[b]], plan.loops.buffers[b].bytes());
    for (const CompiledKernel& kernel : plan.kernels) {
      Item& item = items_.emplace_back();
      for (const KernelTouch& touch : kernel.reads) item.reads.push_back(plan.memory[touch.buffer]);
      for (const KernelTouch& touch : kernel.writes) item.writes.push_back(plan.memory[touch.buffer]);
      item.workspace = kernel.workspace;
      item.in_place = kernel.what == KernelClass::Generated;
      item.product = kernel.what == KernelClass::Product;
      item.pooled = plan.cuda_graph == CudaGraphPolicy::Trees;
      if (kernel.op != graph_none) item.phase = graph_.ops[kernel.op].phase;
      item.name = kernel.name;
      for (const KernelTouch& touch : kernel.writes) {
        const MemoryIndex m = plan.memory[touch.buffer];
        if (m < graph_.storages.size() || item.phase != Phase::Backward) continue;
        const LoopIndex maker = plan.loops.buffers[touch.buffer].producer;
        const bool again = maker != loop_none && graph_.ops[plan.loops.loops[maker].op].recomputed;
        if (!again) kinds_[m] = MemoryKind::ActivationGradients;
      }
    }
  }

  void find_lifetimes() {
    last_.assign(sizes_.size(), never);
    for (std::size_t i = 0; i < items_.size(); ++i)
      for (const std::vector<MemoryIndex>* list : {&items_[i].reads, &items_[i].writes})
        for (const MemoryIndex m : *list) last_[m] = i;
    // What the step gives, and gradients, are given back by whoever runs the next one.
    for (const TensorIndex t : graph_.outputs) last_[graph_.tensors[t].storage] = items_.size();
    written_twice_.assign(sizes_.size(), false);
    std::vector<bool> written(sizes_.size(), false);
    for (const Item& item : items_)
      for (const MemoryIndex m : item.writes) {
        if (written[m]) written_twice_[m] = true;
        written[m] = true;
      }
    for (std::size_t s = 0; s < graph_.storages.size(); ++s)
      if (graph_.storages[s].role == Role::Gradient) last_[s] = items_.size();
  }

  void take_residents() {
    const std::vector<bool> there = there_before(graph_);
    for (std::size_t s = 0; s < there.size(); ++s) {
      if (!there[s]) continue;
      take(static_cast<MemoryIndex>(s), false);
      places_[s].resident = true;
    }
    bool product = false;
    bool product_in_backward = false;  // Runs on a thread of its own.
    bool pooled = true;
    for (const Item& item : items_)
      if (item.product) {
        (item.phase == Phase::Backward ? product_in_backward : product) = true;
        pooled = pooled && item.pooled;
      }
    for (int i = 0; i < int{product} + int{product_in_backward}; ++i) {
      allocator_.allocate(product_workspace);
      const Bytes bytes = count(MemoryKind::Workspace);
      if (pooled) pooled_ += bytes;
    }
    use_.resident = allocator_.in_use();
    use_.peak = use_.resident;
    use_.at_peak = now_;
    use_.pool = pooled_;
    use_.outside_pool = use_.resident - pooled_;
  }

  void run(std::size_t i, std::int64_t pass) {
    const Item& item = items_[i];
    if (item.accumulates && pass == 0) {
      // The first micro-batch's gradient stays as it is.
      if (last_[item.reads[1]] == i)
        pass_on(item.reads[1], item.reads[0]);
      else
        take(item.reads[0], item.pooled);
    } else {
      for (const MemoryIndex m : item.writes)
        if (!places_[m].held && !(item.in_place && reuse(item, i, m))) take(m, item.pooled);
    }
    const bool extra = item.workspace > Bytes(0);
    const CachingAllocator::Block temporary = extra ? allocator_.allocate(item.workspace) : 0;
    const Bytes more = count(MemoryKind::Workspace);
    if (item.pooled) pooled_ += more;
    if (allocator_.in_use() > use_.peak) {
      use_.peak = allocator_.in_use();
      use_.activations = use_.peak - use_.resident;
      use_.at_peak = now_;
      use_.peak_at = item.name;
    }
    use_.pool = std::max(use_.pool, pooled_);
    use_.outside_pool = std::max(use_.outside_pool, allocator_.in_use() - pooled_);
    if (curve_ != nullptr) curve_->push_back(now_);
    if (extra) allocator_.free(temporary);
    now_[MemoryKind::Workspace] -= more;
    counted_ -= more;
    if (item.pooled) pooled_ -= more;
    for (const std::vector<MemoryIndex>* list : {&item.reads, &item.writes})
      for (const MemoryIndex m : *list)
        if (places_[m].held && !places_[m].resident && last_[m] == i) give_back(m);
  }

  /// Writes over an input that nobody reads any more. What a kernel has changed in place, such as zeros to
  /// which a scatter adds, has no name of its own in Inductor and is not taken (scheduler.py,
  /// MutationLayout).
  bool reuse(const Item& item, std::size_t i, MemoryIndex m) {
    for (const MemoryIndex r : item.reads)
      if (places_[r].held && !places_[r].resident && !written_twice_[r] && last_[r] == i &&
          sizes_[r] == sizes_[m]) {
        pass_on(r, m);
        return true;
      }
    return false;
  }

  void pass_on(MemoryIndex from, MemoryIndex to) {
    places_[to] = places_[from];
    places_[from].held = false;
    use_.addresses[to] = use_.addresses[from];
    now_[kinds_[from]] -= places_[to].bytes;
    now_[kinds_[to]] += places_[to].bytes;
  }

  void take(MemoryIndex m, bool pooled) {
    Place& place = places_[m];
    place.block = allocator_.allocate(sizes_[m]);
    place.held = true;
    place.pooled = pooled;
    place.bytes = count(kinds_[m]);
    if (pooled) pooled_ += place.bytes;
    use_.addresses[m] = allocator_.address(place.block);
  }
  void give_back(MemoryIndex m) {
    Place& place = places_[m];
    allocator_.free(place.block);
    place.held = false;
    now_[kinds_[m]] -= place.bytes;
    counted_ -= place.bytes;
    if (place.pooled) pooled_ -= place.bytes;
  }

  /// What was allocated since the last call.
  Bytes count(MemoryKind kind) {
    const Bytes more = allocator_.in_use() - counted_;
    now_[kind] += more;
    counted_ = allocator_.in_use();
    return more;
  }

  struct Place {
    CachingAllocator::Block block = 0;
    Bytes bytes{0};
    bool held = false;
    bool resident = false;
    bool pooled = false;
  };
  const CompiledStep& step_;
  const OpGraph& graph_;
  const GpuSpec& gpu_;
  std::vector<MemoryShares>* const curve_;
  std::vector<Item> items_;
  std::vector<std::optional<Bytes>> workspaces_;  ///< By Op::like, once one was asked for.
  std::vector<Bytes> sizes_;  ///< By memory, as the next three.
  std::vector<MemoryKind> kinds_;
  std::vector<Place> places_;
  std::vector<std::size_t> last_;  ///< Item that touches it last.
  std::vector<bool> written_twice_;
  CachingAllocator allocator_;
  MemoryShares now_;
  Bytes counted_{0};
  Bytes pooled_{0};
  CompiledMemory use_;
};

}  // namespace

CompiledMemory step_memory(const CompiledStep& step, MemoryIndex count, const GpuSpec& gpu,
                           std::int64_t accumulation, std::vector<MemoryShares>* curve) {
  return StepMemory(step, count, gpu, curve).run(accumulation);
}

}  // namespace gpusim
