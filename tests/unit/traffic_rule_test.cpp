// SPDX-License-Identifier: Apache-2.0
// The group rule: bytes of groupings, partitions and their order, and networks as traffic sees them.
#include <string>
#include <vector>

#include "models/compiler/traffic.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

using namespace gpusim::literals;

NamedTraffic chain() {
  return traffic_of("a: x -> t1; b: t1 -> t2; c: t2 -> y", "x=100, t1=10, t2=1, y=1000", "y");
}

TEST_CASE("Reads and writes of each group are told apart") {
  const NamedTraffic c = chain();
  const Traffic traffic = plan_traffic(c.graph, c.groups("a,b / c"));
  REQUIRE(traffic.groups.size() == 2);
  CHECK(traffic.groups[0] == GroupTraffic{.read = 100_B, .written = 1_B});
  CHECK(traffic.groups[1] == GroupTraffic{.read = 1_B, .written = 1000_B});
  CHECK(traffic.sum == GroupTraffic{.read = 101_B, .written = 1001_B});
  CHECK(traffic.total() == 1102_B);
}

TEST_CASE("Every op for itself and all ops as one are the two ends") {
  const NamedTraffic c = chain();
  CHECK(eager_traffic(c.graph).total() == Bytes(100 + 10 + 10 + 1 + 1 + 1000));
  CHECK(traffic_bound(c.graph).total() == 1100_B);
  CHECK(traffic_bound(TrafficGraph{}).total() == 0_B);
  CHECK(eager_traffic(TrafficGraph{}) == Traffic{});
}

TEST_CASE("A group that reads two parts of a tensor moves both, but never more than the tensor") {
  NamedTraffic n = traffic_of("p: left -> u; q: right -> v; r: all -> w",
                              "whole=100, left=40, right=40, all=100, u=1, v=1, w=1", "u,v,w");
  for (const char* part : {"left", "right", "all"}) n.graph.tensors[n.tensor(part)].whole = n.tensor("whole");
  CHECK(moved(n, "p / q / r") == 40 + 40 + 100 + 3);
  CHECK(moved(n, "p,q / r") == 80 + 100 + 3);
  CHECK(moved(n, "p,q,r") == 100 + 3);
}

TEST_CASE("Who reads a part of what another group makes needs all of it written") {
  NamedTraffic n = traffic_of("p: x -> whole; q: part -> y", "x=10, whole=100, part=25, y=1", "y");
  n.graph.tensors[n.tensor("part")].whole = n.tensor("whole");
  CHECK(plan_traffic(n.graph, n.groups("p / q")).groups[0].written == 100_B);
  CHECK(plan_traffic(n.graph, n.groups("p / q")).groups[1].read == 25_B);
  CHECK(moved(n, "p,q") == 11);
}

TEST_CASE("An op in no group, in two groups or twice in one is refused by its name") {
  const NamedTraffic c = chain();
  CHECK(compile_error([&] { plan_traffic(c.graph, c.groups("a,b")); }) == "'c' is in no group");
  CHECK(compile_error([&] { plan_traffic(c.graph, c.groups("a,b / b,c")); }) == "'b' is in two groups");
  CHECK(compile_error([&] { plan_traffic(c.graph, c.groups("a,b,b / c")); }) == "'b' is twice in one group");
  CHECK(compile_error([&] { plan_traffic(c.graph, {{0, 1, 2}, {}}); }) == "group 1 is empty");
  CHECK(compile_error([&] { plan_traffic(c.graph, {{0, 1, 2, 3}}); }) == "there is no op 3 among 3");
}

