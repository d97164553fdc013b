// SPDX-License-Identifier: Apache-2.0
// What to keep, against trying every set of values to keep.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <rapidcheck.h>

#include "tests/support/catch.hpp"
#include "tests/support/joint.hpp"

namespace gpusim::test {
namespace {

template <class Property>
void holds(const std::string& what, Property&& property) {
  setenv("RC_PARAMS", "seed=20260101 max_success=300", 0);
  CHECK(rc::check(what, std::forward<Property>(property)));
}

/// An op of a random graph, whatever the numbers mean there.
using Step = std::tuple<std::uint8_t, std::uint8_t, std::uint8_t, std::uint8_t>;
using Steps = std::vector<Step>;

/// Two inputs and up to twelve values of the forward pass, and ops of the backward pass that read some of
/// them.
JointGraph graph_of(const Steps& forward, const Steps& backward) {
  Joint joint;
  std::vector<JointIndex> values{joint.input(40), joint.parameter(30)};
  JointIndex gradient = joint.tangent();
  const auto pick = [&](std::uint8_t n) { return values[n % values.size()]; };
  // Most often a late one, so that chains grow.
  const auto late = [&](std::uint8_t n) { return values[values.size() - 1 - (n % 3) % values.size()]; };
  for (const auto& [kind, bytes, a, b] : forward) {
    JointNode node = listed(1 + bytes % 64);
    switch (kind % 12) {
      case 0:
      case 1:
        node = product(1 + bytes % 64);
        break;
      case 2:
        node.view = true;
        break;
      case 3:
        node.concat = true;
        break;
      case 4:
        node.listed = false;
        break;
      case 5:
        node.must_save = true;
        break;
      case 6:
        node.must_recompute = true;
        break;
      case 7:
        node.given_forward = true;
        break;
      case 8: {
        node = {.bytes = 1 + bytes % 64, .several = true};
        node.listed = (b & 1U) != 0;
        const JointIndex both = joint.op(node, {late(a)});
        JointNode item = listed(node.bytes);
        item.role = JointRole::Item;
        values.push_back(joint.op(item, {both}));
        continue;
      }
      case 9:
        node.forward = false;  // Made by a formula of the backward pass, of values of the forward pass.
        break;
      default:
        break;
    }
    values.push_back(joint.op(node, {late(a), pick(b)}));
  }
  joint.op(given(listed(4)), {values.back()});
  for (const auto& [kind, bytes, a, b] : backward) {
    const JointNode node = kind % 2 == 0 ? listed(1 + bytes % 64) : product(1 + bytes % 64);
    gradient = joint.op(in_backward(node), {gradient, pick(a), pick(b)});
  }
  joint.graph[gradient].given_backward = true;
  return std::move(joint.graph);
}

BanRules rules_of(std::uint8_t bits) {
  return {.used_far_apart = (bits & 1U) != 0,
          .long_chains = (bits & 2U) != 0,
          .materialized_backward = (bits & 4U) != 0,
          .not_listed = (bits & 8U) != 0,
          .reductions = (bits & 16U) != 0};
}

/// By node, whether it is made (again) in the backward pass if `saved` are kept; nothing if a banned one had
/// to be.
std::optional<std::vector<std::uint8_t>> made_in_backward(const JointGraph& graph, const JointFacts& facts,
                                                          const std::vector<Ban>& bans,
                                                          const std::vector<std::uint8_t>& saved) {
  std::vector<std::uint8_t> made(graph.size(), 0);
  for (JointIndex i = graph.size(); i-- > 0;) {
    const JointNode& node = graph[i];
    const bool input = node.role == JointRole::Input || node.role == JointRole::Parameter;
    if ((facts.backward[i] != 0 && !input) || node.must_recompute) made[i] = 1;
    if (saved[i] != 0) {
      if (made[i] != 0) return std::nullopt;
      continue;
    }
    for (const JointIndex reader : facts.readers_of(i)) made[i] |= made[reader];
    if (made[i] != 0 && bans[i] != Ban::None) return std::nullopt;
  }
  return made;
}

/// Most that flows from node 0 to node 1, by shortest augmenting paths (Edmonds and Karp, 1972).
class Flow {
 public:
  static constexpr std::int64_t any = std::int64_t{1} << 50;

  explicit Flow(std::size_t nodes) : arcs_(nodes) {}
  void join(std::size_t from, std::size_t to, std::int64_t capacity) {
    arcs_[from].push_back({to, arcs_[to].size(), capacity});
    arcs_[to].push_back({from, arcs_[from].size() - 1, 0});
  }
  std::int64_t most() {
    std::int64_t total = 0;
    while (const std::int64_t more = augment()) total += more;
    return total;
  }

 private:
  struct Arc {
    std::size_t to = 0;
    std::size_t back = 0;  ///< Position among the arcs of `to`.
    std::int64_t left = 0;
  };

  std::int64_t augment() {
    constexpr auto nowhere = std::numeric_limits<std::size_t>::max();
    std::vector<std::pair<std::size_t, std::size_t>> by(arcs_.size(), {nowhere, 0});  // Node and arc.
    std::vector<std::size_t> line{0};
    for (std::size_t next = 0; next < line.size() && by[1].first == nowhere; ++next)
      for (std::size_t a = 0; a < arcs_[line[next]].size(); ++a) {
        const Arc& arc = arcs_[line[next]][a];
        if (arc.left == 0 || arc.to == 0 || by[arc.to].first != nowhere) continue;
        by[arc.to] = {line[next], a};
        line.push_back(arc.to);
      }
    if (by[1].first == nowhere) return 0;
    std::int64_t flow = any;
    for (std::size_t at = 1; at != 0; at = by[at].first)
      flow = std::min(flow, arcs_[by[at].first][by[at].second].left);
    for (std::size_t at = 1; at != 0; at = by[at].first) {
      Arc& arc = arcs_[by[at].first][by[at].second];
      arc.left -= flow;
      arcs_[at][arc.back].left += flow;
    }
    return flow;
  }

