// SPDX-License-Identifier: Apache-2.0
#include "models/graph/memory.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "models/graph/caching_allocator.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Parameters:
      return "parameters";
    case MemoryKind::Buffers:
      return "buffers";
    case MemoryKind::States:
      return "states";
    case MemoryKind::Inputs:
      return "inputs";
    case MemoryKind::Gradients:
      return "gradients";
    case MemoryKind::OptimizerStates:
      return "optimizer_states";
    case MemoryKind::Activations:
      return "activations";
    case MemoryKind::ActivationGradients:
      return "activation_gradients";
    case MemoryKind::Workspace:
      return "workspace";
  }
  return "?";
}

Bytes MemoryShares::total() const {
  Bytes sum{0};
  for (const Bytes bytes : bytes_) sum += bytes;
  return sum;
}

bool uses_product_workspace(const Op& op) {
  const std::string_view kind = op.kind->name;
  return kind == "linear" || kind == "matmul" || kind == "addmm";
}

std::vector<MemoryKind> memory_kinds(const OpGraph& graph) {
  std::vector<MemoryKind> kinds(graph.storages.size(), MemoryKind::Activations);
  for (std::size_t s = 0; s < kinds.size(); ++s) {
    switch (graph.storages[s].role) {
      case Role::Parameter:
        kinds[s] = MemoryKind::Parameters;
        break;
      case Role::Buffer:
        kinds[s] = MemoryKind::Buffers;
        break;
      case Role::State:
        kinds[s] = MemoryKind::States;
        break;
      case Role::Input:
        kinds[s] = MemoryKind::Inputs;
        break;
      case Role::Gradient:
        kinds[s] = MemoryKind::Gradients;
        break;
      case Role::Activation:
        break;
    }
  }
  for (const Op& op : graph.ops) {
    if (op.phase == Phase::Optimizer)
      for (const TensorIndex t : op.inputs)
        if (t != graph_none && graph.storages[graph.tensors[t].storage].role == Role::State)
          kinds[graph.tensors[t].storage] = MemoryKind::OptimizerStates;
    if (op.phase == Phase::Forward || op.recomputed) continue;
    for (const TensorIndex t : op.outputs) {
      // The first op that writes to the memory made it.
      const GraphTensor& tensor = graph.tensors[t];
      const bool view = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex in) {
        return in != graph_none && graph.tensors[in].storage == tensor.storage;
      });
      if (!view && kinds[tensor.storage] == MemoryKind::Activations)
        kinds[tensor.storage] = MemoryKind::ActivationGradients;
    }
  }
  return kinds;
}

std::vector<bool> there_before(const OpGraph& graph) {
  std::vector<bool> there(graph.storages.size(), false);
  for (std::size_t s = 0; s < there.size(); ++s) {
    const Role role = graph.storages[s].role;
    there[s] = role != Role::Activation && role != Role::Gradient;
  }
  for (const GraphTensor& tensor : graph.tensors)
    if (tensor.role == Role::Gradient && tensor.producer == graph_none) there[tensor.storage] = true;
  // The first micro-batch's gradient is left there; before it there is none.
  for (const Op& op : graph.ops)
    if (op.accumulates) there[graph.tensors[op.inputs[0]].storage] = false;
  return there;
}

