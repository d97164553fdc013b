// SPDX-License-Identifier: Apache-2.0
// Reductions, and what is made of several loops: norms, softmax, losses.
#include <algorithm>

#include "models/compiler/lower_rows.hpp"

namespace gpusim {
namespace {

// --- One number per row.

/// The sum of exponentials behind a row's largest value: sum(exp(x - amax(x))), both along the same
/// dimensions; none if there is no such op.
OpIndex softmax_sum(const Lowering& l, const Op& amax) {
  const OpGraph& graph = l.graph();
  const TensorIndex x = amax.inputs.front();
  const TensorIndex largest = amax.outputs.front();
  for (const OpIndex i : l.readers(largest)) {
    const Op& sub = graph.ops[i];
    if (sub.kind->name != "sub" || sub.inputs[0] != x || sub.inputs[1] != largest) continue;
    for (const OpIndex j : l.readers(sub.outputs.front())) {
      const Op& exp = graph.ops[j];
      if (exp.kind->name != "exp") continue;
      for (const OpIndex k : l.readers(exp.outputs.front())) {
        const Op& sum = graph.ops[k];
        if (sum.kind->name == "sum" && sum.attributes == amax.attributes) return k;
      }
    }
  }
  return graph_none;
}

/// Largest value and sum of exponentials in one pass (fx_passes/post_grad.py, prepare_softmax). False: the
/// sum is not there, or would be cut in two.
bool lower_online_softmax(Lowering& l, const Op& op, const RowLoop& rows) {
  const OpIndex sum = op.kind->name == "amax" ? softmax_sum(l, op) : graph_none;
  if (sum == graph_none) return false;
  LoopValue value = l.read(op.inputs.front(), rows.access);
  if (is_cut(l, value, rows)) return false;
  Lowering::name(value, op);
  Lowering::name(value, "prepare_softmax_online");
  value.functions += 3;
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::OnlineSoftmax, 2);
  l.place(op.outputs.front(), reduced.buffers[0]);
  l.prepare(sum, reduced.buffers[1]);
  return true;
}

void lower_reduction(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  if (const auto buffer = l.prepared(l.current())) {
    l.place(out, *buffer);
    return;
  }
  const RowLoop rows = row_loop(l, in, reduced_dims(l, op));
  if (rows.reduced >= l.options().realize.unrolled && lower_online_softmax(l, op, rows)) return;
  LoopValue value = l.read(in, rows.access);
  Lowering::name(value, op);
  value.functions += 2;
  if (rows.reduced < l.options().realize.unrolled) {
    // So few values are added up in one expression.
    value.functions += static_cast<std::int32_t>(rows.reduced);
    for (Touch& touch : value.reads) touch.access = Access::irregular(rows.kept, l.next_irregular());
    l.define(out, std::move(value));
    return;
  }
  const RowPass pass = op.kind->name == "argmax" ? RowPass::ArgMax
                       : op.kind->name == "sum"  ? RowPass::Sum
                                                 : RowPass::Plain;
  const Reduced reduced = reduce(l, std::move(value), rows, pass, 1, l.type(out).element);
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
  Lowering::name(value, op);
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::Sum, 1, l.type(out).element);
  LoopValue mean;
  mean.reads.push_back({.buffer = reduced.buffers[0],
                        .access = Access::straight(rows.kept),
                        .bytes = l.loops().buffers[reduced.buffers[0]].bytes()});
  mean.functions = 2;
  Lowering::name(mean, op);
  l.define(out, std::move(mean));
}

/// Variance and mean, by Welford's formulas in one pass.
void lower_var_mean(Lowering& l, const Op& op) {
  const RowLoop rows = row_loop(l, op.inputs.front(), reduced_dims(l, op));
  LoopValue value = l.read(op.inputs.front(), rows.access);
  Lowering::name(value, op);
  value.functions += 2;
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::Welford, 2);
  l.place(op.outputs[0], reduced.buffers[0]);
  l.place(op.outputs[1], reduced.buffers[1]);
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
  Lowering::name(value, op);
  value.functions += 2;
  const Reduced reduced =
      reduce(l, std::move(value), rows, layer_norm ? RowPass::Welford : RowPass::Plain, layer_norm ? 2 : 1);
  LoopValue result = l.read(in, l.type(out));
  read_rows(l, result, reduced.buffers[0], l.type(out), over);
  if (layer_norm) read_rows(l, result, reduced.buffers[1], l.type(out), over);
  for (std::size_t i = 1; i < op.inputs.size(); ++i)
    if (op.inputs[i] != graph_none) Lowering::join(result, l.read(op.inputs[i], l.type(out)));
  result.functions += 9;
  Lowering::name(result, op);
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
  Lowering::name(value, op);
  Lowering::name(value, "prepare_softmax_online");
  value.functions += 3;
  const Reduced reduced = reduce(l, std::move(value), rows, RowPass::OnlineSoftmax, 2);
  LoopValue result = l.read(in, l.type(out));
  read_rows(l, result, reduced.buffers[0], l.type(out), over);
  read_rows(l, result, reduced.buffers[1], l.type(out), over);
  result.functions += 6;
  result.lane_cycles += lane_cycles(AluFunction::Exp, l.gpu());
  Lowering::name(result, op);
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
  Lowering::name(value, op);
  if (op.attributes.has("training") && op.attributes.flag("training")) {
    std::array<bool, Dims::rank_max> over{};
    for (int d = 0; d < type.shape.rank(); ++d) over[static_cast<std::size_t>(d)] = d != 1;
    const RowLoop rows = row_loop(l, in, over);
    LoopValue statistics = l.read(in, rows.access);
    Lowering::name(statistics, op);
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
  Lowering::name(value, op);
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
  Lowering::name(result, op);
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
    l.library(op, l.eager(op));
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

constexpr LowerEntry entries[]{{"sum", lower_reduction},         {"amax", lower_reduction},
                               {"amin", lower_reduction},        {"any", lower_reduction},
                               {"argmax", lower_reduction},      {"mean", lower_mean},
                               {"var_mean", lower_var_mean},     {"layer_norm", lower_row_norm},
                               {"rms_norm", lower_row_norm},     {"softmax", lower_softmax},
                               {"log_softmax", lower_softmax},   {"batch_norm", lower_batch_norm},
                               {"group_norm", lower_group_norm}, {"adaptive_avg_pool2d", lower_adaptive_pool},
                               {"cumsum", lower_scan},           {"sort", lower_scan},
                               {"argsort", lower_scan},          {"cross_entropy", lower_cross_entropy},
                               {"nll_loss", lower_cross_entropy}};

}  // namespace

std::span<const LowerEntry> reduction_lowerings() {
  return entries;
}

}  // namespace gpusim
