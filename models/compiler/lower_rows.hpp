// SPDX-License-Identifier: Apache-2.0
// Loops that reduce: rows of a tensor, cut in two where they are few and long. Internal to models/compiler.
#pragma once

#include <array>

#include "models/compiler/lowering.hpp"

namespace gpusim {

/// A reduction of a tensor: for each kept place, over the reduced ones.
struct RowLoop {
  Access access;  ///< Of the reduced tensor: kept digits first.
  std::int64_t kept = 1;
  std::int64_t reduced = 1;
  bool inner = true;  ///< The reduced places lie next to each other.
  Dims sizes;         ///< Of the loops, those over the kept places first.
  int kept_sizes = 0;
};

/// Dimensions in the order in which they lie in memory, those to keep first.
RowLoop row_loop(const Lowering& l, TensorIndex t, const std::array<bool, Dims::rank_max>& over);

std::array<bool, Dims::rank_max> last_dimension(const TensorType& type);
/// Of the op's first input, those that its attribute `dim` names; all without one.
std::array<bool, Dims::rank_max> reduced_dims(const Lowering& l, const Op& op);

struct Reduced {
  LoopIndex loop = loop_none;  ///< The one that makes the results.
  std::array<BufferIndex, 2> buffers{loop_none, loop_none};
};
/// One loop that reduces `value` to `results` numbers per row, in fp32; two where Inductor cuts it.
Reduced reduce(Lowering& l, LoopValue value, RowLoop rows, RowPass pass, int results,
               ElementType element = ElementType::Fp32);
/// Whether reduce() would make two loops of a sum.
bool is_cut(const Lowering& l, const LoopValue& value, const RowLoop& rows);

/// The result of a reduction as a loop over the rows' elements sees it. `out`: the loop's type; `over`: the
/// dimensions that were reduced.
void read_rows(Lowering& l, LoopValue& value, BufferIndex buffer, const TensorType& out,
               const std::array<bool, Dims::rank_max>& over);

}  // namespace gpusim
