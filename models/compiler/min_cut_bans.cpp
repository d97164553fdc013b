// SPDX-License-Identifier: Apache-2.0
// Which values AOTAutograd's partitioner never makes again, rule by rule.
#include <algorithm>
#include <functional>
#include <queue>

#include "models/compiler/min_cut.hpp"

namespace gpusim {
namespace {

class Bans {
 public:
  Bans(const JointGraph& graph, const JointFacts& facts, std::span<const std::uint8_t> released)
      : graph_(graph), facts_(facts), released_(released), bans_(graph.size(), Ban::None) {}

  void by_node(const BanRules& rules) {
    if (rules.materialized_backward) find_materialized();
    for (JointIndex i = 0; i < graph_.size(); ++i) {
      const JointNode& node = graph_[i];
      const bool input = node.role == JointRole::Input || node.role == JointRole::Parameter;
      if (facts_.backward[i] != 0 && !input) continue;
      if (node.must_recompute) continue;
      if (input) ban(i, Ban::Input);
      if (facts_.forward[i] != 0) ban(i, rule_for(i, rules));
    }
  }

  /// Recomputing what reads a value early and what reads it late gives two kernels, if something stands
  /// between them that nothing joins.
  void used_far_apart() {
    const JointIndex size = graph_.size();
    constexpr std::int32_t never = joint_far_away;
    // By node: the place of the first op that what could be one kernel with the node does not take in.
    std::vector<std::int32_t> first_unfusible(size, never);
    for (JointIndex i = size; i-- > 0;) {
      if (facts_.forward[i] == 0) continue;
      for (const JointIndex reader : facts_.readers_of(i)) {
        if (facts_.forward[reader] == 0) continue;
        first_unfusible[i] = std::min(
            first_unfusible[i], fusible(i, reader) ? first_unfusible[reader] : facts_.forward_place[reader]);
      }
    }
    for (JointIndex i = 0; i < size; ++i) {
      if (facts_.forward[i] == 0) continue;
      std::int32_t first = never;
      for (const JointIndex reader : facts_.readers_of(i))
        if (facts_.forward[reader] != 0) first = std::min(first, first_unfusible[reader]);
      for (const JointIndex reader : facts_.readers_of(i))
        if (facts_.forward[reader] != 0 && facts_.forward_place[reader] > first && fusible(i, reader))
          ban(reader, Ban::FarApart);
    }
  }

  /// Goes through what could be one kernel, in order, and stops where it has become too long and narrow.
  void long_chains() {
    constexpr std::int32_t longest = 100;
    using Open = std::pair<std::int32_t, JointIndex>;
    std::vector<std::uint8_t> visited(graph_.size(), 0);
    for (JointIndex start = 0; start < graph_.size(); ++start) {
      if (facts_.forward[start] == 0 || visited[start] != 0) continue;
      std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
      open.emplace(facts_.forward_place[start], start);
      while (!open.empty()) {
        const JointIndex node = open.top().second;
        open.pop();
        if (visited[node] != 0) continue;
        visited[node] = 1;
        if (facts_.forward_place[node] > facts_.forward_place[start] + longest && open.empty()) {
          ban(node, Ban::LongChain);
          break;
        }
        for (const JointIndex reader : facts_.readers_of(node))
          if (facts_.forward[reader] != 0 && fusible(node, reader) && bans_[reader] == Ban::None)
            open.emplace(facts_.forward_place[reader], reader);
      }
    }
  }

  std::vector<Ban> take() && { return std::move(bans_); }

 private:
  bool fusible(JointIndex node, JointIndex reader) const { return may_be_one_kernel(graph_, node, reader); }

  /// A node is there when the backward pass reads it, itself or by its views, in an op that nothing joins.
  void find_materialized() {
    materialized_.assign(graph_.size(), 0);
    for (JointIndex i = graph_.size(); i-- > 0;) {
      bool written = graph_[i].given_forward || graph_[i].given_backward;
      for (const JointIndex reader : facts_.readers_of(i)) {
        written = written || (facts_.forward[reader] == 0 && !fusible(i, reader));
        written = written || (graph_[reader].view && materialized_[reader] != 0);
      }
      materialized_[i] = written ? 1 : 0;
    }
  }

  Ban rule_for(JointIndex i, const BanRules& rules) const {
    const JointNode& node = graph_[i];
    if (node.role != JointRole::Op) return Ban::None;
    if (node.must_save || node.fixed) return Ban::Asked;
    if (node.random && !(node.listed && rules.not_listed)) return Ban::Random;
    if (node.expensive && !(node.listed && rules.not_listed)) return Ban::Expensive;
    if (rules.not_listed && !node.listed) return Ban::NotListed;
    if (rules.materialized_backward && materialized_[i] != 0 && !node.view) return Ban::Materialized;
    if (rules.reductions) {
      std::int64_t read = 0;
      // What an op takes as a list does not count, and a concatenation takes a list.
      if (!node.concat)
        for (const JointIndex in : graph_.inputs(i)) read += graph_[in].bytes;
      if (4 * node.bytes < read) return Ban::Reduction;
    }
    return Ban::None;
  }

  /// The first rule stays. Views are made again whatever the rules say.
  void ban(JointIndex i, Ban why) {
    const JointNode& node = graph_[i];
    if (why == Ban::None || bans_[i] != Ban::None || node.view || node.must_recompute) return;
    if (!released_.empty() && released_[i] != 0 && !node.fixed) return;
    bans_[i] = why;
  }

  const JointGraph& graph_;
  const JointFacts& facts_;
  std::span<const std::uint8_t> released_;
  std::vector<Ban> bans_;
  std::vector<std::uint8_t> materialized_;
};

}  // namespace

std::string_view name(Ban ban) {
  switch (ban) {
    case Ban::None:
      return "none";
    case Ban::Input:
      return "input";
    case Ban::Asked:
      return "asked";
    case Ban::NotListed:
      return "not listed";
    case Ban::Random:
      return "random";
    case Ban::Expensive:
      return "expensive";
    case Ban::Materialized:
      return "materialized";
    case Ban::Reduction:
      return "reduction";
    case Ban::FarApart:
      return "used far apart";
    case Ban::LongChain:
      return "long chain";
  }
  return "none";
}

bool may_be_one_kernel(const JointGraph& graph, JointIndex node, JointIndex reader) {
  const auto joins = [](const JointNode& n) { return n.listed || n.random; };
  return graph[reader].concat || (joins(graph[node]) && joins(graph[reader]));
}

std::vector<Ban> find_bans(const JointGraph& graph, const JointFacts& facts, const BanRules& rules,
                           std::span<const std::uint8_t> released) {
  Bans bans(graph, facts, released);
  bans.by_node(rules);
  if (rules.used_far_apart) bans.used_far_apart();
  if (rules.long_chains) bans.long_chains();
  return std::move(bans).take();
}

}  // namespace gpusim