TEST_CASE("A cycle of groups is refused with the ops that make it") {
  const NamedTraffic c = chain();
  CHECK(
      compile_error([&] { plan_traffic(c.graph, c.groups("a,c / b")); }) ==
      "groups need each other in a cycle: {'a', 'c'} needs {'b'}, for 'c' reads what 'b' makes; {'b'} needs "
      "{'a', 'c'}, for 'b' reads what 'a' makes");
  // Three groups, each of which needs the next: only the three together make the cycle.
  const NamedTraffic n = traffic_of("a: x -> p; b: x -> q; c: x -> r; d: q -> u; e: r -> v; f: p -> w",
                                    "x=1, p=1, q=1, r=1, u=1, v=1, w=1", "u,v,w");
  const std::string message = compile_error([&] { check_groups(n.graph, n.groups("a,d / b,e / c,f")); });
  CHECK_THAT(message, ContainsSubstring("{'a', 'd'} needs {'b', 'e'}, for 'd' reads what 'b' makes"));
  CHECK_THAT(message, ContainsSubstring("{'b', 'e'} needs {'c', 'f'}, for 'e' reads what 'c' makes"));
  CHECK_THAT(message, ContainsSubstring("{'c', 'f'} needs {'a', 'd'}, for 'f' reads what 'a' makes"));
  CHECK_NOTHROW(check_groups(n.graph, n.groups("a,d / b,e / c / f")));
}

TEST_CASE("Only groups on the cycle are named, not those that lead to it") {
  const NamedTraffic n =
      traffic_of("a: x -> t1; b: t1 -> t2; c: t2 -> y; last: y -> z", "x=1, t1=1, t2=1, y=1, z=1", "z");
  const std::string message = compile_error([&] { check_groups(n.graph, n.groups("last / a,c / b")); });
  CHECK_THAT(message, ContainsSubstring("'c' reads what 'b' makes"));
  CHECK_THAT(message, !ContainsSubstring("last"));
}

TEST_CASE("Groups are ordered behind what they need, and as given where that leaves a choice") {
  const NamedTraffic n =
      traffic_of("a: x -> p; b: x -> q; c: q -> r; d: r -> s", "x=1, p=1, q=1, r=1, s=1", "s");
  CHECK(group_order(n.graph, n.groups("a,d / b,c")) == std::vector<std::size_t>{1, 0});
  CHECK(group_order(n.graph, n.groups("a / b,c / d")) == std::vector<std::size_t>{0, 1, 2});
  CHECK(group_order(n.graph, n.groups("b / a / c,d")) == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("An op that overwrites what another reads has to come after it") {
  NamedTraffic n =
      traffic_of("read: x -> u; write: v -> x2; use: x2, u -> y", "x=1, v=1, u=1, x2=1, y=1", "y");
  CHECK_NOTHROW(check_groups(n.graph, n.groups("read,use / write")));
  n.graph.ops[n.op("write")].after = {n.op("read")};
  CHECK_THAT(compile_error([&] { check_groups(n.graph, n.groups("read,use / write")); }),
             ContainsSubstring("'write' overwrites what 'read' uses"));
}

// --- Networks.

Traffic eager_of(const OpGraph& graph) {
  return eager_traffic(traffic_graph(graph));
}

OpGraph network(const std::string& inputs, const std::string& body, const std::string& gives) {
  return build_graph(
      network_of("name: n\ninputs: {" + inputs + "}\nbody:\n" + body + "gives: [" + gives + "]\n"),
      sizes(1, 1));
}

TEST_CASE("Views move nothing, and who reads one reads that part") {
  const OpGraph graph = network("x: {shape: [64, 64]}",
                                "  - left, right = chunk(x, 2, -1)\n  - y = relu(left)\n"
                                "  - z = relu(transpose(right, 0, 1))\n",
                                "y, z");
  const TrafficGraph traffic = traffic_graph(graph);
  REQUIRE(traffic.ops.size() == graph.ops.size());
  const std::int64_t half = 64 * 32 * 2;
  const Traffic eager = eager_traffic(traffic);
  std::int64_t views = 0;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    if (traffic.moves(i)) {
      CHECK(eager.groups[i] == GroupTraffic{.read = Bytes(half), .written = Bytes(half)});
    } else {
      CHECK(eager.groups[i].total() == 0_B);
      ++views;
    }
  }
  CHECK(views == 2);
  CHECK(traffic_bound(traffic).sum == GroupTraffic{.read = Bytes(2 * half), .written = Bytes(2 * half)});
}

TEST_CASE("A reshape that has to copy reads and writes, one that has not is a view") {
  const std::string x = "x: {shape: [64, 32]}";
  CHECK(eager_of(network(x, "  - y = reshape(transpose(x, 0, 1), [2048])\n", "y")).total() ==
        Bytes(2 * 64 * 32 * 2));
  CHECK(eager_of(network(x, "  - y = relu(reshape(x, [2048]))\n", "y")).total() == Bytes(2 * 64 * 32 * 2));
}

TEST_CASE("Dropout that is off and a cast to the same dtype move nothing") {
  const OpGraph graph = network("x: {shape: [64, 64]}", "  - y = relu(dropout(to(x, dtype), 0.1))\n", "y");
  CHECK(graph.ops.size() == 3);
  CHECK(eager_of(graph).total() == Bytes(2 * 64 * 64 * 2));
}

TEST_CASE("An op in place makes the contents that are read from then on, under the old name too") {
  // The linear writes h, relu_ reads and writes it; the product reads it, by the name that it had before.
  const OpGraph graph =
      network("x: {shape: [64, 64]}", "  - h = exp(x)\n  - relu_(h)\n  - y = cos(h)\n", "y");
  const TrafficGraph traffic = traffic_graph(graph);
  const std::int64_t all = 64 * 64 * 2;
  CHECK(eager_traffic(traffic).total() == Bytes(6 * all));
  CHECK(traffic_bound(traffic).total() == Bytes(2 * all));
  CHECK(compile_error([&] { check_groups(traffic, {{0, 2}, {1}}); }) != "no error");
}

TEST_CASE("Rows written into a state cost the rows, and the state is read as long as it is") {
  const OpGraph graph = build_graph(shipped_network("llama3_8b"), sizes(1, 1024, StepKind::Decode));
  const TrafficGraph traffic = traffic_graph(graph);
  const Traffic eager = eager_traffic(traffic);
  const std::int64_t row = 8 * 128 * 2;
  const std::int64_t cache = 1024 * row;
  std::int64_t stores = 0;
  std::int64_t attentions = 0;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    const std::string_view kind = graph.ops[i].kind->name;
    if (kind == "index_put_") {
      ++stores;
      CHECK(eager.groups[i].written == Bytes(row));
      CHECK(eager.groups[i].read < Bytes(2 * row));
    }
    if (kind == "scaled_dot_product_attention") {
      ++attentions;
      CHECK(eager.groups[i].read > Bytes(2 * cache));
      CHECK(eager.groups[i].read < Bytes(2 * cache + 4 * 32 * 128 * 2));
    }
  }
  CHECK(stores == 64);
  CHECK(attentions == 32);
}

