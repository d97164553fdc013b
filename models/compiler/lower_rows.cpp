// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/lower_rows.hpp"

#include <algorithm>
#include <utility>

#include "models/compiler/split_reduction.hpp"
#include "models/graph/sort_few.hpp"

namespace gpusim {

RowLoop row_loop(const Lowering& l, TensorIndex t, const std::array<bool, Dims::rank_max>& over) {
  const TensorType& type = l.type(t);
  std::array<int, Dims::rank_max> dims{};
  int count = 0;
  for (int d = 0; d < type.shape.rank(); ++d)
    if (type.shape[d] > 1) dims[static_cast<std::size_t>(count++)] = d;
  sort_few(dims.begin(), dims.begin() + count, [&](int a, int b) {
    const bool over_a = over[static_cast<std::size_t>(a)];
    const bool over_b = over[static_cast<std::size_t>(b)];
    if (over_a != over_b) return !over_a;
    return type.strides[a] > type.strides[b];
  });
  RowLoop loop;
  Dims sizes;
  Dims strides;
  Dims order;
  for (int i = 0; i < count; ++i) {
    const int d = dims[static_cast<std::size_t>(i)];
    sizes.push_back(type.shape[d]);
    strides.push_back(type.strides[d]);
    order.push_back(count - i);
    (over[static_cast<std::size_t>(d)] ? loop.reduced : loop.kept) *= type.shape[d];
    if (!over[static_cast<std::size_t>(d)]) ++loop.kept_sizes;
    if (i + 1 == count) loop.inner = over[static_cast<std::size_t>(d)] && type.strides[d] == 1;
  }
  loop.sizes = sizes;
  loop.access = Access::over(sizes, order, strides, l.offset(t));
  return loop;
}

std::array<bool, Dims::rank_max> last_dimension(const TensorType& type) {
  std::array<bool, Dims::rank_max> over{};
  if (type.shape.rank() > 0) over[static_cast<std::size_t>(type.shape.rank() - 1)] = true;
  return over;
}

std::array<bool, Dims::rank_max> reduced_dims(const Lowering& l, const Op& op) {
  std::array<bool, Dims::rank_max> over{};
  const int rank = l.type(op.inputs.front()).shape.rank();
  if (!op.attributes.has("dim")) {
    std::fill(over.begin(), over.begin() + rank, true);
    return over;
  }
  const AttributeValue* dim = op.attributes.find("dim");
  const auto mark = [&](std::int64_t d) { over[static_cast<std::size_t>(d < 0 ? d + rank : d)] = true; };
  if (const auto* one = std::get_if<std::int64_t>(dim)) mark(*one);
  if (const auto* many = std::get_if<Dims>(dim))
    for (const std::int64_t d : *many) mark(d);
  return over;
}

namespace {

/// Which way most full-size reads of a reduction go: along the reduced values, or across them. Reads at
/// places that data decide do not count; without any other the kernel is written as for the second case
/// (torch/_inductor/ir.py, num_splits).
bool goes_along(const LoopValue& value, const RowLoop& rows) {
  int along = 0;
  int across = 0;
  for (const Touch& touch : value.reads) {
    if (touch.indirect || touch.access.is_irregular() || touch.access.touched() < rows.kept * rows.reduced)
      continue;
    ++(touch.access.inner_stride() == 1 ? along : across);
  }
  return along > across;
}

/// How many places of a reduction there are to cut it by; 1: it stays whole.
std::int64_t parts_of(const Lowering& l, const LoopValue& value, const RowLoop& rows, bool inner) {
  const bool counted = std::any_of(value.reads.begin(), value.reads.end(), [&](const Touch& touch) {
    return !touch.indirect && !touch.access.is_irregular() &&
           touch.access.touched() >= rows.kept * rows.reduced;
  });
  return counted ? reduction_splits(rows.kept, rows.reduced, inner, l.gpu().sms) : 1;
}

bool is_inner(const LoopValue& value, const RowLoop& rows) {
  return rows.kept == 1 || goes_along(value, rows);
}

LoopIndex add_reduction(Lowering& l, LoopValue value, const RowLoop& rows, int results,
                        const std::array<BufferIndex, 2>& buffers) {
  const LoopIndex index = results == 1 ? l.add_loop(LoopKind::Reduction, std::move(value), rows.kept,
                                                    rows.reduced, {buffers[0]}, rows.sizes)
                                       : l.add_loop(LoopKind::Reduction, std::move(value), rows.kept,
                                                    rows.reduced, {buffers[0], buffers[1]}, rows.sizes);
  l.loops().loops[index].inner = rows.inner;
  return index;
}

}  // namespace

bool is_cut(const Lowering& l, const LoopValue& value, const RowLoop& rows) {
  return parts_of(l, value, rows, is_inner(value, rows)) > 1;
}

Reduced reduce(Lowering& l, LoopValue value, RowLoop rows, RowPass pass, int results, ElementType element) {
  Reduced reduced;
  rows.inner = is_inner(value, rows);
  const auto make_buffers = [&](std::int64_t count, ElementType type) {
    std::array<BufferIndex, 2> buffers{loop_none, loop_none};
    for (int i = 0; i < results; ++i) buffers[static_cast<std::size_t>(i)] = l.new_buffer(count, type);
    return buffers;
  };
  const std::int64_t parts = parts_of(l, value, rows, rows.inner);
  // Neither the places of extremes nor online softmax are cut.
  if (parts > 1 && pass != RowPass::ArgMax && pass != RowPass::OnlineSoftmax) {
    RowLoop first = rows;
    first.kept = rows.kept * parts;
    first.reduced = (rows.reduced + parts - 1) / parts;
    first.sizes = {};
    for (int i = 0; i < rows.kept_sizes; ++i) first.sizes.push_back(rows.sizes[i]);
    first.sizes.push_back(parts);
    first.sizes.push_back(first.reduced);
    const std::array<BufferIndex, 2> partial = make_buffers(first.kept, ElementType::Fp32);
    LoopValue join;
    join.aten = value.aten;
    const LoopIndex cut = add_reduction(l, std::move(value), first, results, partial);
    Loop& cut_loop = l.loops().loops[cut];
    cut_loop.pass = pass;
    cut_loop.part = SplitPart::First;
    cut_loop.whole_numel = rows.kept;
    cut_loop.whole_rnumel = rows.reduced;
    for (int i = 0; i < results; ++i)
      join.reads.push_back({.buffer = partial[static_cast<std::size_t>(i)],
                            .access = Access::straight(first.kept),
                            .bytes = l.loops().buffers[partial[static_cast<std::size_t>(i)]].bytes()});
    RowLoop second = rows;
    second.reduced = parts;
    second.sizes = first.sizes;
    second.sizes[second.sizes.rank() - 1] = 1;
    reduced.buffers = make_buffers(rows.kept, element);
    reduced.loop = add_reduction(l, std::move(join), second, results, reduced.buffers);
    l.loops().loops[reduced.loop].part = SplitPart::Second;
    return reduced;
  }
  reduced.buffers = make_buffers(rows.kept, element);
  reduced.loop = add_reduction(l, std::move(value), rows, results, reduced.buffers);
  l.loops().loops[reduced.loop].pass = pass;
  return reduced;
}

void read_rows(Lowering& l, LoopValue& value, BufferIndex buffer, const TensorType& out,
               const std::array<bool, Dims::rank_max>& over) {
  // The kept dimensions are numbered in memory order of the reduced tensor.
  std::array<int, Dims::rank_max> dims{};
  int count = 0;
  for (int d = 0; d < out.shape.rank(); ++d)
    if (!over[static_cast<std::size_t>(d)] && out.shape[d] > 1) dims[static_cast<std::size_t>(count++)] = d;
  sort_few(dims.begin(), dims.begin() + count, [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  Dims strides;
  for (int d = 0; d < out.shape.rank(); ++d) strides.push_back(0);
  std::int64_t stride = 1;
  for (int i = count; i-- > 0;) {
    const int d = dims[static_cast<std::size_t>(i)];
    strides[d] = stride;
    stride *= out.shape[d];
  }
  value.reads.push_back({.buffer = buffer,
                         .access = Access::over(out.shape, out.strides, strides, 0),
                         .bytes = l.loops().buffers[buffer].bytes()});
}

}  // namespace gpusim
