// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/fusion_candidate.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "models/graph/catalogue.hpp"

namespace gpusim {

using Kind = LoopSpace::Kind;

FusionCandidate::FusionCandidate(const FusionLegality& legality, std::span<const OpIndex> ops)
    : legality_(legality) {
  const OpGraph& graph = legality.graph();
  std::vector<OpIndex> sorted(ops.begin(), ops.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  members_.reserve(sorted.size());  // Edges point into it.
  for (const OpIndex op : sorted)
    if (legality.traffic().moves(op))
      members_.push_back({.op = op, .space = loop_space(graph, graph.ops[op])});
  sources_.resize(members_.size());
  for (Member& member : members_) {
    member.inlined = is(member, Kind::Elementwise) && !needed_outside(member) && read_inside(member);
    find_sources(member);
  }
}

/// Those of the members before have been found.
void FusionCandidate::find_sources(const Member& member) {
  const OpGraph& graph = legality_.graph();
  const bool is_loop = !is(member, Kind::Product) && !is(member, Kind::Library);
  for (std::size_t i = 0; i < op(member).inputs.size(); ++i) {
    const TensorIndex read = op(member).inputs[i];
    if (read == graph_none) continue;
    for (const TensorIndex t : legality_.traffic().ops[member.op].inputs) {
      const TensorIndex root = legality_.traffic().root(t);
      if (graph.tensors[root].storage != graph.tensors[read].storage) continue;
      const OpIndex maker = legality_.maker(root);
      const Member* from = maker == graph_none || maker == member.op ? nullptr : find(maker);
      if (from != nullptr) edges_.push_back({.from = from, .to = &member, .input = i});
      if (!is_loop) continue;
      add_source(sources_[place(member)],
                 {.from = from,
                  .root = root,
                  .access = reading(graph, member.op, member.space, i, legality_.offset(read))});
    }
  }
}

/// What is computed where it is read stands for what it reads itself; so does what lies in memory in another
/// order than it is wanted, if it can be computed again.
void FusionCandidate::add_source(std::vector<Source>& sources, const Source& source) const {
  const Member* from = source.from;
  const bool again =
      from != nullptr && is(*from, Kind::Elementwise) && (from->inlined || !in_step(*from, source.access));
  if (!again) {
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    return;
  }
  for (const Source& of_it : sources_[place(*from)])
    add_source(sources, {.from = of_it.from, .root = of_it.root, .access = source.access.then(of_it.access)});
}

std::optional<std::string> FusionCandidate::refusal() const {
  if (members_.size() < 2) return std::nullopt;
  // Attention as a whole is a kernel of a library, whatever its ops are by themselves.
  if (legality_.backend().capture != CaptureKind::None && is_attention()) return against_cycle();
  using Test = Reason (FusionCandidate::*)() const;
  constexpr std::array<Test, 7> tests{
      &FusionCandidate::against_backend, &FusionCandidate::against_library,
      &FusionCandidate::against_size,    &FusionCandidate::against_two_products,
      &FusionCandidate::against_cycle,   &FusionCandidate::against_places,
      &FusionCandidate::against_product};
  for (const Test test : tests)
    if (Reason reason = (this->*test)()) return reason;
  if (first(Kind::Product) != nullptr) return std::nullopt;
  constexpr std::array<Test, 6> loop_tests{
      &FusionCandidate::against_rules,      &FusionCandidate::against_whole_reduction,
      &FusionCandidate::against_reductions, &FusionCandidate::against_shapes,
      &FusionCandidate::against_order,      &FusionCandidate::against_relation};
  for (const Test test : loop_tests)
    if (Reason reason = (this->*test)()) return reason;
  return std::nullopt;
}

const FusionCandidate::Member* FusionCandidate::find(OpIndex op) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), op,
                                      [](const Member& member, OpIndex o) { return member.op < o; });
  return found != members_.end() && found->op == op ? &*found : nullptr;
}

const FusionCandidate::Member* FusionCandidate::first(Kind kind) const {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const Member& member) { return is(member, kind); });
  return found == members_.end() ? nullptr : &*found;
}

bool FusionCandidate::read_inside(const Member& member) const {
  for (const TensorIndex t : legality_.traffic().ops[member.op].outputs)
    for (const OpIndex reader : legality_.readers(t))
      if (find(reader) != nullptr) return true;
  return false;
}

bool FusionCandidate::needed_outside(const Member& member) const {
  for (const TensorIndex t : legality_.traffic().ops[member.op].outputs) {
    if (legality_.is_result(t)) return true;
    for (const OpIndex reader : legality_.readers(t))
      if (find(reader) == nullptr) return true;
  }
  return false;
}

std::vector<bool> FusionCandidate::dependents(const Member& member) const {
  std::vector<bool> reached(members_.size(), false);
  reached[place(member)] = true;
  // Edges are in the order of their readers, so one pass goes all the way.
  for (const Edge& edge : edges_)
    if (reached[place(*edge.from)]) reached[place(*edge.to)] = true;
  return reached;
}

