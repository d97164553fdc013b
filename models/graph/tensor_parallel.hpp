// SPDX-License-Identifier: Apache-2.0
// The forward pass of one of several ranks that share the products of each layer, or the experts.
#pragma once

#include "models/graph/op_graph.hpp"
#include "models/graph/parallel_plan.hpp"

namespace gpusim {

/// What rank one of `plan.tensor` runs of a network's forward pass (Shoeybi et al. 2019). A linear layer
/// whose weight nobody else reads gets the rows of its weight that make a rank's part of its outputs
/// ("columns" of the product), if what is made of them reaches another linear layer through ops that work on
/// each part by itself (elementwise, views, attention per head, a KV cache); that one gets the matching
/// columns of its weight ("rows"), and the ranks' results are added up (all_reduce). Everything else runs on
/// every rank alike. Backward adds up the gradients of what a column product was given (to_ranks).
///
/// `plan.sequence` (Korthikanti et al. 2022): what would run alike is shared by rows: tensors are gathered
/// before column products and reduce-scattered behind row products.
///
/// `plan.expert`: grouped products keep their part of the experts; rows go to the ranks of their experts and
/// back (all_to_all), evenly.
///
/// Throws GraphError where heads, experts or tokens do not divide, and if there is nothing to share.
OpGraph tensor_parallel_forward(const OpGraph& forward, const ParallelPlan& plan);

}  // namespace gpusim
