// SPDX-License-Identifier: Apache-2.0
// Traffic and fusion of random op graphs. RapidCheck makes the graphs and, where a property fails, the
// smallest that fails it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <rapidcheck.h>

#include "models/compiler/exhaustive.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/lower.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

/// The same cases in each run; RC_PARAMS in the environment says otherwise.
template <class Property>
void holds(const std::string& what, Property&& property) {
  setenv("RC_PARAMS", "seed=20260101 max_success=300", 0);
  CHECK(rc::check(what, std::forward<Property>(property)));
}

/// An op of a random graph, whatever the numbers mean there.
using Step = std::tuple<std::uint8_t, std::uint8_t, std::uint8_t, bool>;

rc::Gen<std::vector<Step>> steps(std::size_t most) {
  return rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, most + 1), [](std::size_t count) {
    return rc::gen::container<std::vector<Step>>(count, rc::gen::arbitrary<Step>());
  });
}

// --- Graphs of tensors with sizes, without a meaning.

TrafficGraph random_traffic(const std::vector<Step>& all) {
  TrafficGraph graph;
  const auto add_tensor = [&](std::uint8_t size) {
    const Bytes bytes(1 + size % 100);
    graph.tensors.push_back({.read = bytes, .written = bytes});
    return static_cast<TensorIndex>(graph.tensors.size() - 1);
  };
  add_tensor(40);  // There before.
  add_tensor(90);
  for (const auto& [first, second, size, given] : all) {
    const auto count = static_cast<TensorIndex>(graph.tensors.size());
    MovingOp op{.name = "op" + std::to_string(graph.ops.size())};
    op.inputs = {first % count, second % count};
    if (size % 5 == 0) {
      // A part of a tensor instead of the whole.
      const TensorIndex root = graph.root(op.inputs.front());
      graph.tensors.push_back(
          {.read = Bytes((graph.tensors[root].read.value() + 1) / 2), .written = Bytes(0), .whole = root});
      op.inputs.front() = static_cast<TensorIndex>(graph.tensors.size() - 1);
    }
    for (int i = 0; i <= size % 2; ++i) {
      op.outputs.push_back(add_tensor(static_cast<std::uint8_t>(size + i)));
      if (given) graph.outputs.push_back(op.outputs.back());
    }
    graph.ops.push_back(op);
  }
  return graph;
}

/// Tensor by tensor: written once if anybody outside of the maker's group wants it, read once by each other
/// group.
Bytes traffic_by_tensors(const TrafficGraph& graph, const OpGroups& groups) {
  std::vector<std::size_t> place(graph.ops.size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const OpIndex op : groups[g]) place[op] = g;
  Bytes sum{0};
  for (TensorIndex root = 0; root < graph.tensors.size(); ++root) {
    if (graph.root(root) != root) continue;
    std::size_t maker = groups.size();
    std::map<std::size_t, std::set<TensorIndex>> looks;  // By group.
    for (OpIndex op = 0; op < graph.ops.size(); ++op) {
      const auto& [name, inputs, outputs, after] = graph.ops[op];
      if (std::find(outputs.begin(), outputs.end(), root) != outputs.end()) maker = place[op];
      for (const TensorIndex t : inputs)
        if (graph.root(t) == root) looks[place[op]].insert(t);
    }
    looks.erase(maker);
    const bool given = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                   [&](TensorIndex t) { return graph.root(t) == root; });
    if (maker < groups.size() && (given || !looks.empty())) sum += graph.tensors[root].written;
    for (const auto& [group, tensors] : looks) {
      Bytes parts{0};
      for (const TensorIndex t : tensors) parts += graph.tensors[t].read;
      sum += std::min(parts, graph.tensors[root].read);
    }
  }
  return sum;
}

/// Whether the groups can be taken away one by one, each when all that it needs is gone.
bool can_run(const TrafficGraph& graph, const OpGroups& groups) {
  const std::vector<OpIndex> makers = producers(graph);
  std::set<OpIndex> done;
  std::vector<bool> gone(groups.size(), false);
  for (std::size_t round = 0; round < groups.size(); ++round)
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (gone[g]) continue;
      const auto is_there = [&](OpIndex op) {
        return op == graph_none || done.count(op) == 1 ||
               std::find(groups[g].begin(), groups[g].end(), op) != groups[g].end();
      };
      bool ready = true;
      for (const OpIndex op : groups[g]) {
        for (const TensorIndex t : graph.ops[op].inputs) ready = ready && is_there(makers[graph.root(t)]);
        for (const OpIndex before : graph.ops[op].after) ready = ready && is_there(before);
      }
      if (!ready) continue;
      gone[g] = true;
      done.insert(groups[g].begin(), groups[g].end());
    }
  return std::all_of(gone.begin(), gone.end(), [](bool g) { return g; });
}

