// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions, attention: calls into a library.
#include <algorithm>
#include <array>
#include <utility>

#include "models/compiler/lowering.hpp"

namespace gpusim {
namespace {

/// Of what the framework launches, the products alone: copies before them are loops of their own here.
std::vector<EagerCall> only_products(std::vector<EagerCall> calls) {
  for (EagerCall& call : calls)
    std::erase_if(call.work, [](const KernelWork& work) {
      return !std::holds_alternative<MatrixProduct>(work) && !std::holds_alternative<GroupedProduct>(work) &&
             !std::holds_alternative<Convolution>(work);
    });
  return calls;
}

/// Rows of 16 bytes keep a library off its old kernels.
std::int64_t padded(std::int64_t size, Dtype dtype) {
  const std::int64_t elements = 128 / bits(dtype);
  return (size + elements - 1) / elements * elements;
}

/// Fills up the rows of a product: its operands, and copies of them in `copies` where there are none yet.
void pad(Lowering& l, const Op& op, std::vector<EagerCall>& calls, std::vector<BufferIndex>& copies) {
  if (!l.options().padding) return;
  std::array<bool, 2> operands{};
  for (EagerCall& call : calls)
    for (KernelWork& work : call.work) {
      auto* product = std::get_if<MatrixProduct>(&work);
      if (product == nullptr) continue;
      const MatrixProduct before = std::exchange(*product, filled_up(*product, l.gpu()));
      operands[0] = operands[0] || product->m != before.m || product->k != before.k;
      operands[1] = operands[1] || product->k != before.k || product->n != before.n;
    }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!operands[i] || copies[i] != loop_none) continue;
    const TensorIndex t = op.inputs[i];
    // As it lies, a transposed one by columns.
    const TensorType copy =
        is_dense(l.type(t)) ? l.type(t) : contiguous_tensor(l.type(t).element, l.type(t).shape);
    LoopValue value = l.read(t, copy);
    Lowering::name(value, "constant_pad_nd");
    copies[i] = l.new_buffer(elements(copy), copy.element);
    l.add_loop(LoopKind::Pointwise, std::move(value), elements(copy), 1, {copies[i]}, loop_sizes(copy));
  }
}

void lower_product(Lowering& l, const Op& op) {
  const bool linear = op.kind->name == "linear";
  constexpr std::size_t bias_at = 2;
  const bool has_bias = linear && op.inputs.size() > 2 && op.inputs[2] != graph_none;
  const TensorIndex out = op.outputs.front();
  // A product whose rows do not fold (a transposed input of three dimensions) is no addmm: the framework
  // adds the bias by itself then.
  const bool folds = is_matrix_of_rows(l.type(op.inputs.front()));
  const bool apart = has_bias && (!folds || (l.options().unfuse_bias && l.only_pointwise_users(out)));
  const std::size_t left_out = apart ? bias_at : Lowering::no_input;
  std::vector<EagerCall> calls = only_products(l.eager(op, left_out));
  std::vector<BufferIndex> copies(2, loop_none);
  if (!folds) copies[0] = l.row_copy(op.inputs.front(), "clone");
  pad(l, op, calls, copies);
  const LoopIndex index = l.library(op, std::move(calls), copies, left_out);
  l.loops().loops[index].product = true;
  l.add_view_name(out, has_bias && !apart ? "view" : "_unsafe_view");
  if (!apart) return;
  // out = product + bias, where it is read.
  const TensorIndex bias = op.inputs[bias_at];
  LoopValue value = l.read(out, l.type(out));
  Lowering::join(value, l.read(bias, l.type(out)));
  value.functions += 1;
  Lowering::name(value, "add");
  l.define(out, std::move(value));
}

/// Products of batches of matrices: an operand whose batches do not fold is copied, if it is not computed
/// anew anyway.
void lower_matmul(Lowering& l, const Op& op) {
  std::vector<EagerCall> calls = only_products(l.eager(op));
  std::vector<BufferIndex> copies(2, loop_none);
  const bool batched = l.type(op.inputs[1]).shape.rank() > 2;
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorType& type = l.type(op.inputs[i]);
    if (type.shape.rank() < 3) continue;
    Dims folded;
    if (batched) {
      std::int64_t batch = 1;
      for (int d = 0; d + 2 < type.shape.rank(); ++d) batch *= type.shape[d];
      folded = Dims{batch, type.shape.back(1), type.shape.back()};
    } else if (i == 0) {
      folded = Dims{elements(type) / type.shape.back(), type.shape.back()};
    }
    if (!view_strides(type, folded)) copies[i] = l.row_copy(op.inputs[i], "clone");
  }
  pad(l, op, calls, copies);
  const LoopIndex index = l.library(op, std::move(calls), copies);
  l.loops().loops[index].product = true;
  l.add_view_name(op.outputs.front(), "view");
}

