// SPDX-License-Identifier: Apache-2.0
// Reductions, and what is made of several loops: norms, softmax, losses.
#include <algorithm>

#include "models/compiler/lowering.hpp"
#include "models/compiler/split_reduction.hpp"

namespace gpusim {
namespace {

/// A reduction of a tensor: for each kept place, over the reduced ones.
struct RowLoop {
  Access access;  ///< Of the reduced tensor: kept digits first.
  std::int64_t kept = 1;
  std::int64_t reduced = 1;
  bool inner = true;  ///< The reduced places lie next to each other.
};

/// Dimensions in the order in which they lie in memory, those to keep first.
RowLoop row_loop(const Lowering& l, TensorIndex t, const std::array<bool, Dims::rank_max>& over) {
  const TensorType& type = l.type(t);
  std::array<int, Dims::rank_max> dims{};
  int count = 0;
  for (int d = 0; d < type.shape.rank(); ++d)
    if (type.shape[d] > 1) dims[static_cast<std::size_t>(count++)] = d;
  std::stable_sort(dims.begin(), dims.begin() + count, [&](int a, int b) {
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
    if (i + 1 == count) loop.inner = over[static_cast<std::size_t>(d)] && type.strides[d] == 1;
  }
  loop.access = Access::over(sizes, order, strides, l.offset(t));
  return loop;
}

std::array<bool, Dims::rank_max> last_dimension(const TensorType& type) {
  std::array<bool, Dims::rank_max> over{};
  if (type.shape.rank() > 0) over[static_cast<std::size_t>(type.shape.rank() - 1)] = true;
  return over;
}

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

/// One loop that reduces `value` to `results` numbers per row, in fp32.
struct Reduced {
  LoopIndex loop = loop_none;
  std::array<BufferIndex, 2> buffers{loop_none, loop_none};
};
Reduced reduce(Lowering& l, LoopValue value, RowLoop rows, RowPass pass, int results,
               ElementType element = ElementType::Fp32) {
  Reduced reduced;
  const bool counted = std::any_of(value.reads.begin(), value.reads.end(), [&](const Touch& touch) {
    return !touch.indirect && !touch.access.is_irregular() &&
           touch.access.touched() >= rows.kept * rows.reduced;
  });
  rows.inner = rows.kept == 1 || goes_along(value, rows);
  const std::int64_t parts = counted ? reduction_splits(rows.kept, rows.reduced, rows.inner, l.gpu().sms) : 1;
  // Neither the places of extremes nor online softmax are cut.
  if (parts > 1 && pass != RowPass::ArgMax && pass != RowPass::OnlineSoftmax) {
    const std::vector<std::string_view> names = value.aten;
    RowLoop first = rows;
    first.kept = rows.kept * parts;
    first.reduced = (rows.reduced + parts - 1) / parts;
    std::array<BufferIndex, 2> partial{loop_none, loop_none};
    for (int i = 0; i < results; ++i)
      partial[static_cast<std::size_t>(i)] = l.new_buffer(first.kept, ElementType::Fp32);
    const LoopIndex cut = results == 1 ? l.add_loop(LoopKind::Reduction, std::move(value), first.kept,
                                                    first.reduced, {partial[0]})
                                       : l.add_loop(LoopKind::Reduction, std::move(value), first.kept,
                                                    first.reduced, {partial[0], partial[1]});
    l.loops().loops[cut].pass = pass;
    l.loops().loops[cut].inner = rows.inner;
    l.loops().loops[cut].part = SplitPart::First;
    LoopValue join;
    for (int i = 0; i < results; ++i)
      join.reads.push_back({.buffer = partial[static_cast<std::size_t>(i)],
                            .access = Access::straight(first.kept),
                            .bytes = l.loops().buffers[partial[static_cast<std::size_t>(i)]].bytes()});
    join.aten = names;
    RowLoop second;
    second.kept = rows.kept;
    second.reduced = parts;
    second.inner = rows.inner;
    for (int i = 0; i < results; ++i)
      reduced.buffers[static_cast<std::size_t>(i)] = l.new_buffer(rows.kept, element);
    reduced.loop = results == 1 ? l.add_loop(LoopKind::Reduction, std::move(join), second.kept,
                                             second.reduced, {reduced.buffers[0]})
                                : l.add_loop(LoopKind::Reduction, std::move(join), second.kept,
                                             second.reduced, {reduced.buffers[0], reduced.buffers[1]});
    Loop& loop = l.loops().loops[reduced.loop];
    loop.pass = RowPass::Plain;
    loop.inner = rows.inner;
    loop.part = SplitPart::Second;
    return reduced;
  }
  for (int i = 0; i < results; ++i)
    reduced.buffers[static_cast<std::size_t>(i)] = l.new_buffer(rows.kept, element);
  reduced.loop = results == 1 ? l.add_loop(LoopKind::Reduction, std::move(value), rows.kept, rows.reduced,
                                           {reduced.buffers[0]})
                              : l.add_loop(LoopKind::Reduction, std::move(value), rows.kept, rows.reduced,
                                           {reduced.buffers[0], reduced.buffers[1]});
  Loop& loop = l.loops().loops[reduced.loop];
  loop.pass = pass;
  loop.inner = rows.inner;
  return reduced;
}

/// The result of a reduction as a loop over the rows' elements sees it. `type`: of the tensor whose rows
/// were reduced; `out`: the loop's.
void read_rows(Lowering& l, LoopValue& value, BufferIndex buffer, const TensorType& out,
               const std::array<bool, Dims::rank_max>& over) {
  // The kept dimensions are numbered in memory order of the reduced tensor.
  std::array<int, Dims::rank_max> dims{};
  int count = 0;
  for (int d = 0; d < out.shape.rank(); ++d)
    if (!over[static_cast<std::size_t>(d)] && out.shape[d] > 1) dims[static_cast<std::size_t>(count++)] = d;
  std::stable_sort(dims.begin(), dims.begin() + count,
                   [&](int a, int b) { return out.strides[a] > out.strides[b]; });
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

// --- One number per row.

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

void lower_reduction(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const RowLoop rows = row_loop(l, in, reduced_dims(l, op));
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, op.kind->name);
  value.functions += 2;
  if (rows.reduced < l.options().realize.unrolled) {
    // So few values are added up in one expression.
    value.functions += static_cast<std::int32_t>(rows.reduced);
    for (Touch& touch : value.reads) touch.access = Access::irregular(rows.kept, l.next_irregular());
    l.define(out, std::move(value));
    return;
  }
  const bool arg = op.kind->name == "argmax";
  const Reduced reduced =
      reduce(l, std::move(value), rows, arg ? RowPass::ArgMax : RowPass::Plain, 1, l.type(out).element);
  l.place(out, reduced.buffers[0]);
}

void lower_mean(Lowering& l, const Op& op) {
  // A sum, and a division that stays an expression.
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const RowLoop rows = row_loop(l, in, reduced_dims(l, op));
  if (rows.reduced < l.options().realize.unrolled) {
    lower_reduction(l, op);
    return;
  }
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, "mean");
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::Plain, 1, l.type(out).element);
  LoopValue mean;
  mean.reads.push_back({.buffer = reduced.buffers[0],
                        .access = Access::straight(rows.kept),
                        .bytes = l.loops().buffers[reduced.buffers[0]].bytes()});
  mean.functions = 2;
  Lowering::name(mean, "mean");
  l.define(out, std::move(mean));
}

// --- Norms.

void lower_row_norm(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const bool layer_norm = op.kind->name == "layer_norm";
  const auto over = last_dimension(l.type(in));
  // The row in fp32 is a value with two users: the reduction and the scaling.
  l.reuse(in);
  const RowLoop rows = row_loop(l, in, over);
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, op.kind->name);
  value.functions += 2;
  const Reduced reduced =
      reduce(l, std::move(value), rows, layer_norm ? RowPass::Welford : RowPass::Plain, layer_norm ? 2 : 1);
  LoopValue result = l.read(in, l.type(out));
  read_rows(l, result, reduced.buffers[0], l.type(out), over);
  if (layer_norm) read_rows(l, result, reduced.buffers[1], l.type(out), over);
  for (std::size_t i = 1; i < op.inputs.size(); ++i)
    if (op.inputs[i] != graph_none) Lowering::join(result, l.read(op.inputs[i], l.type(out)));
  result.functions += 9;
  Lowering::name(result, op.kind->name);
  l.define(out, std::move(result));
}