std::vector<bool> FusionCandidate::ancestors(const Member& member) const {
  std::vector<bool> reached(members_.size(), false);
  reached[place(member)] = true;
  for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge)
    if (reached[place(*edge->to)]) reached[place(*edge->from)] = true;
  return reached;
}

FusionCandidate::Reason FusionCandidate::against_backend() const {
  if (legality_.backend().capture != CaptureKind::None) return std::nullopt;
  return "'" + legality_.backend().key + "' runs each op by itself";
}

FusionCandidate::Reason FusionCandidate::against_library() const {
  for (const Member& member : members_) {
    if (is(member, Kind::Library)) return quoted(member) + " is a kernel of a library, which nothing joins";
    if (is(member, Kind::Reduction) && member.space.keeps_shape && legality_.mode().fusion.library_norms)
      return quoted(member) + " is a kernel of a library with this backend, which nothing joins";
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_size() const {
  const std::int32_t most = legality_.mode().fusion.ops_max;
  if (members_.size() <= static_cast<std::size_t>(std::max(most, 0))) return std::nullopt;
  return std::to_string(members_.size()) + " ops, and one kernel takes " + std::to_string(most) +
         " (ops_max)";
}

/// An op outside that needs one of the group and is needed by another would have to run in its middle.
FusionCandidate::Reason FusionCandidate::against_cycle() const {
  const OpIndex begin = members_.front().op;
  const OpIndex end = members_.back().op;
  std::vector<OpIndex> needs(end - begin + 1, graph_none);  // Of ops outside, the one of the group.
  const std::vector<Op>& ops = legality_.graph().ops;
  for (OpIndex i = begin; i <= end; ++i) {
    const bool inside = find(i) != nullptr;
    for (const OpIndex before : legality_.before(i)) {
      if (before < begin) continue;
      const bool from_inside = find(before) != nullptr;
      const OpIndex origin = from_inside ? before : needs[before - begin];
      if (origin == graph_none) continue;
      if (!inside) {
        needs[i - begin] = origin;
      } else if (!from_inside) {
        return "'" + ops[i].name + "' needs '" + ops[before].name + "', which needs '" + ops[origin].name +
               "' and lies outside of the group (a cycle)";
      }
    }
  }
  return std::nullopt;
}

/// Reads and writes at places that data decide.
FusionCandidate::Reason FusionCandidate::against_places() const {
  for (const Edge& edge : edges_) {
    if (is(*edge.from, Kind::Store))
      return quoted(*edge.from) + " writes " +
             (op(*edge.from).kind->fusion == FusionClass::Scatter ? "at places that data decide"
                                                                  : "a part of memory") +
             ", and " + quoted(*edge.to) + " needs all of it";
    const std::size_t table = op(*edge.to).kind->name == "embedding" ? 1 : 0;
    // What is computed wherever it is read can be computed at the place that an index names.
    if (op(*edge.to).kind->fusion == FusionClass::Gather && edge.input == table && !edge.from->inlined)
      return quoted(*edge.to) + " reads what " + quoted(*edge.from) + " makes at places that data decide";
  }
  return std::nullopt;
}

/// Loops that need nothing of each other are joined over what they read in the same order.
FusionCandidate::Reason FusionCandidate::against_relation() const {
  std::vector<const Member*> loops;
  for (const Member& member : members_)
    if (!member.inlined) loops.push_back(&member);
  std::vector<std::size_t> part(members_.size());
  std::iota(part.begin(), part.end(), std::size_t{0});
  const auto part_of = [&](const Member& member) {
    std::size_t i = place(member);
    while (part[i] != i) i = part[i];
    return i;
  };
  const auto join = [&](const Member& a, const Member& b) {
    const std::size_t i = part_of(a);
    const std::size_t j = part_of(b);
    part[std::max(i, j)] = std::min(i, j);
  };
  const auto apart = [&]() -> const Member* {
    for (const Member* loop : loops)
      if (part_of(*loop) != part_of(*loops.front())) return loop;
    return nullptr;
  };
  for (const Member* loop : loops)
    for (const Source& source : sources_[place(*loop)])
      if (source.from != nullptr) join(*source.from, *loop);
  if (const Member* other = apart(); other != nullptr && !legality_.mode().fusion.siblings)
    return quoted(*loops.front()) + " and " + quoted(*other) +
           " need nothing of each other, and this backend does not join siblings";
  for (const Member* a : loops)
    for (const Member* b : loops)
      if (part_of(*a) < part_of(*b) && shared_bytes(*a, *b) >= shared_bytes_min) join(*a, *b);
  const Member* other = apart();
  if (other == nullptr) return std::nullopt;
  // What one makes and the other reads out of step is computed twice, and nothing is gained.
  for (const Edge& edge : edges_)
    if (!edge.from->inlined && !edge.to->inlined && part_of(*edge.from) != part_of(*edge.to))
      return quoted(*edge.to) + " reads what " + quoted(*edge.from) + " makes in another order";
  return quoted(*loops.front()) + " and " + quoted(*other) +
         " need nothing of each other and read nothing in common in one order";
}

/// Each way of reading a tensor that both have.
Bytes FusionCandidate::shared_bytes(const Member& a, const Member& b) const {
  const std::vector<Source>& of_b = sources_[place(b)];
  Bytes shared{0};
  for (const Source& source : sources_[place(a)])
    if (std::find(of_b.begin(), of_b.end(), source) != of_b.end())
      shared += source.access.touched() * Bytes(size_of(type(source.root).element));
  return shared;
}

/// What the backend joins at all.
FusionCandidate::Reason FusionCandidate::against_rules() const {
  const FusionRules& rules = legality_.mode().fusion;
  for (const Edge& edge : edges_) {
    const bool from_reduction = is(*edge.from, Kind::Reduction);
    const bool to_reduction = is(*edge.to, Kind::Reduction);
    if (from_reduction && !to_reduction && !rules.after_reduction)
      return quoted(*edge.to) + " follows the reduction " + quoted(*edge.from) +
             ", which ends a kernel of this backend";
    if (!from_reduction && to_reduction && !rules.into_reduction)
      return "the reduction " + quoted(*edge.to) + " takes in no elementwise ops with this backend, but " +
             quoted(*edge.from) + " feeds it";
  }
  const Member* elementwise = nullptr;
  const Member* reduction = nullptr;
  for (const Member& member : members_) {
    if (is(member, Kind::Reduction)) {
      if (reduction != nullptr && !rules.reductions_together)
        return quoted(*reduction) + " and " + quoted(member) +
               " are two reductions, which this backend does not join";
      reduction = &member;
      continue;
    }
    if (elementwise != nullptr && !rules.pointwise)
      return quoted(*elementwise) + " and " + quoted(member) +
             " are elementwise, and this backend does not join such ops";
    elementwise = &member;
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_whole_reduction() const {
  for (const Edge& edge : edges_) {
    const LoopSpace& space = edge.from->space;
    if (space.kind == Kind::Reduction && space.rows() == 1 && space.columns > unsplit_reduction_max)
      return "the reduction " + quoted(*edge.from) + " over the whole tensor is needed by " +
             quoted(*edge.to) + " of the same group: all blocks have to be done first";
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_reductions() const {
  const Member* reduction = first(Kind::Reduction);
  if (reduction == nullptr) return std::nullopt;
  const auto columns = [](const LoopSpace& space) { return std::to_string(space.columns); };
  const auto rows = [](const LoopSpace& space) { return std::to_string(space.rows()); };
  for (const Member& other : members_) {
    if (!is(other, Kind::Reduction)) continue;
    if (other.space.columns != reduction->space.columns)
      return "the reduction " + quoted(*reduction) + " is over " + columns(reduction->space) + " columns, " +
             quoted(other) + " over " + columns(other.space);
    if (other.space.elements != reduction->space.elements)
      return "the reduction " + quoted(*reduction) + " is of " + rows(reduction->space) + " rows, " +
             quoted(other) + " of " + rows(other.space);
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_shapes() const {
  const Member* reduction = first(Kind::Reduction);
  const Member* loop = reduction;  // Whose loop all have to share.
  for (const Member& member : members_) {
    if (member.inlined || is(member, Kind::Reduction)) continue;
    if (loop == nullptr) loop = &member;
    const std::int64_t elements = member.space.elements;
    const bool fits =
        elements == loop->space.elements || (loop == reduction && elements == loop->space.rows());
    if (fits) continue;
    if (loop == reduction)
      return quoted(member) + " is over " + std::to_string(elements) + " elements, but the reduction " +
             quoted(*loop) + " has " + std::to_string(loop->space.rows()) + " rows of " +
             std::to_string(loop->space.columns);
    return "shapes differ: " + quoted(*loop) + " is over " + std::to_string(loop->space.elements) +
           " elements, " + quoted(member) + " over " + std::to_string(elements);
  }
  return std::nullopt;
}

/// Each read of what lies in memory, at the place where it is made.
FusionCandidate::Reason FusionCandidate::against_order() const {
  for (const Member& member : members_) {
    if (member.inlined) continue;
    for (const Source& source : sources_[place(member)]) {
      if (source.from == nullptr || in_step(*source.from, source.access)) continue;
      const std::string says = quoted(member) + " reads what " + quoted(*source.from) + " makes";
      if (source.access.touched() < made(*source.from)) return says + " in part";
      return says +
             (member.space.elements == made(*source.from) ? " in another order" : " along another axis");
    }
  }
  return std::nullopt;
}

std::int64_t FusionCandidate::made(const Member& member) const {
  const bool per_row = is(member, Kind::Reduction) && !member.space.keeps_shape;
  return per_row ? member.space.rows() : member.space.elements;
}

/// Element by element, or row by row what there is one of per row.
bool FusionCandidate::in_step(const Member& from, const Access& access) const {
  const Access places = access.without_inner_broadcast();
  return places.is_straight() && places.size() == made(from) &&
         writes_straight(legality_.graph(), op(from), from.space);
}

}  // namespace gpusim
