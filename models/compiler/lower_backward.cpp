// SPDX-License-Identifier: Apache-2.0
// Ops that only backward passes have and that stay whole: gradients put into zeros, pooling, attention.
#include <algorithm>
#include <array>
#include <utility>

#include "models/compiler/lowering.hpp"

namespace gpusim {
namespace {

constexpr std::int32_t masked_operations = 5;  ///< A place compared, and a value or zero by that.

/// zeros with the gradient at one index of a dimension: chosen place by place.
void lower_select_backward(Lowering& l, const Op& op) {
  const TensorIndex grad = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const TensorType& made = l.type(out);
  const std::int64_t dim = op.attributes.integer("dim");
  const int at = static_cast<int>(dim < 0 ? dim + made.shape.rank() : dim);
  Dims strides;
  for (int d = 0; d < made.shape.rank(); ++d)
    strides.push_back(d == at ? 0 : l.type(grad).strides[d < at ? d : d - 1]);
  LoopValue value = l.read(grad, Access::over(made.shape, made.strides, strides, l.offset(grad)));
  value.functions += masked_operations;
  Lowering::name(value, op);
  l.define(out, std::move(value));
}

/// zeros with the gradient in a part: the places of the part are shifted.
void lower_slice_backward(Lowering& l, const Op& op) {
  const TensorIndex grad = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const std::int64_t count = elements(l.type(out));
  LoopValue value = l.read(grad, contiguous_tensor(l.type(grad).element, l.type(grad).shape));
  const std::int64_t start = op.attributes.integer("start");
  const std::int64_t step = op.attributes.integer("step");
  for (Touch& touch : value.reads) touch.access = touch.access.made_irregular(count, start * 64 + step);
  value.functions += masked_operations + 3;
  Lowering::name(value, op);
  l.define(out, std::move(value));
}

/// Zeros, and the gradient added to them at places that data decide: one loop each. `sizes`: of the loops
/// over the gradient; `index`: what an index is for each of its places.
void lower_added(Lowering& l, const Op& op, const std::vector<std::pair<TensorIndex, Access>>& indices) {
  const TensorIndex grad = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  // 16 bits are added up in fp32 and cast in the end.
  const bool narrow = size_of(l.type(out).element) < 4;
  const ElementType element = narrow ? ElementType::Fp32 : l.type(out).element;
  const BufferIndex table = l.new_buffer(elements(l.type(out)), element);
  LoopValue zeros;
  zeros.functions = 1;
  Lowering::name(zeros, op);
  l.add_loop(LoopKind::Pointwise, std::move(zeros), elements(l.type(out)), 1, {table},
             loop_sizes(l.type(out)));
  const TensorType loop = contiguous_tensor(l.type(grad).element, l.type(grad).shape);
  const std::int64_t count = elements(loop);
  LoopValue value = l.read(grad, loop);
  for (const auto& [index, access] : indices) Lowering::join(value, l.read(index, access));
  value.functions += masked_operations;
  Lowering::name(value, op);
  const Bytes moved(std::min(count, elements(l.type(out))) * size_of(element));
  const Access places = Access::irregular(count, l.next_irregular());
  value.reads.push_back({.buffer = table, .access = places, .bytes = moved, .indirect = true});
  const LoopIndex at = l.add_loop(LoopKind::Pointwise, std::move(value), count, 1, {}, loop_sizes(loop));
  l.loops().loops[at].scatter = true;
  l.loops().loops[at].adds = true;
  l.loops().loops[at].writes.push_back({.buffer = table, .access = places, .bytes = moved, .indirect = true});
  l.loops().buffers[table].producer = at;
  if (!narrow) {
    l.place(out, table);
    return;
  }
  LoopValue cast;
  cast.reads.push_back({.buffer = table,
                        .access = Access::straight(elements(l.type(out))),
                        .bytes = l.loops().buffers[table].bytes()});
  cast.functions = 1;
  Lowering::name(cast, op);
  l.define(out, std::move(cast));
}

/// The places of an index whose dimensions are those of the gradient from `first` on.
Access index_access(const Lowering& l, TensorIndex index, const TensorType& grad, int first) {
  const TensorType& type = l.type(index);
  const TensorType loop = contiguous_tensor(grad.element, grad.shape);
  Dims strides;
  for (int d = 0; d < loop.shape.rank(); ++d) {
    const int own = d - first;
    strides.push_back(own >= 0 && own < type.shape.rank() && type.shape[own] != 1 ? type.strides[own] : 0);
  }
  return Access::over(loop.shape, loop.strides, strides, l.offset(index));
}

void lower_embedding_backward(Lowering& l, const Op& op) {
  const TensorIndex ids = op.inputs[1];
  lower_added(l, op, {{ids, index_access(l, ids, l.type(op.inputs[0]), 0)}});
}
void lower_index_backward(Lowering& l, const Op& op) {
  std::vector<std::pair<TensorIndex, Access>> indices;
  const TensorType& grad = l.type(op.inputs[0]);
  for (std::size_t i = 1; i < op.inputs.size(); ++i)
    if (op.inputs[i] != graph_none)
      indices.emplace_back(op.inputs[i], index_access(l, op.inputs[i], grad, 0));
  lower_added(l, op, indices);
}
void lower_index_select_backward(Lowering& l, const Op& op) {
  const std::int64_t dim = op.attributes.integer("dim");
  const TensorType& grad = l.type(op.inputs[0]);
  const int at = static_cast<int>(dim < 0 ? dim + grad.shape.rank() : dim);
  lower_added(l, op, {{op.inputs[1], index_access(l, op.inputs[1], grad, at)}});
}
void lower_gather_backward(Lowering& l, const Op& op) {
  lower_added(l, op, {{op.inputs[1], index_access(l, op.inputs[1], l.type(op.inputs[0]), 0)}});
}

/// Each pixel looks at the windows that it is in. Large windows are left to the library.
void lower_pool_backward(Lowering& l, const Op& op) {
  const TensorIndex out = op.outputs.front();
  const std::int64_t kernel = op.attributes.has("kernel") ? op.attributes.integer("kernel") : 0;
  const std::int64_t stride = op.attributes.has("stride") ? op.attributes.integer("stride") : kernel;
  constexpr std::int64_t unrolled_window_max = 25;
  if (kernel == 0 || kernel * kernel > unrolled_window_max) {
    l.library(op, l.eager(op));
    return;
  }
  const std::int64_t windows = (kernel + stride - 1) / stride;
  LoopValue value;
  // The gradient, and of max pooling the places that were taken.
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    if (i >= op.inputs.size() || op.inputs[i] == graph_none) continue;
    value.reads.push_back({.buffer = l.realize(op.inputs[i]),
                           .access = Access::irregular(elements(l.type(out)), l.next_irregular()),
                           .bytes = l.bytes(op.inputs[i])});
  }
  value.functions += static_cast<std::int32_t>(windows * windows * 8);
  value.lane_cycles += static_cast<double>(windows * windows) * lane_cycles(AluFunction::Add, l.gpu());
  Lowering::name(value, op);
  l.define(out, std::move(value));
}

/// A library's kernels; parts of values that are not in memory are computed by themselves, in the order that
/// attention wants.
void lower_attention_backward(Lowering& l, const Op& op) {
  std::vector<BufferIndex> copies(op.inputs.size(), loop_none);
  for (std::size_t i = 0; i < 4; ++i)
    if (l.is_part_of_value(op.inputs[i])) copies[i] = l.row_copy(op.inputs[i], "clone");
  l.library(op, l.eager(op), copies);
}

constexpr LowerEntry entries[]{{"select_backward", lower_select_backward},
                               {"slice_backward", lower_slice_backward},
                               {"embedding_backward", lower_embedding_backward},
                               {"index_backward", lower_index_backward},
                               {"index_select_backward", lower_index_select_backward},
                               {"gather_backward", lower_gather_backward},
                               {"max_pool2d_backward", lower_pool_backward},
                               {"avg_pool2d_backward", lower_pool_backward},
                               {"scaled_dot_product_attention_backward", lower_attention_backward}};

}  // namespace

std::span<const LowerEntry> backward_lowerings() {
  return entries;
}

}  // namespace gpusim
