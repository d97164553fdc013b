// SPDX-License-Identifier: Apache-2.0
// Composite ops taken apart into primitives, as torch.compile traces a training step.
#pragma once

#include "models/graph/op_graph.hpp"

namespace gpusim {

/// The graph with norms, softmax, losses, activations and their backward ops as the primitives that
/// AOTAutograd traces instead of them, and chains of casts joined. Ops of the optimizer stay as they are.
/// Each op that was made has `taken_from`; tensors that were there keep their names and roles. What forward
/// and backward both compute stands there twice: simplify()'s common_subexpressions makes it one.
///
/// Formulas: torch/_decomp/decompositions.py, torch/_refs/__init__.py, torch/_inductor/decomposition.py.
/// Throws GraphError for shapes that do not go together.
OpGraph decompose(const OpGraph& graph);

}  // namespace gpusim
