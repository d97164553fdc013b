// SPDX-License-Identifier: Apache-2.0
// Ops that change nothing: whoever reads their result may as well read what they were given.
#include <string_view>

#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

/// Views that begin elsewhere in the memory of what they look at.
bool moves_offset(const OpKind& kind) {
  const std::string_view name = kind.name;
  return name == "select" || name == "slice" || name == "split" || name == "chunk" || name == "unbind";
}

/// The tensor that the view `out` is in all respects: what it was made of, or what that was made of.
/// Transposes that undo each other end here.
TensorIndex same_view(const OpGraph& graph, const GraphTensor& out, const Op& op) {
  // Longer chains of views are not written by hand.
  constexpr int chain_max = 8;
  const Op* maker = &op;
  for (int i = 0; i < chain_max; ++i) {
    if (maker->inputs.empty() || in_place(*maker->kind)) return graph_none;
    const TensorIndex source = maker->inputs.front();
    const GraphTensor& tensor = graph.tensors[source];
    if (tensor.storage != out.storage) return graph_none;
    if (tensor.type == out.type) return source;
    // What begins elsewhere is another tensor even if its shape and strides come back.
    if (moves_offset(*maker->kind) || tensor.producer == graph_none) return graph_none;
    maker = &graph.ops[tensor.producer];
  }
  return graph_none;
}

/// Ops that copy their first tensor, value by value.
bool copies(const Op& op) {
  const std::string_view name = op.kind->name;
  if (name == "clone") return true;
  if (name == "cat") return op.inputs.size() == 1;
  const auto number = [&](std::string_view attribute, double wanted) {
    const AttributeValue* value = op.attributes.find(attribute);
    const auto* held = value != nullptr ? std::get_if<double>(value) : nullptr;
    return held != nullptr && *held == wanted;
  };
  if (name == "add" || name == "sub") return number("scalar", 0);
  if (name == "mul" || name == "div") return number("scalar", 1);
  return name == "pow" && number("exponent", 1);
}

/// The tensor that the op's only output is the same as; none: it is something of its own.
TensorIndex same_tensor(const GraphEdit& edit, const Op& op) {
  const OpGraph& graph = edit.graph;
  const GraphTensor& out = graph.tensors[op.outputs.front()];
  const TensorIndex source = op.inputs.front();
  const GraphTensor& in = graph.tensors[source];
  if (in.storage == out.storage) return in_place(*op.kind) ? graph_none : same_view(graph, out, op);
  const bool copy = in.type == out.type && copies(op) && may_stand_for(edit, source, op.outputs.front());
  return copy ? source : graph_none;
}

}  // namespace

void remove_dropout(GraphEdit& edit, Simplification& report) {
  OpGraph& graph = edit.graph;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    edit.resolve(op);
    if (op.kind->fusion != FusionClass::Random || !edit.works(i) || op.outputs.size() != 1) continue;
    // Dropout that drops nothing gives what it was given.
    if (graph.tensors[op.outputs[0]].storage != graph.tensors[op.inputs[0]].storage) continue;
    edit.replace(op.outputs[0], op.inputs[0]);
    edit.remove(i, report);
  }
}

void remove_no_ops(GraphEdit& edit, Simplification& report) {
  OpGraph& graph = edit.graph;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    edit.resolve(op);
    // Dropout has a rule of its own.
    if (op.outputs.size() != 1 || op.inputs.empty() || op.inputs[0] == graph_none || !edit.works(i) ||
        op.kind->fusion == FusionClass::Random)
      continue;
    const TensorIndex same = same_tensor(edit, op);
    if (same == graph_none) continue;
    edit.remove(i, report);
    edit.replace(op.outputs[0], same);
  }
}

}  // namespace gpusim
