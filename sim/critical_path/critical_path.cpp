// SPDX-License-Identifier: Apache-2.0
#include "sim/critical_path/critical_path.hpp"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <limits>
#include <utility>

#include "sim/critical_path/dependencies.hpp"
#include "sim/engine/assertion.hpp"

namespace gpusim {
namespace {

using engine::Index;
using engine::no_index;

constexpr Picoseconds never = Picoseconds::max();

struct Edge {
  Picoseconds weight{0};
  Moment unless_by = no_moment;
  Rule rule = Rule::Order;
  bool circular = false;
};

/// From each moment to those before it.
using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Edge,
                                                 boost::no_property, std::uint32_t, std::uint32_t>;

Graph graph_of(const Dependencies& dependencies) {
  std::vector<std::pair<Moment, Moment>> ends;
  std::vector<Edge> edges;
  ends.reserve(dependencies.list.size());
  edges.reserve(dependencies.list.size());
  for (const Dependency& d : dependencies.list) {
    ends.emplace_back(d.moment, d.before);
    edges.push_back({.weight = d.weight, .unless_by = d.unless_by, .rule = d.rule});
  }
  return Graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), edges.begin(),
               static_cast<std::uint32_t>(dependencies.size()));
}

/// Takes the moments down as they are finished: every one after all that it depends on. A dependency that
/// would close a circle is none.
class OrderVisitor : public boost::default_dfs_visitor {
 public:
  OrderVisitor(std::vector<Moment>& order, std::vector<Graph::edge_descriptor>& circular)
      : order_(order), circular_(circular) {}
  void finish_vertex(Moment moment, const Graph&) { order_.push_back(moment); }
  void back_edge(Graph::edge_descriptor edge, const Graph&) { circular_.push_back(edge); }

 private:
  std::vector<Moment>& order_;
  std::vector<Graph::edge_descriptor>& circular_;
};

std::vector<Moment> order_of(Graph& graph) {
  std::vector<Moment> order;
  std::vector<Graph::edge_descriptor> circular;
  order.reserve(boost::num_vertices(graph));
  boost::depth_first_search(graph, boost::visitor(OrderVisitor(order, circular)));
  for (const Graph::edge_descriptor edge : circular) graph[edge].circular = true;
  return order;
}

/// What a moment came after, as late as it did.
struct Binding {
  Moment before = Dependencies::origin;
  Rule rule = Rule::Order;
  Picoseconds weight{0};
  Picoseconds excess{0};  ///< So much later it was than any rule says.
};

class Analysis {
 public:
  Analysis(const engine::Program& program, const engine::Timeline& timeline, Dependencies dependencies)
      : program_(program),
        timeline_(timeline),
        dependencies_(std::move(dependencies)),
        graph_(graph_of(dependencies_)),
        order_(order_of(graph_)),
        binding_(dependencies_.size()) {}

  CriticalPath path() {
    CriticalPath result;
    bind(result);
    const Moment last = last_moment();
    result.makespan = time(last);
    walk(last, result);
    slack(result);
    for (std::size_t i = 0; i < infinitely_fast_count; ++i)
      result.order_kept[i] = longest_path(static_cast<InfinitelyFast>(i));
    return result;
  }

 private:
  Picoseconds time(Moment moment) const { return dependencies_.time[moment]; }

  /// `what`(before, edge) for each dependency of `moment` that holds in the timeline.
  template <class What>
  void for_each_before(Moment moment, const What& what) const {
    for (auto [edge, end] = boost::out_edges(moment, graph_); edge != end; ++edge)
      what(static_cast<Moment>(boost::target(*edge, graph_)), graph_[*edge]);
  }
  bool is_broken(Moment moment, Moment before, const Edge& edge) const {
    if (edge.circular) return true;
    return dependencies_.is_observed(moment) && time(before) + edge.weight > time(moment) &&
           !(edge.unless_by != no_moment && time(before) <= time(edge.unless_by));
  }

