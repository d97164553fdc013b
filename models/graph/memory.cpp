// SPDX-License-Identifier: Apache-2.0
#include "models/graph/memory.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "models/graph/caching_allocator.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
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

}  // namespace

MemoryUse eager_memory(const OpGraph& graph, const GpuSpec& gpu) {
  MemoryUse use;
  // When each storage is made, and after which op it is given back.
  std::vector<OpIndex> made(graph.storages.size(), graph_none);
  std::vector<OpIndex> last(graph.storages.size(), 0);
  for (const GraphTensor& tensor : graph.tensors) {
    if (tensor.producer == graph_none) continue;
    made[tensor.storage] = std::min(made[tensor.storage], tensor.producer);
    last[tensor.storage] = std::max(last[tensor.storage], tensor.producer);
    if (tensor.named_until != graph_none)
      last[tensor.storage] = std::max(last[tensor.storage], tensor.named_until);
  }
  bool has_product = false;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    has_product = has_product || graph.ops[i].kind->name == "linear" || graph.ops[i].kind->name == "matmul" ||
                  graph.ops[i].kind->name == "addmm";
    for (const TensorIndex t : graph.ops[i].inputs)
      if (t != graph_none)
        last[graph.tensors[t].storage] = std::max(last[graph.tensors[t].storage], static_cast<OpIndex>(i));
  }
  for (const TensorIndex t : graph.outputs)
    last[graph.tensors[t].storage] = static_cast<OpIndex>(graph.ops.size());
  use.addresses.assign(graph.storages.size(), -1);
  CachingAllocator allocator;
  const auto take = [&](Bytes bytes, Bytes& counted) {
    const Bytes before = allocator.in_use();
    const CachingAllocator::Block block = allocator.allocate(bytes);
    counted += allocator.in_use() - before;
    return allocator.address(block);
  };
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const Bytes bytes = graph.storages[s].bytes;
    switch (graph.storages[s].role) {
      case Role::Parameter:
        use.addresses[s] = take(bytes, use.parameters);
        break;
      case Role::Buffer:
        use.addresses[s] = take(bytes, use.buffers);
        break;
      case Role::State:
        use.addresses[s] = take(bytes, use.states);
        break;
      case Role::Input:
        use.addresses[s] = take(bytes, use.inputs);
        break;
      case Role::Activation:
      case Role::Gradient:
        if (made[s] == graph_none) last[s] = graph_none;
        continue;
    }
    // Resident: neither made nor given back in the step.
    made[s] = graph_none;
    last[s] = graph_none;
  }
  // What the step gives is given back after its last op, by whoever asked for it.
  const ByOp born(made, graph.ops.size());
  const ByOp freed(last, graph.ops.size() + 1);
  if (has_product) take(product_workspace, use.workspace);
  const Bytes resident = allocator.in_use();
  use.peak = resident;
  std::vector<Bytes> workspace(graph.ops.size(), Bytes(0));
  std::vector<CachingAllocator::Block> block_of(graph.storages.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.like == i) {
      const OpTypes types(graph, op);
      for (const EagerCall& call : op.kind->eager(types.view(op), gpu))
        workspace[i] = std::max(workspace[i], call.workspace);
    } else {
      workspace[i] = workspace[op.like];
    }
    for (const StorageIndex s : born.at(i)) {
      block_of[s] = allocator.allocate(graph.storages[s].bytes);
      use.addresses[s] = allocator.address(block_of[s]);
    }
    const bool extra = workspace[i] > Bytes(0);
    const CachingAllocator::Block temporary = extra ? allocator.allocate(workspace[i]) : 0;
    if (allocator.in_use() > use.peak) {
      use.peak = allocator.in_use();
      use.activations = use.peak - resident;
      use.peak_op = static_cast<OpIndex>(i);
    }
    if (extra) allocator.free(temporary);
    for (const StorageIndex s : freed.at(i)) allocator.free(block_of[s]);
  }
  use.reserved = allocator.reserved();
  return use;
}

}  // namespace gpusim