void lower_softmax(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  std::array<bool, Dims::rank_max> over{};
  const std::int64_t dim = op.attributes.integer("dim");
  over[static_cast<std::size_t>(dim < 0 ? dim + l.type(in).shape.rank() : dim)] = true;
  const RowLoop rows = row_loop(l, in, over);
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, op.kind->name);
  Lowering::name(value, "prepare_softmax_online");
  value.functions += 3;
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::OnlineSoftmax, 2);
  LoopValue result = l.read(in, l.type(out));
  read_rows(l, result, reduced.buffers[0], l.type(out), over);
  read_rows(l, result, reduced.buffers[1], l.type(out), over);
  result.functions += 6;
  result.lane_cycles += lane_cycles(AluFunction::Exp, l.gpu());
  Lowering::name(result, op.kind->name);
  l.define(out, std::move(result));
}

/// In evaluation the statistics are given: elementwise.
void lower_batch_norm(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const TensorType& type = l.type(out);
  LoopValue value = l.read(in, type);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == graph_none) continue;
    Dims strides;
    for (int d = 0; d < type.shape.rank(); ++d) strides.push_back(d == 1 ? 1 : 0);
    Lowering::join(
        value, l.read(op.inputs[i], Access::over(type.shape, type.strides, strides, l.offset(op.inputs[i]))));
  }
  value.functions += 12;
  Lowering::name(value, op.kind->name);
  if (op.attributes.has("training") && op.attributes.flag("training")) {
    std::array<bool, Dims::rank_max> over{};
    for (int d = 0; d < type.shape.rank(); ++d) over[static_cast<std::size_t>(d)] = d != 1;
    const RowLoop rows = row_loop(l, in, over);
    LoopValue statistics = l.read(in, rows.access);
    Lowering::name(statistics, op.kind->name);
    const Reduced reduced = reduce(l, std::move(statistics), rows, RowPass::Welford, 2);
    read_rows(l, value, reduced.buffers[0], type, over);
    read_rows(l, value, reduced.buffers[1], type, over);
  }
  l.define(out, std::move(value));
}

