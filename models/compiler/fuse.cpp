// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/fuse.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_map>
#include <utility>

#include "models/compiler/fusion_node.hpp"
#include "models/compiler/loop_order.hpp"

namespace gpusim {
namespace {

constexpr int rounds_max = 10;
constexpr std::size_t attempts_max =
    64;  ///< Per node and buffer (max_fusion_buffer_group_pairwise_attempts).
constexpr std::int64_t shared_bytes_min = 10;  ///< score_fusion_memory_threshold.
constexpr std::int64_t distance_max = 64;

class Scheduler {
 public:
  Scheduler(const LoopGraph& loops, const FusionRules& rules) : Scheduler(loops, rules, loop_edges(loops)) {}

  Scheduler(const LoopGraph& loops, const FusionRules& rules, const std::vector<LoopEdge>& edges)
      : loops_(loops),
        rules_(rules),
        successors_(loops.loops.size(), edges, LoopNeighbours::Side::Successors),
        predecessors_(loops.loops.size(), edges, LoopNeighbours::Side::Predecessors) {
    const std::size_t count = loops.loops.size();
    owner_.resize(count);
    nodes_.reserve(count);
    sides_.resize(count);
    changed_.resize(count, 0);
    visited_.resize(count, 0);
    for (LoopIndex i = 0; i < count; ++i) {
      owner_[i] = i;
      nodes_.push_back(fusion_node(loops, i));
    }
  }

  /// Starts from a plan instead of single loops.
  void take(const FusionPlan& plan) {
    for (const FusionGroup& group : plan.groups) {
      for (std::size_t i = 1; i < group.loops.size(); ++i)
        merge(owner_[group.loops.front()], owner_[group.loops[i]]);
      const std::uint32_t node = owner_[group.loops.front()];
      nodes_[node].columns = group.columns;
      sides_[node].reset();
    }
  }

  FusionPlan run(FusionPairs pairs) {
    all_pairs_ = pairs == FusionPairs::All;
    exactly_ = rules_.exchange_loops;
    for (round_ = 0; round_ < rounds_max; ++round_)
      if (!fuse_once()) break;
    // Only then loops are put in another order, or merged, where that lets two kernels share something.
    if (exactly_) {
      exactly_ = false;
      round_ = 0;
      fuse_once();
    }
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
          plan.groups.push_back({.loops = nodes_[node].loops, .columns = nodes_[node].columns});
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
    if (nodes_[ia].is_mixed() || nodes_[ib].is_mixed()) return why_not_into_mixed(ia, ib);
    if (needs_directly(ib, ia)) std::swap(ia, ib);
    const FusionNode& a = nodes_[ia];
    const FusionNode& b = nodes_[ib];
    if (mixes(ia, ib)) return FusionRefusal::None;
    const FusionRefusal refusal = why_not(a, b, needs_directly(ia, ib), exactly_);
    if (refusal != FusionRefusal::None) return refusal;
    return has_way_around(ia, ib) || has_way_around(ib, ia) ? FusionRefusal::Between : FusionRefusal::None;
  }

  std::uint32_t owner(LoopIndex loop) const { return owner_[loop]; }

 private:
  /// `vertical`: b needs a. What stands between them is asked elsewhere.
  FusionRefusal why_not(const FusionNode& a, const FusionNode& b, bool vertical, bool exactly) const {
    if (b.is_library() || (a.is_library() && !a.templated)) return FusionRefusal::Library;
    if (a.templated) {
      // An epilogue: elementwise over the product's own result.
      if (b.is_reduction() || b.numel != a.numel || b.scatter) return FusionRefusal::Shape;
      return vertical ? reads_match(a, b) : FusionRefusal::NothingShared;
    }
    if (static_cast<std::int64_t>(a.loops.size() + b.loops.size()) > rules_.ops_max)
      return FusionRefusal::Size;
    if (const FusionRefusal refusal = shapes(a, b, vertical); refusal != FusionRefusal::None) return refusal;
    if (vertical) {
      if (const FusionRefusal refusal = reads_match(a, b); refusal != FusionRefusal::None) return refusal;
    }
    if ((!vertical || exactly) && shared_bytes(a, b, exactly) < shared_bytes_min)
      return FusionRefusal::NothingShared;
    if (!vertical) {
      if (!rules_.siblings) return FusionRefusal::Rule;
      if (distance(a, b) > distance_max) return FusionRefusal::Distance;
    }
    return FusionRefusal::None;
  }

