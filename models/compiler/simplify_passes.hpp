// SPDX-License-Identifier: Apache-2.0
// The passes of simplify(), one by one. Internal to models/compiler. Each marks in `edit` what it changes and
// counts it in `report`.
#pragma once

#include "models/compiler/graph_edit.hpp"
#include "models/compiler/simplify.hpp"

namespace gpusim {

void remove_dropout(GraphEdit& edit, Simplification& report);
void remove_no_ops(GraphEdit& edit, Simplification& report);

struct ConstantRules {
  bool parameters = false;  ///< Parameters and buffers count as constants.
  Bytes bytes_max{0};       ///< Of a result; with parameters any size.
  /// So do numbers in a row. AOTAutograd's joint graph folds only tensors of one value (joint_graph.py,
  /// constant_fold_uniform_value): what backward reads of a range is made by a kernel and kept.
  bool ranges = true;
};
void fold_constants(GraphEdit& edit, const ConstantRules& rules, Simplification& report);

void share_common_subexpressions(GraphEdit& edit, Simplification& report);

/// Copies of transposes of copies with every dimension back in its place: the layout pass's part that goes
/// before others.
void remove_undone_copies(GraphEdit& edit, Simplification& report);
/// `training`: by the rule for training steps.
void choose_layouts(GraphEdit& edit, bool training, Simplification& report);

/// The two linears of a gated MLP, whose results a product joins, and all others; those without a report stay
/// as they are.
void merge_linears(GraphEdit& edit, Simplification* gate_up, Simplification* others);

void remove_dead_code(GraphEdit& edit, bool training, Simplification& report);

}  // namespace gpusim
