// SPDX-License-Identifier: Apache-2.0
#include "models/graph/autograd.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace gpusim {
namespace {

/// What the engine does with ops of a kind; null: it has no rule.
const GradientEntry* find_gradient(std::string_view kind) {
  // Built once and never changed: the table, not state.
  static const std::vector<GradientEntry> table = [] {
    std::vector<GradientEntry> entries;
    for (auto part : {view_gradients(), pointwise_gradients(), reduction_gradients(), library_gradients(),
                      communication_gradients()})
      entries.insert(entries.end(), part.begin(), part.end());
    std::sort(entries.begin(), entries.end(),
              [](const GradientEntry& a, const GradientEntry& b) { return a.kind < b.kind; });
    return entries;
  }();
  const auto found =
      std::lower_bound(table.begin(), table.end(), kind,
                       [](const GradientEntry& entry, std::string_view k) { return entry.kind < k; });
  return found != table.end() && found->kind == kind ? &*found : nullptr;
}

template <class T>
void grow(std::vector<T>& values, std::size_t size, T value) {
  if (values.size() < size) values.resize(size, value);
}

}  // namespace

Backward::Backward(GraphWriter& writer, Checkpointing checkpointing, bool functional)
    : writer_(writer),
      checkpointing_(functional ? Checkpointing::None : checkpointing),
      functional_(functional),
      plain_(functional) {}

void Backward::mark_needs(OpIndex first, OpIndex last) {
  const OpGraph& graph = writer_.graph;
  needs_.assign(graph.tensors.size(), 0);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t)
    needs_[t] = graph.tensors[t].producer == graph_none && graph.tensors[t].role == Role::Parameter &&
                is_floating(graph.tensors[t].type.element);
  for (OpIndex i = first; i < last; ++i) {
    const Op& op = graph.ops[i];
    bool any = false;
    for (const TensorIndex t : op.inputs) any = any || (t != graph_none && needs_[t] != 0);
    if (!any) continue;
    const GradientEntry* const entry = find_gradient(op.kind->name);
    if (entry != nullptr && entry->rule == nullptr) continue;
    for (const TensorIndex t : op.outputs) needs_[t] = is_floating(graph.tensors[t].type.element);
  }
}

/// Says which op keeps gradients from coming through, if there is anything to train.
void Backward::refuse(OpIndex first, OpIndex last) const {
  const OpGraph& graph = writer_.graph;
  for (OpIndex i = last; i-- > first;) {
    const Op& op = graph.ops[i];
    const GradientEntry* const entry = find_gradient(op.kind->name);
    const bool trained = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](TensorIndex t) { return t != graph_none && needs_[t] != 0; });
    if (trained && entry != nullptr && entry->rule == nullptr)
      throw GraphError(op.place,
                       "nothing that is trained leads to the loss: no gradient comes through '" + op.name +
                           "' (" + std::string(op.kind->name) + ")",
                       "write it in other ops, or give another tensor first");
  }
  throw GraphError({}, "nothing that is trained leads to the loss",
                   "a network to be trained has parameters, and what they lead to comes first in 'gives'");
}

void Backward::run(TensorIndex loss, OpIndex first, OpIndex last) {
  mark_needs(first, last);
  if (needs_[loss] == 0) refuse(first, last);
  const std::size_t tensors = writer_.graph.tensors.size();
  if (!checkpoints(first, last).empty()) find_kept(loss, first, last);
  gradient_.assign(tensors, graph_none);
  again_.assign(tensors, graph_none);
  holders_.assign(tensors, 0);
  parameters_.clear();
  const std::vector<CallIndex> calls = checkpoints(first, last);
  auto next = calls.rbegin();
  writer_.where = {};
  writer_.where.phase = Phase::Backward;
  const TensorType type = writer_.type(loss);
  gradient_[loss] = writer_.add(
      "zeros", "loss.gradient", {},
      {{"shape", type.shape}, {"dtype", std::string(gpusim::name(type.element))}, {"value", 1.0}});
  for (OpIndex i = last; i-- > first;) {
    if (next != calls.rend() && writer_.graph.calls[*next].last == i + 1) recompute(*next++);
    through(i);
  }
  writer_.where = {};
}