  /// The two sides of a kernel of mixed orders.
  struct Sides {
    FusionNode rows;
    FusionNode columns;
  };
  const Sides& sides_of(std::uint32_t node) const {
    std::optional<Sides>& known = sides_[node];
    if (!known) known = Sides{rows_of(loops_, nodes_[node]), columns_of(loops_, nodes_[node])};
    return *known;
  }

  /// Whether the two become a kernel of mixed orders.
  bool mixes(std::uint32_t ia, std::uint32_t ib) const {
    const FusionNode& a = nodes_[ia];
    const FusionNode& b = nodes_[ib];
    return rules_.mixed_orders && !a.is_mixed() && !b.is_mixed() && may_mix(loops_, a, b) &&
           !leads_to(a.loops, b.loops) && !leads_to(b.loops, a.loops);
  }

  /// Kernels that come later may join one of its sides if they need nothing of the other; the last round does
  /// not try to put their loops in order.
  FusionRefusal why_not_into_mixed(std::uint32_t ia, std::uint32_t ib) const {
    if (!nodes_[ia].is_mixed() || needs_directly(ib, ia)) return FusionRefusal::Reductions;
    const FusionNode& other = nodes_[ib];
    const Sides& mixed = sides_of(ia);
    FusionRefusal refusal = FusionRefusal::None;
    if (other.is_mixed()) {
      refusal = why_not_joined(mixed.rows, sides_of(ib).rows, mixed);
      if (refusal == FusionRefusal::None)
        refusal = why_not_joined(mixed.columns, sides_of(ib).columns, mixed);
    } else {
      refusal = why_not_into_side(mixed.rows, other, mixed.columns, mixed);
      if (refusal != FusionRefusal::None)
        refusal = why_not_into_side(mixed.columns, other, mixed.rows, mixed);
    }
    if (refusal != FusionRefusal::None) return refusal;
    return has_way_around(ia, ib) || has_way_around(ib, ia) ? FusionRefusal::Between : FusionRefusal::None;
  }
  FusionRefusal why_not_joined(const FusionNode& side, const FusionNode& other, const Sides& mixed) const {
    const FusionRefusal refusal = why_not(side, other, leads_directly(side.loops, other.loops), true);
    if (refusal != FusionRefusal::None) return refusal;
    if (reads_along(side) && !reads_along(other)) return FusionRefusal::Access;
    // Reductions have to go over the whole tensor.
    return !other.is_reduction() || shared_elements(side, other) >= mixed.rows.numel * mixed.rows.rnumel
               ? FusionRefusal::None
               : FusionRefusal::NothingShared;
  }
  FusionRefusal why_not_into_side(const FusionNode& side, const FusionNode& other, const FusionNode& opposite,
                                  const Sides& mixed) const {
    const FusionRefusal refusal = why_not_joined(side, other, mixed);
    if (refusal != FusionRefusal::None) return refusal;
    return leads_to(opposite.loops, other.loops) || leads_to(other.loops, opposite.loops)
               ? FusionRefusal::Reductions
               : FusionRefusal::None;
  }

  bool leads_directly(const std::vector<LoopIndex>& from, const std::vector<LoopIndex>& to) const {
    return std::any_of(from.begin(), from.end(), [&](LoopIndex loop) {
      return std::any_of(successors_[loop].begin(), successors_[loop].end(),
                         [&](LoopIndex next) { return std::binary_search(to.begin(), to.end(), next); });
    });
  }
  /// Whether one of `to` needs what one of `from` makes, on whatever way.
  bool leads_to(const std::vector<LoopIndex>& from, const std::vector<LoopIndex>& to) const {
    ++visit_;
    std::vector<LoopIndex> stack = from;
    while (!stack.empty()) {
      const LoopIndex loop = stack.back();
      stack.pop_back();
      for (const LoopIndex next : successors_[loop]) {
        if (next > to.back() || visited_[next] == visit_) continue;
        if (std::binary_search(to.begin(), to.end(), next)) return true;
        visited_[next] = visit_;
        stack.push_back(next);
      }
    }
    return false;
  }