void lower_conv(Lowering& l, const Op& op) {
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] != graph_none;
  const std::size_t left_out = has_bias ? 2 : Lowering::no_input;
  const LoopIndex index = l.library(op, only_products(l.eager(op, left_out)), {}, left_out);
  l.loops().loops[index].product = true;
  if (!has_bias) return;
  const TensorIndex out = op.outputs.front();
  const TensorIndex bias = op.inputs[2];
  const TensorType& type = l.type(out);
  LoopValue value = l.read(out, type);
  Dims strides;
  for (int d = 0; d < type.shape.rank(); ++d) strides.push_back(d == 1 ? 1 : 0);
  Lowering::join(value, l.read(bias, Access::over(type.shape, type.strides, strides, l.offset(bias))));
  value.functions += 1;
  Lowering::name(value, "convolution");
  l.define(out, std::move(value));
}

/// Attention: a library's kernel. A mask of truth values becomes one of numbers in a loop before it.
void lower_attention(Lowering& l, const Op& op) {
  std::vector<EagerCall> calls = l.eager(op);
  // A part of a value that is not in memory is computed by itself, in the order that attention wants.
  std::vector<BufferIndex> copies(3, loop_none);
  for (std::size_t i = 0; i < 3; ++i)
    if (l.is_part_of_value(op.inputs[i])) copies[i] = l.row_copy(op.inputs[i], "clone");
  for (EagerCall& call : calls)
    for (KernelWork& work : call.work) {
      bool masked = false;
      if (auto* attention = std::get_if<Attention>(&work)) masked = std::exchange(attention->masked, false);
      if (auto* decode = std::get_if<AttentionDecode>(&work)) masked = std::exchange(decode->masked, false);
      if (!masked) continue;
      const TensorIndex mask = op.inputs[3];
      const TensorType numbers = contiguous_tensor(l.type(op.inputs.front()).element, l.type(mask).shape);
      // Each attention converts it anew: the loops of a few layers are one kernel, as far as they stand near
      // each other.
      LoopValue value = l.read(mask, numbers);
      value.functions += 3;
      Lowering::name(value, "where");
      const BufferIndex buffer = l.new_buffer(elements(numbers), numbers.element);
      l.add_loop(LoopKind::Pointwise, std::move(value), elements(numbers), 1, {buffer}, loop_sizes(numbers));
      const LoopIndex index = l.library(op, calls, copies, 3);
      l.loops().loops[index].reads.push_back({.buffer = buffer,
                                              .access = Access::straight(elements(numbers)),
                                              .bytes = l.loops().buffers[buffer].bytes()});
      return;
    }
  l.library(op, std::move(calls), copies);
}

constexpr LowerEntry entries[]{{"linear", lower_product},
                               {"matmul", lower_matmul},
                               {"conv2d", lower_conv},
                               {"scaled_dot_product_attention", lower_attention}};

}  // namespace

MatrixProduct filled_up(MatrixProduct product, const GpuSpec& gpu) {
  if (bits(product.dtype) > 16) return product;
  const auto m = static_cast<double>(product.m);
  const auto n = static_cast<double>(product.n);
  const auto k = static_cast<double>(product.k);
  if (m * n * k <= 0.5 * ridge_point(gpu, product.dtype) * (m * k + k * n + m * n)) return product;
  std::int64_t& row_of_left = product.left_transposed ? product.m : product.k;
  std::int64_t& row_of_right = product.right_transposed ? product.k : product.n;
  for (std::int64_t* row : {&row_of_left, &row_of_right, &product.n}) *row = padded(*row, product.dtype);
  return product;
}

std::span<const LowerEntry> library_lowerings() {
  return entries;
}

}  // namespace gpusim
