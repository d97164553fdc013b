// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/fuse.hpp"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace gpusim {
namespace {

constexpr int rounds_max = 10;
constexpr std::size_t attempts_max =
    64;  ///< Per node and buffer (max_fusion_buffer_group_pairwise_attempts).
constexpr std::int64_t shared_bytes_min = 10;  ///< score_fusion_memory_threshold.
constexpr std::int64_t distance_max = 64;

/// Loops that are one kernel so far.
struct Node {
  std::vector<LoopIndex> loops;  ///< Ascending, which is an order in which they can run.
  LoopKind kind = LoopKind::Pointwise;
  std::int64_t numel = 0;  ///< Of its reductions, if it has any: the kept places.
  std::int64_t rnumel = 1;
  bool scatter = false;
  bool templated = false;  ///< A compiled product.
  std::vector<Touch> reads;
  std::vector<Touch> writes;
  std::int64_t min_order() const { return loops.front(); }
  std::int64_t max_order() const { return loops.back(); }
  bool is_reduction() const { return kind == LoopKind::Reduction; }
  bool is_library() const { return kind == LoopKind::Library || kind == LoopKind::Nothing; }
};

void add_touch(std::vector<Touch>& into, const Touch& touch) {
  if (std::find(into.begin(), into.end(), touch) == into.end()) into.push_back(touch);
}

class Scheduler {
 public:
  Scheduler(const LoopGraph& loops, const FusionRules& rules) : loops_(loops), rules_(rules) {
    const std::size_t count = loops.loops.size();
    owner_.resize(count);
    successors_.resize(count);
    predecessors_.resize(count);
    for (LoopIndex i = 0; i < count; ++i) {
      const Loop& loop = loops.loops[i];
      owner_[i] = i;
      nodes_.push_back({.loops = {i},
                        .kind = loop.kind,
                        .numel = loop.numel,
                        .rnumel = loop.rnumel,
                        .scatter = loop.scatter,
                        .templated = loop.templated,
                        .reads = loop.reads,
                        .writes = loop.writes});
    }
    connect();
  }

  /// Starts from a plan instead of single loops.
  void take(const FusionPlan& plan) {
    for (const FusionGroup& group : plan.groups)
      for (std::size_t i = 1; i < group.loops.size(); ++i)
        merge(owner_[group.loops.front()], owner_[group.loops[i]]);
  }

  FusionPlan run() {
    for (int round = 0; round < rounds_max; ++round)
      if (!fuse_once()) break;
    return plan();
  }

  FusionPlan plan() const {
    FusionPlan plan;
    // Each kernel behind those that it needs, else in the order of the program.
    std::vector<std::uint8_t> state(nodes_.size(), 0);
    std::vector<std::pair<std::uint32_t, bool>> stack;
    for (std::uint32_t root = 0; root < nodes_.size(); ++root) {
      if (owner_[root] != root || state[root] != 0) continue;
      stack.emplace_back(root, false);
      while (!stack.empty()) {
        const auto [node, done] = stack.back();
        stack.pop_back();
        if (done) {
          plan.groups.push_back({nodes_[node].loops});
          continue;
        }
        if (state[node] != 0) continue;
        state[node] = 1;
        stack.emplace_back(node, true);
        std::vector<std::uint32_t> needed;
        for (const LoopIndex loop : nodes_[node].loops)
          for (const LoopIndex before : predecessors_[loop])
            if (owner_[before] != node && state[owner_[before]] == 0) needed.push_back(owner_[before]);
        std::sort(needed.begin(), needed.end(), [&](std::uint32_t a, std::uint32_t b) {
          return nodes_[a].min_order() > nodes_[b].min_order();
        });
        for (const std::uint32_t before : needed) stack.emplace_back(before, false);
      }
    }
    return plan;
  }

