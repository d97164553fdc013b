// SPDX-License-Identifier: Apache-2.0
#include "models/graph/tensor.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "models/graph/sort_few.hpp"

namespace gpusim {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most : product;
}

bool has_strides(const TensorType& type, const Dims& wanted) {
  for (int i = 0; i < type.shape.rank(); ++i)
    if (type.shape[i] != 1 && type.strides[i] != wanted[i]) return false;
  return true;
}

}  // namespace

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.rank(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

std::int64_t element_count(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count = saturating_product(count, size);
  return count;
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step = saturating_product(step, std::max<std::int64_t>(shape[d], 1));
  }
  return strides;
}

Dims channels_last_strides(const Dims& shape) {
  Dims strides = shape;
  std::int64_t step = 1;
  const auto next = [&](int d) {
    strides[d] = step;
    step = saturating_product(step, std::max<std::int64_t>(shape[d], 1));
  };
  next(1);
  for (int d = shape.rank() - 1; d >= 2; --d) next(d);
  next(0);
  return strides;
}

TensorType contiguous_tensor(ElementType element, const Dims& shape) {
  return {.element = element, .shape = shape, .strides = contiguous_strides(shape)};
}

bool is_contiguous(const TensorType& type) {
  return has_strides(type, contiguous_strides(type.shape));
}

bool is_channels_last(const TensorType& type) {
  return type.shape.rank() >= 4 && has_strides(type, channels_last_strides(type.shape));
}

bool is_dense(const TensorType& type) {
  std::array<std::pair<std::int64_t, std::int64_t>, Dims::rank_max> dims;  // stride, size
  auto end = dims.begin();
  for (int i = 0; i < type.shape.rank(); ++i)
    if (type.shape[i] != 1) *end++ = {type.strides[i], type.shape[i]};
  sort_few(dims.begin(), end, std::less<>());
  std::int64_t step = 1;
  for (auto dim = dims.begin(); dim != end; ++dim) {
    if (dim->first != step) return false;
    step = saturating_product(step, dim->second);
  }
  return true;
}

Bytes stored_bytes(const TensorType& type) {
  std::int64_t count = 1;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (type.strides[i] != 0) count = saturating_product(count, type.shape[i]);
  return Bytes(saturating_product(count, size_of(type.element)));
}

Bytes dense_bytes(const TensorType& type) {
  return Bytes(saturating_product(elements(type), size_of(type.element)));
}

std::optional<Dims> view_strides(const TensorType& type, const Dims& shape) {
  const std::int64_t count = elements(type);
  if (count == 0) return contiguous_strides(shape);
  Dims strides = shape;
  int view_d = shape.rank() - 1;
  if (type.shape.empty()) {
    for (int i = 0; i < shape.rank(); ++i) strides[i] = 1;
    return strides;
  }
  // Chunks of old dimensions that lie one after the other are cut into new dimensions; a new dimension that
  // would reach across two chunks cannot be.
  std::int64_t chunk_stride = type.strides.back();
  std::int64_t old_size = 1;
  std::int64_t new_size = 1;
  for (int d = type.shape.rank() - 1; d >= 0; --d) {
    old_size *= type.shape[d];
    const bool chunk_ends =
        d == 0 || (type.shape[d - 1] != 1 && type.strides[d - 1] != old_size * chunk_stride);
    if (!chunk_ends) continue;
    while (view_d >= 0 && (new_size < old_size || shape[view_d] == 1)) {
      strides[view_d] = new_size * chunk_stride;
      new_size *= shape[view_d];
      --view_d;
    }
    if (new_size != old_size) return std::nullopt;
    if (d > 0) {
      chunk_stride = type.strides[d - 1];
      old_size = 1;
      new_size = 1;
    }
  }
  if (view_d != -1) return std::nullopt;
  return strides;
}

bool is_matrix_of_rows(const TensorType& type) {
  if (type.shape.rank() < 2) return true;
  if (type.shape.back() != 1 && type.strides.back() != 1) return false;
  return view_strides(type, Dims{row_count(type), type.shape.back()}).has_value();
}

std::int64_t row_count(const TensorType& type) {
  Dims rows;
  for (int i = 0; i + 1 < type.shape.rank(); ++i) rows.push_back(type.shape[i]);
  return element_count(rows);
}

std::string_view name(Role role) {
  switch (role) {
    case Role::Input:
      return "input";
    case Role::Parameter:
      return "parameter";
    case Role::Buffer:
      return "buffer";
    case Role::State:
      return "state";
    case Role::Activation:
      return "activation";
    case Role::Gradient:
      return "gradient";
  }
  return "?";
}

}  // namespace gpusim