  /// Derived times, and what bound each moment.
  void bind(CriticalPath& result) {
    for (const Moment moment : order_) {
      if (moment == Dependencies::origin) continue;
      Binding best;
      Picoseconds latest = Picoseconds::min();
      for_each_before(moment, [&](Moment before, const Edge& edge) {
        if (is_broken(moment, before, edge)) {
          ++result.contradictions;
          return;
        }
        if (edge.unless_by != no_moment && time(before) <= time(edge.unless_by)) return;
        const Picoseconds at = time(before) + edge.weight;
        const bool binds =
            at > latest || (at == latest && std::pair(edge.rule, before) < std::pair(best.rule, best.before));
        if (!binds) return;
        latest = at;
        best = {.before = before, .rule = edge.rule, .weight = edge.weight};
      });
      if (latest == Picoseconds::min()) latest = Picoseconds(0);  // after the beginning of the run
      if (dependencies_.is_observed(moment))
        best.excess = time(moment) - latest;
      else
        dependencies_.time[moment] = latest;
      binding_[moment] = best;
    }
  }

  /// The completion that makes the makespan: an op rather than a call, then the first.
  Moment last_moment() const {
    Moment last = Dependencies::origin;
    const auto completions = static_cast<Moment>(dependencies_.first_op + 2 * timeline_.ops.size());
    for (Moment moment = dependencies_.first_op; moment < completions; ++moment)
      if (time(moment) > time(last)) last = moment;
    for (Moment moment = 1; moment < dependencies_.first_op; ++moment)
      if (time(moment) > time(last)) last = moment;
    return last;
  }

  /// The time that an op would take alone.
  Picoseconds alone(Index record) const {
    const engine::OpRecord& ran = timeline_.ops[record];
    const engine::GpuOp& op = program_.ops[engine::op_of(program_, timeline_, ran)];
    const Picoseconds observed = ran.end - ran.start;
    return op.distribution != no_index ? observed : std::min(op.duration, observed);
  }

  PathResource resource_of(Moment moment, Rule rule) const {
    switch (rule) {
      case Rule::Run: {
        const engine::OpRecord& ran = timeline_.ops[dependencies_.owner[moment]];
        const engine::GpuOp& op = program_.ops[engine::op_of(program_, timeline_, ran)];
        return op.kind == engine::OpKind::Memcpy ? PathResource::Copy : PathResource::Kernel;
      }
      case Rule::Input:
        return PathResource::Input;
      case Rule::Fired:
        return PathResource::Event;
      case Rule::Latency:
        return PathResource::LaunchLatency;
      case Rule::Gap:
      case Rule::Period:
        return PathResource::Gap;
      case Rule::Completion:
        return PathResource::Synchronization;
      case Rule::Work:
      case Rule::LaunchCall:
      case Rule::Arrival:
      case Rule::Order:
      case Rule::CopyEngine:
      case Rule::Place:
      case Rule::OtherThread:
        break;
    }
    return PathResource::Host;
  }

  /// Back from the last moment to the beginning. A programmatic launch starts before its predecessor has
  /// ended: of what lies behind the moment reached nothing is taken.
  void walk(Moment last, CriticalPath& result) const {
    Picoseconds reached = time(last);
    const auto add = [&](Picoseconds from, Picoseconds to, PathResource resource, Moment moment) {
      to = std::min(to, reached);
      if (from >= to) return;
      reached = from;
      PathSegment segment{.from = from, .to = to, .resource = resource};
      const Index owner = dependencies_.owner[moment];
      if (owner & Dependencies::call_bit)
        segment.call = owner & ~Dependencies::call_bit;
      else
        segment.op = owner;
      result.by_resource[static_cast<std::size_t>(resource)] += segment.duration();
      if (!result.segments.empty()) {
        PathSegment& later = result.segments.back();
        if (later.resource == segment.resource && later.op == segment.op && later.call == segment.call) {
          later.from = segment.from;
          return;
        }
      }
      result.segments.push_back(segment);
    };
    for (Moment moment = last; moment != Dependencies::origin;) {
      const Binding& binding = binding_[moment];
      const Picoseconds before = time(binding.before);
      const Picoseconds explained = before + binding.weight;
      const Picoseconds reached_before = reached;
      add(explained, time(moment), PathResource::Sharing, moment);
      result.unexplained += reached_before - reached;
      if (binding.rule == Rule::Run) {
        const Picoseconds slowed_from = before + alone(dependencies_.owner[moment]);
        add(slowed_from, explained, PathResource::Sharing, moment);
        add(before, slowed_from, resource_of(moment, binding.rule), moment);
      } else {
        add(before, explained, resource_of(moment, binding.rule), moment);
      }
      moment = binding.before;
    }
    std::reverse(result.segments.begin(), result.segments.end());
    Picoseconds sum{0};
    for (const Picoseconds part : result.by_resource) sum += part;
    GPUSIM_ASSERT(reached == Picoseconds(0) && sum == result.makespan);
  }