  /// Which of the two feeds the other is asked anew: kernels that have grown may begin before those that they
  /// need.
  FusionRefusal why_not(std::uint32_t ia, std::uint32_t ib) const {
    if (needs_directly(ib, ia)) std::swap(ia, ib);
    const Node& a = nodes_[ia];
    const Node& b = nodes_[ib];
    if (b.is_library() || (a.is_library() && !a.templated)) return FusionRefusal::Library;
    if (a.templated) {
      // An epilogue: elementwise over the product's own result.
      if (b.is_reduction() || b.numel != a.numel || b.scatter) return FusionRefusal::Shape;
      if (!needs_directly(ia, ib)) return FusionRefusal::NothingShared;
      if (const FusionRefusal refusal = reads_match(a, b); refusal != FusionRefusal::None) return refusal;
      return has_way_around(ia, ib) || has_way_around(ib, ia) ? FusionRefusal::Between : FusionRefusal::None;
    }
    if (static_cast<std::int64_t>(a.loops.size() + b.loops.size()) > rules_.ops_max)
      return FusionRefusal::Size;
    const bool vertical = needs_directly(ia, ib);
    if (const FusionRefusal refusal = shapes(a, b, vertical); refusal != FusionRefusal::None) return refusal;
    if (vertical) {
      if (const FusionRefusal refusal = reads_match(a, b); refusal != FusionRefusal::None) return refusal;
    }
    if (!vertical && shared_bytes(a, b) < shared_bytes_min) return FusionRefusal::NothingShared;
    if (!vertical) {
      if (!rules_.siblings) return FusionRefusal::Rule;
      if (distance(a, b) > distance_max) return FusionRefusal::Distance;
    }
    if (has_way_around(ia, ib) || has_way_around(ib, ia)) return FusionRefusal::Between;
    return FusionRefusal::None;
  }

  std::uint32_t owner(LoopIndex loop) const { return owner_[loop]; }

  std::int64_t shared_bytes(const Node& a, const Node& b) const {
    std::int64_t sum = 0;
    const auto has = [&](const Touch& touch) {
      return std::find(b.reads.begin(), b.reads.end(), touch) != b.reads.end() ||
             std::find(b.writes.begin(), b.writes.end(), touch) != b.writes.end();
    };
    for (const Touch& touch : a.reads)
      if (has(touch)) sum += touch.bytes.value();
    for (const Touch& touch : a.writes)
      if (std::find(a.reads.begin(), a.reads.end(), touch) == a.reads.end() && has(touch))
        sum += touch.bytes.value();
    return sum;
  }

 private:
  /// Who must run before whom: readers behind the writer, writers behind earlier readers and writers.
  void connect() {
    struct State {
      LoopIndex writer = loop_none;
      std::vector<LoopIndex> readers;
    };
    std::vector<State> states(loops_.buffers.size());
    const auto edge = [&](LoopIndex from, LoopIndex to) {
      if (from == loop_none || from == to) return;
      if (!successors_[from].empty() && successors_[from].back() == to) return;
      successors_[from].push_back(to);
      predecessors_[to].push_back(from);
    };
    for (LoopIndex i = 0; i < loops_.loops.size(); ++i) {
      const Loop& loop = loops_.loops[i];
      for (const Touch& touch : loop.reads) {
        edge(states[touch.buffer].writer, i);
        states[touch.buffer].readers.push_back(i);
      }
      for (const Touch& touch : loop.writes) {
        State& state = states[touch.buffer];
        edge(state.writer, i);
        for (const LoopIndex reader : state.readers) edge(reader, i);
        state.readers.clear();
        state.writer = i;
      }
    }
  }

  bool needs_directly(std::uint32_t ia, std::uint32_t ib) const {
    for (const LoopIndex loop : nodes_[ia].loops)
      for (const LoopIndex next : successors_[loop])
        if (owner_[next] == ib) return true;
    return false;
  }

  FusionRefusal shapes(const Node& a, const Node& b, bool vertical) const {
    if (a.is_reduction() && b.is_reduction()) {
      if (!rules_.reductions_together) return FusionRefusal::Rule;
      return a.numel == b.numel && a.rnumel == b.rnumel ? FusionRefusal::None : FusionRefusal::Reductions;
    }
    if (!a.is_reduction() && !b.is_reduction()) {
      if (!rules_.pointwise) return FusionRefusal::Rule;
      return a.numel == b.numel ? FusionRefusal::None : FusionRefusal::Shape;
    }
    const Node& reduction = a.is_reduction() ? a : b;
    const Node& pointwise = a.is_reduction() ? b : a;
    if (vertical && !(a.is_reduction() ? rules_.after_reduction : rules_.into_reduction))
      return FusionRefusal::Rule;
    const bool fits =
        pointwise.numel == reduction.numel * reduction.rnumel || (pointwise.numel == reduction.numel);
    return fits ? FusionRefusal::None : FusionRefusal::Shape;
  }

  /// What the consumer reads of the producer's results it must read at the place where they are made.
  FusionRefusal reads_match(const Node& a, const Node& b) const {
    for (const Touch& write : a.writes) {
      for (const Touch& read : b.reads) {
        if (read.buffer != write.buffer) continue;
        if (a.scatter || write.indirect) return FusionRefusal::Scatter;
        if (read.indirect) return FusionRefusal::Access;
        if (read.access == write.access) continue;
        // An elementwise loop can run in another order.
        const bool movable = rules_.exchange_loops && (!a.is_reduction() || !b.is_reduction());
        if (!movable || !read.access.is_permutation_of(write.access)) return FusionRefusal::Access;
      }
      for (const Touch& again : b.writes)
        if (again.buffer == write.buffer) return FusionRefusal::Scatter;
    }
    for (const Touch& read : a.reads)
      for (const Touch& write : b.writes)
        if (read.buffer == write.buffer && (write.indirect || !(read.access == write.access)))
          return FusionRefusal::Scatter;
    return FusionRefusal::None;
  }

