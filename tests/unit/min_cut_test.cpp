// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "tests/support/catch.hpp"
#include "tests/support/joint.hpp"

namespace gpusim::test {
namespace {

using Nodes = std::vector<JointIndex>;

/// x -> product a (`a` bytes) -> b (`b` bytes) -> c (500 bytes) -> given; the backward pass reads c.
struct Chain : Joint {
  Chain(std::int64_t bytes_a, std::int64_t bytes_b) {
    const JointIndex x = input(700);
    const JointIndex g = tangent();
    a = op(product(bytes_a), {x});
    b = op(listed(bytes_b), {a});
    c = op(listed(500), {b});
    op(given(listed(500)), {c});
    op(given(in_backward(listed(500))), {g, c});
  }
  JointIndex a = 0;
  JointIndex b = 0;
  JointIndex c = 0;
};

}  // namespace

TEST_CASE("A value weighs its bytes, 1.1 times for each edge to backward, twice if it is not written") {
  const Chain chain(800, 400);
  const JointFacts facts = joint_facts(chain.graph);
  CHECK(facts.distance[chain.a] == 3);
  CHECK(facts.distance[chain.b] == 2);
  CHECK(facts.distance[chain.c] == 1);
  // A product is written whatever reads it: 800 * 1.331 = 1064.8.
  CHECK(save_weight(chain.graph, facts, chain.a) == 1064);
  // 400 * 1.21 = 484 and 500 * 1.1 = 550, both only inside a kernel.
  CHECK(save_weight(chain.graph, facts, chain.b) == 968);
  CHECK(save_weight(chain.graph, facts, chain.c) == 1100);
}

TEST_CASE("A chain is cut where it weighs least") {
  const Chain thin(800, 400);
  CHECK(thin.saved() == Nodes{thin.b});
  CHECK(thin.cut().weight == 968);
  // 450 * 1.21 = 544.5, cut off and doubled: 1088 is more than the product's 1064.
  const Chain thick(800, 450);
  CHECK(thick.saved() == Nodes{thick.a});
  CHECK(thick.cut().weight == 1064);
}

TEST_CASE("Of cuts that weigh the same the one nearest to backward is taken, by each algorithm") {
  // a: 1000 * 1.331 = 1331; b: 550 * 1.21 = 665.5 -> 2 * 665 = 1330; c: 2 * int(605 * 1.1 = 665.5) = 1330.
  Joint joint;
  const JointIndex x = joint.input(5000);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(product(1000), {x});
  const JointIndex b = joint.op(listed(550), {a});
  const JointIndex c = joint.op(listed(605), {b});
  joint.op(given(listed(500)), {c});
  joint.op(given(in_backward(listed(500))), {g, c});
  const JointFacts facts = joint_facts(joint.graph);
  REQUIRE(save_weight(joint.graph, facts, b) == 1330);
  REQUIRE(save_weight(joint.graph, facts, c) == 1330);
  for (const MaxFlow algorithm : {MaxFlow::PushRelabel, MaxFlow::BoykovKolmogorov, MaxFlow::EdmondsKarp}) {
    const Cut cut = joint.cut({}, algorithm);
    CHECK(cut.saved[b] == 0);
    CHECK(cut.saved[c] == 1);
    CHECK(cut.weight == 1330);
  }
}

TEST_CASE("The distance to backward counts up to 100 edges, and one at least") {
  Joint joint;
  const JointIndex x = joint.input(1000);
  const JointIndex g = joint.tangent();
  JointIndex last = joint.op(product(1000), {x});
  const JointIndex first = last;
  for (int i = 0; i < 200; ++i) last = joint.op(listed(1000), {last});
  joint.op(given(product(1000)), {last});
  const JointIndex unclaimed = joint.op(in_backward(listed(1000)), {first});
  joint.op(given(in_backward(listed(1000))), {g, last, unclaimed});
  const JointFacts facts = joint_facts(joint.graph);
  CHECK(facts.distance[last] == 1);
  CHECK(facts.distance[last - 150] == 151);
  // 1000 * 1.1^100 = 13780612.3
  CHECK(save_weight(joint.graph, facts, last - 150) == 2 * 13'780'612);
  CHECK(save_weight(joint.graph, facts, last) == 1100);  // The product reads it: it is written.
  // Neither pass needs it for sure: it stands at the border, and weighs as if one edge away.
  CHECK(facts.distance[unclaimed] == 0);
  CHECK(save_weight(joint.graph, facts, unclaimed) == 2 * 1100);
}

TEST_CASE("What is given is kept as it is, and parameters for nothing") {
  Joint joint;
  const JointIndex x = joint.input(100);
  const JointIndex w = joint.parameter(900);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(listed(1000), {x, w});
  joint.op(given(listed(1000)), {a});
  joint.op(given(in_backward(listed(1000))), {g, a});
  CHECK(save_weight(joint.graph, joint_facts(joint.graph), w) == 0);
  // Both inputs (100 * 1.21) are less than a (2 * 1100), so a is made again.
  CHECK(joint.saved() == Nodes{x, w});
  CHECK(joint.cut().weight == 121);
}

TEST_CASE("An input that backward gives back is kept") {
  Joint joint;
  const JointIndex x = joint.graph.add({.role = JointRole::Input, .bytes = 100, .given_backward = true});
  const JointIndex g = joint.tangent();
  joint.op(given(listed(100)), {x});
  joint.op(given(in_backward(listed(100))), {g});
  CHECK(joint.saved() == Nodes{x});
}

TEST_CASE("Several tensors of one op are kept one by one") {
  Joint joint;
  const JointIndex x = joint.input(100);
  const JointIndex g = joint.tangent();
  const JointIndex both = joint.op({.bytes = 110, .expensive = true, .several = true}, {x});
  const JointIndex out = joint.op({.role = JointRole::Item, .bytes = 100, .listed = true}, {both});
  const JointIndex sums = joint.op({.role = JointRole::Item, .bytes = 10, .listed = true}, {both});
  joint.op(given(product(100)), {out});
  joint.op(given(in_backward(product(100))), {g, sums});
  CHECK(joint.saved() == Nodes{sums});
}

TEST_CASE("What the user wants made again is, and what it reads is kept") {
  Joint joint;
  const JointIndex x = joint.input(100);
  const JointIndex g = joint.tangent();
  const JointIndex a = joint.op(product(100), {x});
  JointNode asked = product(50);
  asked.must_recompute = true;
  const JointIndex b = joint.op(asked, {a});
  joint.op(given(product(100)), {b});
  joint.op(given(in_backward(product(100))), {g, b});
  CHECK(joint.saved() == Nodes{a});
  joint.graph[b].must_recompute = false;
  CHECK(joint.saved() == Nodes{b});
}

TEST_CASE("A banned value that cannot be kept by itself is an error") {
  Joint joint;
  const JointIndex x = joint.input(100);
  const JointIndex g = joint.tangent();
  const JointIndex both = joint.op({.bytes = 110, .expensive = true, .several = true}, {x});
  joint.op(given(product(100)), {both});
  joint.op(given(in_backward(product(100))), {g, both});
  CHECK_THROWS_AS(joint.cut(), std::invalid_argument);
}

TEST_CASE("Equal blocks are cut once") {
  Joint joint;
  JointIndex x = joint.input(1000);
  std::vector<JointIndex> kept;
  std::vector<JointIndex> read;
  for (int block = 0; block < 12; ++block) {
    x = joint.op(product(1000), {x});
    kept.push_back(x);
    x = joint.op(listed(1000), {x});
    x = joint.op(listed(1000), {x});
    read.push_back(x);
    x = joint.op(listed(1000), {x});
  }
  joint.op(given(product(1000)), {x});
  JointIndex g = joint.tangent();
  for (int block = 12; block-- > 0;)
    g = joint.op(in_backward(listed(1000)), {g, read[static_cast<std::size_t>(block)]});
  joint.graph[g].given_backward = true;
  // A product weighs 1331, what backward reads 2 * 1100.
  CHECK(joint.saved() == kept);
  const Cut cut = joint.cut();
  CHECK(cut.weight == 12 * 1331);
  CHECK(cut.parts == 12);
  CHECK(cut.distinct_parts == 1);
}

}  // namespace gpusim::test
