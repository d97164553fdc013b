// SPDX-License-Identifier: Apache-2.0
// Simplified graphs for tests.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/compiler/simplify.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/graph_checks.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/tensor_run.hpp"

namespace gpusim::test {

inline constexpr SimplifyRules no_rules{.dead_code = false,
                                        .inference_dropout = false,
                                        .no_ops = false,
                                        .constants = false,
                                        .freeze = false,
                                        .common_subexpressions = false,
                                        .layout = false,
                                        .merge_qkv = false,
                                        .merge_gate_up = false};
inline constexpr SimplifyRules all_rules{
    .freeze = true, .layout = true, .merge_qkv = true, .merge_gate_up = true};

inline SimplifyRules only(bool SimplifyRules::*rule) {
  SimplifyRules rules = no_rules;
  rules.*rule = true;
  return rules;
}

inline std::vector<std::string> kinds(const OpGraph& graph) {
  std::vector<std::string> result;
  for (const Op& op : graph.ops) result.emplace_back(op.kind->name);
  return result;
}
using Kinds = std::vector<std::string>;

inline const Simplification& pass(const Simplified& simplified, const std::string& name) {
  for (const Simplification& p : simplified.passes)
    if (p.pass == name) return p;
  throw std::logic_error("no pass " + name);
}

/// Whether both give the same results; numbers that grew out of bounds in both count as the same.
inline bool same_numbers(const OpGraph& before, const OpGraph& after) {
  const TensorRun old(before);
  const auto wanted = old.results();
  const auto found = TensorRun(after, &old).results();
  if (wanted.size() != found.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].size() != found[i].size()) return false;
    for (std::size_t k = 0; k < wanted[i].size(); ++k)
      if (std::isfinite(wanted[i][k])
              ? !(std::abs(wanted[i][k] - found[i][k]) <= 1e-9 * (1 + std::abs(wanted[i][k])))
              : std::isfinite(found[i][k]))
        return false;
  }
  return true;
}

/// Simplifies and holds what must hold whatever the graph.
inline Simplified checked(const OpGraph& graph, const SimplifyRules& rules,
                          const SimplifyOptions& options = {}) {
  Simplified result = simplify(graph, rules, options);
  CHECK(fault_of(result.graph) == "");
  REQUIRE(result.origin.size() == result.graph.ops.size());
  CHECK(same_numbers(graph, result.graph));
  CHECK(model_flops(result.graph) <= model_flops(graph));
  CHECK(parameter_count(result.graph) == parameter_count(graph));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) CHECK(given(result.graph, i) == given(graph, i));
  return result;
}

}  // namespace gpusim::test
