// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/loop_order.hpp"

namespace gpusim {

std::vector<LoopEdge> loop_edges(const LoopGraph& graph) {
  std::vector<LoopEdge> edges;
  std::vector<LoopIndex> writer(graph.buffers.size(), loop_none);
  // The readers of each buffer since it was written, as lists through one array; its first place is the end.
  struct Reader {
    LoopIndex loop = loop_none;
    std::size_t before = 0;
  };
  std::vector<Reader> readers(1);
  std::vector<std::size_t> last_reader(graph.buffers.size(), 0);
  std::vector<LoopIndex> last_edge(graph.loops.size(), loop_none);  // By loop: where its last edge ends.
  const auto edge = [&](LoopIndex from, LoopIndex to) {
    if (from == loop_none || from == to || std::exchange(last_edge[from], to) == to) return;
    edges.emplace_back(from, to);
  };
  for (LoopIndex i = 0; i < graph.loops.size(); ++i) {
    for (const Touch& touch : graph.loops[i].reads) {
      edge(writer[touch.buffer], i);
      readers.push_back({i, last_reader[touch.buffer]});
      last_reader[touch.buffer] = readers.size() - 1;
    }
    for (const Touch& touch : graph.loops[i].writes) {
      edge(std::exchange(writer[touch.buffer], i), i);
      for (std::size_t r = std::exchange(last_reader[touch.buffer], 0); r != 0; r = readers[r].before)
        edge(readers[r].loop, i);
    }
  }
  return edges;
}

LoopNeighbours::LoopNeighbours(std::size_t loops, const std::vector<LoopEdge>& edges, Side side)
    : begin_(loops + 2, 0), all_(edges.size()) {
  const bool forward = side == Side::Successors;
  for (const auto& [from, to] : edges) ++begin_[(forward ? from : to) + std::size_t{2}];
  for (std::size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  for (const auto& [from, to] : edges)
    all_[begin_[(forward ? from : to) + std::size_t{1}]++] = forward ? to : from;
}

}  // namespace gpusim
