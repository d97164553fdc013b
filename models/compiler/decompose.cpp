// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/decompose.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "models/compiler/decomposing.hpp"

namespace gpusim {
namespace {

/// Null: it stays as it is.
const DecomposeEntry* find_rule(const OpKind& kind) {
  // By place in the catalogue. Built once and never changed: the table, not state.
  static const std::vector<const DecomposeEntry*> table = [] {
    const std::vector<OpKind>& kinds = op_catalogue();
    std::vector<const DecomposeEntry*> rules(kinds.size(), nullptr);
    for (const auto entries : {pointwise_decompositions(), norm_decompositions(), loss_decompositions()})
      for (const DecomposeEntry& entry : entries)
        for (std::size_t k = 0; k < kinds.size(); ++k)
          if (kinds[k].name == entry.kind && rules[k] == nullptr) rules[k] = &entry;
    return rules;
  }();
  return table[static_cast<std::size_t>(&kind - op_catalogue().data())];
}

bool is_narrow(ElementType type) {
  return is_floating(type) && size_of(type) < 4;
}

/// By tensor: how many ops read it, and one of them; what leaves the step counts as read.
struct Readers {
  explicit Readers(const OpGraph& graph)
      : count(graph.tensors.size(), 0), one(graph.tensors.size(), graph_none) {
    for (OpIndex i = 0; i < graph.ops.size(); ++i)
      for (const TensorIndex t : graph.ops[i].inputs)
        if (t != graph_none) {
          ++count[t];
          one[t] = i;
        }
    for (const TensorIndex t : graph.outputs) ++count[t];
  }
  std::vector<std::int32_t> count;
  std::vector<OpIndex> one;
};

}  // namespace

bool Decomposer::has(std::size_t input) const {
  return input < op_->inputs.size() && op_->inputs[input] != graph_none;
}

std::vector<TensorIndex> Decomposer::add_all(std::string_view kind, std::vector<TensorIndex> inputs,
                                             Values values) {
  const OpKind& found = *find_op(kind);
  std::string name = op_->name + '.' + std::string(kind) + '_' + std::to_string(made_++);
  std::vector<TensorIndex> made =
      writer_.add(found, std::move(name), std::move(inputs), attributes_of(found, values));
  writer_.graph.ops.back().taken_from = taken_from_;
  return made;
}

TensorIndex Decomposer::cast(TensorIndex t, ElementType to) {
  if (element(t) == to) return t;
  return add("to", {t}, {{"dtype", std::string(name(to))}});
}

TensorIndex Decomposer::wide(TensorIndex t) {
  return is_narrow(element(t)) ? cast(t, ElementType::Fp32) : t;
}

TensorIndex Decomposer::contiguous(TensorIndex t) {
  return is_contiguous(writer_.type(t)) ? t : add("contiguous", {t});
}

TensorIndex Decomposer::view(TensorIndex t, const Dims& to) {
  if (shape(t) == to) return t;
  return add(view_strides(writer_.type(t), to) ? "view" : "reshape", {t}, {{"shape", to}});
}

TensorIndex Decomposer::sum(TensorIndex t, const Dims& dims, bool keep) {
  return add("sum", {t}, {{"dim", dims}, {"keepdim", keep}});
}

void Decomposer::give(std::size_t output, TensorIndex t) {
  if (output >= op_->outputs.size()) return;
  const TensorIndex old = op_->outputs[output];
  t = cast(t, old_.tensors[old].type.element);
  if (is_contiguous(old_.tensors[old].type)) t = contiguous(t);
  t = view(t, old_.tensors[old].type.shape);
  now_[old] = t;
  if (made_ > 0 &&
      writer_.graph.tensors[t].producer + static_cast<OpIndex>(made_) >= writer_.graph.ops.size())
    writer_.graph.tensors[t].name = old_.tensors[old].name;
}

/// Sums of 16 bits that are cast to fp32 behind nothing but views: autocast runs them in fp32, and the casts
/// there and back undo each other.
void Decomposer::find_wide_sums() {
  wide_sums_.assign(old_.ops.size(), 0);
  const Readers readers(old_);
  for (OpIndex i = 0; i < old_.ops.size(); ++i) {
    const Op& op = old_.ops[i];
    if (op.kind->name != "sum" || !is_narrow(old_.tensors[op.outputs.front()].type.element)) continue;
    TensorIndex t = op.outputs.front();
    while (readers.count[t] == 1 && readers.one[t] != graph_none) {
      const Op& reader = old_.ops[readers.one[t]];
      if (reader.kind->name == "to") {
        wide_sums_[i] = old_.tensors[reader.outputs.front()].type.element == ElementType::Fp32 ? 1 : 0;
        break;
      }
      if (reader.kind->fusion != FusionClass::View || reader.outputs.size() != 1) break;
      t = reader.outputs.front();
    }
  }
}

/// torch.matmul of batches is bmm of three dimensions: an operand whose batches do not fold into one is
/// copied first, and it is the copy that backward reads.
void Decomposer::fold_batches(const Op& op, std::vector<TensorIndex>& inputs) {
  if (op.kind->name != "matmul" || shape(inputs[1]).rank() <= 2) return;
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorType type = writer_.type(inputs[i]);
    if (type.shape.rank() <= 3) continue;
    std::int64_t batch = 1;
    for (int d = 0; d + 2 < type.shape.rank(); ++d) batch *= type.shape[d];
    if (view_strides(type, Dims{batch, type.shape.back(1), type.shape.back()})) continue;
    inputs[i] = add("contiguous", {inputs[i]});
    folded_.push_back({.forward = op_, .given = op.inputs[i], .copy = inputs[i]});
  }
}