/// Calls `found` for every partition of `count` ops.
void each_partition(std::size_t count, const std::function<void(const OpGroups&)>& found) {
  OpGroups groups;
  const std::function<void(OpIndex)> place = [&](OpIndex op) {
    if (op == count) return found(groups);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      groups[g].push_back(op);
      place(op + 1);
      groups[g].pop_back();
    }
    groups.push_back({op});
    place(op + 1);
    groups.pop_back();
  };
  place(0);
}

TEST_CASE("Traffic of random groups is that of the tensors, at most eager's and at least the bound") {
  holds("groups at random", [] {
    const std::vector<Step> all = *steps(40);
    const TrafficGraph graph = random_traffic(all);
    const auto most = *rc::gen::inRange<std::size_t>(1, graph.ops.size() + 1);
    std::map<std::size_t, std::vector<OpIndex>> by_label;
    for (OpIndex op = 0; op < graph.ops.size(); ++op)
      by_label[*rc::gen::inRange<std::size_t>(0, most)].push_back(op);
    OpGroups groups;
    for (const auto& [label, ops] : by_label) groups.push_back(ops);
    if (!can_run(graph, groups)) {
      RC_ASSERT_THROWS_AS(plan_traffic(graph, groups), CompileError);
      return;
    }
    const Traffic traffic = plan_traffic(graph, groups);
    RC_ASSERT(traffic.total() == traffic_by_tensors(graph, groups));
    RC_ASSERT(traffic.total() <= eager_traffic(graph).total());
    RC_ASSERT(traffic.total() >= traffic_bound(graph).total());
    GroupTraffic sum;
    for (const GroupTraffic& group : traffic.groups) {
      sum.read += group.read;
      sum.written += group.written;
    }
    RC_ASSERT(sum == traffic.sum);
  });
}

TEST_CASE(
    "All partitions of small random graphs: counted by tensors, refused where they cannot run, ordered") {
  holds("all partitions", [] {
    const TrafficGraph graph = random_traffic(*steps(6));
    const Bytes most = eager_traffic(graph).total();
    const Bytes least = traffic_bound(graph).total();
    each_partition(graph.ops.size(), [&](const OpGroups& groups) {
      if (!can_run(graph, groups)) {
        RC_ASSERT_THROWS_AS(check_groups(graph, groups), CompileError);
        return;
      }
      const Bytes bytes = plan_traffic(graph, groups).total();
      RC_ASSERT(bytes == traffic_by_tensors(graph, groups));
      RC_ASSERT(bytes <= most);
      RC_ASSERT(bytes >= least);
      // In the order that is given, each group alone is ready when its turn comes.
      OpGroups ordered;
      for (const std::size_t g : group_order(graph, groups)) ordered.push_back(groups[g]);
      std::set<OpIndex> done;
      const std::vector<OpIndex> makers = producers(graph);
      for (const std::vector<OpIndex>& group : ordered) {
        done.insert(group.begin(), group.end());
        for (const OpIndex op : group)
          for (const TensorIndex t : graph.ops[op].inputs) {
            const OpIndex maker = makers[graph.root(t)];
            RC_ASSERT(maker == graph_none || done.count(maker) == 1);
          }
      }
    });
  });
}

