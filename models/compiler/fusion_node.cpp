// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/fusion_node.hpp"

#include <algorithm>
#include <iterator>

namespace gpusim {
namespace {

using Touches = std::vector<const Touch*>;

bool has(const Touches& touches, const Touch& wanted, bool exactly) {
  return std::any_of(touches.begin(), touches.end(), [&](const Touch* touch) {
    return *touch == wanted && (!exactly || touch->sizes == wanted.sizes);
  });
}

void add(Touches& into, const Touch* touch) {
  if (!has(into, *touch, true)) into.push_back(touch);
}

Touches all_of(const std::vector<Touch>& touches) {
  Touches pointers;
  pointers.reserve(touches.size());
  for (const Touch& touch : touches) pointers.push_back(&touch);
  return pointers;
}

template <class Amount>
std::int64_t shared(const FusionNode& a, const FusionNode& b, bool exactly, Amount amount) {
  std::int64_t sum = 0;
  for (const Touch* touch : a.reads)
    if (has(b.reads, *touch, exactly) || has(b.writes, *touch, exactly)) sum += amount(*touch);
  for (const Touch* touch : a.writes)
    if (!has(a.reads, *touch, exactly) && (has(b.reads, *touch, exactly) || has(b.writes, *touch, exactly)))
      sum += amount(*touch);
  return sum;
}

/// Kept and reduced places of the node's reductions, before any of them was cut in two.
struct Extent {
  std::int64_t kept = 0;
  std::int64_t reduced = 0;
};
Extent extent(const LoopGraph& graph, const FusionNode& node) {
  Extent whole;
  for (const LoopIndex l : node.loops) {
    const Loop& loop = graph.loops[l];
    if (loop.kind != LoopKind::Reduction) continue;
    if (loop.part != SplitPart::First) return {node.numel, node.rnumel};
    whole = {loop.whole_numel, loop.whole_rnumel};
  }
  return whole;
}

/// Whether both read each element of one buffer.
bool read_one_tensor(const FusionNode& a, const FusionNode& b, std::int64_t elements) {
  const auto whole = [&](const Touch& touch) {
    return !touch.indirect && !touch.access.is_irregular() && touch.access.touched() >= elements;
  };
  for (const Touch* x : a.reads) {
    if (!whole(*x)) continue;
    for (const Touch* y : b.reads)
      if (x->buffer == y->buffer && whole(*y)) return true;
  }
  return false;
}

}  // namespace

void FusionNode::take(const FusionNode& other) {
  std::vector<LoopIndex> merged;
  std::merge(loops.begin(), loops.end(), other.loops.begin(), other.loops.end(), std::back_inserter(merged));
  loops = std::move(merged);
  if (other.is_reduction() && !is_reduction()) {
    kind = LoopKind::Reduction;
    numel = other.numel;
    rnumel = other.rnumel;
  }
  if (other.templated && !templated) kind = other.kind;
  templated = templated || other.templated;
  scatter = scatter || other.scatter;
  for (const Touch* touch : other.reads) add(reads, touch);
  for (const Touch* touch : other.writes) add(writes, touch);
}

FusionNode fusion_node(const LoopGraph& graph, LoopIndex index) {
  const Loop& loop = graph.loops[index];
  FusionNode node;
  node.loops = {index};
  node.kind = loop.kind;
  node.numel = loop.numel;
  node.rnumel = loop.rnumel;
  node.scatter = loop.scatter;
  node.templated = loop.templated;
  node.reads = all_of(loop.reads);
  node.writes = all_of(loop.writes);
  return node;
}

FusionNode fusion_node(const LoopGraph& graph, const std::vector<LoopIndex>& loops) {
  FusionNode node = fusion_node(graph, loops.front());
  for (std::size_t i = 1; i < loops.size(); ++i) node.take(fusion_node(graph, loops[i]));
  return node;
}

FusionNode rows_of(const LoopGraph& graph, const FusionNode& node) {
  std::vector<LoopIndex> rows;
  std::set_difference(node.loops.begin(), node.loops.end(), node.columns.begin(), node.columns.end(),
                      std::back_inserter(rows));
  return fusion_node(graph, rows);
}

FusionNode columns_of(const LoopGraph& graph, const FusionNode& node) {
  return fusion_node(graph, node.columns);
}

std::int64_t shared_bytes(const FusionNode& a, const FusionNode& b, bool exactly) {
  return shared(a, b, exactly, [](const Touch& touch) { return touch.bytes.value(); });
}

std::int64_t shared_elements(const FusionNode& a, const FusionNode& b) {
  return shared(a, b, true, [](const Touch& touch) { return touch.access.touched(); });
}

bool reads_along(const FusionNode& node) {
  return std::all_of(node.reads.begin(), node.reads.end(), [](const Touch* touch) {
    // Rows that data find are read along. What does not depend on the innermost loop has lost it.
    if (touch->indirect) return true;
    return !touch->access.is_irregular() && touch->access.inner_stride() <= 1;
  });
}

bool may_mix(const LoopGraph& graph, const FusionNode& a, const FusionNode& b) {
  constexpr std::int64_t elements_min = 5 << 20;  ///< Less is found in the L2 the second time.
  constexpr std::int64_t rows_min = 4096;
  constexpr std::int64_t columns_max = 16 * 1024;
  if (!a.is_reduction() || !b.is_reduction()) return false;
  const Extent x = extent(graph, a);
  const Extent y = extent(graph, b);
  if (x.kept != y.reduced || x.reduced != y.kept || x.kept == x.reduced) return false;
  if (!read_one_tensor(a, b, x.kept * x.reduced)) return false;
  const bool first = reads_along(a);
  if (!first && !reads_along(b)) return false;
  const FusionNode& rows = first ? a : b;
  const FusionNode& columns = first ? b : a;
  const Extent extent_of_rows = first ? x : y;
  if (extent_of_rows.kept * extent_of_rows.reduced < elements_min || extent_of_rows.kept < rows_min ||
      extent_of_rows.kept < 2 * extent_of_rows.reduced || extent_of_rows.reduced > columns_max)
    return false;
  const auto reductions = [&](const FusionNode& node, auto holds) {
    return std::all_of(node.loops.begin(), node.loops.end(), [&](LoopIndex l) {
      return graph.loops[l].kind != LoopKind::Reduction || holds(graph.loops[l]);
    });
  };
  return reductions(rows, [](const Loop& loop) { return loop.inner; }) &&
         reductions(columns, [](const Loop& loop) { return loop.pass == RowPass::Sum; });
}

}  // namespace gpusim
