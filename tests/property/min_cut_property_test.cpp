// SPDX-License-Identifier: Apache-2.0
// What to keep, against trying every set of values to keep.
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

}  // namespace

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