TEST_CASE("Joining two groups never moves more") {
  holds("joining", [] {
    const TrafficGraph graph = random_traffic(*steps(12));
    RC_PRE(graph.ops.size() >= 2U);
    OpGroups groups = single_groups(graph);
    Bytes before = plan_traffic(graph, groups).total();
    // Neighbours in a chain of intervals, so that the groups can always run.
    while (groups.size() > 1) {
      const auto at = *rc::gen::inRange<std::size_t>(0, groups.size() - 1);
      groups[at].insert(groups[at].end(), groups[at + 1].begin(), groups[at + 1].end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      const Bytes after = plan_traffic(graph, groups).total();
      RC_ASSERT(after <= before);
      before = after;
    }
  });
}

// --- Networks with a meaning.

/// A network of square matrices: elementwise ops, views, reductions, norms, products, ops in place. It gives
/// what nobody reads, so nothing in it is dead.
OpGraph random_network(const std::vector<Step>& all, bool in_place = true) {
  std::string body;
  struct Value {
    std::string name;
    bool given = false;
    bool read = false;
  };
  std::vector<Value> values{{"x", false, true}, {"w", false, true}};
  for (const auto& [kind, first, second, is_given] : all) {
    const auto use = [&](std::uint8_t i) -> const std::string& {
      Value& value = values[i % values.size()];
      value.read = true;
      return value.name;
    };
    const std::string& a = use(first);
    std::string made;
    switch (kind % 12) {
      case 0:
        made = a + " + " + use(second);
        break;
      case 1:
        made = "exp(" + a + ")";
        break;
      case 2:
        made = "mean(" + a + ", -1, keepdim=true) + " + use(second);
        break;
      case 3:
        made = "softmax(" + a + ")";
        break;
      case 4:
        made = "layer_norm(" + a + ", affine=false)";
        break;
      case 5:
        made = "matmul(" + a + ", " + use(second) + ")";
        break;
      case 6:
        made = "relu(transpose(" + a + ", 0, 1))";
        break;
      case 7:
        made = "sum(" + a + ", 0, keepdim=true) * " + use(second);
        break;
      case 8:
        made = (in_place ? "add_(" : "maximum(") + a + ", " + use(second) + ")";
        break;
      case 9:
        made = "cat([slice(" + a + ", 0, 0, 16), slice(" + use(second) + ", 0, 16, 32)], 0)";
        break;
      case 10:
        made = "dropout(" + a + ", 0.1, training=true)";
        break;
      default:
        made = a + " * transpose(" + use(second) + ", 0, 1)";
        break;
    }
    const std::string name = "v" + std::to_string(values.size());
    // The mask of a dropout is nobody's.
    body += "  - " + name + (kind % 12 == 10 ? ", m" + name : "") + " = " + made + "\n";
    values.push_back({name, is_given});
  }
  std::string gives;
  for (const Value& value : values)
    if (value.given || !value.read) gives += (gives.empty() ? "" : ", ") + value.name;
  return fusion_graph("x: {shape: [32, 32]}, w: {shape: [32, 32]}", body, gives);
}

std::size_t moving_ops(const FusionLegality& legality) {
  std::size_t count = 0;
  for (OpIndex op = 0; op < legality.traffic().ops.size(); ++op)
    if (legality.traffic().moves(op)) ++count;
  return count;
}

TEST_CASE("The exhaustive plan moves the least of all partitions into kernels") {
  holds("exhaustive", [] {
    const OpGraph graph = random_network(*steps(5));
    const Backend backend = joining_backend();
    const BackendMode mode = *rc::gen::arbitrary<bool>() ? template_mode() : BackendMode{};
    const FusionLegality legality(graph, backend, mode);
    std::vector<OpIndex> ops;
    std::vector<OpIndex> views;
    for (OpIndex op = 0; op < graph.ops.size(); ++op)
      (legality.traffic().moves(op) ? ops : views).push_back(op);
    RC_PRE(ops.size() <= 8U);
    std::map<std::vector<OpIndex>, bool> legal;
    const auto is_legal = [&](const std::vector<OpIndex>& group) {
      const auto [entry, added] = legal.try_emplace(group);
      if (added) entry->second = !legality.refusal(group);
      return entry->second;
    };
    Bytes least = eager_traffic(legality.traffic()).total();
    each_partition(ops.size(), [&](const OpGroups& places) {
      OpGroups groups;
      for (const std::vector<OpIndex>& group : places) {
        groups.emplace_back();
        for (const OpIndex place : group) groups.back().push_back(ops[place]);
        if (!is_legal(groups.back())) return;
      }
      for (const OpIndex view : views) groups.push_back({view});
      if (can_run(legality.traffic(), groups))
        least = std::min(least, traffic_by_tensors(legality.traffic(), groups));
    });
    const ExhaustivePlan plan = exhaustive_plan(legality);
    check_plan(legality, plan.groups);
    RC_ASSERT(plan.traffic.total() == least);
    RC_ASSERT(plan.traffic == plan_traffic(legality.traffic(), plan.groups));
    RC_ASSERT(plan.traffic.total() <= eager_traffic(legality.traffic()).total());
    RC_ASSERT(plan.traffic.total() >= traffic_bound(legality.traffic()).total());
  });
}

TEST_CASE("A group of a kernel is one whatever the order in which its ops are named") {
  holds("order of names", [] {
    const OpGraph graph = random_network(*steps(6));
    const Backend backend = joining_backend();
    const BackendMode mode = template_mode();
    const FusionLegality legality(graph, backend, mode);
    std::vector<OpIndex> group;
    for (OpIndex op = 0; op < graph.ops.size(); ++op)
      if (*rc::gen::arbitrary<bool>()) group.push_back(op);
    const std::vector<OpIndex> reversed(group.rbegin(), group.rend());
    RC_ASSERT(legality.refusal(group) == legality.refusal(reversed));
  });
}

/// Ops of each kernel of a plan, where no other kernel computes them again.
std::vector<std::vector<OpIndex>> kernels_of_own(const FusionLegality& legality, const LoopGraph& loops,
                                                 const FusionPlan& plan) {
  std::vector<std::vector<OpIndex>> kernels;
  std::map<OpIndex, int> times;
  for (const FusionGroup& group : plan.groups) {
    std::set<OpIndex> ops;
    for (const LoopIndex loop : group.loops)
      ops.insert(loops.loops[loop].origins.begin(), loops.loops[loop].origins.end());
    for (const OpIndex op : ops) ++times[op];
    kernels.emplace_back(ops.begin(), ops.end());
  }
  const auto again = [&](const std::vector<OpIndex>& ops) {
    return std::any_of(ops.begin(), ops.end(),
                       [&](OpIndex op) { return legality.traffic().moves(op) && times[op] > 1; });
  };
  kernels.erase(std::remove_if(kernels.begin(), kernels.end(), again), kernels.end());
  return kernels;
}

TEST_CASE("What Inductor's scheduler joins may be one kernel by these rules, which know nothing of it") {
  const GpuSpec gpu = h200();
  std::size_t joined = 0;
  holds("Inductor's kernels", [&] {
    // It gives ops in place memory of their own, so it may move others past them.
    const OpGraph graph = random_network(*steps(20), false);
    const Backend backend = joining_backend();
    BackendMode mode;
    mode.fusion.exchange_loops = false;  // these rules know nothing of it
    const FusionLegality legality(graph, backend, mode);
    const LoopGraph loops = lower(graph, gpu, 0, static_cast<OpIndex>(graph.ops.size()), view_offsets(graph));
    for (const std::vector<OpIndex>& ops : kernels_of_own(legality, loops, plan_fusion(loops, mode.fusion))) {
      const std::string refusal = legality.refusal(ops).value_or("legal");
      RC_LOG() << refusal << "\n";
      RC_ASSERT(refusal == "legal");
      joined += ops.size() > 1 ? 1U : 0U;
    }
  });
  CHECK(joined > 80);
}

TEST_CASE("So it is with the kernels of real networks") {
  const GpuSpec gpu = h200();
  const Backend backend = joining_backend();
  BackendMode mode;
  mode.fusion.exchange_loops = false;
  std::size_t joined = 0;
  // Not Mixtral: its sums of two values are written out elementwise, which these rules call reductions.
  for (const char* name : {"gpt2", "llama3_8b", "gemma", "resnet50", "vit"}) {
    const OpGraph graph = build_graph(shipped_network(name), sizes(4, 128));
    const FusionLegality legality(graph, backend, mode);
    const LoopGraph loops = lower(graph, gpu, 0, static_cast<OpIndex>(graph.ops.size()), view_offsets(graph));
    for (const std::vector<OpIndex>& ops : kernels_of_own(legality, loops, plan_fusion(loops, mode.fusion))) {
      CAPTURE(name, graph.ops[ops.front()].name);
      CHECK(legality.refusal(ops).value_or("legal") == "legal");
      joined += ops.size() > 1 ? 1U : 0U;
    }
  }
  CHECK(joined > 200);
}

TEST_CASE("More ops than can be tried are refused, views not counted") {
  std::string body = "  - a = exp(x)\n";
  for (int i = 1; i < 10; ++i) body += "  - a = exp(transpose(a, 0, 1))\n";
  const Backend backend = joining_backend();
  const BackendMode mode;
  const OpGraph ten = fusion_graph("x: {shape: [8, 8]}", body, "a");
  const FusionLegality all_ten(ten, backend, mode);
  CHECK(moving_ops(all_ten) == 10);
  CHECK(exhaustive_plan(all_ten).traffic.total() == Bytes(2 * 8 * 8 * 2));
  const OpGraph eleven = fusion_graph("x: {shape: [8, 8]}", body + "  - a = exp(a)\n", "a");
  const FusionLegality too_many(eleven, backend, mode);
  CHECK_THAT(compile_error([&] { exhaustive_plan(too_many); }), ContainsSubstring("exhaustive_ops_max"));
}

TEST_CASE("Groups that would each be a kernel but need each other are no plan") {
  // {a, d} and {b, e} would move the least, but d needs b and e needs a.
  const OpGraph graph =
      fusion_graph("x: {shape: [64, 64]}, w: {shape: [64, 64]}",
                   "  - a = exp(x)\n  - b = cos(w)\n  - d = a + b\n  - e = a * b\n", "d, e");
  const Backend backend = joining_backend();
  BackendMode pairs;
  pairs.fusion.ops_max = 2;
  pairs.fusion.siblings = false;
  const FusionLegality legality(graph, backend, pairs);
  CHECK_FALSE(legality.refusal(ops_named(graph, {"a", "d"})));
  CHECK_FALSE(legality.refusal(ops_named(graph, {"b", "e"})));
  CHECK(exhaustive_plan(legality).traffic.total() == Bytes(9 * 64 * 64 * 2));
}

}  // namespace
}  // namespace gpusim::test
