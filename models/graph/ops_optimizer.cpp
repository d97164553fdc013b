// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer over all parameters, as torch/optim runs it.
#include <algorithm>
#include <utility>

#include "models/cost/optimizer_functions.hpp"
#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

std::vector<std::int64_t> sizes_of(const OpView& op, std::size_t count) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(elements(op.in(i)));
  return sizes;
}
std::size_t parameters_of(const OpView& op) {
  const std::int64_t count = op.attributes.integer("count");
  return count == 0 ? op.inputs.size() : static_cast<std::size_t>(count);
}

void want_implementation(const OpView& op) {
  const std::string& how = op.attributes.word("implementation");
  if (how != "fused" && how != "foreach" && how != "for")
    throw ShapeError("implementation is 'fused', 'foreach' or 'for', not '" + how + "'");
}
std::vector<MadeTensor> infer_optimizer(const OpView& op) {
  want_implementation(op);
  const std::int64_t count = op.attributes.integer("count");
  const auto given = static_cast<std::int64_t>(op.inputs.size());
  if (count < 0 || count > given || (count > 0 && given % count != 0))
    throw ShapeError(std::to_string(given) + " tensors are not so many each of " + std::to_string(count) +
                     " parameters");
  for (std::int64_t i = count; count > 0 && i < given; ++i) {
    const Dims& shape = op.in(static_cast<std::size_t>(i)).shape;
    const Dims& parameter = op.in(static_cast<std::size_t>(i % count)).shape;
    if (!(shape == parameter))
      throw ShapeError("a gradient or state of shape " + to_string(shape) + " for a parameter of shape " +
                       to_string(parameter));
  }
  return {};
}

/// A list function as one kernel (or more) over all tensors, or as one for each.
void add_list_op(const OptimizerFunction& what, const std::vector<std::int64_t>& sizes, Dtype dtype,
                 bool lists, std::vector<EagerCall>& calls) {
  if (lists) {
    calls.push_back({.host_op = "foreach_call",
                     .work = {MultiTensor{.sizes = sizes,
                                          .lists = what.lists,
                                          .moves = what.moves,
                                          .scalars = what.scalars,
                                          .dtype = dtype}}});
    return;
  }
  for (const std::int64_t size : sizes)
    calls.push_back({.host_op = "optimizer_op",
                     .work = {Pointwise{.elements = size,
                                        .read = Bytes((what.moves - 1) * size * bits(dtype) / 8),
                                        .written = Bytes(size * bits(dtype) / 8)}}});
}

std::vector<EagerCall> step(const OpView& op, const std::vector<OptimizerFunction>& functions,
                            const OptimizerFunction& fused) {
  const std::string& how = op.attributes.word("implementation");
  const std::vector<std::int64_t> sizes = sizes_of(op, parameters_of(op));
  const Dtype dtype = kernel_dtype(op.in().element);
  std::vector<EagerCall> calls;
  calls.push_back({.host_op = "optimizer_step", .work = {}});
  const std::string_view each = how == "fused"     ? "optimizer_tensor_fused"
                                : how == "foreach" ? "optimizer_tensor_foreach"
                                                   : "optimizer_tensor_for";
  for (std::size_t i = 0; i < sizes.size(); ++i) calls.push_back({.host_op = each, .work = {}});
  if (how == "fused") {
    calls.push_back(
        {.host_op = "fused_call",
         .work = {MultiTensor{
             .sizes = sizes, .lists = fused.lists, .moves = fused.moves, .fused = true, .dtype = dtype}}});
    return calls;
  }
  for (const OptimizerFunction& what : functions) add_list_op(what, sizes, dtype, how == "foreach", calls);
  return calls;
}
template <bool Decay>
std::vector<EagerCall> eager_adam(const OpView& op, const GpuSpec&) {
  return step(op, adam_functions(Decay), fused_adam());
}
std::vector<EagerCall> eager_sgd(const OpView& op, const GpuSpec&) {
  const bool momentum = op.attributes.flag("momentum");
  return step(op, sgd_functions(momentum), fused_sgd(momentum));
}

// --- Around it.