  bool needs_directly(std::uint32_t ia, std::uint32_t ib) const {
    for (const LoopIndex loop : nodes_[ia].loops)
      for (const LoopIndex next : successors_[loop])
        if (owner_[next] == ib) return true;
    return false;
  }

  FusionRefusal shapes(const FusionNode& a, const FusionNode& b, bool vertical) const {
    if (a.is_reduction() && b.is_reduction()) {
      if (!rules_.reductions_together) return FusionRefusal::Rule;
      return a.numel == b.numel && a.rnumel == b.rnumel ? FusionRefusal::None : FusionRefusal::Reductions;
    }
    if (!a.is_reduction() && !b.is_reduction()) {
      if (!rules_.pointwise) return FusionRefusal::Rule;
      return a.numel == b.numel ? FusionRefusal::None : FusionRefusal::Shape;
    }
    const FusionNode& reduction = a.is_reduction() ? a : b;
    const FusionNode& pointwise = a.is_reduction() ? b : a;
    if (vertical && !(a.is_reduction() ? rules_.after_reduction : rules_.into_reduction))
      return FusionRefusal::Rule;
    const bool fits =
        pointwise.numel == reduction.numel * reduction.rnumel || (pointwise.numel == reduction.numel);
    return fits ? FusionRefusal::None : FusionRefusal::Shape;
  }

  /// What the consumer reads of the producer's results it must read at the place where they are made.
  FusionRefusal reads_match(const FusionNode& a, const FusionNode& b) const {
    for (const Touch* write : a.writes) {
      for (const Touch* read : b.reads) {
        if (read->buffer != write->buffer) continue;
        if (a.scatter || write->indirect) return FusionRefusal::Scatter;
        if (read->indirect) return FusionRefusal::Access;
        if (read->access == write->access) continue;
        // An elementwise loop can run in another order, if it is made of the same loops (dependencies.py,
        // decide_loop_order_to_match).
        const bool movable = rules_.exchange_loops && !exactly_ &&
                             (write->strides == 0 || read->strides == write->strides) &&
                             (!a.is_reduction() || !b.is_reduction());
        if (!movable || !read->access.is_permutation_of(write->access)) return FusionRefusal::Access;
      }
      for (const Touch* again : b.writes)
        if (again->buffer == write->buffer) return FusionRefusal::Scatter;
    }
    for (const Touch* read : a.reads)
      for (const Touch* write : b.writes)
        if (read->buffer == write->buffer && (write->indirect || !(read->access == write->access)))
          return FusionRefusal::Scatter;
    return FusionRefusal::None;
  }

  static std::int64_t distance(const FusionNode& a, const FusionNode& b) {
    return std::max(std::abs(a.min_order() - b.max_order()), std::abs(b.min_order() - a.max_order()));
  }

