// SPDX-License-Identifier: Apache-2.0
// Gradients that are written or added into zeros of the operand's shape: of slices, lookups and embeddings.
#include <algorithm>
#include <utility>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

TensorType zeros_like_operand(const OpView& op) {
  want_floating_gradient(op);
  const Dims& shape = op.attributes.dims("shape");
  for (const std::int64_t size : shape)
    if (size < 1) throw ShapeError("sizes must be at least 1, not " + std::to_string(size));
  return contiguous_tensor(op.in().element, shape);
}
std::vector<MadeTensor> infer_slice_backward(const OpView& op) {
  const TensorType made = zeros_like_operand(op);
  const int at = dimension(op.attributes.integer("dim"), made.shape.rank());
  const std::int64_t step = op.attributes.integer("step");
  if (step < 1) throw ShapeError("the step must be at least 1");
  std::int64_t start = op.attributes.integer("start");
  if (start < 0) start += made.shape[at];
  Dims part = made.shape;
  part[at] = op.in().shape.rank() == made.shape.rank() ? op.in().shape[at] : 0;
  if (!(part == op.in().shape) || start < 0 || start + (part[at] - 1) * step >= made.shape[at])
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " is no such slice of " +
                     to_string(made.shape));
  return {{.type = made}};
}
std::vector<MadeTensor> infer_select_backward(const OpView& op) {
  const TensorType made = zeros_like_operand(op);
  const int at = dimension(op.attributes.integer("dim"), made.shape.rank());
  const std::int64_t index = op.attributes.integer("index");
  Dims part;
  for (int i = 0; i < made.shape.rank(); ++i)
    if (i != at) part.push_back(made.shape[i]);
  if (!(part == op.in().shape) || index >= made.shape[at] || index < -made.shape[at])
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " is no such part of " +
                     to_string(made.shape));
  return {{.type = made}};
}
template <bool Select>
std::vector<EagerCall> eager_slice_backward(const OpView& op, const GpuSpec&) {
  // Zeros, then the gradient copied into a view of them.
  return {{.host_op = Select ? "select_backward" : "slice_backward",
           .work = {fill_work(op.out()), Pointwise{.elements = elements(op.in()),
                                                   .read = dense_bytes(op.in()),
                                                   .written = dense_bytes(op.in()),
                                                   .access = Pointwise::Access::Strided}}}};
}

std::vector<MadeTensor> infer_index_backward(const OpView& op) {
  const TensorType made = zeros_like_operand(op);
  want_indices(op, 1);
  if (op.has(2)) want_indices(op, 2);
  Dims shape = op.has(2) ? broadcast(op.in(1).shape, op.in(2).shape) : op.in(1).shape;
  for (int i = op.has(2) ? 2 : 1; i < made.shape.rank() && !shape.full(); ++i) shape.push_back(made.shape[i]);
  if (!(shape == op.in().shape))
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " was not looked up in " +
                     to_string(made.shape) + " by indices of shape " + to_string(op.in(1).shape));
  return {{.type = made}};
}
std::vector<MadeTensor> infer_index_select_backward(const OpView& op) {
  const TensorType made = zeros_like_operand(op);
  want_indices(op, 1);
  const int at = dimension(op.attributes.integer("dim"), made.shape.rank());
  Dims shape = made.shape;
  shape[at] = elements(op.in(1));
  if (!(shape == op.in().shape))
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " was not chosen from " +
                     to_string(made.shape) + " by " + std::to_string(shape[at]) + " indices");
  return {{.type = made}};
}
std::vector<MadeTensor> infer_gather_backward(const OpView& op) {
  const TensorType made = zeros_like_operand(op);
  want_indices(op, 1);
  dimension(op.attributes.integer("dim"), made.shape.rank());
  if (op.in().shape.rank() != made.shape.rank())
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " was not gathered from " +
                     to_string(made.shape));
  want_same_shape(op, 1, "an index");
  return {{.type = made}};
}
Scatter added_rows(const OpView& op, std::int64_t inner) {
  return {.rows = elements(op.in()) / inner,
          .row_bytes = Bytes(inner * size_of(op.in().element)),
          .add = true,
          .dtype = kernel_dtype(op.in().element)};
}
/// Zeros, then index_put with accumulate=true: negative places wrapped, made linear, divided by the rows'
/// length, numbered, sorted; then each place's rows added up.
std::vector<EagerCall> eager_index_backward(const OpView& op, const GpuSpec&) {
  std::int64_t inner = 1;
  for (int i = op.has(2) ? 2 : 1; i < op.out().shape.rank(); ++i) inner *= op.out().shape[i];
  Scatter added = added_rows(op, inner);
  added.sorted_places = elements(op.out()) / inner;
  Pointwise places;
  places.elements = added.rows;
  places.read = places.written = Bytes(8 * added.rows);
  EagerCall call{.host_op = "index_backward", .work = {fill_work(op.out())}};
  const int calls = op.has(2) ? 6 : 3;  // remainder and mul of each index, their sum, div_.
  for (int i = 0; i < calls; ++i) call.work.push_back(places);
  places.read = Bytes(0);
  call.work.push_back(places);  // arange
  call.work.push_back(added);
  return {call};
}
std::vector<EagerCall> eager_index_select_backward(const OpView& op, const GpuSpec&) {
  const int at = dimension(op.attributes.integer("dim"), op.out().shape.rank());
  std::int64_t inner = 1;
  for (int i = at + 1; i < op.out().shape.rank(); ++i) inner *= op.out().shape[i];
  return {{.host_op = "index_select_backward", .work = {fill_work(op.out()), added_rows(op, inner)}}};
}
std::vector<EagerCall> eager_gather_backward(const OpView& op, const GpuSpec&) {
  return {{.host_op = "gather_backward", .work = {fill_work(op.out()), added_rows(op, 1)}}};
}

