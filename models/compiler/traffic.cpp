// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/traffic.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace gpusim {
namespace {

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

/// "{'a', 'b'}", shortened.
std::string names_of(const TrafficGraph& graph, const std::vector<OpIndex>& group) {
  constexpr std::size_t shown = 4;
  std::string text = "{";
  for (std::size_t i = 0; i < group.size() && i < shown; ++i)
    text += (i > 0 ? ", " : "") + quoted(graph.ops[group[i]].name);
  if (group.size() > shown) text += ", and " + std::to_string(group.size() - shown) + " more";
  return text + "}";
}

/// The place in `groups` of each op's group.
std::vector<std::size_t> places(const TrafficGraph& graph, const OpGroups& groups) {
  constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  const std::string hint = "each op belongs to exactly one group";
  std::vector<std::size_t> place(graph.ops.size(), nowhere);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].empty()) throw CompileError("group " + std::to_string(g) + " is empty", hint);
    for (const OpIndex op : groups[g]) {
      if (op >= graph.ops.size())
        throw CompileError("there is no op " + std::to_string(op) + " among " +
                           std::to_string(graph.ops.size()));
      if (place[op] == g) throw CompileError(quoted(graph.ops[op].name) + " is twice in one group", hint);
      if (place[op] != nowhere) throw CompileError(quoted(graph.ops[op].name) + " is in two groups", hint);
      place[op] = g;
    }
  }
  for (OpIndex op = 0; op < graph.ops.size(); ++op)
    if (place[op] == nowhere) throw CompileError(quoted(graph.ops[op].name) + " is in no group", hint);
  return place;
}

/// Why one group has to wait for another.
struct Need {
  OpIndex op = 0;      ///< Of the group that waits,
  OpIndex before = 0;  ///< for this one.
  bool reads = true;   ///< What the other makes; else it overwrites what the other reads.
};

using Needs = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Need>;

Needs needs_of_groups(const TrafficGraph& graph, const OpGroups& groups,
                      const std::vector<std::size_t>& place) {
  const std::vector<OpIndex> made_by = producers(graph);
  Needs needs(groups.size());
  const auto add = [&](Need need) {
    const std::size_t from = place[need.op];
    const std::size_t to = place[need.before];
    if (from != to) boost::add_edge(from, to, need, needs);
  };
  for (OpIndex op = 0; op < graph.ops.size(); ++op) {
    for (const TensorIndex t : graph.ops[op].inputs)
      if (const OpIndex maker = made_by[graph.root(t)]; maker != graph_none)
        add({.op = op, .before = maker, .reads = true});
    for (const OpIndex before : graph.ops[op].after) add({.op = op, .before = before, .reads = false});
  }
  return needs;
}

/// Depth first along what is needed, so groups are finished behind what they need.
struct OrderVisitor : boost::dfs_visitor<> {
  OrderVisitor(const TrafficGraph& g, const OpGroups& all, const std::vector<std::size_t>& places_of_ops,
               std::vector<std::size_t>& finished)
      : graph(g), groups(all), place(places_of_ops), order(finished), reached_by(all.size()) {}

  void tree_edge(const Needs::edge_descriptor& edge, const Needs& needs) {
    reached_by[boost::target(edge, needs)] = needs[edge];
  }
  void finish_vertex(std::size_t group, const Needs&) const { order.push_back(group); }

  /// The last need of a cycle; the others lead from its target to its source.
  void back_edge(const Needs::edge_descriptor& edge, const Needs& needs) const {
    std::vector<Need> cycle{needs[edge]};
    for (std::size_t at = boost::source(edge, needs); at != boost::target(edge, needs);) {
      cycle.push_back(reached_by[at]);
      at = place[reached_by[at].op];
    }
    std::reverse(cycle.begin(), cycle.end());
    std::string text;
    for (const Need& need : cycle)
      text += (text.empty() ? "" : "; ") + names_of(graph, groups[place[need.op]]) + " needs " +
              names_of(graph, groups[place[need.before]]) + ", for " + quoted(graph.ops[need.op].name) +
              (need.reads ? " reads what " : " overwrites what ") + quoted(graph.ops[need.before].name) +
              (need.reads ? " makes" : " uses");
    throw CompileError("groups need each other in a cycle: " + text,
                       "an op that lies between two ops of a group belongs into the group too");
  }
  const TrafficGraph& graph;
  const OpGroups& groups;
  const std::vector<std::size_t>& place;
  std::vector<std::size_t>& order;
  std::vector<Need> reached_by;  ///< Per group, what led to it.
};