  /// Whether a third kernel lies on a way from `ia` to `ib`.
  bool has_way_around(std::uint32_t ia, std::uint32_t ib) const {
    const std::int64_t last = nodes_[ib].max_order();
    ++visit_;
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

  /// Two kernels that were refused in the round before are refused again unless one of them has grown since:
  /// what else has been joined only adds ways around.
  bool refused_before(std::uint32_t a, std::uint32_t b) const {
    return !all_pairs_ && round_ > 0 && changed_[a] < round_ && changed_[b] < round_;
  }

  struct Candidate {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    bool same_kind = false;
    std::int64_t bytes = 0;
    std::int64_t distance = 0;
  };

  std::vector<Candidate> candidates() {
    users_before_.clear();
    for (std::vector<std::uint32_t>& users : users_) {
      users_before_.push_back(static_cast<std::uint32_t>(users.size()));
      users.clear();
    }
    users_.resize(loops_.buffers.size());
    std::vector<std::uint32_t> order;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (owner_[node] == node && (!nodes_[node].is_library() || nodes_[node].templated))
        order.push_back(node);
    std::vector<BufferIndex> buffers;  // in the order in which they are met
    const auto use = [&](BufferIndex buffer, std::uint32_t node) {
      std::vector<std::uint32_t>& users = users_[buffer];
      if (users.empty()) buffers.push_back(buffer);
      if (users.empty() || users.back() != node) users.push_back(node);
    };
    for (const std::uint32_t node : order) {
      for (const Touch* touch : nodes_[node].reads) use(touch->buffer, node);
      for (const Touch* touch : nodes_[node].writes) use(touch->buffer, node);
    }
    std::vector<Candidate> found;
    seen_.resize(nodes_.size());
    for (std::vector<std::uint32_t>& partners : seen_) partners.clear();
    for (const BufferIndex buffer : buffers) {
      const std::vector<std::uint32_t>& group = users_[buffer];
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t j = i + 1; j < group.size() && j <= i + attempts_max; ++j) {
          const std::uint32_t a = group[i];
          const std::uint32_t b = group[j];
          if (refused_before(a, b) && users_before_[buffer] <= attempts_max) continue;
          if (std::find(seen_[a].begin(), seen_[a].end(), b) != seen_[a].end()) continue;
          seen_[a].push_back(b);
          if (why_not(a, b) != FusionRefusal::None) continue;
          const FusionNode& na = nodes_[a];
          const FusionNode& nb = nodes_[b];
          // The scheduler counts elements of what is reduced in two orders, and bytes of all else.
          const std::int64_t bytes = mixes(a, b) ? na.numel * na.rnumel : shared_bytes(na, nb, exactly_);
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
    FusionNode& kept = nodes_[into];
    FusionNode& gone = nodes_[from];
    std::vector<LoopIndex> columns = columns_together(ia, ib);
    kept.take(gone);
    kept.columns = std::move(columns);
    sides_[into].reset();
    changed_[into] = round_ + 1;
    if (kept.is_mixed()) {
      kept.numel = sides_of(into).rows.numel;
      kept.rnumel = sides_of(into).rows.rnumel;
    }
    for (const LoopIndex loop : gone.loops) owner_[loop] = into;
    gone.reads.clear();
    gone.writes.clear();
    gone.columns.clear();
    // `gone.loops` stays: a candidate of this round finds the node that took it by its first loop.
  }

  /// Of the kernel that the two become, the loops over columns; none unless its orders are mixed.
  std::vector<LoopIndex> columns_together(std::uint32_t ia, std::uint32_t ib) const {
    const FusionNode& a = nodes_[ia];
    const FusionNode& b = nodes_[ib];
    if (!a.is_mixed() && !b.is_mixed())
      return !mixes(ia, ib) ? std::vector<LoopIndex>{} : reads_along(a) ? b.loops : a.loops;
    const Sides& mixed = sides_of(a.is_mixed() ? ia : ib);
    FusionNode columns = mixed.columns;
    if (a.is_mixed() && b.is_mixed())
      columns.take(sides_of(ib).columns);
    else if (const FusionNode& other = a.is_mixed() ? b : a;
             why_not_into_side(mixed.rows, other, columns, mixed) != FusionRefusal::None)
      columns.take(other);
    return columns.loops;
  }

  const LoopGraph& loops_;
  const FusionRules& rules_;
  std::vector<FusionNode> nodes_;     ///< By first loop.
  std::vector<std::uint32_t> owner_;  ///< By loop: its node.
  LoopNeighbours successors_;
  LoopNeighbours predecessors_;
  mutable std::vector<std::uint32_t> visited_;
  mutable std::uint32_t visit_ = 0;
  mutable std::vector<std::optional<Sides>> sides_;  ///< By node, once it was asked for.
  std::vector<int> changed_;                         ///< By node: one past the round in which it last grew.
  int round_ = 0;
  std::vector<std::vector<std::uint32_t>> users_;  ///< By buffer, in this round.
  std::vector<std::vector<std::uint32_t>> seen_;   ///< By node: those that it was tried with in this round.
  std::vector<std::uint32_t> users_before_;        ///< By buffer: how many there were in the round before.
  bool all_pairs_ = false;
  bool exactly_ = false;  ///< What two kernels share has to be moved by the same loops.
};

}  // namespace

FusionPlan plan_fusion(const LoopGraph& loops, const FusionRules& rules, FusionPairs pairs) {
  return Scheduler(loops, rules).run(pairs);
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