std::vector<MadeTensor> infer_embedding_backward(const OpView& op) {
  want_floating_gradient(op);
  want_indices(op, 1);
  const std::int64_t rows = op.attributes.integer("rows");
  if (rows < 1) throw ShapeError("a table has at least one row");
  Dims shape = op.in(1).shape;
  if (!shape.full() && !op.in().shape.empty()) shape.push_back(op.in().shape.back());
  if (!(shape == op.in().shape))
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " was not looked up by indices of " +
                     to_string(op.in(1).shape));
  return {{.type = contiguous_tensor(op.in().element, Dims{rows, op.in().shape.back()})}};
}
std::vector<EagerCall> eager_embedding_backward(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "embedding_backward", .work = {}};
  add_contiguous(op.in(), call.work);
  call.work.push_back(EmbeddingBackward{.rows = elements(op.in(1)),
                                        .columns = op.out().shape[1],
                                        .table_rows = op.out().shape[0],
                                        .dtype = kernel_dtype(op.in().element)});
  return {call};
}

}  // namespace

std::vector<OpKind> scatter_backward_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) { kinds.push_back(std::move(kind)); };
  const OpAttribute shape{"shape", AttributeType::Dims};
  add({.name = "slice_backward",
       .help = "Gradient of slice: zeros of `shape` with the gradient in its place",
       .inputs = {{"grad"}},
       .attributes =
           {shape, {"dim", Integer}, {"start", Integer, std::int64_t{0}}, {"step", Integer, std::int64_t{1}}},
       .infer = infer_slice_backward,
       .eager = eager_slice_backward<false>});
  add({.name = "select_backward",
       .help = "Gradient of select: zeros of `shape` with the gradient in its place",
       .inputs = {{"grad"}},
       .attributes = {shape, {"dim", Integer}, {"index", Integer}},
       .infer = infer_select_backward,
       .eager = eager_slice_backward<true>});
  add({.name = "index_backward",
       .help = "Gradient of index: added to zeros of `shape`",
       .fusion = FusionClass::Scatter,
       .inputs = {{"grad"}, {"index"}, {"second", InputNeed::Optional}},
       .attributes = {shape},
       .infer = infer_index_backward,
       .eager = eager_index_backward});
  add({.name = "index_select_backward",
       .help = "Gradient of index_select: added to zeros of `shape`",
       .fusion = FusionClass::Scatter,
       .inputs = {{"grad"}, {"index"}},
       .attributes = {shape, {"dim", Integer, std::int64_t{0}}},
       .infer = infer_index_select_backward,
       .eager = eager_index_select_backward});
  add({.name = "gather_backward",
       .help = "Gradient of gather: added to zeros of `shape`",
       .fusion = FusionClass::Scatter,
       .inputs = {{"grad"}, {"index"}},
       .attributes = {shape, {"dim", Integer, std::int64_t{-1}}},
       .infer = infer_gather_backward,
       .eager = eager_gather_backward});
  add({.name = "embedding_backward",
       .help = "Gradient of embedding: rows added to a table of zeros",
       .fusion = FusionClass::Scatter,
       .inputs = {{"grad"}, {"ids"}},
       .attributes = {{"rows", Integer}},
       .infer = infer_embedding_backward,
       .eager = eager_embedding_backward});
  return kinds;
}

}  // namespace gpusim