std::vector<std::size_t> order_of(const TrafficGraph& graph, const OpGroups& groups,
                                  const std::vector<std::size_t>& place) {
  const Needs needs = needs_of_groups(graph, groups, place);
  std::vector<std::size_t> order;
  order.reserve(groups.size());
  boost::depth_first_search(needs, boost::visitor(OrderVisitor(graph, groups, place, order)));
  return order;
}

}  // namespace

std::vector<OpIndex> producers(const TrafficGraph& graph) {
  std::vector<OpIndex> made_by(graph.tensors.size(), graph_none);
  for (OpIndex op = 0; op < graph.ops.size(); ++op)
    for (const TensorIndex t : graph.ops[op].outputs) made_by[t] = op;
  return made_by;
}

std::vector<std::size_t> group_order(const TrafficGraph& graph, const OpGroups& groups) {
  return order_of(graph, groups, places(graph, groups));
}

void check_groups(const TrafficGraph& graph, const OpGroups& groups) {
  group_order(graph, groups);
}

Traffic plan_traffic(const TrafficGraph& graph, const OpGroups& groups) {
  const std::vector<std::size_t> place = places(graph, groups);
  order_of(graph, groups, place);
  const std::vector<OpIndex> made_by = producers(graph);
  std::vector<bool> needed_outside(graph.tensors.size(), false);
  for (const TensorIndex t : graph.outputs) needed_outside[graph.root(t)] = true;
  for (OpIndex op = 0; op < graph.ops.size(); ++op)
    for (const TensorIndex t : graph.ops[op].inputs) {
      const OpIndex maker = made_by[graph.root(t)];
      if (maker != graph_none && place[maker] != place[op]) needed_outside[graph.root(t)] = true;
    }

  Traffic traffic;
  traffic.groups.reserve(groups.size());
  // The last group that read a look, and what it read of each whole: nothing is cleared between groups.
  constexpr std::size_t never = static_cast<std::size_t>(-1);
  std::vector<std::size_t> looked_at(graph.tensors.size(), never);
  std::vector<std::size_t> touched(graph.tensors.size(), never);
  std::vector<Bytes> looks(graph.tensors.size(), Bytes(0));
  std::vector<TensorIndex> wholes;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GroupTraffic group;
    wholes.clear();
    for (const OpIndex op : groups[g]) {
      for (const TensorIndex t : graph.ops[op].inputs) {
        const TensorIndex whole = graph.root(t);
        const bool inside = made_by[whole] != graph_none && place[made_by[whole]] == g;
        if (inside || looked_at[t] == g) continue;
        looked_at[t] = g;
        if (touched[whole] != g) {
          touched[whole] = g;
          looks[whole] = Bytes(0);
          wholes.push_back(whole);
        }
        looks[whole] += graph.tensors[t].read;
      }
      for (const TensorIndex t : graph.ops[op].outputs)
        if (needed_outside[t]) group.written += graph.tensors[t].written;
    }
    for (const TensorIndex whole : wholes) group.read += std::min(looks[whole], graph.tensors[whole].read);
    traffic.sum.read += group.read;
    traffic.sum.written += group.written;
    traffic.groups.push_back(group);
  }
  return traffic;
}

OpGroups single_groups(const TrafficGraph& graph) {
  OpGroups groups;
  groups.reserve(graph.ops.size());
  for (OpIndex op = 0; op < graph.ops.size(); ++op) groups.push_back({op});
  return groups;
}

Traffic eager_traffic(const TrafficGraph& graph) {
  return plan_traffic(graph, single_groups(graph));
}

Traffic traffic_bound(const TrafficGraph& graph) {
  if (graph.ops.empty()) return {};
  OpGroups one(1);
  one.front().resize(graph.ops.size());
  std::iota(one.front().begin(), one.front().end(), OpIndex{0});
  return plan_traffic(graph, one);
}

OpGroups named_groups(const OpGraph& graph, std::span<const std::vector<std::string>> names) {
  std::unordered_map<std::string_view, OpIndex> index;
  for (OpIndex op = 0; op < graph.ops.size(); ++op) index.emplace(graph.ops[op].name, op);
  std::vector<bool> given(graph.ops.size(), false);
  OpGroups groups;
  for (const std::vector<std::string>& group : names) {
    if (group.empty()) continue;
    groups.emplace_back();
    for (const std::string& name : group) {
      const auto found = index.find(name);
      if (found == index.end()) throw CompileError("there is no op " + quoted(name) + " to fuse");
      if (given[found->second])
        throw CompileError(quoted(name) + " is named twice in the groups",
                           "each op belongs to at most one group");
      given[found->second] = true;
      groups.back().push_back(found->second);
    }
    std::sort(groups.back().begin(), groups.back().end());
  }
  for (OpIndex op = 0; op < graph.ops.size(); ++op)
    if (!given[op]) groups.push_back({op});
  return groups;
}

}  // namespace gpusim