namespace {

/// Storages by the op at which something happens to them, each op's in ascending order.
class ByOp {
 public:
  ByOp(const std::vector<OpIndex>& op_of, std::size_t ops) : begin_(ops + 2, 0) {
    for (const OpIndex op : op_of)
      if (op != graph_none) ++begin_[op + 2];
    for (std::size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    storages_.resize(begin_.back());
    for (std::size_t s = 0; s < op_of.size(); ++s)
      if (op_of[s] != graph_none) storages_[begin_[op_of[s] + 1]++] = static_cast<StorageIndex>(s);
  }
  std::span<const StorageIndex> at(std::size_t op) const {
    return std::span(storages_).subspan(begin_[op], begin_[op + 1] - begin_[op]);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<StorageIndex> storages_;
};

class StepMemory {
 public:
  StepMemory(const OpGraph& graph, const GpuSpec& gpu, std::vector<MemoryPoint>* curve)
      : graph_(graph), gpu_(gpu), curve_(curve), kinds_(memory_kinds(graph)), blocks_(graph.storages.size()) {
    use_.addresses.assign(graph.storages.size(), -1);
  }

  MemoryUse run(std::int64_t accumulation) {
    find_lifetimes();
    take_residents();
    // What the step gives is given back after its last op, by whoever asked for it.
    const ByOp born(made_, graph_.ops.size());
    const ByOp freed(last_, graph_.ops.size() + 1);
    std::vector<Bytes> workspace(graph_.ops.size(), Bytes(0));
    OpIndex passes_end = 0;  // Of what runs once for each micro-batch.
    OpIndex forward_end = 0;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (op.phase != Phase::Optimizer) passes_end = static_cast<OpIndex>(i + 1);
      if (op.phase == Phase::Forward) forward_end = static_cast<OpIndex>(i + 1);
      if (op.like != i) {
        workspace[i] = workspace[op.like];
        continue;
      }
      const OpTypes types(graph_, op);
      for (const EagerCall& call : op.kind->eager(types.view(op), gpu_))
        workspace[i] = std::max(workspace[i], call.workspace);
    }
    // From the second micro-batch on, one is like the other.
    const std::int64_t passes = std::min<std::int64_t>(accumulation, 2);
    for (std::int64_t pass = 0; pass < passes; ++pass)
      for (OpIndex i = 0; i < (pass + 1 < passes ? passes_end : graph_.ops.size()); ++i) {
        run(i, pass, born.at(i), freed.at(i), workspace[i]);
        if (i + 1 == forward_end) use_.saved = std::max(use_.saved, now_[MemoryKind::Activations]);
      }
    use_.reserved = allocator_.reserved();
    return std::move(use_);
  }

 private:
  /// When each storage is made, and after which op it is given back.
  void find_lifetimes() {
    made_.assign(graph_.storages.size(), graph_none);
    last_.assign(graph_.storages.size(), 0);
    for (const GraphTensor& tensor : graph_.tensors) {
      if (tensor.producer == graph_none) continue;
      made_[tensor.storage] = std::min(made_[tensor.storage], tensor.producer);
      last_[tensor.storage] = std::max(last_[tensor.storage], tensor.producer);
      if (tensor.named_until != graph_none)
        last_[tensor.storage] = std::max(last_[tensor.storage], tensor.named_until);
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      for (const TensorIndex t : graph_.ops[i].inputs)
        if (t != graph_none)
          last_[graph_.tensors[t].storage] =
              std::max(last_[graph_.tensors[t].storage], static_cast<OpIndex>(i));
    for (const TensorIndex t : graph_.outputs)
      last_[graph_.tensors[t].storage] = static_cast<OpIndex>(graph_.ops.size());
    accumulates_.assign(graph_.storages.size(), false);
    for (const Op& op : graph_.ops)
      if (op.accumulates) accumulates_[graph_.tensors[op.inputs[0]].storage] = true;
  }

  /// What is neither made nor given back in the step.
  void take_residents() {
    const std::vector<bool> there = there_before(graph_);
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
      if (graph_.storages[s].role == Role::Gradient) {
        // The optimizer reads it, and the next step frees it.
        last_[s] = graph_none;
        // What adds up over micro-batches begins as the first one's.
        if (there[s] || accumulates_[s]) made_[s] = graph_none;
      }
      if (made_[s] == graph_none) last_[s] = graph_none;
      if (!there[s]) continue;
      made_[s] = graph_none;
      last_[s] = graph_none;
      const Bytes bytes = take(static_cast<StorageIndex>(s));
      switch (graph_.storages[s].role) {
        case Role::Parameter:
          use_.parameters += bytes;
          break;
        case Role::Buffer:
          use_.buffers += bytes;
          break;
        case Role::State:
          use_.states += bytes;
          break;
        case Role::Input:
          use_.inputs += bytes;
          break;
        case Role::Gradient:
        case Role::Activation:
          break;
      }
    }
    bool product = false;
    bool product_in_backward = false;  // Runs on a thread of its own.
    for (const Op& op : graph_.ops)
      if (uses_product_workspace(op)) (op.phase == Phase::Backward ? product_in_backward : product) = true;
    for (int i = 0; i < int{product} + int{product_in_backward}; ++i) {
      allocator_.allocate(product_workspace);
      count(MemoryKind::Workspace, use_.workspace);
    }
    resident_ = allocator_.in_use();
    use_.peak = resident_;
    use_.at_peak = now_;
  }

  void run(OpIndex i, std::int64_t pass, std::span<const StorageIndex> born,
           std::span<const StorageIndex> freed, Bytes workspace) {
    const Op& op = graph_.ops[i];
    if (op.accumulates && pass == 0) {
      keep_first_gradient(i);
      if (curve_ != nullptr) curve_->push_back({i, now_});
      for (const StorageIndex s : freed)
        if (s != graph_.tensors[op.inputs[1]].storage) give_back(s);
      return;
    }
    for (const StorageIndex s : born) take(s);
    const CachingAllocator::Block temporary = workspace > Bytes(0) ? allocator_.allocate(workspace) : 0;
    Bytes extra{0};
    count(MemoryKind::Workspace, extra);
    if (allocator_.in_use() > use_.peak) {
      use_.peak = allocator_.in_use();
      use_.activations = use_.peak - resident_;
      use_.at_peak = now_;
      use_.peak_op = i;
    }
    if (curve_ != nullptr) curve_->push_back({i, now_});
    if (workspace > Bytes(0)) {
      allocator_.free(temporary);
      now_[MemoryKind::Workspace] -= extra;
      counted_ -= extra;
    }
    for (const StorageIndex s : freed) give_back(s);
  }

  /// The first micro-batch's gradient stays as it is: its memory becomes that of what the others are added
  /// to, unless somebody else holds it.
  void keep_first_gradient(OpIndex i) {
    const StorageIndex kept = graph_.tensors[graph_.ops[i].inputs[0]].storage;
    const StorageIndex gradient = graph_.tensors[graph_.ops[i].inputs[1]].storage;
    if (last_[gradient] != i) {  // A copy.
      take(kept);
      return;
    }
    blocks_[kept] = blocks_[gradient];
    now_[kinds_[gradient]] -= blocks_[gradient].bytes;
    now_[kinds_[kept]] += blocks_[gradient].bytes;
    use_.addresses[kept] = use_.addresses[gradient];
  }

  /// Adds what was allocated since the last call.
  void count(MemoryKind kind, Bytes& also) {
    const Bytes more = allocator_.in_use() - counted_;
    now_[kind] += more;
    also += more;
    counted_ = allocator_.in_use();
  }

  Bytes take(StorageIndex s) {
    blocks_[s].block = allocator_.allocate(graph_.storages[s].bytes);
    blocks_[s].bytes = Bytes(0);
    count(kinds_[s], blocks_[s].bytes);
    use_.addresses[s] = allocator_.address(blocks_[s].block);
    return blocks_[s].bytes;
  }
  void give_back(StorageIndex s) {
    allocator_.free(blocks_[s].block);
    now_[kinds_[s]] -= blocks_[s].bytes;
    counted_ = allocator_.in_use();
  }

  struct Taken {
    CachingAllocator::Block block = 0;
    Bytes bytes{0};
  };
  const OpGraph& graph_;
  const GpuSpec& gpu_;
  std::vector<MemoryPoint>* const curve_;
  const std::vector<MemoryKind> kinds_;
  std::vector<OpIndex> made_;
  std::vector<OpIndex> last_;
  std::vector<bool> accumulates_;  ///< By storage: gradients of micro-batches are added to it.
  std::vector<Taken> blocks_;      ///< By storage.
  CachingAllocator allocator_;
  MemoryShares now_;
  Bytes counted_{0};
  Bytes resident_{0};
  MemoryUse use_;
};

}  // namespace

MemoryUse eager_memory(const OpGraph& graph, const GpuSpec& gpu, std::int64_t accumulation,
                       std::vector<MemoryPoint>* curve) {
  return StepMemory(graph, gpu, curve).run(accumulation);
}

}  // namespace gpusim
