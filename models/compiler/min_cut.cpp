// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/min_cut.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

namespace gpusim {
namespace {

bool is_input(const JointNode& node) {
  return node.role == JointRole::Input || node.role == JointRole::Parameter;
}

/// Where something that is not yet decided stands.
constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

/// Flow goes from what must not be made again, through values, to what the backward pass makes. Each node has
/// an entry and an exit; between them flows at most its weight, from exits to readers' entries any amount.
class FlowGraph {
 public:
  FlowGraph(const JointGraph& graph, const JointFacts& facts, std::span<const Ban> bans)
      : graph_(graph), facts_(facts), size_(graph.size()) {
    entry_at_source_.assign(size_, 0);
    exit_at_source_.assign(size_, 0);
    entry_at_sink_.assign(size_, 0);
    exit_at_sink_.assign(size_, 0);
    weight_.assign(size_, 0);
    for (JointIndex i = 0; i < size_; ++i)
      if (passes(i) && !graph_[i].several) weight_[i] = save_weight(graph_, facts_, i);
    join_sink();
    join_source(bans);
    find_reachable();
  }

  Cut solve(MaxFlow algorithm) {
    split();
    Cut cut;
    cut.saved.assign(size_, 0);
    std::map<std::vector<std::int64_t>, std::vector<std::uint8_t>> solved;
    for (std::size_t begin = 0; begin < arcs_.size();) {
      std::size_t end = begin;
      while (end < arcs_.size() && arcs_[end].part == arcs_[begin].part) ++end;
      solve_part(begin, end, algorithm, solved);
      begin = end;
      ++cut.parts;
    }
    cut.distinct_parts = solved.size();
    for (JointIndex i = 0; i < size_; ++i) {
      if (!passes(i) || graph_[i].several || at_sink(entry(i)) || !at_sink(exit(i))) continue;
      cut.saved[i] = 1;
      cut.weight += weight_[i];
    }
    return cut;
  }

 private:
  struct Arc {
    std::uint32_t part = 0;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::int64_t capacity = -1;  ///< -1: any.
  };

  /// Whether the node has an exit: what is in the backward pass in any case ends there.
  bool passes(JointIndex i) const {
    return !(facts_.backward[i] != 0 && !is_input(graph_[i])) && !graph_[i].must_recompute;
  }
  std::uint32_t entry(JointIndex i) const { return 2 * i; }
  std::uint32_t exit(JointIndex i) const { return graph_[i].several ? 2 * i : 2 * i + 1; }

  void join_sink() {
    for (JointIndex i = size_; i-- > 0;) {
      if (!passes(i)) {
        entry_at_sink_[i] = 1;
        continue;
      }
      bool joined = facts_.backward[i] != 0;
      for (const JointIndex reader : facts_.readers_of(i)) joined = joined || entry_at_sink_[reader] != 0;
      exit_at_sink_[i] = joined ? 1 : 0;
      entry_at_sink_[i] = joined && graph_[i].several ? 1 : 0;
    }
  }

  void join_source(std::span<const Ban> bans) {
    for (JointIndex i = 0; i < size_; ++i) {
      bool joined = bans[i] != Ban::None;
      for (const JointIndex in : graph_.inputs(i)) joined = joined || exit_at_source_[in] != 0;
      entry_at_source_[i] = joined ? 1 : 0;
      exit_at_source_[i] = joined && passes(i) && graph_[i].several ? 1 : 0;
      if (joined && entry_at_sink_[i] != 0)
        throw std::invalid_argument(
            "a value that must not be made again is needed in the backward pass, and "
            "nothing that may be kept stands between");
    }
  }

  /// Only what flow can come to and get on from takes part in it.
  void find_reachable() {
    from_source_.assign(2 * std::size_t{size_}, 0);
    to_sink_.assign(2 * std::size_t{size_}, 0);
    for (JointIndex i = 0; i < size_; ++i) {
      bool reached = entry_at_source_[i] != 0;
      for (const JointIndex in : graph_.inputs(i))
        reached = reached || (passes(in) && from_source_[exit(in)] != 0);
      from_source_[entry(i)] = reached ? 1 : 0;
      if (exit(i) != entry(i)) from_source_[exit(i)] = reached && weight_[i] > 0 ? 1 : 0;
    }
    for (JointIndex i = size_; i-- > 0;) {
      if (!passes(i)) {
        to_sink_[entry(i)] = 1;
        continue;
      }
      bool reaches = exit_at_sink_[i] != 0;
      for (const JointIndex reader : facts_.readers_of(i))
        reaches = reaches || (entry_at_source_[reader] == 0 && to_sink_[entry(reader)] != 0);
      to_sink_[exit(i)] = reaches ? 1 : 0;
      if (exit(i) != entry(i))
        to_sink_[entry(i)] = reaches && weight_[i] > 0 && entry_at_source_[i] == 0 ? 1 : 0;
    }
  }

  bool undecided(std::uint32_t point) const {
    const JointIndex i = point / 2;
    const bool is_exit = point == exit(i);
    if (from_source_[point] == 0 || to_sink_[point] == 0) return false;
    if (is_exit && exit_at_sink_[i] != 0) return false;
    return point != entry(i) || (entry_at_source_[i] == 0 && entry_at_sink_[i] == 0);
  }

  bool at_sink(std::uint32_t point) const {
    if (undecided(point)) return decided_[point] != 0;
    return to_sink_[point] != 0;
  }