void Decomposer::copy(const Op& op) {
  std::vector<TensorIndex> inputs;
  for (const TensorIndex t : op.inputs) inputs.push_back(t == graph_none ? t : now_[t]);
  if (op.phase == Phase::Forward) fold_batches(op, inputs);
  if (op.phase == Phase::Backward && op.gradient_of != graph_none && op.kind->name == "transpose")
    for (const FoldedOperand& folded : folded_)
      if (folded.forward == &old_.ops[op.gradient_of] && folded.given == op.inputs.front())
        inputs.front() = folded.copy;
  const std::vector<TensorIndex> made = writer_.add(*op.kind, op.name, std::move(inputs), op.attributes);
  for (std::size_t k = 0; k < made.size(); ++k) {
    now_[op.outputs[k]] = made[k];
    writer_.graph.tensors[made[k]].name = old_.tensors[op.outputs[k]].name;
  }
  writer_.graph.ops.back().taken_from = op.taken_from;
}

OpGraph Decomposer::run() && {
  now_ = writer_.copy_given(old_);
  find_wide_sums();
  OpGraph& graph = writer_.graph;
  const std::size_t ops = old_.ops.size();
  graph.ops.reserve(2 * ops);
  graph.tensors.reserve(2 * old_.tensors.size());
  std::vector<OpIndex> begin(ops + 1);
  for (std::size_t i = 0; i < ops; ++i) {
    const Op& op = old_.ops[i];
    begin[i] = static_cast<OpIndex>(graph.ops.size());
    writer_.where = GraphWriter::where_of(op);
    // Of an op that became several, the one that makes its result.
    if (op.gradient_of != graph_none && begin[op.gradient_of + 1] > 0)
      writer_.where.gradient_of = begin[op.gradient_of + 1] - 1;
    writer_.module_calls = op.module_calls;
    writer_.nodes = op.nodes;
    op_ = &op;
    made_ = 0;
    const DecomposeEntry* const entry = op.phase == Phase::Optimizer ? nullptr : find_rule(*op.kind);
    taken_from_ = entry != nullptr ? entry->aten : "";
    if (wide_sums_[i] != 0) {
      taken_from_ = "sum";
      const TensorIndex wide_input = wide(in());
      now_[op.outputs.front()] = writer_.add(*op.kind, op.name, {wide_input}, op.attributes).front();
    } else if (entry != nullptr) {
      entry->rule(*this, op);
    }
    // A rule may leave an op as it is.
    if (wide_sums_[i] == 0 &&
        (entry == nullptr || (!op.outputs.empty() && now_[op.outputs.front()] == graph_none)))
      copy(op);
    for (const TensorIndex t : op.outputs) {
      const StorageIndex storage = graph.tensors[now_[t]].storage;
      if (old_.storages[old_.tensors[t].storage].role != Role::Gradient) continue;
      graph.tensors[now_[t]].role = Role::Gradient;
      graph.storages[storage].role = Role::Gradient;
    }
  }
  begin[ops] = static_cast<OpIndex>(graph.ops.size());
  writer_.copy_frames(old_, begin, now_);
  for (const TensorIndex t : old_.outputs) graph.outputs.push_back(now_[t]);
  join_casts();
  return std::move(writer_.graph);
}

/// A cast of a cast that nobody else reads goes right to the second dtype (fx_passes/joint_graph.py,
/// pointless_convert).
void Decomposer::join_casts() {
  OpGraph& graph = writer_.graph;
  const Readers readers(graph);
  std::vector<TensorIndex> same(graph.tensors.size());
  for (TensorIndex t = 0; t < same.size(); ++t) same[t] = t;
  for (Op& op : graph.ops) {
    for (TensorIndex& t : op.inputs)
      if (t != graph_none) t = same[t];
    if (op.kind->name != "to") continue;
    const TensorIndex inner = op.inputs.front();
    const OpIndex maker = graph.tensors[inner].producer;
    if (maker == graph_none || graph.ops[maker].kind->name != "to" || readers.count[inner] != 1) continue;
    const TensorIndex source = graph.ops[maker].inputs.front();
    const TensorIndex out = op.outputs.front();
    if (!is_floating(graph.tensors[source].type.element) || !is_floating(graph.tensors[inner].type.element) ||
        graph.tensors[inner].storage == graph.tensors[source].storage ||
        graph.tensors[out].storage == graph.tensors[inner].storage)
      continue;
    op.inputs.front() = source;
    op.like = static_cast<OpIndex>(&op - graph.ops.data());
    if (!(graph.tensors[source].type == graph.tensors[out].type)) continue;
    // There and back: the source itself is what was wanted, and the casts are left to nobody.
    same[out] = source;
    if (const Role role = graph.tensors[out].role; role == Role::Gradient) {
      graph.tensors[source].role = role;
      graph.storages[graph.tensors[source].storage].role = role;
      graph.tensors[source].name = graph.tensors[out].name;
      graph.tensors[out].role = Role::Activation;
      graph.storages[graph.tensors[out].storage].role = Role::Activation;
    }
  }
  for (TensorIndex& t : graph.outputs) t = same[t];
}

OpGraph decompose(const OpGraph& graph) {
  return Decomposer(graph).run();
}

}  // namespace gpusim