std::vector<MadeTensor> infer_counters(const OpView& op) {
  if (op.attributes.integer("count") < 1) throw ShapeError("there must be at least one counter");
  return {};
}
std::vector<EagerCall> eager_counters(const OpView& op, const GpuSpec&) {
  // A number on the device for each parameter: fused optimizers need them there.
  return {{.host_op = "foreach_call",
           .work = {MultiTensor{.sizes = std::vector<std::int64_t>(
                                    static_cast<std::size_t>(op.attributes.integer("count")), 1),
                                .lists = 1,
                                .moves = 2}}}};
}

std::vector<MadeTensor> infer_list(const OpView& op) {
  if (op.attributes.has("implementation")) want_implementation(op);
  return {};
}
std::vector<EagerCall> eager_zero(const OpView& op, const GpuSpec&) {
  return {{.host_op = "foreach_call",
           .work = {MultiTensor{.sizes = sizes_of(op, op.inputs.size()),
                                .lists = 1,
                                .moves = 1,
                                .dtype = kernel_dtype(op.in().element)}}}};
}
std::vector<EagerCall> eager_clip(const OpView& op, const GpuSpec&) {
  const bool lists = op.attributes.word("implementation") != "for";
  const std::vector<std::int64_t> sizes = sizes_of(op, op.inputs.size());
  const Dtype dtype = kernel_dtype(op.in().element);
  const auto count = static_cast<std::int64_t>(sizes.size());
  std::vector<EagerCall> calls;
  // The norm of each gradient: sums of squares of all chunks, and their root.
  if (lists) {
    calls.push_back(
        {.host_op = "foreach_call",
         .work = {TinyKernel{}, MultiTensor{.sizes = sizes, .lists = 1, .moves = 1, .dtype = dtype},
                  TinyKernel{}}});
  } else {
    for (const std::int64_t size : sizes)
      calls.push_back({.host_op = "sum", .work = {FullReduction{.elements = size, .input = dtype}}});
  }
  // All norms in one tensor, its norm, and the factor: max / (norm + eps), at most 1.
  calls.push_back({.host_op = "stack",
                   .work = {Concatenation{
                       .elements = count, .element_bytes = 4, .inputs = static_cast<std::int32_t>(count)}}});
  calls.push_back({.host_op = "sum", .work = {FullReduction{.elements = count, .input = Dtype::Fp32}}});
  for (const std::string_view name : {"add", "reciprocal", "mul", "clamp"})
    calls.push_back({.host_op = name, .work = {TinyKernel{}}});
  add_list_op({"mul_", 1, 2}, sizes, dtype, lists, calls);
  return calls;
}

}  // namespace

std::vector<OpKind> optimizer_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) {
    kind.fusion = FusionClass::Library;
    kind.recompute = RecomputeClass::Never;
    kinds.push_back(std::move(kind));
  };
  const std::vector<OpInput> tensors{{"tensors", InputNeed::Many}};
  const OpAttribute count{"count", Integer, std::int64_t{0}};
  const OpAttribute implementation{"implementation", Word, std::string("fused")};
  add({.name = "adamw",
       .help = "An AdamW step: `count` parameters, their gradients, their states; 0: all are parameters",
       .inputs = tensors,
       .attributes = {count, implementation},
       .infer = infer_optimizer,
       .eager = eager_adam<true>});
  add({.name = "adam",
       .help = "An Adam step, as adamw without decay",
       .inputs = tensors,
       .attributes = {count, implementation},
       .infer = infer_optimizer,
       .eager = eager_adam<false>});
  add({.name = "sgd",
       .help = "An SGD step, with or without momentum",
       .inputs = tensors,
       .attributes = {count, implementation, {"momentum", Flag, false}},
       .infer = infer_optimizer,
       .eager = eager_sgd});
  add({.name = "optimizer_counters",
       .help = "Counts the step of each parameter on the device, as fused optimizers do",
       .inputs = {},
       .attributes = {{"count", Integer}},
       .infer = infer_counters,
       .eager = eager_counters});
  add({.name = "clip_grad_norm",
       .help = "Scales gradients so that the norm of all is limited",
       .inputs = {{"gradients", InputNeed::Many}},
       .attributes = {{"implementation", Word, std::string("foreach")}},
       .infer = infer_list,
       .eager = eager_clip});
  add({.name = "foreach_zero",
       .help = "Fills tensors with zeros in few kernels",
       .inputs = tensors,
       .attributes = {},
       .infer = infer_list,
       .eager = eager_zero});
  return kinds;
}

}  // namespace gpusim