  std::uint32_t root(std::uint32_t point) {
    while (joined_[point] != point) {
      joined_[point] = joined_[joined_[point]];
      point = joined_[point];
    }
    return point;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = root(a);
    b = root(b);
    if (a != b) joined_[std::max(a, b)] = std::min(a, b);
  }

  /// The arcs between undecided points, source and sink, part by part.
  void split() {
    const std::size_t points = 2 * std::size_t{size_};
    joined_.resize(points);
    std::iota(joined_.begin(), joined_.end(), 0U);
    decided_.assign(points, 0);
    constexpr std::uint32_t outside = nowhere;
    for (JointIndex i = 0; i < size_; ++i) {
      if (!passes(i)) continue;
      const bool enters = undecided(entry(i));
      const bool leaves = undecided(exit(i));
      if (exit(i) != entry(i) && weight_[i] > 0 && (enters || leaves)) {
        if (enters && leaves) {
          join(entry(i), exit(i));
          arcs_.push_back({0, entry(i), exit(i), weight_[i]});
        } else if (enters && exit_at_sink_[i] != 0) {
          arcs_.push_back({0, entry(i), outside, weight_[i]});
        } else if (leaves && entry_at_source_[i] != 0) {
          arcs_.push_back({0, outside, exit(i), weight_[i]});
        }
      }
      if (!leaves) continue;
      for (const JointIndex reader : facts_.readers_of(i)) {
        if (!undecided(entry(reader))) continue;
        join(exit(i), entry(reader));
        arcs_.push_back({0, exit(i), entry(reader), -1});
      }
    }
    for (Arc& arc : arcs_) arc.part = root(arc.from != outside ? arc.from : arc.to);
    std::stable_sort(arcs_.begin(), arcs_.end(), [](const Arc& a, const Arc& b) { return a.part < b.part; });
    number_.assign(points, nowhere);
  }

  void solve_part(std::size_t begin, std::size_t end, MaxFlow algorithm,
                  std::map<std::vector<std::int64_t>, std::vector<std::uint8_t>>& solved) {
    // Numbered in the order in which they are met, so that equal parts look equal.
    std::vector<std::uint32_t> points;
    const auto number = [&](std::uint32_t point) {
      if (number_[point] == nowhere) {
        number_[point] = static_cast<std::uint32_t>(points.size()) + 2;
        points.push_back(point);
      }
      return number_[point];
    };
    FlowNetwork network;
    std::int64_t sum = 1;
    std::vector<std::int64_t> key;
    key.reserve(3 * (end - begin));
    for (std::size_t a = begin; a < end; ++a) {
      const Arc& arc = arcs_[a];
      const FlowArc flow{arc.from == nowhere ? FlowNetwork::source : number(arc.from),
                         arc.to == nowhere ? FlowNetwork::sink : number(arc.to), arc.capacity};
      network.arcs.push_back(flow);
      key.insert(key.end(), {std::int64_t{flow.from}, std::int64_t{flow.to}, flow.capacity});
      if (arc.capacity > std::numeric_limits<std::int64_t>::max() / 4 - sum)
        throw std::invalid_argument("what the values of a training step weigh does not fit an int64");
      if (arc.capacity > 0) sum += arc.capacity;
    }
    const auto [found, is_new] = solved.try_emplace(std::move(key));
    if (is_new) {
      for (FlowArc& arc : network.arcs)
        if (arc.capacity < 0) arc.capacity = sum;
      network.vertices = static_cast<std::uint32_t>(points.size()) + 2;
      found->second = sink_side(network, algorithm);
    }
    for (const std::uint32_t point : points) decided_[point] = found->second[number_[point]];
  }

  const JointGraph& graph_;
  const JointFacts& facts_;
  JointIndex size_;
  std::vector<std::int64_t> weight_;
  // By node: on which side of the cut an entry or exit has to be.
  std::vector<std::uint8_t> entry_at_source_;
  std::vector<std::uint8_t> exit_at_source_;
  std::vector<std::uint8_t> entry_at_sink_;
  std::vector<std::uint8_t> exit_at_sink_;
  // By point: entry or exit of a node.
  std::vector<std::uint8_t> from_source_;
  std::vector<std::uint8_t> to_sink_;
  std::vector<std::uint8_t> decided_;
  std::vector<std::uint32_t> joined_;
  std::vector<std::uint32_t> number_;
  std::vector<Arc> arcs_;
};

}  // namespace

std::int64_t save_weight(const JointGraph& graph, const JointFacts& facts, JointIndex i) {
  const JointNode& node = graph[i];
  if (node.role == JointRole::Parameter) return 0;
  // pow(1.1, n) as Python's float has it, and cut off as int() does.
  const double edges = std::max(std::min(facts.distance[i], 100), 1);
  const auto weight = static_cast<std::int64_t>(static_cast<double>(node.bytes) * std::pow(1.1, edges));
  bool written = is_input(node) || node.given_forward || node.given_backward;
  for (const JointIndex reader : facts.readers_of(i))
    written = written || !may_be_one_kernel(graph, i, reader);
  return written ? weight : 2 * weight;
}

Cut min_cut(const JointGraph& graph, const JointFacts& facts, std::span<const Ban> bans, MaxFlow algorithm) {
  return FlowGraph(graph, facts, bans).solve(algorithm);
}

}  // namespace gpusim