/// Calls whose ops are made again, in order.
std::vector<CallIndex> Backward::checkpoints(OpIndex first, OpIndex last) const {
  std::vector<CallIndex> calls;
  if (plain_) return calls;
  OpIndex behind = first;
  for (CallIndex c = 1; c < writer_.graph.calls.size(); ++c) {
    const BlockCall& call = writer_.graph.calls[c];
    const bool again = call.runs_again || (call.in_repeat && checkpointing_ != Checkpointing::None);
    if (!again || call.first < behind || call.last > last || call.first == call.last) continue;
    calls.push_back(c);
    behind = call.last;  // Those within are made again with it.
  }
  return calls;
}

/// Goes back once without writing anything, to see what backward reads: what is run again stops where all of
/// that is there (early_stop of torch.utils.checkpoint).
void Backward::find_kept(TensorIndex loss, OpIndex first, OpIndex last) {
  GraphWriter scratch;
  scratch.graph = writer_.graph;
  Backward plain(scratch, Checkpointing::None, false);
  plain.plain_ = true;
  plain.run(loss, first, last);
  const OpGraph& whole = scratch.graph;
  stop_.assign(writer_.graph.calls.size(), 0);
  // A block is made again for its own ops' backward: what the next block takes of it is kept anyway.
  const std::vector<CallIndex> calls = checkpoints(first, last);
  std::vector<CallIndex> call_of(last, graph_none);
  for (const CallIndex c : calls) {
    const BlockCall& call = writer_.graph.calls[c];
    std::fill(call_of.begin() + call.first, call_of.begin() + call.last, c);
    stop_[c] = call.first;
  }
  for (std::size_t i = last; i < whole.ops.size(); ++i) {
    const OpIndex forward = whole.ops[i].gradient_of;
    const CallIndex c = forward < last ? call_of[forward] : graph_none;
    if (c == graph_none) continue;
    for (const TensorIndex t : whole.ops[i].inputs) {
      if (t == graph_none) continue;
      const OpIndex producer = whole.tensors[t].producer;
      if (producer < last) stop_[c] = std::max(stop_[c], producer + 1);
    }
  }
}

void Backward::recompute(CallIndex c) {
  const BlockCall call = writer_.graph.calls[c];
  for (OpIndex i = call.first; i < stop_[c]; ++i) {
    const Op op = writer_.graph.ops[i];
    const bool keeps = checkpointing_ == Checkpointing::Selective && !call.runs_again &&
                       op.kind->recompute == RecomputeClass::Expensive;
    if (keeps) continue;
    writer_.where = GraphWriter::where_of(op);
    writer_.where.phase = Phase::Backward;
    writer_.where.recomputed = true;
    writer_.where.gradient_of = i;
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs) inputs.push_back(t == graph_none ? t : saved(t));
    writer_.module_calls = op.module_calls;
    const std::vector<TensorIndex> made =
        writer_.add(*op.kind, op.name + ".again", std::move(inputs), op.attributes);
    for (std::size_t k = 0; k < made.size(); ++k) again_[op.outputs[k]] = made[k];
  }
}

void Backward::through(OpIndex index) {
  const Op op = writer_.graph.ops[index];
  bool any = false;
  for (const TensorIndex t : op.outputs) any = any || gradient_[t] != graph_none;
  if (!any) return;
  const GradientEntry* const entry = find_gradient(op.kind->name);
  if (entry == nullptr)
    throw GraphError(
        op.place, "'" + op.name + "' cannot be trained: " + std::string(op.kind->name) + " has no backward",
        "write it in other ops, or keep it away from what leads to the loss");
  if (entry->rule == nullptr) return;
  writer_.where = GraphWriter::where_of(op);
  writer_.where.phase = Phase::Backward;
  writer_.where.gradient_of = index;
  ++writer_.nodes;
  op_ = &op;
  made_ = 0;
  entry->rule(*this, op);
  for (const TensorIndex t : op.outputs)
    if (gradient_[t] != graph_none) --holders_[gradient_[t]];
  op_ = nullptr;
}

