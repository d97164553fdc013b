// SPDX-License-Identifier: Apache-2.0
// Puts ops into a graph that is finished otherwise. Internal to models/graph.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/graph_writer.hpp"

namespace gpusim {

class GraphInserter : private GraphWriter {
 public:
  explicit GraphInserter(OpGraph given);

  /// Tensors, memory and what ops read may be changed until finish(); ops inserted stand at the end till
  /// then.
  using GraphWriter::graph;
  /// A tensor that no op makes.
  using GraphWriter::add_tensor;
  /// Ops that were there.
  OpIndex size() const { return size_; }

  /// Adds an op that runs right before op `before` of those that were there (their number: behind the last
  /// one), behind those inserted there earlier. Returns what it makes. Throws GraphError where shapes do not
  /// go together.
  std::vector<TensorIndex> insert(
      OpIndex before, std::string_view kind, std::string name, std::vector<TensorIndex> inputs,
      std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes, Phase phase);
  /// An op that was there is left out. What it made must not be read any more.
  void remove(OpIndex op);

  /// The graph with everything in its place.
  OpGraph finish() &&;

 private:
  OpIndex size_;
  std::vector<OpIndex> before_;  ///< By inserted op.
  std::vector<bool> removed_;    ///< By op that was there; empty: none is.
};

}  // namespace gpusim
