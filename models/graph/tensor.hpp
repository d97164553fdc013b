// SPDX-License-Identifier: Apache-2.0
// Shapes, strides and what a tensor is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "models/graph/element_type.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// Up to eight numbers: the sizes or the strides of a tensor.
class Dims {
 public:
  static constexpr int rank_max = 8;

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) {
    for (const std::int64_t v : values) push_back(v);
  }
  constexpr int rank() const { return rank_; }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr bool full() const { return rank_ == rank_max; }
  constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  /// The i-th from the end: back(0) is the last.
  constexpr std::int64_t back(int i = 0) const { return (*this)[rank_ - 1 - i]; }
  /// Callers make sure that there is room: see full().
  constexpr void push_back(std::int64_t v) { values_[static_cast<std::size_t>(rank_++)] = v; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  /// Unused places are zero, so equal dims are equal bytes.
  friend constexpr bool operator==(const Dims&, const Dims&) = default;

 private:
  std::array<std::int64_t, rank_max> values_{};
  std::int32_t rank_ = 0;
};

/// "[16, 1024, 768]".
std::string to_string(const Dims& dims);

/// Product of the sizes; 1 for a scalar. The largest int64 where it would overflow.
std::int64_t element_count(const Dims& shape);

/// Strides, in elements, of a tensor laid out row by row (the last dimension is contiguous).
Dims contiguous_strides(const Dims& shape);
/// Strides of [N, C, H, W] or [N, C, D, H, W] with the channels innermost ("channels last").
Dims channels_last_strides(const Dims& shape);

struct TensorType {
  ElementType element = ElementType::Fp32;
  Dims shape;
  Dims strides;  ///< In elements; 0 along a dimension that was expanded.
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

TensorType contiguous_tensor(ElementType element, const Dims& shape);

/// Whether the elements lie one after the other, row by row. Dimensions of size 1 have any stride.
bool is_contiguous(const TensorType& type);
bool is_channels_last(const TensorType& type);
/// Whether each place in memory is used by one element, without holes, in whatever order.
bool is_dense(const TensorType& type);

inline std::int64_t elements(const TensorType& type) {
  return element_count(type.shape);
}
/// Bytes of all elements, each counted once where the tensor is expanded.
Bytes stored_bytes(const TensorType& type);
/// Bytes of all elements as a dense tensor would have them.
Bytes dense_bytes(const TensorType& type);

/// Strides with which `type` can be seen as `shape` without moving anything, by PyTorch's rule; nothing if it
/// cannot.
std::optional<Dims> view_strides(const TensorType& type, const Dims& shape);

/// Whether all but the last dimension fold into one: then the tensor is a matrix of rows.
bool is_matrix_of_rows(const TensorType& type);

/// All dimensions but the last, multiplied.
std::int64_t row_count(const TensorType& type);

/// What a tensor is for.
enum class Role : std::uint8_t {
  Input,       ///< Given anew in each step.
  Parameter,   ///< Trained weights.
  Buffer,      ///< Constants of the network: masks, tables of angles, running means.
  State,       ///< Kept from step to step: a KV cache, an optimizer's moments.
  Activation,  ///< Made in the step.
  Gradient,
};
std::string_view name(Role role);

}  // namespace gpusim