  static std::int64_t distance(const Node& a, const Node& b) {
    return std::max(std::abs(a.min_order() - b.max_order()), std::abs(b.min_order() - a.max_order()));
  }

  /// Whether a third kernel lies on a way from `ia` to `ib`.
  bool has_way_around(std::uint32_t ia, std::uint32_t ib) const {
    const std::int64_t last = nodes_[ib].max_order();
    ++visit_;
    visited_.resize(nodes_.size(), 0);
    std::vector<std::uint32_t> stack;
    const auto push = [&](std::uint32_t from, bool from_a) {
      for (const LoopIndex loop : nodes_[from].loops)
        for (const LoopIndex next : successors_[loop]) {
          const std::uint32_t node = owner_[next];
          if (node == ia) continue;
          if (node == ib) {
            if (!from_a) return true;
            continue;
          }
          if (visited_[node] == visit_ || nodes_[node].min_order() > last) continue;
          visited_[node] = visit_;
          stack.push_back(node);
        }
      return false;
    };
    push(ia, true);
    while (!stack.empty()) {
      const std::uint32_t node = stack.back();
      stack.pop_back();
      if (push(node, false)) return true;
    }
    return false;
  }

  struct Candidate {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    bool same_kind = false;
    std::int64_t bytes = 0;
    std::int64_t distance = 0;
  };

  std::vector<Candidate> candidates() const {
    std::vector<std::vector<std::uint32_t>> users(loops_.buffers.size());
    std::vector<std::uint32_t> order;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (owner_[node] == node && (!nodes_[node].is_library() || nodes_[node].templated))
        order.push_back(node);
    std::vector<BufferIndex> buffers;  // in the order in which they are met
    const auto use = [&](BufferIndex buffer, std::uint32_t node) {
      if (users[buffer].empty()) buffers.push_back(buffer);
      if (users[buffer].empty() || users[buffer].back() != node) users[buffer].push_back(node);
    };
    for (const std::uint32_t node : order) {
      for (const Touch& touch : nodes_[node].reads) use(touch.buffer, node);
      for (const Touch& touch : nodes_[node].writes) use(touch.buffer, node);
    }
    std::vector<Candidate> found;
    std::unordered_set<std::uint64_t> seen;
    for (const BufferIndex buffer : buffers) {
      const std::vector<std::uint32_t>& group = users[buffer];
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t j = i + 1; j < group.size() && j <= i + attempts_max; ++j) {
          const std::uint32_t a = group[i];
          const std::uint32_t b = group[j];
          if (!seen.insert((std::uint64_t{a} << 32) | b).second) continue;
          if (why_not(a, b) != FusionRefusal::None) continue;
          const Node& na = nodes_[a];
          const Node& nb = nodes_[b];
          const std::int64_t bytes = shared_bytes(na, nb);
          found.push_back(
              {a, b, na.is_reduction() == nb.is_reduction() && bytes > 0, bytes, distance(na, nb)});
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const Candidate& x, const Candidate& y) {
      if (x.same_kind != y.same_kind) return x.same_kind;
      if (x.bytes != y.bytes) return x.bytes > y.bytes;
      return x.distance < y.distance;
    });
    return found;
  }

  bool fuse_once() {
    bool any = false;
    for (const Candidate& candidate : candidates()) {
      const std::uint32_t a = owner_[nodes_[candidate.a].loops.front()];
      const std::uint32_t b = owner_[nodes_[candidate.b].loops.front()];
      if (a == b || why_not(a, b) != FusionRefusal::None) continue;
      merge(a, b);
      any = true;
    }
    return any;
  }

