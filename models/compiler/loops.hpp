// SPDX-License-Identifier: Apache-2.0
// A region as loops over buffers: what a compiler decides about, and nothing of what the numbers mean.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/access.hpp"
#include "models/cost/kernel_work.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

using BufferIndex = std::uint32_t;
using LoopIndex = std::uint32_t;
inline constexpr std::uint32_t loop_none = std::numeric_limits<std::uint32_t>::max();

/// Memory that loops read and write: what the region is given, and what it makes.
struct Buffer {
  std::int64_t elements = 0;
  ElementType element = ElementType::Fp32;
  StorageIndex storage =
      graph_none;                  ///< Of the op graph where the region is given it or must leave it there.
  LoopIndex producer = loop_none;  ///< None: given.
  bool needed = false;             ///< Somebody outside of the region reads it.
  Bytes bytes() const { return Bytes(elements * size_of(element)); }
};

/// One way in which a loop reads or writes a buffer.
struct Touch {
  BufferIndex buffer = loop_none;
  Access access;
  /// Distinct bytes. Of an indirect one: of the rows that it finds.
  Bytes bytes{0};
  bool indirect = false;  ///< At places that data decide.
  /// Stands for the sizes of the loops that the place depends on, set when the touch is part of a Loop. One
  /// and the same map may belong to loops over [8, 1024] and over [8192].
  std::uint64_t sizes = 0;
  /// Stands for the distances from one turn of each of those loops to the next, whatever their order; 0: not
  /// known.
  std::uint64_t strides = 0;
  friend bool operator==(const Touch& a, const Touch& b) {
    return a.buffer == b.buffer && a.indirect == b.indirect && a.access == b.access;
  }
};

/// Arithmetic of one value that a loop works out: once, however often its expression reads it.
struct LoopPart {
  TensorIndex value = graph_none;
  std::uint64_t place = 0;  ///< Stands for the map from the loop's places to the value's; 0: the same places.
  /// How many places of the loop one after the other have the same of it: that of a row, as long as the row.
  std::int64_t repeat = 1;
  double lane_cycles = 0;      ///< Per element.
  std::int32_t functions = 0;  ///< Operations, as Inductor counts them.
  bool is_like(const LoopPart& other) const { return value == other.value && place == other.place; }
};

enum class LoopKind : std::uint8_t {
  Pointwise,
  Reduction,
  Library,  ///< One or several kernels of a library: nothing joins them, unless the product takes an
            ///< epilogue.
  Nothing,  ///< Memory without contents.
};

/// How a reduction runs over its row.
enum class RowPass : std::uint8_t { Plain, Sum, Welford, OnlineSoftmax, ArgMax };

/// One loop: for each of `numel` places, over `rnumel` values that are reduced to one.
struct Loop {
  LoopKind kind = LoopKind::Pointwise;
  OpIndex op = graph_none;             ///< The op that it is made for.
  std::vector<OpIndex> origins;        ///< All whose work is in it; ascending.
  std::vector<std::string_view> aten;  ///< Names of the framework's ops in it, for the kernel's name.
  std::int64_t numel = 0;
  std::int64_t rnumel = 1;
  std::int64_t whole_numel = 0;  ///< Of a reduction that was cut in two: before.
  std::int64_t whole_rnumel = 1;
  std::vector<Touch> reads;
  std::vector<Touch> writes;
  std::vector<LoopPart> parts;  ///< What is worked out in it.
  RowPass pass = RowPass::Plain;
  bool inner = true;                 ///< The reduced values lie next to each other.
  SplitPart part = SplitPart::Both;  ///< Of a reduction that was cut in two loops.
  bool scatter = false;  ///< Writes at places that data decide, or into a part of a buffer that stays.
  bool adds = false;     ///< What it writes so is added to what is there, one atomic operation an element.
  bool random = false;
  std::vector<EagerCall> calls;  ///< Library: what it launches.
  bool product = false;          ///< A matrix product or convolution: may take an epilogue.
  bool templated = false;        ///< A product that is compiled: takes elementwise consumers in.
};

struct LoopGraph {
  std::vector<Buffer> buffers;
  std::vector<Loop> loops;  ///< In an order in which they can run.
};

}  // namespace gpusim
