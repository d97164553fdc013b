// SPDX-License-Identifier: Apache-2.0
#include "models/graph/memory.hpp"

#include <algorithm>
#include <vector>

#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

Bytes rounded(Bytes bytes) {
  const std::int64_t units = (bytes.value() + allocation_granularity - 1) / allocation_granularity;
  return Bytes(units * allocation_granularity);
}

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
    has_product = has_product || graph.ops[i].kind->fusion == FusionClass::Product;
    for (const TensorIndex t : graph.ops[i].inputs)
      if (t != graph_none)
        last[graph.tensors[t].storage] = std::max(last[graph.tensors[t].storage], static_cast<OpIndex>(i));
  }
  for (const TensorIndex t : graph.outputs)
    last[graph.tensors[t].storage] = static_cast<OpIndex>(graph.ops.size());
  // A storage that views or writes of parameters touch is there anyway.
  std::vector<std::vector<StorageIndex>> born(graph.ops.size());
  std::vector<std::vector<StorageIndex>> freed(graph.ops.size() + 1);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const Bytes bytes = rounded(graph.storages[s].bytes);
    switch (graph.storages[s].role) {
      case Role::Parameter:
        use.parameters += bytes;
        continue;
      case Role::Buffer:
        use.buffers += bytes;
        continue;
      case Role::State:
        use.states += bytes;
        continue;
      case Role::Input:
        use.inputs += bytes;
        continue;
      case Role::Activation:
      case Role::Gradient:
        break;
    }
    if (made[s] == graph_none) continue;
    born[made[s]].push_back(static_cast<StorageIndex>(s));
    freed[std::min<std::size_t>(last[s], graph.ops.size())].push_back(static_cast<StorageIndex>(s));
  }
  if (has_product) use.workspace = product_workspace;
  const Bytes resident = use.parameters + use.buffers + use.states + use.inputs + use.workspace;
  use.peak = resident;
  std::vector<Bytes> workspace(graph.ops.size(), Bytes(0));
  Bytes alive{0};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.like == i) {
      const OpTypes types(graph, op);
      for (const EagerCall& call : op.kind->eager(types.view(op), gpu))
        workspace[i] = std::max(workspace[i], call.workspace);
    } else {
      workspace[i] = workspace[op.like];
    }
    for (const StorageIndex s : born[i]) alive += rounded(graph.storages[s].bytes);
    if (resident + alive + workspace[i] > use.peak) {
      use.peak = resident + alive + workspace[i];
      use.activations = alive + workspace[i];
      use.peak_op = static_cast<OpIndex>(i);
    }
    for (const StorageIndex s : freed[i]) alive -= rounded(graph.storages[s].bytes);
  }
  return use;
}

}  // namespace gpusim
