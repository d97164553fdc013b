// SPDX-License-Identifier: Apache-2.0
// Joint graphs written by hand.
#pragma once

#include <initializer_list>

#include "models/compiler/min_cut.hpp"

namespace gpusim::test {

/// A value of `bytes` of an op that may be run again and joined with others.
inline JointNode listed(std::int64_t bytes) {
  return {.bytes = bytes, .listed = true};
}
/// The same of a matrix product.
inline JointNode product(std::int64_t bytes) {
  return {.bytes = bytes, .expensive = true};
}
inline JointNode in_backward(JointNode node) {
  node.forward = false;
  return node;
}
inline JointNode given(JointNode node) {
  (node.forward ? node.given_forward : node.given_backward) = true;
  return node;
}

struct Joint {
  JointGraph graph;

  JointIndex input(std::int64_t bytes) { return graph.add({.role = JointRole::Input, .bytes = bytes}); }
  JointIndex parameter(std::int64_t bytes) {
    return graph.add({.role = JointRole::Parameter, .bytes = bytes});
  }
  JointIndex tangent() { return graph.add({.role = JointRole::Tangent, .bytes = 4, .forward = false}); }
  JointIndex op(const JointNode& node, std::initializer_list<JointIndex> inputs) {
    return graph.add(node, inputs);
  }

  std::vector<Ban> bans(const BanRules& rules = {}, const std::vector<std::uint8_t>& released = {}) const {
    return find_bans(graph, joint_facts(graph), rules, released);
  }
  Cut cut(const BanRules& rules = {}, MaxFlow algorithm = MaxFlow::BoykovKolmogorov) const {
    return min_cut(graph, joint_facts(graph), bans(rules), algorithm);
  }
  /// The nodes that are saved.
  std::vector<JointIndex> saved(const BanRules& rules = {}) const {
    std::vector<JointIndex> nodes;
    const Cut found = cut(rules);
    for (JointIndex i = 0; i < graph.size(); ++i)
      if (found.saved[i] != 0) nodes.push_back(i);
    return nodes;
  }
};

/// No rule but that random and expensive ops are not run again.
inline constexpr BanRules aggressive{.used_far_apart = false,
                                     .long_chains = false,
                                     .materialized_backward = false,
                                     .not_listed = false,
                                     .reductions = true};

}  // namespace gpusim::test
