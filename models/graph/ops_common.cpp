// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "models/graph/ops.hpp"

namespace gpusim {

int dimension(std::int64_t dim, int rank) {
  const std::int64_t from_front = dim < 0 ? dim + rank : dim;
  if (from_front < 0 || from_front >= rank)
    throw ShapeError(
        "there is no dimension " + std::to_string(dim) + " in a tensor of " + std::to_string(rank),
        "dimensions count from 0, or from -1 backwards");
  return static_cast<int>(from_front);
}

Dtype kernel_dtype(ElementType type) {
  switch (type) {
    case ElementType::Fp64:
    case ElementType::Int64:
      return Dtype::Fp64;
    case ElementType::Fp32:
    case ElementType::Int32:
      return Dtype::Fp32;
    case ElementType::Bf16:
      return Dtype::Bf16;
    case ElementType::Fp16:
      return Dtype::Fp16;
    case ElementType::Fp8:
      return Dtype::Fp8;
    case ElementType::Int8:
    case ElementType::UInt8:
    case ElementType::Bool:
      return Dtype::Int8;
  }
  return Dtype::Fp32;
}

Dims broadcast(const Dims& a, const Dims& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims result;
  for (int i = 0; i < rank; ++i) {
    const int from_a = i - (rank - a.rank());
    const int from_b = i - (rank - b.rank());
    const std::int64_t x = from_a < 0 ? 1 : a[from_a];
    const std::int64_t y = from_b < 0 ? 1 : b[from_b];
    if (x != y && x != 1 && y != 1)
      throw ShapeError("shapes " + to_string(a) + " and " + to_string(b) + " do not go together",
                       "sizes must be equal or 1, counted from the last dimension");
    result.push_back(x == 1 ? y : x);
  }
  return result;
}

Dims pointwise_strides(std::span<const TensorType* const> operands, const Dims& shape) {
  // What TensorIterator does. First the plain cases: operands of one shape and one dense layout.
  bool one_shape = true;
  bool contiguous = true;
  bool one_layout = true;
  const TensorType* first = nullptr;
  for (const TensorType* operand : operands) {
    if (operand == nullptr) continue;
    if (first == nullptr) first = operand;
    one_shape = one_shape && operand->shape == shape;
    contiguous = contiguous && is_contiguous(*operand);
    one_layout = one_layout && is_dense(*operand) && operand->strides == first->strides;
  }
  if (first == nullptr || shape.rank() < 2 || (one_shape && contiguous)) return contiguous_strides(shape);
  if (one_shape && one_layout) return first->strides;
  // Else the dimensions are sorted by the operands' strides, the first operand that can tell two dimensions
  // apart deciding (an insertion sort, for comparisons that may be undecided), and the output is laid out in
  // that order.
  const auto stride = [&](const TensorType& operand, int dim) -> std::int64_t {
    const int own = dim - (shape.rank() - operand.shape.rank());
    return own < 0 || (operand.shape[own] == 1 && shape[dim] != 1) ? 0 : operand.strides[own];
  };
  const auto comes_after = [&](int a, int b) {  // 1: yes; -1: no; 0: cannot be told.
    for (const TensorType* operand : operands) {
      if (operand == nullptr) continue;
      const std::int64_t x = stride(*operand, a);
      const std::int64_t y = stride(*operand, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  std::array<int, Dims::rank_max> order{};  // Fastest first.
  for (int i = 0; i < shape.rank(); ++i) order[static_cast<std::size_t>(i)] = shape.rank() - 1 - i;
  for (int i = 1; i < shape.rank(); ++i) {
    int at = i;
    for (int before = i - 1; before >= 0; --before) {
      int& left = order[static_cast<std::size_t>(before)];
      int& right = order[static_cast<std::size_t>(at)];
      const int after = comes_after(left, right);
      if (after < 0) break;
      if (after == 0) continue;
      std::swap(left, right);
      at = before;
    }
  }
  Dims strides = shape;
  std::int64_t next = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    const int dim = order[static_cast<std::size_t>(i)];
    strides[dim] = next;
    next *= shape[dim];
  }
  return strides;
}

namespace {

/// Whether both are walked through in the same order of memory.
bool same_order(const TensorType& a, const TensorType& b) {
  std::int64_t last_a = 0;
  std::int64_t last_b = 0;
  for (int i = a.shape.rank() - 1; i >= 0; --i) {
    if (a.shape[i] == 1) continue;
    if ((a.strides[i] < last_a) != (b.strides[i] < last_b)) return false;
    last_a = a.strides[i];
    last_b = b.strides[i];
  }
  return true;
}

/// Whether an operand of an elementwise op is read in the very order in which the result is written: neither
/// broadcast, nor permuted, nor a slice.
bool along(const TensorType& operand, const TensorType& out) {
  const int more = out.shape.rank() - operand.shape.rank();
  for (int i = 0; i < out.shape.rank(); ++i) {
    if (out.shape[i] == 1) continue;
    if (i < more || operand.shape[i - more] != out.shape[i] || operand.strides[i - more] != out.strides[i])
      return false;
  }
  return true;
}

}  // namespace

Pointwise pointwise_work(const OpView& op, double lane_cycles) {
  const TensorType& out = op.out();
  Pointwise work;
  work.elements = elements(out);
  work.lane_cycles = lane_cycles;
  Bytes largest{0};
  for (const TensorType* made : op.outputs) {
    work.written += dense_bytes(*made);
    largest = std::max(largest, dense_bytes(*made));
  }
  bool strided = !is_dense(out);
  bool cast = false;
  bool widened = false;
  for (const TensorType* input : op.inputs) {
    if (input == nullptr) continue;
    work.read += stored_bytes(*input);
    largest = std::max(largest, stored_bytes(*input));
    if (elements(*input) == 1) continue;
    strided = strided || !along(*input, out);
    // Truth values are read and written by the functions themselves; other formats are converted on the way.
    if (input->element == out.element || input->element == ElementType::Bool ||
        out.element == ElementType::Bool)
      continue;
    cast = true;
    widened = widened || size_of(input->element) < size_of(out.element);
  }
  if (strided)
    work.access = cast ? Pointwise::Access::StridedCast : Pointwise::Access::Strided;
  else if (widened)
    work.access = Pointwise::Access::Unrolled;
  work.parts = pointwise_parts(largest);
  return work;
}

KernelWork copy_work(const TensorType& from, const TensorType& to) {
  const bool straight = from.strides == to.strides || same_order(from, to);
  Pointwise work{.elements = elements(to), .read = stored_bytes(from), .written = dense_bytes(to)};
  // A transposition: the innermost dimension of one is not the innermost of the other, so one side jumps.
  int inner_from = -1;
  int inner_to = -1;
  for (int i = 0; i < to.shape.rank(); ++i) {
    if (to.shape[i] == 1) continue;
    if (from.strides[i] == 1) inner_from = i;
    if (to.strides[i] == 1) inner_to = i;
  }
  if (!straight && inner_from != inner_to && inner_from >= 0 && inner_to >= 0 && from.element == to.element)
    return TransposedCopy{.elements = work.elements,
                          .element_bytes = static_cast<std::int32_t>(size_of(to.element))};
  if (!straight || !is_dense(from) || !is_dense(to))
    work.access = from.element != to.element ? Pointwise::Access::StridedCast : Pointwise::Access::Strided;
  else if (size_of(from.element) < size_of(to.element))
    work.access = Pointwise::Access::Unrolled;
  work.parts = pointwise_parts(std::max(work.read, work.written));
  return work;
}

Pointwise fill_work(const TensorType& type) {
  return {.elements = elements(type),
          .read = Bytes(0),
          .written = dense_bytes(type),
          .parts = pointwise_parts(dense_bytes(type))};
}

void want_same_shape(const OpView& op, std::size_t input, std::string_view what) {
  if (op.in().shape == op.in(input).shape) return;
  throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " does not belong to " +
                   std::string(what) + " of shape " + to_string(op.in(input).shape));
}
void want_floating_gradient(const OpView& op) {
  if (!is_floating(op.in().element))
    throw ShapeError("gradients are floating, not " + std::string(name(op.in().element)));
}
void want_indices(const OpView& op, std::size_t input) {
  if (is_floating(op.in(input).element))
    throw ShapeError("indices must be integers, not " + std::string(name(op.in(input).element)));
}

void add_contiguous(const TensorType& type, std::vector<KernelWork>& work) {
  if (!is_contiguous(type)) work.push_back(copy_work(type, contiguous_tensor(type.element, type.shape)));
}

}  // namespace gpusim