  std::vector<std::vector<Arc>> arcs_;
};

/// What the best cut weighs, from the meaning of `made_in_backward`: on the far side is what is made there.
std::int64_t least_weight(const JointGraph& graph, const JointFacts& facts, const std::vector<Ban>& bans) {
  Flow flow(2 + 2 * graph.size());
  const auto entry = [](JointIndex i) { return 2 + 2 * std::size_t{i}; };
  for (JointIndex i = 0; i < graph.size(); ++i) {
    const JointNode& node = graph[i];
    const bool input = node.role == JointRole::Input || node.role == JointRole::Parameter;
    const bool always = (facts.backward[i] != 0 && !input) || node.must_recompute;
    const bool can_save = !always && !node.several;
    flow.join(entry(i), entry(i) + 1, can_save ? save_weight(graph, facts, i) : Flow::any);
    if (always) flow.join(entry(i), 1, Flow::any);
    if (bans[i] != Ban::None) flow.join(0, entry(i), Flow::any);
    for (const JointIndex reader : facts.readers_of(i)) flow.join(entry(i) + 1, entry(reader), Flow::any);
  }
  return flow.most();
}

}  // namespace

TEST_CASE("The cut of a graph of some hundred nodes is one, and weighs what augmenting paths find") {
  holds("large min-cut", [](std::uint8_t bits) {
    const auto forward =
        *rc::gen::container<Steps>(*rc::gen::inRange<std::size_t>(13, 150), rc::gen::arbitrary<Step>());
    const auto backward =
        *rc::gen::container<Steps>(*rc::gen::inRange<std::size_t>(5, 60), rc::gen::arbitrary<Step>());
    const JointGraph graph = graph_of(forward, backward);
    const JointFacts facts = joint_facts(graph);
    const std::vector<Ban> bans = find_bans(graph, facts, rules_of(bits));
    const Cut cut = min_cut(graph, facts, bans);
    RC_ASSERT(made_in_backward(graph, facts, bans, cut.saved).has_value());
    std::int64_t weight = 0;
    for (JointIndex i = 0; i < graph.size(); ++i)
      if (cut.saved[i] != 0) weight += save_weight(graph, facts, i);
    RC_ASSERT(weight == cut.weight);
    RC_ASSERT(weight == least_weight(graph, facts, bans));
  });
}

TEST_CASE("The cut weighs as little as the best of all sets of values, and makes least again") {
  holds("min-cut", [](std::uint8_t bits) {
    const auto count = *rc::gen::inRange<std::size_t>(1, 12);
    const auto forward = *rc::gen::container<Steps>(count, rc::gen::arbitrary<Step>());
    const auto backward =
        *rc::gen::container<Steps>(*rc::gen::inRange<std::size_t>(1, 5), rc::gen::arbitrary<Step>());
    const JointGraph graph = graph_of(forward, backward);
    const JointFacts facts = joint_facts(graph);
    const std::vector<Ban> bans = find_bans(graph, facts, rules_of(bits));
    std::vector<JointIndex> candidates;
    for (JointIndex i = 0; i < graph.size(); ++i) {
      const bool input = graph[i].role == JointRole::Input || graph[i].role == JointRole::Parameter;
      if ((facts.backward[i] == 0 || input) && !graph[i].must_recompute && !graph[i].several)
        candidates.push_back(i);
    }
    RC_ASSERT(candidates.size() <= 14);

    const Cut cut = min_cut(graph, facts, bans);
    const auto made = made_in_backward(graph, facts, bans, cut.saved);
    RC_ASSERT(made.has_value());

    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    std::vector<std::uint8_t> least(graph.size(), 1);  // Made again by all of the best sets.
    for (unsigned set = 0; set < 1U << candidates.size(); ++set) {
      std::vector<std::uint8_t> saved(graph.size(), 0);
      std::int64_t weight = 0;
      for (std::size_t c = 0; c < candidates.size(); ++c)
        if ((set >> c & 1U) != 0) {
          saved[candidates[c]] = 1;
          weight += save_weight(graph, facts, candidates[c]);
        }
      if (weight > best) continue;
      const auto again = made_in_backward(graph, facts, bans, saved);
      if (!again) continue;
      if (weight < best) least.assign(graph.size(), 1);
      best = weight;
      for (JointIndex i = 0; i < graph.size(); ++i) least[i] &= (*again)[i];
    }
    RC_ASSERT(cut.weight == best);
    RC_ASSERT(*made == least);
  });
}

TEST_CASE("All algorithms find the same cut, in whole graphs and in parts") {
  holds("algorithms", [](std::uint8_t bits) {
    const auto forward = *rc::gen::container<Steps>(60, rc::gen::arbitrary<Step>());
    const auto backward = *rc::gen::container<Steps>(30, rc::gen::arbitrary<Step>());
    const JointGraph graph = graph_of(forward, backward);
    const JointFacts facts = joint_facts(graph);
    const std::vector<Ban> bans = find_bans(graph, facts, rules_of(bits));
    const Cut cut = min_cut(graph, facts, bans, MaxFlow::PushRelabel);
    RC_ASSERT(cut.saved == min_cut(graph, facts, bans, MaxFlow::BoykovKolmogorov).saved);
    RC_ASSERT(cut.saved == min_cut(graph, facts, bans, MaxFlow::EdmondsKarp).saved);
  });
}

}  // namespace gpusim::test