void lower_group_norm(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const TensorType& type = l.type(out);
  const std::int64_t groups = op.attributes.integer("groups");
  RowLoop rows;
  rows.kept = type.shape[0] * groups;
  rows.reduced = elements(type) / rows.kept;
  rows.inner = is_contiguous(l.type(in));
  rows.access =
      rows.inner ? Access::straight(elements(type)) : Access::irregular(elements(type), l.next_irregular());
  if (rows.inner && l.offset(in) != 0) rows.access = Access::irregular(elements(type), l.next_irregular());
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, op.kind->name);
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::Welford, 2);
  LoopValue result = l.read(in, type);
  for (const BufferIndex buffer : reduced.buffers)
    result.reads.push_back({.buffer = buffer,
                            .access = Access::straight(rows.kept),
                            .bytes = l.loops().buffers[buffer].bytes()});
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == graph_none) continue;
    Dims strides;
    for (int d = 0; d < type.shape.rank(); ++d) strides.push_back(d == 1 ? 1 : 0);
    Lowering::join(result, l.read(op.inputs[i],
                                  Access::over(type.shape, type.strides, strides, l.offset(op.inputs[i]))));
  }
  result.functions += 9;
  Lowering::name(result, op.kind->name);
  l.define(out, std::move(result));
}

void lower_adaptive_pool(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  std::array<bool, Dims::rank_max> over{};
  over[2] = over[3] = true;
  const RowLoop rows = row_loop(l, in, over);
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, "mean");
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::Plain, 1, l.type(out).element);
  l.place(out, reduced.buffers[0]);
}

