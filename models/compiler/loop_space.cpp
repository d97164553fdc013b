// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/loop_space.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

using Mask = std::array<bool, Dims::rank_max>;
using Order = std::array<int, Dims::rank_max>;  ///< Of dimensions, outermost first.

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Order memory_order(const TensorType& type) {
  Order order{};
  const int rank = type.shape.rank();
  std::iota(order.begin(), order.begin() + rank, 0);
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](int a, int b) { return type.strides[a] > type.strides[b]; });
  return order;
}

/// Dense strides of a shape whose dimensions lie in this order.
Dims strides_in(const Dims& shape, const Order& order) {
  Dims strides = shape;
  std::int64_t next = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int dim = order[static_cast<std::size_t>(i)];
    strides[dim] = next;
    next *= shape[dim];
  }
  return strides;
}

std::size_t from_front(std::int64_t dim, int rank) {
  return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

/// The dimensions that a reduction keeps apart. Of a norm over groups of channels, which are no dimension of
/// their own, all: the groups lie one behind the other.
Mask kept_dimensions(const Op& op, const TensorType& type) {
  const int rank = type.shape.rank();
  const std::string_view kind = op.kind->name;
  Mask kept{};
  kept.fill(true);
  if (kind == "group_norm") return kept;
  if (kind == "softmax" || kind == "log_softmax") {
    kept[from_front(op.attributes.integer("dim"), rank)] = false;
  } else if (kind == "layer_norm" || kind == "rms_norm") {
    kept[from_front(-1, rank)] = false;
  } else if (kind == "batch_norm") {
    kept.fill(false);
    kept[1] = true;
  } else if (kind == "adaptive_avg_pool2d") {
    kept[2] = kept[3] = false;
  } else if (op.attributes.has("dim") && kind != "cross_entropy" && kind != "nll_loss") {
    for (const std::int64_t dim : op.attributes.dims("dim")) kept[from_front(dim, rank)] = false;
  } else {
    kept.fill(false);
  }
  return kept;
}

LoopSpace reduction_space(const OpGraph& graph, const Op& op) {
  constexpr std::array<std::string_view, 6> shape_keepers{"softmax",  "log_softmax", "layer_norm",
                                                          "rms_norm", "batch_norm",  "group_norm"};
  const TensorType& type = graph.tensors[op.inputs.front()].type;
  LoopSpace space{.kind = LoopSpace::Kind::Reduction, .elements = elements(type)};
  space.keeps_shape = among(shape_keepers, op.kind->name);
  space.shape = type.shape;
  // Rows first, as their results are written: in the order of the dimensions, or as the result lies.
  const Mask kept = kept_dimensions(op, type);
  const auto is_kept = [&](int dim) { return kept[static_cast<std::size_t>(dim)]; };
  const Order in_memory = memory_order(space.keeps_shape ? graph.tensors[op.outputs.front()].type : type);
  Order order{};
  std::size_t placed = 0;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (const int dim = space.keeps_shape ? in_memory[static_cast<std::size_t>(i)] : i; is_kept(dim))
      order[placed++] = dim;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (const int dim = in_memory[static_cast<std::size_t>(i)]; !is_kept(dim)) order[placed++] = dim;
  space.order = strides_in(space.shape, order);
  std::int64_t rows = 1;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (is_kept(i)) rows *= type.shape[i];
  if (op.kind->name == "group_norm") rows = type.shape[0] * op.attributes.integer("groups");
  space.columns = space.elements / std::max<std::int64_t>(1, rows);
  return space;
}

}  // namespace

LoopSpace loop_space(const OpGraph& graph, const Op& op) {
  using Kind = LoopSpace::Kind;
  const auto over = [&](Kind kind, const TensorType& type) {
    return LoopSpace{.kind = kind,
                     .elements = elements(type),
                     .shape = type.shape,
                     .order = strides_in(type.shape, memory_order(type))};
  };
  const auto over_result = [&](Kind kind) {
    return op.outputs.empty() ? LoopSpace{.kind = kind} : over(kind, graph.tensors[op.outputs.front()].type);
  };
  // Only ops in place write less than the memory that they give.
  if (!op.outputs.empty() && op.kind->recompute == RecomputeClass::Never) {
    const GraphTensor& made = graph.tensors[op.outputs.front()];
    if (dense_bytes(made.type) < graph.storages[made.storage].bytes) return over_result(Kind::Store);
  }
  switch (op.kind->fusion) {
    case FusionClass::Pointwise:
    case FusionClass::View:  // One that has to copy.
    case FusionClass::Gather:
    case FusionClass::Random:
      return over_result(Kind::Elementwise);
    case FusionClass::Reduction:
      if (op.kind->name == "batch_norm" && !op.attributes.flag("training"))
        return over_result(Kind::Elementwise);
      // Windows that overlap or are several to an image are no rows.
      if (op.kind->name == "adaptive_avg_pool2d" && op.attributes.integer("size") != 1)
        return over_result(Kind::Library);
      return reduction_space(graph, op);
    case FusionClass::Scatter:
      return over(Kind::Store, graph.tensors[op.inputs.back()].type);
    case FusionClass::Product:
      return over_result(Kind::Product);
    case FusionClass::Library:
      return over_result(Kind::Library);
  }
  return over_result(Kind::Library);
}

Access reading(const OpGraph& graph, OpIndex op, const LoopSpace& space, std::size_t input,
               std::int64_t offset) {
  const Op& reader = graph.ops[op];
  const TensorType& read = graph.tensors[reader.inputs[input]].type;
  const auto nth = static_cast<std::int64_t>(input);
  // Places that data decide are nobody else's; those that have another shape are the same for equal reads.
  if (reader.kind->fusion == FusionClass::Gather)
    return Access::irregular(space.elements, (std::int64_t{op} << 8) + nth);
  const Access irregular =
      Access::over(read.shape, read.strides, read.strides, offset).made_irregular(space.elements, nth);
  const int more = space.shape.rank() - read.shape.rank();
  if (more < 0) return irregular;
  Dims strides = space.shape;
  for (int i = 0; i < space.shape.rank(); ++i) {
    const bool there = i >= more && read.shape[i - more] != 1;
    if (there && read.shape[i - more] != space.shape[i]) return irregular;
    strides[i] = there ? read.strides[i - more] : 0;
  }
  // Channels have their weights along the second dimension.
  if (reader.kind->name == "batch_norm" || reader.kind->name == "group_norm")
    if (input > 0) return irregular;
  return Access::over(space.shape, space.order, strides, offset);
}

bool writes_straight(const OpGraph& graph, const Op& op, const LoopSpace& space) {
  if (space.kind != LoopSpace::Kind::Reduction || !space.keeps_shape) return true;
  return Access::over(space.shape, space.order, graph.tensors[op.outputs.front()].type.strides, 0)
      .is_straight();
}

}  // namespace gpusim
