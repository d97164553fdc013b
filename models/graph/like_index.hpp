// SPDX-License-Identifier: Apache-2.0
// Finds ops of a graph that cost the same.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace gpusim {

class LikeIndex {
 public:
  /// The first op among those asked about before that costs the same as `op` (see Op::like), or `index`, the
  /// place at which `op` stands or is about to.
  OpIndex first_like(const OpGraph& graph, const Op& op, OpIndex index);

 private:
  std::unordered_map<std::size_t, std::vector<OpIndex>> by_hash_;
};

}  // namespace gpusim
