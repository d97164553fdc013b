// SPDX-License-Identifier: Apache-2.0
// Each rule of AOTAutograd's partitioner in a graph where it alone decides.
#include "tests/support/catch.hpp"
#include "tests/support/joint.hpp"

namespace gpusim::test {
namespace {

/// x -> a -> given; the backward pass reads a where it may be joined.
struct One : Joint {
  explicit One(const JointNode& node, std::int64_t input_bytes = 100) {
    x = input(input_bytes);
    g = tangent();
    a = op(node, {x});
    op(given(listed(node.bytes)), {a});
    op(given(in_backward(listed(node.bytes))), {g, a});
  }
  Ban ban(const BanRules& rules = {}) const { return bans(rules)[a]; }
  JointIndex x = 0;
  JointIndex g = 0;
  JointIndex a = 0;
};

constexpr BanRules no_rules{.used_far_apart = false,
                            .long_chains = false,
                            .materialized_backward = false,
                            .not_listed = false,
                            .reductions = false};

}  // namespace

TEST_CASE("What is given is never made again") {
  const One one(listed(100));
  CHECK(one.bans(no_rules)[one.x] == Ban::Input);
  CHECK(one.ban() == Ban::None);
}

TEST_CASE("Ops that are not listed are not run again, unless only the expensive ones are banned") {
  const One one({.bytes = 100});
  CHECK(one.ban() == Ban::NotListed);
  CHECK(one.ban({.materialized_backward = false}) == Ban::NotListed);
  CHECK(one.ban({.materialized_backward = false, .not_listed = false}) == Ban::None);
  const One product_of({.bytes = 100, .expensive = true});
  CHECK(product_of.ban() == Ban::Expensive);
  CHECK(product_of.ban({.not_listed = false}) == Ban::Expensive);
  const One noise({.bytes = 100, .random = true});
  CHECK(noise.ban() == Ban::Random);
  CHECK(noise.ban(no_rules) == Ban::Random);
}

TEST_CASE("What backward reads in an op that nothing joins is not made again") {
  Joint joint;
  const JointIndex x = joint.input(80);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(listed(100), {x});
  JointNode look = listed(100);
  look.view = true;
  const JointIndex view = joint.op(look, {a});
  joint.op(given(listed(100)), {a});
  joint.op(given(in_backward(product(100))), {g, view});
  // The product reads a view of it.
  CHECK(joint.bans()[a] == Ban::Materialized);
  CHECK(joint.bans()[view] == Ban::None);
  CHECK(joint.bans({.materialized_backward = false})[a] == Ban::None);
  // Without the rule the input is kept instead, which weighs 80 * 1.331 against the view's 100 * 1.1.
  CHECK(joint.saved({.materialized_backward = false}) == std::vector<JointIndex>{x});
  CHECK(joint.saved() == std::vector<JointIndex>{view});
}

TEST_CASE("What the forward pass gives is written anyway, so it is not made again") {
  Joint joint;
  const JointIndex x = joint.input(100);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(given(listed(100)), {x});
  joint.op(given(in_backward(listed(100))), {g, a});
  CHECK(joint.bans()[a] == Ban::Materialized);
  CHECK(joint.bans({.materialized_backward = false})[a] == Ban::None);
}

TEST_CASE("What has less than a quarter of the bytes that its op reads is not made again") {
  CHECK(One(listed(99), 400).ban() == Ban::Reduction);
  CHECK(One(listed(100), 400).ban() == Ban::None);
  CHECK(One(listed(99), 400).ban({.reductions = false}) == Ban::None);
  // A concatenation takes a list, and what is in it does not count.
  JointNode joined = listed(99);
  joined.concat = true;
  CHECK(One(joined, 400).ban() == Ban::None);
}

TEST_CASE("An op that takes a value twice reads it twice") {
  Joint joint;
  const JointIndex x = joint.input(300);
  const JointIndex g = joint.tangent();
  const JointIndex square = joint.op(listed(100), {x, x});
  joint.op(given(listed(100)), {square});
  joint.op(given(in_backward(listed(100))), {g, square});
  CHECK(joint.bans()[square] == Ban::Reduction);
}

TEST_CASE("Views are made again whatever the rules say") {
  JointNode look = listed(10);
  look.view = true;
  CHECK(One(look, 400).ban() == Ban::None);
  look.must_save = true;
  CHECK(One(look, 400).ban() == Ban::None);
}

TEST_CASE("What reads a value long after its first use is not made again") {
  // x -> a; early reads a, then a product comes, then late reads a and the product.
  Joint joint;
  const JointIndex x = joint.input(1000);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(listed(1000), {x});
  const JointIndex early = joint.op(listed(1000), {a});
  const JointIndex between = joint.op(product(1000), {early});
  const JointIndex late = joint.op(listed(1000), {a, between});
  joint.op(given(listed(1000)), {late});
  joint.op(given(in_backward(listed(1000))), {g, early, late});
  CHECK(joint.bans()[late] == Ban::FarApart);
  CHECK(joint.bans()[early] == Ban::None);
  CHECK(joint.bans({.used_far_apart = false})[late] == Ban::None);
  // Without the product between, both could be one kernel.
  joint.graph[between].listed = true;
  joint.graph[between].expensive = false;
  CHECK(joint.bans()[late] == Ban::None);
}

TEST_CASE("A reader before the op that nothing joins is not far apart, one behind it is") {
  // The product is the first reader's reader's reader; readers at its place or before are near.
  Joint joint;
  const JointIndex x = joint.input(1000);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(listed(1000), {x});
  const JointIndex b = joint.op(listed(1000), {a});
  const JointIndex near = joint.op(listed(1000), {a});
  const JointIndex between = joint.op(product(1000), {b});
  const JointIndex far = joint.op(listed(1000), {a});
  joint.op(given(listed(1000)), {near, between, far});
  joint.op(given(in_backward(listed(1000))), {g, near, far});
  CHECK(joint.bans()[near] == Ban::None);
  CHECK(joint.bans()[far] == Ban::FarApart);
}

TEST_CASE("A chain of what could be one kernel is broken after 100 nodes") {
  Joint joint;
  const JointIndex x = joint.input(1000);
  const JointIndex g = joint.tangent();
  JointIndex last = joint.op(product(1000), {x});
  const JointIndex first = last + 1;
  for (int i = 0; i < 150; ++i) last = joint.op(listed(1000), {last});
  joint.op(given(listed(1000)), {last});
  joint.op(given(in_backward(listed(1000))), {g, last});
  // x and the product have places 0 and 1; the chain starts at place 2, and its node at place 103 is the
  // first that is more than 100 behind.
  const std::vector<Ban> bans = joint.bans();
  for (JointIndex i = first; i <= last; ++i) CHECK((bans[i] == Ban::LongChain) == (i == first + 101));
  const std::vector<Ban> without = joint.bans({.long_chains = false});
  CHECK(without[first + 101] == Ban::None);
}

TEST_CASE("What is released is banned by no rule, unless it changes what it reads") {
  One one({.bytes = 100, .expensive = true});
  std::vector<std::uint8_t> released(one.graph.size(), 0);
  released[one.a] = 1;
  CHECK(one.bans({}, released)[one.a] == Ban::None);
  one.graph[one.a].fixed = true;
  CHECK(one.bans({}, released)[one.a] == Ban::Asked);
}

TEST_CASE("What the user wants kept is not made again") {
  JointNode node = listed(100);
  node.must_save = true;
  const One one(node);
  CHECK(one.ban(no_rules) == Ban::Asked);
}

TEST_CASE("What backward makes is not banned") {
  Joint joint;
  const JointIndex x = joint.input(1000);
  const JointIndex g = joint.tangent();
  joint.op(given(listed(1000)), {x});
  // Neither pass needs it for what it gives alone: the rules are for the forward pass.
  const JointIndex unclaimed = joint.op(in_backward(listed(10)), {x});
  const JointIndex grad = joint.op(given(in_backward(product(10))), {g, unclaimed});
  CHECK(joint.bans()[unclaimed] == Ban::None);
  CHECK(joint.bans()[grad] == Ban::None);
  // Ten bytes instead of a thousand: it is made in the forward pass and kept.
  CHECK(joint.saved() == std::vector<JointIndex>{unclaimed});
}

}  // namespace gpusim::test