// --- Running sums and short sorts: a row stays with its block.

void lower_scan(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const bool sorts = op.kind->name != "cumsum";
  constexpr std::int64_t sorted_row_max = 512;
  std::array<bool, Dims::rank_max> over{};
  const std::int64_t dim = op.attributes.has("dim") ? op.attributes.integer("dim") : -1;
  over[static_cast<std::size_t>(dim < 0 ? dim + l.type(in).shape.rank() : dim)] = true;
  const RowLoop rows = row_loop(l, in, over);
  if (sorts && rows.reduced > sorted_row_max) {
    const OpTypes types(l.graph(), op);
    l.library(op, op.kind->eager(types.view(op), l.gpu()));
    return;
  }
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, sorts ? "sort" : "cumsum");
  for (const TensorIndex t : op.outputs) {
    const BufferIndex buffer = l.new_buffer(elements(l.type(t)), l.type(t).element);
    LoopValue same = value;
    const LoopIndex index =
        l.add_loop(LoopKind::Reduction, std::move(same), rows.kept, rows.reduced, {buffer});
    l.loops().loops[index].inner = rows.inner;
    l.place(t, buffer);
  }
}

// --- Losses: log-softmax over the classes, one number per row picked by its label, their mean.

void pick_and_average(Lowering& l, const Op& op, LoopValue picked, std::int64_t rows) {
  RowLoop all;
  all.reduced = rows;
  all.access = Access::straight(rows);
  Lowering::name(picked, "nll_loss");
  const Reduced reduced =
      reduce(l, std::move(picked), all, RowPass::Plain, 1, l.type(op.outputs.front()).element);
  l.place(op.outputs.front(), reduced.buffers[0]);
}

void lower_cross_entropy(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex labels = op.inputs[1];
  const auto over = last_dimension(l.type(in));
  const RowLoop rows = row_loop(l, in, over);
  const bool has_softmax = op.kind->name == "cross_entropy";
  LoopValue picked;
  if (has_softmax) {
    LoopValue value = l.read(in, rows.access);
    Lowering::name(value, "log_softmax");
    Lowering::name(value, "prepare_softmax_online");
    const Reduced reduced = reduce(l, std::move(value), rows, RowPass::OnlineSoftmax, 2);
    for (const BufferIndex buffer : reduced.buffers)
      picked.reads.push_back({.buffer = buffer,
                              .access = Access::straight(rows.kept),
                              .bytes = l.loops().buffers[buffer].bytes()});
    picked.aten = {"_log_softmax"};
  }
  picked.reads.push_back({.buffer = l.realize(in),
                          .access = Access::irregular(rows.kept, l.next_irregular()),
                          .bytes = Bytes(rows.kept * size_of(l.type(in).element)),
                          .indirect = true});
  Lowering::join(picked, l.read(labels, Access::straight(rows.kept)));
  picked.lane_cycles += lane_cycles(AluFunction::Log, l.gpu());
  pick_and_average(l, op, std::move(picked), rows.kept);
}

constexpr LowerEntry entries[]{{"sum", lower_reduction},
                               {"amax", lower_reduction},
                               {"amin", lower_reduction},
                               {"any", lower_reduction},
                               {"argmax", lower_reduction},
                               {"mean", lower_mean},
                               {"layer_norm", lower_row_norm},
                               {"rms_norm", lower_row_norm},
                               {"softmax", lower_softmax},
                               {"log_softmax", lower_softmax},
                               {"batch_norm", lower_batch_norm},
                               {"group_norm", lower_group_norm},
                               {"adaptive_avg_pool2d", lower_adaptive_pool},
                               {"cumsum", lower_scan},
                               {"sort", lower_scan},
                               {"argsort", lower_scan},
                               {"cross_entropy", lower_cross_entropy},
                               {"nll_loss", lower_cross_entropy}};

}  // namespace

std::span<const LowerEntry> reduction_lowerings() {
  return entries;
}

}  // namespace gpusim
