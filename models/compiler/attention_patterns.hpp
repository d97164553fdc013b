// SPDX-License-Identifier: Apache-2.0
// Attention that a network works out op by op, and the patterns by which a compiler finds it and calls one
// kernel instead.
#pragma once

#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace gpusim {

/// A softmax between two products.
struct AttentionSite {
  OpIndex softmax = 0;
  OpIndex result = 0;        ///< The second product.
  std::vector<OpIndex> ops;  ///< What one kernel would take the place of, ascending.
  TensorIndex q = graph_none;
  TensorIndex k = graph_none;
  TensorIndex v = graph_none;
  TensorIndex mask = graph_none;  ///< Added to the scores.
  std::string refusal;            ///< Why no pattern matches; empty: one does.
};

/// Patterns of torch/_inductor/fx_passes/fuse_attention.py: scores of a product with a transposed key, scaled
/// by a number before or behind it, with or without something added to them, a softmax over them (in another
/// format or not), dropout or none, and the product with the values; nothing else reads what lies between.
/// None of them has masked_fill, as causal attention is often written out: it is refused, as anything else
/// is.
std::vector<AttentionSite> attention_sites(const OpGraph& forward);

/// The graph with scaled_dot_product_attention where a pattern matches. Of a forward pass, before anything
/// else is done to it.
OpGraph fuse_attention(const OpGraph& forward);

}  // namespace gpusim
