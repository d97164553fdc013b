// SPDX-License-Identifier: Apache-2.0
// Takes a graph apart into graphs of their own, and puts them together again after each was changed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Some ops of a graph as a graph. What other ops make is given to it: a gradient as Role::Gradient,
/// everything else that is no parameter, buffer or state as Role::Input. What other ops read are its outputs.
struct GraphPart {
  OpGraph graph;
  /// By output of `graph`: the tensor of the whole graph. Passes may change a part as they like if they keep
  /// this order and the names of what is given.
  std::vector<TensorIndex> outputs;
  std::map<std::string, TensorIndex> given;  ///< By name: the tensor of the whole graph.
};

/// `ops`: ascending. Takes time in proportion to the whole graph.
GraphPart take_part(const OpGraph& whole, const std::vector<OpIndex>& ops);

/// Puts parts together, in any order in which each op comes after those that it needs.
class GraphJoiner {
 public:
  /// What is given to `whole` is given to what becomes of it.
  explicit GraphJoiner(const OpGraph& whole);

  /// Takes a part, to be appended in one piece or several.
  std::size_t add(GraphPart part);
  /// Appends ops [first, last) of a part that was added.
  void append(std::size_t part, OpIndex first, OpIndex last);
  OpIndex size() const { return static_cast<OpIndex>(made_.ops.size()); }
  /// The graph. Which ops a call consists of is found by Op::call; a variable of the network's text lives
  /// until the last op at or before the place where it did.
  OpGraph finish() &&;

 private:
  struct Progress {
    GraphPart part;                         ///< What was appended has been moved out of it.
    std::vector<TensorIndex> tensor_now;    ///< By tensor of the part.
    std::vector<StorageIndex> storage_now;  ///< By storage of the part.
    std::vector<OpIndex> op_now;            ///< By op of the part.
  };
  void find_given(Progress& at);
  TensorIndex tensor(Progress& at, TensorIndex t);
  StorageIndex storage(Progress& at, StorageIndex s);
  void find_calls();

  const OpGraph& whole_;
  OpGraph made_;
  std::vector<TensorIndex> now_;  ///< By tensor of the whole graph.
  std::vector<Progress> parts_;
};

}  // namespace gpusim