TensorIndex Backward::saved(TensorIndex t) const {
  return t < again_.size() && again_[t] != graph_none ? again_[t] : t;
}
TensorIndex Backward::grad(std::size_t output) const {
  return gradient_[op_->outputs[output]];
}
bool Backward::has(std::size_t input) const {
  return input < op_->inputs.size() && op_->inputs[input] != graph_none;
}
bool Backward::needs(std::size_t input) const {
  return has(input) && needs_[op_->inputs[input]] != 0;
}
TensorIndex Backward::in(std::size_t input) const {
  return saved(op_->inputs[input]);
}
TensorIndex Backward::out(std::size_t output) const {
  return saved(op_->outputs[output]);
}

std::string Backward::name() {
  const std::string base = op_->name + ".backward";
  return made_++ == 0 ? base : base + "_" + std::to_string(made_);
}

std::vector<TensorIndex> Backward::add_all(
    std::string_view kind, std::vector<TensorIndex> inputs,
    std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes) {
  const OpKind& found = *find_op(kind);
  return writer_.add(found, name(), std::move(inputs), attributes_of(found, attributes));
}
TensorIndex Backward::add(std::string_view kind, std::vector<TensorIndex> inputs,
                          std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes) {
  return add_all(kind, std::move(inputs), attributes).front();
}

TensorIndex Backward::viewed(TensorIndex t, const Dims& shape) {
  if (type(t).shape == shape) return t;
  return add(view_strides(type(t), shape) ? "view" : "reshape", {t}, {{"shape", shape}});
}

TensorIndex Backward::reduced_to(TensorIndex gradient, const TensorType& wanted) {
  const Dims shape = type(gradient).shape;
  if (!(shape == wanted.shape)) {
    const int more = shape.rank() - wanted.shape.rank();
    Dims over;
    for (int i = 0; i < shape.rank(); ++i)
      if (i < more || (wanted.shape[i - more] == 1 && shape[i] != 1)) over.push_back(i);
    if (!over.empty()) gradient = add("sum", {gradient}, {{"dim", over}, {"keepdim", true}});
    gradient = viewed(gradient, wanted.shape);
  }
  if (type(gradient).element != wanted.element)
    gradient = add("to", {gradient}, {{"dtype", std::string(gpusim::name(wanted.element))}});
  return gradient;
}

void Backward::give(std::size_t input, TensorIndex gradient) {
  const TensorIndex t = op_->inputs[input];
  gradient = reduced_to(gradient, TensorType(type(t)));
  grow(holders_, writer_.graph.tensors.size(), 0);
  TensorIndex& there = gradient_[t];
  if (there == graph_none) {
    there = gradient;
    ++holders_[gradient];
    if (writer_.graph.tensors[t].producer == graph_none) {
      parameters_.push_back(t);
      ++writer_.nodes;  // AccumulateGrad
    }
    return;
  }
  // Nobody else holds it: the engine adds in place, to memory that is no view.
  const GraphTensor& old = writer_.graph.tensors[there];
  const bool own =
      old.producer != graph_none && writer_.graph.ops[old.producer].kind->fusion != FusionClass::View;
  if (!functional_ && own && holders_[there] == 1 && is_dense(old.type)) {
    const TensorIndex sum = add("add_", {there, gradient});
    grow(holders_, writer_.graph.tensors.size(), 0);
    holders_[sum] = 1;
    gradient_[t] = sum;
    return;
  }
  --holders_[there];
  const TensorIndex sum = add("add", {there, gradient});
  grow(holders_, writer_.graph.tensors.size(), 0);
  holders_[sum] = 1;
  gradient_[t] = sum;
}

std::vector<Backward::ParameterGradient> Backward::parameters() const {
  std::vector<ParameterGradient> result;
  for (const TensorIndex t : parameters_) result.push_back({t, gradient_[t]});
  return result;
}

}  // namespace gpusim
