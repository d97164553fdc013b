// SPDX-License-Identifier: Apache-2.0
// What must hold for any op graph, and whether two of them are the same.
#pragma once

#include <set>
#include <string>

#include "models/graph/like_index.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim::test {

/// Empty if the graph keeps all rules of OpGraph: names are unique, ops stand behind what they read, their
/// outputs are what their kind makes of their inputs, storages are shared by views alone, `like` is right.
inline std::string fault_of(const OpGraph& graph) {
  std::set<std::string> names;
  std::set<StorageIndex> made;
  LikeIndex likes;
  std::vector<bool> there(graph.tensors.size(), false);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const GraphTensor& tensor = graph.tensors[t];
    if (tensor.storage >= graph.storages.size()) return tensor.name + ": no storage";
    there[t] = tensor.producer == graph_none;
    if (there[t]) made.insert(tensor.storage);
    if (there[t] && tensor.role == Role::Activation) return tensor.name + ": nobody makes it";
    if (tensor.role != graph.storages[tensor.storage].role)
      return tensor.name + ": another role than its storage";
    if (tensor.named_until != graph_none && tensor.named_until >= graph.ops.size())
      return tensor.name + ": named beyond the end";
  }
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!names.insert(op.name).second) return op.name + ": name given twice";
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && !there[t]) return op.name + ": reads " + graph.tensors[t].name + " too early";
    const Seen seen(graph, op);
    const std::vector<MadeTensor> wanted = op.kind->infer({seen.in, op.attributes, {}});
    if (wanted.size() != op.outputs.size()) return op.name + ": wrong number of outputs";
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const GraphTensor& out = graph.tensors[op.outputs[k]];
      if (out.producer != i) return out.name + ": wrong producer";
      if (!(out.type == wanted[k].type)) return out.name + ": another type than its op makes";
      there[op.outputs[k]] = true;
      if (wanted[k].view_of >= 0) {
        const TensorIndex base = op.inputs[static_cast<std::size_t>(wanted[k].view_of)];
        if (out.storage != graph.tensors[base].storage) return out.name + ": a view of other memory";
      } else {
        if (!made.insert(out.storage).second) return out.name + ": memory of another tensor";
        if (graph.storages[out.storage].bytes != dense_bytes(out.type)) return out.name + ": wrong size";
      }
    }
    if (op.like != likes.first_like(graph, op, i)) return op.name + ": costs the same as another op";
  }
  for (const TensorIndex t : graph.outputs)
    if (!there[t]) return graph.tensors[t].name + ": given but not made";
  return "";
}

/// Empty if both are the same, places in the text apart.
inline std::string difference(const OpGraph& a, const OpGraph& b) {
  if (a.ops.size() != b.ops.size()) return "number of ops";
  if (a.tensors.size() != b.tensors.size()) return "number of tensors";
  for (std::size_t t = 0; t < a.tensors.size(); ++t)
    if (!(a.tensors[t] == b.tensors[t])) return "tensor " + a.tensors[t].name + " or " + b.tensors[t].name;
  if (!(a.storages == b.storages)) return "storages";
  if (a.outputs != b.outputs) return "outputs";
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op& x = a.ops[i];
    const Op& y = b.ops[i];
    if (x.kind != y.kind || x.name != y.name || x.inputs != y.inputs || x.outputs != y.outputs ||
        !(x.attributes == y.attributes) || x.module_calls != y.module_calls || x.like != y.like)
      return x.name;
  }
  return "";
}

/// What the kernels of eager PyTorch move, nothing cached. Not counted are the copies that norms and softmax
/// make of rows with gaps between them: kernels that a compiler writes read such rows as they lie.
inline double eager_traffic(const OpGraph& graph, const GpuSpec& gpu) {
  double sum = 0;
  for (const Op& op : graph.ops) {
    const bool rows =
        op.kind->name == "layer_norm" || op.kind->name == "rms_norm" || op.kind->name == "softmax";
    for (const EagerCall& call : op.kind->eager(Seen(graph, op).view(), gpu))
      for (std::size_t k = rows ? call.work.size() - 1 : 0; k < call.work.size(); ++k)
        for (const GpuOpEstimate& one : gpu_ops(call.work[k], gpu))
          sum += static_cast<double>(one.cost.hbm_bytes.value());
  }
  return sum;
}

}  // namespace gpusim::test
