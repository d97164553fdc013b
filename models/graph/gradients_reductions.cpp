// SPDX-License-Identifier: Apache-2.0
// Gradients of sums, norms, softmax, losses and pooling.
#include <algorithm>

#include "models/graph/autograd.hpp"
#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

/// The gradient of a sum, repeated over what was summed up: a view.
TensorIndex repeated(Backward& b, const Op& op) {
  const Dims shape = b.type(b.in()).shape;
  TensorIndex g = b.grad();
  if (!op.attributes.flag("keepdim")) {
    Dims kept = shape;
    if (op.attributes.has("dim")) {
      for (const std::int64_t d : op.attributes.dims("dim")) kept[dimension(d, shape.rank())] = 1;
    } else {
      for (int i = 0; i < shape.rank(); ++i) kept[i] = 1;
    }
    g = b.viewed(g, kept);
  }
  return b.add("expand", {g}, {{"shape", shape}});
}
void sum(Backward& b, const Op& op) {
  b.give(0, repeated(b, op));
}
void mean(Backward& b, const Op& op) {
  const double count =
      static_cast<double>(elements(b.type(b.in()))) / static_cast<double>(elements(b.type(b.out())));
  b.give(0, b.add("div", {repeated(b, op), graph_none}, {{"scalar", count}}));
}
/// Shared among equal largest (or smallest): grad / how many * (x == result).
void extreme(Backward& b, const Op& op) {
  const Dims shape = b.type(b.in()).shape;
  TensorIndex g = b.grad();
  TensorIndex result = b.out();
  Dims over;
  if (op.attributes.has("dim")) {
    over = op.attributes.dims("dim");
  } else {
    for (int i = 0; i < shape.rank(); ++i) over.push_back(i);
  }
  if (!op.attributes.flag("keepdim")) {
    Dims kept = shape;
    for (const std::int64_t d : over) kept[dimension(d, shape.rank())] = 1;
    g = b.viewed(g, kept);
    result = b.viewed(result, kept);
  }
  const TensorIndex mask = b.add("eq", {b.in(), result});
  const TensorIndex count = b.add("sum", {mask}, {{"dim", over}, {"keepdim", true}});
  b.give(0, b.add("mul", {b.add("div", {g, count}), mask}));
}
template <const char* const& Kind>
void softmax(Backward& b, const Op& op) {
  const std::string element(name(b.type(b.in()).element));
  b.give(0, b.add(Kind, {b.grad(), b.out()}, {{"dim", op.attributes.integer("dim")}, {"dtype", element}}));
}
constexpr const char* softmax_name = "softmax_backward";
constexpr const char* log_softmax_name = "log_softmax_backward";
void nll_loss(Backward& b, const Op&) {
  b.give(0, b.add("nll_loss_backward", {b.grad(), b.in(0), b.in(1)}));
}

/// What comes out of a norm's backward, in order: the input's gradient, then those of the weights.
void give_all(Backward& b, const std::vector<TensorIndex>& made) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3 && next < made.size(); ++i) {
    if (i > 0 && !b.has(i)) continue;
    if (b.needs(i)) b.give(i, made[next]);
    ++next;
  }
}
void layer_norm(Backward& b, const Op&) {
  give_all(b, b.add_all("layer_norm_backward",
                        {b.grad(), b.in(0), b.out(1), b.out(2), b.has(1) ? b.in(1) : graph_none,
                         b.has(2) ? b.in(2) : graph_none}));
}
void rms_norm(Backward& b, const Op&) {
  give_all(b, b.add_all("rms_norm_backward", {b.grad(), b.in(0), b.out(1), b.has(1) ? b.in(1) : graph_none}));
}
void batch_norm(Backward& b, const Op&) {
  give_all(b, b.add_all("batch_norm_backward", {b.grad(), b.in(0), b.out(1), b.out(2), b.in(1)}));
}
void group_norm(Backward& b, const Op& op) {
  give_all(b, b.add_all("group_norm_backward", {b.grad(), b.in(0), b.out(1), b.out(2), b.in(1)},
                        {{"groups", op.attributes.integer("groups")}}));
}

AttributeValue optional(const Op& op, std::string_view name) {
  const AttributeValue* const value = op.attributes.find(name);
  return value == nullptr ? AttributeValue{} : *value;
}
void max_pool(Backward& b, const Op& op) {
  b.give(0, b.add("max_pool2d_backward", {b.grad(), b.in(), b.out(1)},
                  {{"kernel", op.attributes.integer("kernel")},
                   {"stride", optional(op, "stride")},
                   {"padding", op.attributes.integer("padding")}}));
}
void avg_pool(Backward& b, const Op& op) {
  b.give(0, b.add("avg_pool2d_backward", {b.grad(), b.in()},
                  {{"kernel", op.attributes.integer("kernel")},
                   {"stride", optional(op, "stride")},
                   {"padding", op.attributes.integer("padding")}}));
}
void adaptive_pool(Backward& b, const Op&) {
  b.give(0, b.add("adaptive_avg_pool2d_backward", {b.grad(), b.in()}));
}

}  // namespace

std::vector<GradientEntry> reduction_gradients() {
  return {{"sum", sum},
          {"mean", mean},
          {"amax", extreme},
          {"amin", extreme},
          {"softmax", softmax<softmax_name>},
          {"log_softmax", softmax<log_softmax_name>},
          {"nll_loss", nll_loss},
          {"layer_norm", layer_norm},
          {"rms_norm", rms_norm},
          {"batch_norm", batch_norm},
          {"group_norm", group_norm},
          {"max_pool2d", max_pool},
          {"avg_pool2d", avg_pool},
          {"adaptive_avg_pool2d", adaptive_pool},
          {"any", nullptr},
          {"argmax", nullptr}};
}

}  // namespace gpusim