  /// How late each moment may be, from the end backwards.
  void slack(CriticalPath& result) const {
    std::vector<Picoseconds> latest(dependencies_.size(), never);
    const auto completions = static_cast<Moment>(dependencies_.first_op + 2 * timeline_.ops.size());
    std::fill(latest.begin(), latest.begin() + completions, result.makespan);
    for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
      const Moment moment = *at;
      if (latest[moment] == never) continue;
      const Picoseconds excess = binding_[moment].excess;
      for_each_before(moment, [&](Moment before, const Edge& edge) {
        if (is_broken(moment, before, edge)) return;
        Picoseconds by = latest[moment] - excess - edge.weight;
        // A completion before the call that asks for it delays nobody.
        if (edge.unless_by != no_moment) by = std::max(by, time(edge.unless_by));
        latest[before] = std::min(latest[before], by);
      });
    }
    result.op_slack.resize(timeline_.ops.size());
    for (Index i = 0; i < timeline_.ops.size(); ++i) {
      const Moment end = dependencies_.op_end(i);
      result.op_slack[i] = latest[end] - time(end);
    }
    result.call_slack.resize(timeline_.call_limit());
    for (std::size_t t = 0; t < timeline_.threads.size(); ++t)
      for (std::size_t i = 0; i < timeline_.threads[t].call_end.size(); ++i) {
        const Index call = timeline_.call_number(t, i);
        const Moment end = dependencies_.call_end(call);
        result.call_slack[call] = latest[end] - time(end);
      }
  }

  static bool takes_time(Rule rule, InfinitelyFast what) {
    switch (what) {
      case InfinitelyFast::Host:
        return rule != Rule::Work && rule != Rule::LaunchCall;
      case InfinitelyFast::Launches:
        return rule != Rule::LaunchCall && rule != Rule::Latency;
      case InfinitelyFast::Kernels:
        return rule != Rule::Run;
    }
    return true;
  }

  Picoseconds longest_path(InfinitelyFast what) const {
    std::vector<Picoseconds> at(dependencies_.size(), Picoseconds(0));
    Picoseconds last{0};
    const auto completions = static_cast<Moment>(dependencies_.first_op + 2 * timeline_.ops.size());
    for (const Moment moment : order_) {
      Picoseconds latest{0};
      for_each_before(moment, [&](Moment before, const Edge& edge) {
        if (is_broken(moment, before, edge)) return;
        if (edge.unless_by != no_moment && at[before] <= at[edge.unless_by]) return;
        latest = std::max(latest, at[before] + (takes_time(edge.rule, what) ? edge.weight : Picoseconds(0)));
      });
      at[moment] = latest + binding_[moment].excess;
      if (moment < completions) last = std::max(last, at[moment]);
    }
    return last;
  }

  const engine::Program& program_;
  const engine::Timeline& timeline_;
  Dependencies dependencies_;
  Graph graph_;
  std::vector<Moment> order_;
  std::vector<Binding> binding_;
};

}  // namespace

const char* name(PathResource resource) {
  switch (resource) {
    case PathResource::Kernel:
      return "kernel";
    case PathResource::Copy:
      return "copy";
    case PathResource::Sharing:
      return "sharing";
    case PathResource::Gap:
      return "gap";
    case PathResource::Event:
      return "event";
    case PathResource::LaunchLatency:
      return "launch_latency";
    case PathResource::Host:
      return "host";
    case PathResource::Input:
      return "input";
    case PathResource::Synchronization:
      return "synchronization";
  }
  return "unknown";
}

CriticalPath critical_path(const engine::Program& program, const engine::Machine& machine,
                           const engine::Timeline& timeline) {
  return Analysis(program, timeline, Dependencies(program, machine, timeline)).path();
}

std::vector<PathSegment> merged_by_resource(const std::vector<PathSegment>& segments) {
  std::vector<PathSegment> result;
  for (const PathSegment& segment : segments) {
    if (!result.empty() && result.back().resource == segment.resource)
      result.back().to = segment.to;
    else
      result.push_back({.from = segment.from, .to = segment.to, .resource = segment.resource});
  }
  return result;
}

}  // namespace gpusim
