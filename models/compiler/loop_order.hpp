// SPDX-License-Identifier: Apache-2.0
// Which loops have to run before which. Internal to models/compiler.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "models/compiler/loops.hpp"

namespace gpusim {

/// A loop that has to run before another one.
using LoopEdge = std::pair<LoopIndex, LoopIndex>;

/// Readers behind the writer, writers behind earlier readers and writers. Each edge once, in the order of the
/// loops at which they end.
std::vector<LoopEdge> loop_edges(const LoopGraph& graph);

/// By loop: the loops at the other ends of its edges, in the order of the edges.
class LoopNeighbours {
 public:
  enum class Side { Successors, Predecessors };
  LoopNeighbours(std::size_t loops, const std::vector<LoopEdge>& edges, Side side);
  std::span<const LoopIndex> operator[](LoopIndex loop) const {
    return std::span(all_).subspan(begin_[loop], begin_[loop + 1] - begin_[loop]);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<LoopIndex> all_;
};

}  // namespace gpusim
