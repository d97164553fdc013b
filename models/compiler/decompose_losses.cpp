// SPDX-License-Identifier: Apache-2.0
// Softmax and what losses do with it, taken apart.
#include "models/compiler/decomposing.hpp"

namespace gpusim {
namespace {

constexpr double ignored_label = -100;

Dims along(const Op& op) {
  return Dims{op.attributes.integer("dim")};
}
TensorIndex largest(Decomposer& d, TensorIndex x, const Dims& dim) {
  return d.add("amax", {x}, {{"dim", dim}, {"keepdim", true}});
}

void softmax(Decomposer& d, const Op& op) {
  const TensorIndex x = d.wide(d.contiguous(d.in()));
  const Dims dim = along(op);
  const TensorIndex exp = d.add("exp", {d.sub(x, largest(d, x, dim))});
  d.give(0, d.add("div", {exp, d.sum(exp, dim, true)}));
}

TensorIndex log_probabilities(Decomposer& d, TensorIndex given, const Dims& dim) {
  const TensorIndex x = d.wide(d.contiguous(given));
  const TensorIndex shifted = d.sub(x, largest(d, x, dim));
  const TensorIndex log = d.add("log", {d.sum(d.add("exp", {shifted}), dim, true)});
  return d.sub(shifted, log);
}
void log_softmax(Decomposer& d, const Op& op) {
  d.give(0, log_probabilities(d, d.in(), along(op)));
}

/// Inductor's own form, with a multiply-add at the end.
void softmax_backward(Decomposer& d, const Op& op) {
  const TensorIndex result = d.wide(d.in(1));
  const TensorIndex product = d.mul(d.wide(d.in(0)), result);
  const TensorIndex sum = d.sum(product, along(op), true);
  d.give(0, d.add("addcmul", {product, d.add("neg", {result}), sum}));
}
void log_softmax_backward(Decomposer& d, const Op& op) {
  const TensorIndex grad = d.wide(d.in(0));
  const TensorIndex exp = d.add("exp", {d.wide(d.in(1))});
  const TensorIndex sum = d.sum(grad, along(op), true);
  d.give(0, d.sub(grad, d.mul(exp, sum)));
}

TensorIndex valid_labels(Decomposer& d, TensorIndex labels) {
  return d.number("ne", labels, ignored_label);
}
TensorIndex safe_labels(Decomposer& d, TensorIndex valid, TensorIndex labels) {
  return d.add("where", {valid, labels, graph_none}, {{"scalar", 0.0}});
}
/// How many labels count.
TensorIndex total(Decomposer& d, TensorIndex valid, ElementType element) {
  return d.cast(d.add("sum", {valid}), element);
}

TensorIndex mean_loss(Decomposer& d, TensorIndex p, TensorIndex labels) {
  const TensorIndex valid = valid_labels(d, labels);
  const TensorIndex safe = safe_labels(d, valid, labels);
  const std::int64_t rows = d.shape(labels)[0];
  const TensorIndex picked = d.add("gather", {p, d.view(safe, Dims{rows, 1})}, {{"dim", std::int64_t{1}}});
  const TensorIndex loss = d.add("neg", {d.view(picked, Dims{rows})});
  const TensorIndex counted = d.add("where", {valid, loss, graph_none}, {{"scalar", 0.0}});
  const TensorIndex count = total(d, valid, d.element(p));
  return d.add("div", {d.add("sum", {counted}), count});
}
void nll_loss(Decomposer& d, const Op&) {
  d.give(0, mean_loss(d, d.in(0), d.in(1)));
}
void cross_entropy(Decomposer& d, const Op&) {
  d.name_after("_log_softmax");
  const TensorIndex logits = d.in(0);
  const TensorIndex p = d.cast(log_probabilities(d, logits, Dims{1}), d.element(logits));
  d.name_after("nll_loss_forward");
  d.give(0, mean_loss(d, p, d.in(1)));
}

/// -1 at the label's place and 0 elsewhere, written by comparing places (fx_passes/joint_graph.py,
/// scatter_upon_const_tensor), times the row's share of the gradient.
void nll_loss_backward(Decomposer& d, const Op&) {
  const Dims shape = d.shape(d.in(1));
  const ElementType element = d.element(d.in(1));
  const TensorIndex labels = d.in(2);
  const TensorIndex count = total(d, valid_labels(d, labels), element);
  const TensorIndex grad = d.add("div", {d.in(0), count});
  const TensorIndex target = d.view(labels, Dims{shape[0], 1});
  const TensorIndex valid = valid_labels(d, target);
  const TensorIndex safe = safe_labels(d, valid, target);
  d.name_after("");
  const TensorIndex places = d.add("arange", {}, {{"count", shape[1]}});
  const TensorIndex hit =
      d.add("eq", {d.add("expand", {safe}, {{"shape", shape}}), d.view(places, Dims{1, shape[1]})});
  const TensorIndex minus_one =
      d.add("zeros", {}, {{"shape", Dims{}}, {"dtype", std::string(name(element))}, {"value", -1.0}});
  const TensorIndex one_hot = d.add("where", {hit, minus_one, graph_none}, {{"scalar", 0.0}});
  d.name_after("nll_loss_backward");
  const TensorIndex share = d.add("where", {valid, grad, graph_none}, {{"scalar", 0.0}});
  d.give(0, d.mul(one_hot, share));
}

constexpr DecomposeEntry entries[]{
    {"softmax", "_softmax", softmax},
    {"softmax_backward", "_softmax_backward_data", softmax_backward},
    {"log_softmax", "_log_softmax", log_softmax},
    {"log_softmax_backward", "_log_softmax_backward_data", log_softmax_backward},
    {"nll_loss", "nll_loss_forward", nll_loss},
    {"nll_loss_backward", "nll_loss_backward", nll_loss_backward},
    {"cross_entropy", "nll_loss_forward", cross_entropy}};

}  // namespace

std::span<const DecomposeEntry> loss_decompositions() {
  return entries;
}

}  // namespace gpusim
