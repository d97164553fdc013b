// SPDX-License-Identifier: Apache-2.0
// Norms and their gradients, taken apart.
#include "models/compiler/decomposing.hpp"

namespace gpusim {
namespace {

constexpr double epsilon = 1e-5;  ///< torch.nn's default.
constexpr double momentum = 0.1;  ///< Of running statistics, likewise.

/// All dimensions but the last; but the second, of batch norms.
Dims rows_of(const Dims& shape) {
  Dims dims;
  for (int i = 0; i + 1 < shape.rank(); ++i) dims.push_back(i);
  return dims;
}
Dims last_of(const Dims& shape) {
  return Dims{shape.rank() - 1};
}
Dims all_but_channels(const Dims& shape) {
  Dims dims;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != 1) dims.push_back(i);
  return dims;
}
/// [channels] as a tensor of this shape sees it.
Dims channels_as(const Dims& shape) {
  Dims dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(i == 1 ? shape[1] : 1);
  return dims;
}

struct Normal {
  TensorIndex y = graph_none;
  TensorIndex variance = graph_none;
  TensorIndex mean = graph_none;
  TensorIndex rstd = graph_none;
};
Normal normal(Decomposer& d, TensorIndex x, const Dims& dims) {
  Normal n;
  const std::vector<TensorIndex> moments = d.add_all("var_mean", {x}, {{"dim", dims}, {"keepdim", true}});
  n.variance = moments[0];
  n.mean = moments[1];
  n.rstd = d.add("rsqrt", {d.number("add", n.variance, epsilon)});
  n.y = d.mul(d.sub(x, n.mean), n.rstd);
  return n;
}

void layer_norm(Decomposer& d, const Op&) {
  const TensorIndex x = d.wide(d.in());
  const Normal n = normal(d, x, last_of(d.shape(x)));
  TensorIndex y = n.y;
  if (d.has(1)) y = d.mul(y, d.in(1));
  if (d.has(2)) y = d.plus(y, d.in(2));
  d.give(0, y);
  d.give(1, n.mean);
  d.give(2, n.rstd);
}

void layer_norm_backward(Decomposer& d, const Op&) {
  const TensorIndex grad = d.contiguous(d.wide(d.in(0)));
  const TensorIndex x = d.contiguous(d.wide(d.in(1)));
  const TensorIndex rstd = d.in(3);
  const Dims shape = d.shape(x);
  const Dims last = last_of(shape);
  const auto columns = static_cast<double>(shape.back());
  const TensorIndex x_hat = d.mul(d.sub(x, d.in(2)), rstd);
  const TensorIndex grad_hat = d.has(4) ? d.mul(grad, d.wide(d.in(4))) : grad;
  const TensorIndex a = d.number("mul", grad_hat, columns);
  const TensorIndex b = d.sum(grad_hat, last, true);
  const TensorIndex c = d.mul(x_hat, d.sum(d.mul(grad_hat, x_hat), last, true));
  const TensorIndex inner = d.sub(d.sub(a, b), c);
  d.give(0, d.mul(d.number("div", rstd, columns), inner));
  std::size_t next = 1;
  const Dims rows = rows_of(shape);
  const auto over_rows = [&](TensorIndex t) { return rows.empty() ? t : d.sum(t, rows, false); };
  if (d.has(4)) d.give(next++, over_rows(d.mul(grad, x_hat)));
  if (d.has(5)) d.give(next, over_rows(grad));
}

void rms_norm(Decomposer& d, const Op&) {
  const TensorIndex x = d.wide(d.in());
  const TensorIndex square = d.add("pow", {x}, {{"exponent", 2.0}});
  const TensorIndex mean = d.add("mean", {square}, {{"dim", last_of(d.shape(x))}, {"keepdim", true}});
  const TensorIndex rstd = d.add("rsqrt", {d.number("add", mean, epsilon)});
  TensorIndex y = d.mul(x, rstd);
  if (d.has(1)) y = d.mul(y, d.in(1));
  d.give(0, y);
  d.give(1, rstd);
}

void rms_norm_backward(Decomposer& d, const Op&) {
  const TensorIndex grad = d.contiguous(d.wide(d.in(0)));
  const TensorIndex x = d.contiguous(d.wide(d.in(1)));
  const TensorIndex rstd = d.in(2);
  const Dims shape = d.shape(x);
  const TensorIndex grad_hat = d.has(3) ? d.mul(grad, d.wide(d.in(3))) : grad;
  const TensorIndex x_hat = d.mul(x, rstd);
  const TensorIndex sum = d.sum(d.mul(x_hat, grad_hat), last_of(shape), true);
  const TensorIndex share = d.mul(d.number("div", x_hat, static_cast<double>(shape.back())), sum);
  d.give(0, d.mul(d.sub(grad_hat, share), rstd));
  if (!d.has(3)) return;
  const TensorIndex weight = d.mul(grad, x_hat);
  const Dims rows = rows_of(shape);
  d.give(1, rows.empty() ? weight : d.sum(weight, rows, false));
}

void update(Decomposer& d, std::size_t running, TensorIndex made) {
  if (!d.has(running)) return;
  const TensorIndex kept = d.number("mul", d.in(running), 1 - momentum);
  d.add("copy_", {d.in(running), d.plus(d.number("mul", made, momentum), kept)});
}

/// In training; with given statistics it is elementwise and stays.
void batch_norm(Decomposer& d, const Op& op) {
  if (!op.attributes.flag("training")) return;
  const TensorIndex x = d.wide(d.in());
  const Dims shape = d.shape(x);
  const Dims channels{shape[1]};
  const Normal n = normal(d, x, all_but_channels(shape));
  const TensorIndex mean = d.view(n.mean, channels);
  const TensorIndex rstd = d.view(n.rstd, channels);
  const double count = static_cast<double>(element_count(shape)) / static_cast<double>(shape[1]);
  TensorIndex y = n.y;
  if (d.has(1)) y = d.mul(y, d.view(d.in(1), channels_as(shape)));
  if (d.has(2)) y = d.plus(y, d.view(d.in(2), channels_as(shape)));
  d.give(0, y);
  d.give(1, mean);
  d.give(2, rstd);
  update(d, 3, mean);
  update(d, 4, d.number("mul", d.view(n.variance, channels), count > 1 ? count / (count - 1) : 1));
  if (d.has(5)) d.add("copy_", {d.in(5), d.number("add", d.in(5), 1)});
}

void batch_norm_backward(Decomposer& d, const Op&) {
  const TensorIndex grad = d.wide(d.in(0));
  const TensorIndex x = d.wide(d.in(1));
  const TensorIndex rstd = d.in(3);
  const Dims shape = d.shape(x);
  const Dims spread = channels_as(shape);
  const Dims dims = all_but_channels(shape);
  const double share = static_cast<double>(shape[1]) / static_cast<double>(element_count(shape));
  const TensorIndex centred = d.sub(x, d.view(d.in(2), spread));
  const TensorIndex sum = d.sum(grad, dims, false);
  const TensorIndex dot = d.sum(d.mul(grad, centred), dims, false);
  const TensorIndex mean = d.view(d.number("mul", sum, share), spread);
  const TensorIndex scale = d.view(d.mul(d.number("mul", dot, share), d.mul(rstd, rstd)), spread);
  const TensorIndex last = d.view(d.mul(rstd, d.in(4)), spread);
  d.give(0, d.mul(d.sub(d.sub(grad, d.mul(centred, scale)), mean), last));
  d.give(1, d.mul(dot, rstd));
  d.give(2, sum);
}

void group_norm(Decomposer& d, const Op& op) {
  const TensorIndex x = d.wide(d.contiguous(d.in()));
  const Dims shape = d.shape(x);
  const std::int64_t groups = op.attributes.integer("groups");
  const std::int64_t pixels = element_count(shape) / (shape[0] * shape[1]);
  const Dims statistics{shape[0], groups};
  const Normal n = normal(d, d.view(x, Dims{shape[0], groups, shape[1] / groups, pixels}), Dims{2, 3});
  TensorIndex y = d.view(n.y, shape);
  if (d.has(1)) y = d.mul(y, d.view(d.in(1), channels_as(shape)));
  if (d.has(2)) y = d.plus(y, d.view(d.in(2), channels_as(shape)));
  d.give(0, y);
  if (d.outputs() < 3) return;
  d.give(1, d.view(n.mean, statistics));
  d.give(2, d.view(n.rstd, statistics));
}

void group_norm_backward(Decomposer& d, const Op& op) {
  const TensorIndex grad = d.contiguous(d.in(0));
  const TensorIndex x = d.contiguous(d.in(1));
  const TensorIndex weight = d.in(4);
  const Dims shape = d.shape(x);
  const std::int64_t batch = shape[0];
  const std::int64_t channels = shape[1];
  const std::int64_t groups = op.attributes.integer("groups");
  const std::int64_t each = channels / groups;
  const std::int64_t pixels = element_count(shape) / (batch * channels);
  const Dims planes{batch, channels, pixels};
  const Dims grouped{batch, groups, each};
  const TensorIndex mean = d.view(d.in(2), Dims{batch, groups});
  const TensorIndex rstd = d.view(d.in(3), Dims{batch, groups});
  const TensorIndex ds = d.sum(d.view(d.mul(grad, x), planes), Dims{2}, false);
  const TensorIndex db = d.sum(d.view(grad, planes), Dims{2}, false);
  const TensorIndex row = d.view(weight, Dims{1, channels});
  const TensorIndex ds_group = d.sum(d.view(d.mul(ds, row), grouped), Dims{2}, false);
  const TensorIndex db_group = d.sum(d.view(d.mul(db, row), grouped), Dims{2}, false);
  const Dims per_group{batch, groups, 1};
  const TensorIndex c1 = d.mul(d.view(rstd, per_group), d.view(weight, Dims{1, groups, each}));
  const double share = 1 / static_cast<double>(pixels * each);
  const TensorIndex cube = d.mul(d.mul(d.mul(d.sub(d.mul(db_group, mean), ds_group), rstd), rstd), rstd);
  const TensorIndex c2 = d.number("mul", cube, share);
  const TensorIndex c3 =
      d.sub(d.mul(d.add("neg", {c2}), mean), d.number("mul", d.mul(db_group, rstd), share));
  const Dims all{batch, groups, each, pixels};
  const Dims one{batch, groups, 1, 1};
  const TensorIndex first = d.mul(d.view(grad, all), d.view(c1, Dims{batch, groups, each, 1}));
  const TensorIndex second = d.mul(d.view(x, all), d.view(c2, one));
  d.give(0, d.plus(d.plus(first, second), d.view(c3, one)));
  const TensorIndex centred = d.sub(d.view(ds, grouped), d.mul(d.view(db, grouped), d.view(mean, per_group)));
  d.give(1, d.sum(d.mul(centred, d.view(rstd, per_group)), Dims{0}, false));
  d.give(2, d.sum(db, Dims{0}, false));
}

constexpr DecomposeEntry entries[]{
    {"layer_norm", "native_layer_norm", layer_norm},
    {"layer_norm_backward", "native_layer_norm_backward", layer_norm_backward},
    {"rms_norm", "_fused_rms_norm", rms_norm},
    {"rms_norm_backward", "_fused_rms_norm_backward", rms_norm_backward},
    {"batch_norm", "_native_batch_norm_legit_functional", batch_norm},
    {"batch_norm_backward", "native_batch_norm_backward", batch_norm_backward},
    {"group_norm", "native_group_norm", group_norm},
    {"group_norm_backward", "native_group_norm_backward", group_norm_backward}};

}  // namespace

std::span<const DecomposeEntry> norm_decompositions() {
  return entries;
}

}  // namespace gpusim
