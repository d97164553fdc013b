// SPDX-License-Identifier: Apache-2.0
// Which function lowers an op, what torch calls it, and where views begin.
#include <algorithm>
#include <array>

#include "models/compiler/lowering.hpp"

namespace gpusim {

std::vector<std::int64_t> view_offsets(const OpGraph& graph) {
  std::vector<std::int64_t> offsets(graph.tensors.size(), 0);
  for (const Op& op : graph.ops) {
    if (op.inputs.empty() || op.inputs.front() == graph_none) continue;
    const TensorIndex in = op.inputs.front();
    const GraphTensor& from = graph.tensors[in];
    const std::string_view kind = op.kind->name;
    std::int64_t offset = offsets[in];
    std::int64_t step = 0;  // from one output to the next
    const auto dim = [&](std::string_view name) {
      const std::int64_t d = op.attributes.integer(name);
      return static_cast<int>(d < 0 ? d + from.type.shape.rank() : d);
    };
    if (kind == "select") {
      const int at = dim("dim");
      const std::int64_t index = op.attributes.integer("index");
      offset += (index < 0 ? index + from.type.shape[at] : index) * from.type.strides[at];
    } else if (kind == "slice") {
      const int at = dim("dim");
      const std::int64_t start = op.attributes.integer("start");
      offset +=
          std::clamp<std::int64_t>(start < 0 ? start + from.type.shape[at] : start, 0, from.type.shape[at]) *
          from.type.strides[at];
    } else if (kind == "unbind") {
      step = from.type.strides[dim("dim")];
    }
    for (const TensorIndex out : op.outputs) {
      if (graph.tensors[out].storage != from.storage) continue;
      offsets[out] = offset;
      if (kind == "split" || kind == "chunk") {
        const int at = dim("dim");
        offset += graph.tensors[out].type.shape[at] * from.type.strides[at];
      } else {
        offset += step;
      }
    }
  }
  return offsets;
}

LowerFunction lower_function(const OpKind& kind) {
  // By place in the catalogue. Built once and never changed: the table, not state.
  static const std::vector<LowerFunction> table = [] {
    const std::vector<OpKind>& kinds = op_catalogue();
    std::vector<LowerFunction> functions(kinds.size(), nullptr);
    for (const auto entries :
         {pointwise_lowerings(), reduction_lowerings(), library_lowerings(), backward_lowerings()})
      for (const LowerEntry& entry : entries)
        for (std::size_t k = 0; k < kinds.size(); ++k)
          if (kinds[k].name == entry.kind && functions[k] == nullptr) functions[k] = entry.function;
    return functions;
  }();
  return table[static_cast<std::size_t>(&kind - op_catalogue().data())];
}

namespace {

void add_name(std::vector<std::string_view>& names, std::string_view name) {
  const auto at = std::lower_bound(names.begin(), names.end(), name);
  if (at == names.end() || *at != name) names.insert(at, name);
}

}  // namespace

void Lowering::name(LoopValue& value, std::string_view kind) {
  struct Names {
    std::string_view kind;
    std::array<std::string_view, 2> names;
  };
  // Those that torch's functions have below their own names. All others are called as they are here.
  static constexpr std::array<Names, 28> table{
      {{"to", {"_to_copy"}},
       {"index_put_", {"index_put"}},
       {"index_copy_", {"index_copy"}},
       {"add_", {"add"}},
       {"relu_", {"relu"}},
       {"type_as", {"_to_copy"}},
       {"layer_norm", {"native_layer_norm"}},
       {"rms_norm", {"_fused_rms_norm"}},
       {"softmax", {"_softmax"}},
       {"log_softmax", {"_log_softmax"}},
       {"batch_norm", {"_native_batch_norm_legit_no_training"}},
       {"group_norm", {"native_group_norm"}},
       {"contiguous", {"clone"}},
       {"reshape", {"clone"}},
       {"flatten", {"clone"}},
       {"nll_loss", {"nll_loss_forward"}},
       {"rsub", {"sub"}},
       {"rdiv", {"mul", "reciprocal"}},
       {"square", {"pow"}},
       {"copy_", {"copy", "copy_"}},
       {"split", {"split_with_sizes"}},
       {"dropout", {"native_dropout"}},
       {"addcmul", {"fma"}},
       {"embedding_backward", {"embedding_dense_backward"}},
       {"index_backward", {"index_put"}},
       {"index_select_backward", {"index_put"}},
       {"gather_backward", {"scatter_add"}},
       {"max_pool2d_backward", {"max_pool2d_with_indices_backward"}}}};
  for (const Names& names : table) {
    if (names.kind != kind) continue;
    for (const std::string_view known : names.names)
      if (!known.empty()) add_name(value.aten, known);
    return;
  }
  add_name(value.aten, kind);
}

void Lowering::name(LoopValue& value, const Op& op) {
  if (op.taken_from.empty())
    name(value, op.kind->name);
  else
    add_name(value.aten, op.taken_from);
}

}  // namespace gpusim
