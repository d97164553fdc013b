// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute_nodes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/compiler/graph_edit.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

/// Cheap ops that are not in get_default_op_list() of partitioners.py. Gradients that are added at places
/// become index_put there, which nothing joins: what they read by is kept.
bool is_missing_from_list(std::string_view kind) {
  constexpr std::array<std::string_view, 20> kinds{"adaptive_avg_pool2d",
                                                   "amin",
                                                   "argsort",
                                                   "avg_pool2d",
                                                   "bincount",
                                                   "cumsum",
                                                   "embedding",
                                                   "embedding_backward",
                                                   "empty",
                                                   "gather_backward",
                                                   "histc",
                                                   "index_backward",
                                                   "index_select_backward",
                                                   "max_pool2d",
                                                   "nonzero",
                                                   "one_hot",
                                                   "sort",
                                                   "to_device",
                                                   "to_host",
                                                   "topk"};
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// Expensive ops that its list of expensive ones may lack (RecomputeOptions::attention_is_expensive).
bool may_be_missing_from_expensive(std::string_view kind) {
  return kind.substr(0, 28) == "scaled_dot_product_attention" || kind.substr(0, 10) == "grouped_mm";
}

std::int64_t logical_bytes(const OpGraph& graph, TensorIndex t) {
  const TensorType& type = graph.tensors[t].type;
  return elements(type) * size_of(type.element);
}

class NodeWriter {
 public:
  NodeWriter(const OpGraph& graph, const RecomputeOptions& options) : graph_(graph), options_(options) {
    find_written();
    find_given();
  }

  JointOps write() {
    for (const Op& op : graph_.ops)
      if (op.phase != Phase::Optimizer)
        for (const TensorIndex t : op.inputs)
          if (t != graph_none && graph_.tensors[t].producer == graph_none) add_given(t);
    for (OpIndex i = 0; i < graph_.ops.size(); ++i)
      if (graph_.ops[i].phase != Phase::Optimizer) add_op(i);
    return std::move(joint_);
  }

 private:
  /// Memory that an op changes: what reads it may get something else when it is run again.
  void find_written() {
    written_.assign(graph_.storages.size(), 0);
    for (const Op& op : graph_.ops)
      if (op.phase != Phase::Optimizer) visit_written(graph_, op, [&](StorageIndex s) { written_[s] = 1; });
  }

  void find_given() {
    joint_.node_of_tensor.assign(graph_.tensors.size(), no_node);
    joint_.node_of_op.assign(graph_.ops.size(), no_node);
    given_.assign(graph_.tensors.size(), 0);
    read_.assign(graph_.tensors.size(), 0);
    for (const TensorIndex t : graph_.outputs) given_[t] = 1;
    for (const Op& op : graph_.ops)
      for (const TensorIndex t : op.inputs) {
        if (t == graph_none) continue;
        (op.phase == Phase::Optimizer ? given_ : read_)[t] = 1;
      }
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t)
      if (graph_.tensors[t].role == Role::Gradient) given_[t] = 1;
  }

  static JointRole given_as(Role role) {
    if (role == Role::Gradient) return JointRole::Tangent;
    return role == Role::Input ? JointRole::Input : JointRole::Parameter;
  }

  void add_given(TensorIndex t) {
    if (joint_.node_of_tensor[t] != no_node) return;
    const GraphTensor& tensor = graph_.tensors[t];
    JointNode node{.role = given_as(tensor.role), .bytes = logical_bytes(graph_, t)};
    node.forward = node.role != JointRole::Tangent;
    node.memory = tensor.storage;
    joint_.node_of_tensor[t] = add(node, {}, t, graph_none);
  }

  void add_op(OpIndex index) {
    const Op& op = graph_.ops[index];
    JointNode node{.bytes = 0, .run_time = run_time(index), .forward = op.phase == Phase::Forward};
    classify(op, node);
    node.must_recompute =
        node.forward && !node.fixed && op.call < graph_.calls.size() && graph_.calls[op.call].runs_again;
    if (!node.forward && !began_) {
      began_ = true;
      if (op.inputs.empty()) node.role = JointRole::Tangent;
    }
    for (const TensorIndex t : op.outputs) node.bytes += logical_bytes(graph_, t);
    std::vector<JointIndex> inputs;
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) inputs.push_back(joint_.node_of_tensor[t]);
    const auto mark_given = [&](JointNode& n, bool given) {
      (node.forward ? n.given_forward : n.given_backward) = given;
    };
    // What changes memory, or acts on the host, is there for what it does.
    const bool acts = node.fixed || op.outputs.empty();
    if (op.outputs.size() == 1) {
      const TensorIndex t = op.outputs.front();
      node.memory = graph_.tensors[t].storage;
      mark_given(node, acts || given_[t] != 0);
      joint_.node_of_op[index] = joint_.node_of_tensor[t] = add(node, inputs, t, index);
      return;
    }
    node.several = true;
    mark_given(node, acts);
    const JointIndex whole = add(node, inputs, graph_none, index);
    joint_.node_of_op[index] = whole;
    for (const TensorIndex t : op.outputs) {
      if (read_[t] == 0 && given_[t] == 0) continue;
      JointNode item{.role = JointRole::Item, .bytes = logical_bytes(graph_, t), .forward = node.forward};
      item.listed = true;
      item.memory = graph_.tensors[t].storage;
      mark_given(item, given_[t] != 0);
      joint_.node_of_tensor[t] = add(item, {whole}, t, index);
    }
  }

  void classify(const Op& op, JointNode& node) const {
    const OpKind& kind = *op.kind;
    const auto storage = [&](TensorIndex t) { return graph_.tensors[t].storage; };
    visit_written(graph_, op, [&](StorageIndex) { node.fixed = true; });
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && written_[storage(t)] != 0) node.fixed = true;
    switch (kind.recompute) {
      case RecomputeClass::Free:
        node.listed = true;
        break;
      case RecomputeClass::Cheap:
        node.listed = !is_missing_from_list(kind.name);
        break;
      case RecomputeClass::Random:
        node.random = true;
        break;
      case RecomputeClass::Expensive:
        node.expensive = options_.attention_is_expensive || !may_be_missing_from_expensive(kind.name);
        break;
      case RecomputeClass::Never:
        node.fixed = true;
        break;
    }
    node.view = !node.fixed && !op.outputs.empty() && !op.inputs.empty() && op.inputs.front() != graph_none &&
                storage(op.outputs.front()) == storage(op.inputs.front());
    node.concat = kind.name == "cat" || kind.name == "stack";
  }

  double run_time(OpIndex index) {
    if (!options_.times.empty()) return static_cast<double>(options_.times[index].count());
    const Op& op = graph_.ops[index];
    if (op.like != index && op.like < index) return flops_[op.like];
    flops_.resize(std::max<std::size_t>(flops_.size(), index + std::size_t{1}), 1);
    if (op.kind->flops != nullptr)
      flops_[index] = std::max(op.kind->flops(OpTypes(graph_, op).view(op)).value(), 1.0);
    return flops_[index];
  }

  JointIndex add(const JointNode& node, std::span<const JointIndex> inputs, TensorIndex tensor, OpIndex op) {
    joint_.tensor.push_back(tensor);
    joint_.op.push_back(op);
    return joint_.graph.add(node, inputs);
  }
  JointIndex add(const JointNode& node, std::initializer_list<JointIndex> inputs, TensorIndex tensor,
                 OpIndex op) {
    return add(node, std::span(inputs.begin(), inputs.size()), tensor, op);
  }

  static constexpr JointIndex no_node = std::numeric_limits<JointIndex>::max();

  const OpGraph& graph_;
  const RecomputeOptions& options_;
  JointOps joint_;
  std::vector<std::uint8_t> written_;  ///< By storage.
  std::vector<std::uint8_t> given_;    ///< By tensor.
  std::vector<std::uint8_t> read_;     ///< By tensor.
  std::vector<double> flops_;          ///< By op, of the first of each kind.
  bool began_ = false;                 ///< The backward pass.
};

}  // namespace

JointOps joint_ops(const OpGraph& graph, const RecomputeOptions& options) {
  return NodeWriter(graph, options).write();
}

}  // namespace gpusim