  void merge(std::uint32_t ia, std::uint32_t ib) {
    if (ia == ib) return;
    const std::uint32_t into = std::min(ia, ib);
    const std::uint32_t from = std::max(ia, ib);
    Node& kept = nodes_[into];
    Node& gone = nodes_[from];
    std::vector<LoopIndex> loops;
    std::merge(kept.loops.begin(), kept.loops.end(), gone.loops.begin(), gone.loops.end(),
               std::back_inserter(loops));
    if (gone.is_reduction() && !kept.is_reduction()) {
      kept.kind = LoopKind::Reduction;
      kept.numel = gone.numel;
      kept.rnumel = gone.rnumel;
    }
    if (gone.templated && !kept.templated) kept.kind = gone.kind;
    kept.templated = kept.templated || gone.templated;
    kept.scatter = kept.scatter || gone.scatter;
    for (const Touch& touch : gone.reads) add_touch(kept.reads, touch);
    for (const Touch& touch : gone.writes) add_touch(kept.writes, touch);
    for (const LoopIndex loop : gone.loops) owner_[loop] = into;
    kept.loops = std::move(loops);
    gone.reads.clear();
    gone.writes.clear();
    // `gone.loops` stays: a candidate of this round finds the node that took it by its first loop.
  }

  const LoopGraph& loops_;
  const FusionRules& rules_;
  std::vector<Node> nodes_;           ///< By first loop.
  std::vector<std::uint32_t> owner_;  ///< By loop: its node.
  std::vector<std::vector<LoopIndex>> successors_;
  std::vector<std::vector<LoopIndex>> predecessors_;
  mutable std::vector<std::uint32_t> visited_;
  mutable std::uint32_t visit_ = 0;
};

}  // namespace

std::string_view text(FusionRefusal refusal) {
  switch (refusal) {
    case FusionRefusal::None:
      return "";
    case FusionRefusal::Library:
      return "a library's kernel takes nothing in";
    case FusionRefusal::NothingShared:
      return "they move no data in common";
    case FusionRefusal::Shape:
      return "their loops have different lengths";
    case FusionRefusal::Reductions:
      return "they reduce over different rows";
    case FusionRefusal::Access:
      return "the second reads in another order than the first writes";
    case FusionRefusal::Scatter:
      return "places that data decide have to be written before they are read";
    case FusionRefusal::Between:
      return "another kernel has to run between them";
    case FusionRefusal::Distance:
      return "they stand too far apart";
    case FusionRefusal::Size:
      return "the kernel would hold too many operations";
    case FusionRefusal::Rule:
      return "the backend does not join these kinds";
  }
  return "";
}

FusionPlan plan_fusion(const LoopGraph& loops, const FusionRules& rules) {
  return Scheduler(loops, rules).run();
}

FusionPlan unfused(const LoopGraph& loops) {
  FusionPlan plan;
  for (LoopIndex i = 0; i < loops.loops.size(); ++i) plan.groups.push_back({{i}});
  return plan;
}

FusionPlan grouped(const LoopGraph& loops, const std::vector<std::int32_t>& group_of) {
  FusionPlan asked;
  std::unordered_map<std::int64_t, std::size_t> place;
  for (LoopIndex i = 0; i < loops.loops.size(); ++i) {
    const OpIndex op = loops.loops[i].op;
    // A library's kernel is one by itself, whatever prepares its inputs for the same op.
    const bool library = loops.loops[i].kind == LoopKind::Library && group_of[op] < 0;
    const std::int64_t key = group_of[op] >= 0 ? group_of[op]
                             : library         ? -1 - static_cast<std::int64_t>(group_of.size()) - i
                                               : -1 - static_cast<std::int64_t>(op);
    const auto [known, is_new] = place.emplace(key, asked.groups.size());
    if (is_new) asked.groups.emplace_back();
    asked.groups[known->second].loops.push_back(i);
  }
  const FusionRules rules;
  Scheduler scheduler(loops, rules);
  scheduler.take(asked);
  return scheduler.plan();
}

std::vector<RefusedPair> refused_pairs(const LoopGraph& loops, const FusionPlan& plan,
                                       const FusionRules& rules) {
  Scheduler scheduler(loops, rules);
  scheduler.take(plan);
  std::vector<std::size_t> group_of(loops.loops.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    for (const LoopIndex loop : plan.groups[g].loops) group_of[loop] = g;
  std::vector<RefusedPair> pairs;
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    for (const LoopIndex loop : plan.groups[g].loops)
      for (const Touch& touch : loops.loops[loop].reads) {
        const LoopIndex producer = loops.buffers[touch.buffer].producer;
        if (producer == loop_none || group_of[producer] == g) continue;
        const std::size_t from = group_of[producer];
        const auto known = std::find_if(pairs.begin(), pairs.end(), [&](const RefusedPair& pair) {
          return pair.producer == from && pair.consumer == g;
        });
        if (known != pairs.end()) {
          known->bytes += touch.bytes;
          continue;
        }
        pairs.push_back(
            {from, g, scheduler.why_not(scheduler.owner(producer), scheduler.owner(loop)), touch.bytes});
      }
  return pairs;
}

}  // namespace gpusim
