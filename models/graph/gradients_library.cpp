// SPDX-License-Identifier: Apache-2.0
// Gradients of products, attention, lookups and sorting.
#include <algorithm>

#include "models/graph/autograd.hpp"
#include "models/graph/ops.hpp"
#include "models/graph/training_forward.hpp"

namespace gpusim {
namespace {

/// [rows, last] of [.., last].
TensorIndex as_rows(Backward& b, TensorIndex t) {
  const TensorType type = b.type(t);
  const std::int64_t last = type.shape.back();
  return b.viewed(t, Dims{elements(type) / last, last});
}

/// x gets grad times the weight, the weight grad transposed times x, the bias the sum over the rows.
void linear(Backward& b, const Op&) {
  // The weight is transposed; the leading dimensions are folded before the product and unfolded after it.
  b.add_nodes(b.type(b.in(0)).shape.rank() > 2 ? 3 : 1);
  const TensorIndex g = as_rows(b, b.grad());
  if (b.needs(0)) b.give(0, b.viewed(b.add("matmul", {g, b.in(1)}), Dims(b.type(b.in(0)).shape)));
  if (b.needs(1)) b.give(1, b.add("matmul", {b.transposed(g), as_rows(b, b.in(0))}));
  if (b.needs(2)) b.give(2, g);
}
/// As linear(), the gradient and what it is multiplied with in 8 bits. The library takes the second operand
/// with its inner dimension last, so both products of the weight's gradient and the one of the input's need
/// copies that are transposed (torchao/float8/float8_linear.py).
void scaled_mm(Backward& b, const Op& op) {
  const TensorIndex g = as_rows(b, b.grad());
  const auto add = [&](std::string_view kind, std::vector<TensorIndex> inputs,
                       std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes) {
    return b.add(kind, std::move(inputs), attributes);
  };
  const Scaled8 g8 = scale_to_8_bits(add, g);
  const AttributeValue dtype = op.attributes.word("dtype");
  const auto turned = [&](TensorIndex t) { return b.add("contiguous", {b.transposed(t)}); };
  if (b.needs(5))
    b.give(5,
           b.viewed(b.add("scaled_mm", {g8.values, turned(b.in(1)), g8.scale, b.in(3)}, {{"dtype", dtype}}),
                    Dims(b.type(b.in(5)).shape)));
  if (b.needs(6))
    b.give(6, b.add("scaled_mm", {turned(g8.values), turned(as_rows(b, b.in(0))), g8.scale, b.in(2)},
                    {{"dtype", dtype}}));
  if (b.needs(4)) b.give(4, g);
}
void addmm(Backward& b, const Op&) {
  if (b.needs(1)) b.give(1, b.add("matmul", {b.grad(), b.transposed(b.in(2))}));
  if (b.needs(2)) b.give(2, b.add("matmul", {b.transposed(b.in(1)), b.grad()}));
  if (b.needs(0)) b.give(0, b.grad());
}
/// With a matrix on the right the leading dimensions are rows, as torch.matmul folds them.
void matmul(Backward& b, const Op&) {
  if (b.type(b.in(1)).shape.rank() == 2 && b.type(b.in(0)).shape.rank() > 2) {
    const TensorIndex g = as_rows(b, b.grad());
    if (b.needs(0))
      b.give(0, b.viewed(b.add("matmul", {g, b.transposed(b.in(1))}), Dims(b.type(b.in(0)).shape)));
    if (b.needs(1)) b.give(1, b.add("matmul", {b.transposed(as_rows(b, b.in(0))), g}));
    return;
  }
  TensorIndex g = b.grad();
  Dims batch;
  for (int i = 0; i + 2 < b.type(g).shape.rank(); ++i) batch.push_back(b.type(g).shape[i]);
  // The batches are folded once for both products.
  if (!b.functional() && copied_for_product(b.type(g), batch)) g = b.add("contiguous", {g});
  if (b.needs(0)) b.give(0, b.add("matmul", {g, b.transposed(b.in(1))}));
  if (b.needs(1)) b.give(1, b.add("matmul", {b.transposed(b.in(0)), g}));
}
void grouped_mm(Backward& b, const Op&) {
  const std::vector<TensorIndex> made =
      b.add_all("grouped_mm_backward", {b.grad(), b.in(0), b.in(1), b.has(2) ? b.in(2) : graph_none});
  if (b.needs(0)) b.give(0, made[0]);
  if (b.needs(1)) b.give(1, made[1]);
}
void conv2d(Backward& b, const Op& op) {
  const std::vector<TensorIndex> made = b.add_all("conv2d_backward", {b.grad(), b.in(0), b.in(1)},
                                                  {{"stride", op.attributes.integer("stride")},
                                                   {"padding", op.attributes.integer("padding")},
                                                   {"dilation", op.attributes.integer("dilation")},
                                                   {"groups", op.attributes.integer("groups")},
                                                   {"input_grad", b.needs(0)}});
  if (b.needs(0)) b.give(0, made.front());
  if (b.needs(1)) b.give(1, made.back());
  if (b.needs(2)) b.give(2, b.add("sum", {b.grad()}, {{"dim", Dims{0, 2, 3}}}));
}
void attention(Backward& b, const Op& op) {
  const std::vector<TensorIndex> made = b.add_all(
      "scaled_dot_product_attention_backward",
      {b.grad(), b.in(0), b.in(1), b.in(2), b.out(0), b.out(1), b.has(3) ? b.in(3) : graph_none},
      {{"is_causal", op.attributes.flag("is_causal")}, {"enable_gqa", op.attributes.flag("enable_gqa")}});
  for (std::size_t i = 0; i < 3; ++i)
    if (b.needs(i)) b.give(i, made[i]);
}
void embedding(Backward& b, const Op&) {
  if (b.needs(1))
    b.give(1, b.add("embedding_backward", {b.grad(), b.in(0)}, {{"rows", b.type(b.in(1)).shape[0]}}));
}
void index(Backward& b, const Op&) {
  b.give(0, b.add("index_backward", {b.grad(), b.in(1), b.has(2) ? b.in(2) : graph_none},
                  {{"shape", Dims(b.type(b.in(0)).shape)}}));
}
void index_select(Backward& b, const Op& op) {
  b.give(0, b.add("index_select_backward", {b.grad(), b.in(1)},
                  {{"shape", Dims(b.type(b.in(0)).shape)}, {"dim", op.attributes.integer("dim")}}));
}
void gather(Backward& b, const Op& op) {
  b.give(0, b.add("gather_backward", {b.grad(), b.in(1)},
                  {{"shape", Dims(b.type(b.in(0)).shape)}, {"dim", op.attributes.integer("dim")}}));
}
/// The largest, or all in order: each value's gradient goes to its old place.
void chosen(Backward& b, const Op&) {
  if (b.grad(0) == graph_none) return;
  b.give(0, b.add("gather_backward", {b.grad(0), b.out(1)},
                  {{"shape", Dims(b.type(b.in(0)).shape)}, {"dim", std::int64_t{-1}}}));
}
/// What was written or added at chosen places gets the gradient found there. The tensor written to is the
/// same memory, so its gradient is there already.
void rows_written(Backward& b, const Op& op) {
  if (b.needs(2))
    b.give(2, b.viewed(b.add("index_select", {b.grad(), b.in(1)}, {{"dim", op.attributes.integer("dim")}}),
                       Dims(b.type(b.in(2)).shape)));
}
void elements_written(Backward& b, const Op& op) {
  if (b.needs(2)) b.give(2, b.add("gather", {b.grad(), b.in(1)}, {{"dim", op.attributes.integer("dim")}}));
}

}  // namespace

std::vector<GradientEntry> library_gradients() {
  return {{"linear", linear},
          {"scaled_mm", scaled_mm},
          {"addmm", addmm},
          {"matmul", matmul},
          {"grouped_mm", grouped_mm},
          {"conv2d", conv2d},
          {"scaled_dot_product_attention", attention},
          {"embedding", embedding},
          {"index", index},
          {"index_select", index_select},
          {"gather", gather},
          {"topk", chosen},
          {"sort", chosen},
          {"index_add_", rows_written},
          {"index_copy_", rows_written},
          {"index_put_", rows_written},
          {"scatter_", elements_written},
          {"argsort", nullptr},
          {"bincount", nullptr},
          {"histc", nullptr},
          {"nonzero", nullptr},
          {"one_hot", nullptr},
          {"item", nullptr},
          {"to_host", nullptr},
          {"graph_break", nullptr}};
}

}  // namespace gpusim
