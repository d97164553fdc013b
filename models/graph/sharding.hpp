// SPDX-License-Identifier: Apache-2.0
// What a training step trains, and parts of it. Internal to models/graph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/graph_inserter.hpp"

namespace gpusim {

/// What the optimizer of a training step goes over.
struct Trained {
  /// Throws GraphError if there is no optimizer.
  explicit Trained(const OpGraph& step);

  OpIndex optimizer = graph_none;       ///< Its op.
  OpIndex backward_end = graph_none;    ///< One past the last op of the backward pass.
  std::vector<TensorIndex> parameters;  ///< In the optimizer's order.
  std::vector<TensorIndex> gradients;   ///< Of each parameter.
  std::vector<TensorIndex> states;      ///< All of the first kind, then of the next.
  std::vector<OpIndex> ready;           ///< By parameter: the op that writes the gradient last.

  /// Has the ops of the optimizer's phase read other parameters and gradients; states become parts too, in
  /// `element` where it is given.
  void replace(OpGraph& step, const std::vector<TensorIndex>& new_parameters,
               const std::vector<TensorIndex>& new_gradients, std::int64_t ranks,
               std::optional<ElementType> element) const;
};

/// A rank's part of a tensor, along the first dimension, rounded up.
TensorType part_type(const TensorType& whole, std::int64_t ranks);
/// A look at it: a tensor that no op makes, in the memory of the whole.
TensorIndex part_of(OpGraph& graph, TensorIndex whole, std::int64_t ranks);
/// Gives a tensor that no op makes another type, and its memory the size of that.
void set_type(OpGraph& graph, TensorIndex t, const TensorType& type);
/// Of the memory of tensors, and of all tensors in it.
void set_role(OpGraph& graph, const std::vector<TensorIndex>& tensors, Role role);

}  // namespace gpusim
