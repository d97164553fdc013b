// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/simplify.hpp"

#include <utility>

#include "models/compiler/simplify_passes.hpp"

namespace gpusim {

Simplified simplify(OpGraph graph, const SimplifyRules& rules, const SimplifyOptions& options) {
  GraphEdit edit(std::move(graph), options);
  const bool training = options.training;
  std::vector<Simplification> passes;
  passes.reserve(9);  // Addresses are handed out.
  const auto report = [&](const char* name) -> Simplification& {
    passes.push_back({.pass = name, .examples = {}});
    return passes.back();
  };
  Simplification dead{.pass = "dead_code", .examples = {}};
  // First, for what nobody needs stands in the way of other passes; and again for what they leave behind.
  if (rules.dead_code) {
    remove_dead_code(edit, training, dead);
    if (dead.ops_removed > 0) edit.find_written();
  }
  if (rules.inference_dropout) remove_dropout(edit, report("inference_dropout"));
  Simplification* const no_ops = rules.no_ops ? &report("no_ops") : nullptr;
  if (no_ops != nullptr) remove_no_ops(edit, *no_ops);
  Simplification layout{.pass = "layout", .examples = {}};
  if (rules.layout) {
    remove_undone_copies(edit, layout);
    if (no_ops != nullptr && layout.ops_removed > 0) remove_no_ops(edit, *no_ops);
  }
  Simplification* const common = rules.common_subexpressions ? &report("common_subexpressions") : nullptr;
  if (common != nullptr) share_common_subexpressions(edit, *common);
  if (rules.layout) {
    choose_layouts(edit, training, layout);
    // A copy that it added may be there already.
    if (common != nullptr && layout.ops_added > 0) share_common_subexpressions(edit, *common);
    passes.push_back(std::move(layout));
  }
  const ConstantRules constants{
      .parameters = false, .bytes_max = options.constant_bytes_max, .ranges = !training};
  const ConstantRules frozen{.parameters = true, .bytes_max = options.constant_bytes_max};
  if (rules.constants) fold_constants(edit, constants, report("constants"));
  if (rules.freeze && !training) fold_constants(edit, frozen, report("freeze"));
  Simplification* const gate_up = rules.merge_gate_up && !training ? &report("merge_gate_up") : nullptr;
  Simplification* const qkv = rules.merge_qkv && !training ? &report("merge_qkv") : nullptr;
  merge_linears(edit, gate_up, qkv);
  if (rules.dead_code) {
    edit.settle();
    remove_dead_code(edit, training, dead);
    passes.push_back(std::move(dead));
  }
  Simplified result = std::move(edit).finish();
  result.passes = std::move(passes);
  return result;
}

}  // namespace gpusim