TEST_CASE("A lookup reads as many rows as it gives, not the table") {
  const OpGraph graph = build_graph(shipped_network("llama3_8b"), sizes(1, 1024, StepKind::Decode));
  const Traffic eager = eager_of(graph);
  REQUIRE(graph.ops.front().kind->name == "embedding");
  CHECK(eager.groups.front().read == Bytes(4096 * 2 + 8));
  CHECK(eager.groups.front().written == Bytes(4096 * 2));
}

TEST_CASE("Memory that was there before the step is a result once it is written") {
  const OpGraph graph =
      network("x: {shape: [64, 64]}, c: {shape: [64, 64]}", "  - copy_(c, x)\n  - y = relu(x)\n", "y");
  const std::int64_t all = 64 * 64 * 2;
  const TrafficGraph traffic = traffic_graph(graph);
  CHECK(traffic_bound(traffic).sum == GroupTraffic{.read = Bytes(all), .written = Bytes(2 * all)});
}

TEST_CASE("Groups are named by ops, and all other ops stay alone behind them") {
  const OpGraph graph = build_graph(shipped_network("fma_relu"), sizes(1, 1));
  const std::vector<std::string> names{graph.ops[0].name, graph.ops[1].name, graph.ops[2].name};
  CHECK(named_groups(graph, std::vector<std::vector<std::string>>{{names[2], names[1]}}) ==
        OpGroups{{1, 2}, {0}});
  CHECK(named_groups(graph, std::vector<std::vector<std::string>>{}) == OpGroups{{0}, {1}, {2}});
  CHECK(compile_error([&] { named_groups(graph, std::vector<std::vector<std::string>>{{"nobody"}}); }) ==
        "there is no op 'nobody' to fuse");
  CHECK(compile_error([&] {
          named_groups(graph, std::vector<std::vector<std::string>>{{names[0]}, {names[1], names[0]}});
        }) == "'" + names[0] + "' is named twice in the groups");
}

}  // namespace
}  // namespace gpusim::test
