// SPDX-License-Identifier: Apache-2.0
// What the loop of an op goes over, and where in memory it finds what it reads: what decides whether two ops
// can share a loop.
#pragma once

#include <cstdint>

#include "models/compiler/access.hpp"
#include "models/graph/op_graph.hpp"
#include "models/graph/tensor.hpp"

namespace gpusim {

struct LoopSpace {
  enum class Kind : std::uint8_t {
    Elementwise,  ///< One result per step; reads by index (gathers) too.
    Reduction,    ///< Results per row, or per element of rows that it had to see first (softmax, norms).
    Product,      ///< Matrix products and convolutions.
    Store,        ///< Writes at places that data decide, or a part of memory that stays.
    Library,      ///< A kernel as it is.
  };
  Kind kind = Kind::Elementwise;
  std::int64_t elements = 0;  ///< Steps of the loop: of a reduction, all that it reads.
  std::int64_t columns = 1;   ///< Of reductions: how many elements go into one result.
  bool keeps_shape = false;   ///< A reduction that gives an element for each that it reads.
  /// The loop: over these dimensions, in the order of these strides. Elementwise ops go as what they write
  /// lies in memory, reductions row by row.
  Dims shape{};
  Dims order{};
  std::int64_t rows() const { return elements / columns; }
  friend bool operator==(const LoopSpace&, const LoopSpace&) = default;
};

/// The loop of an op of the catalogue. BatchNorm with running statistics is elementwise.
LoopSpace loop_space(const OpGraph& graph, const Op& op);

/// The places at which an op's loop finds its input in the memory that this lives in, `offset` elements from
/// the memory's beginning; irregular where the two have no common index (parts that are joined, places that
/// data decide).
Access reading(const OpGraph& graph, OpIndex op, const LoopSpace& space, std::size_t input,
               std::int64_t offset);

/// Whether an op's loop writes its first result from one end of the memory to the other.
bool writes_straight(const OpGraph& graph, const Op& op, const LoopSpace& space);

}  // namespace gpusim
