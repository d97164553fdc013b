// SPDX-License-Identifier: Apache-2.0
// Gradients of views, joins and copies.
#include <algorithm>

#include "models/graph/autograd.hpp"
#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

/// The same elements in the input's shape: view, reshape, flatten, squeeze, unsqueeze.
void reshaped(Backward& b, const Op&) {
  if (b.needs(0)) b.give(0, b.viewed(b.grad(), Dims(b.type(b.in()).shape)));
}
void transpose(Backward& b, const Op& op) {
  b.give(0, b.add("transpose", {b.grad()},
                  {{"dim0", op.attributes.integer("dim0")}, {"dim1", op.attributes.integer("dim1")}}));
}
void permute(Backward& b, const Op& op) {
  const Dims& dims = op.attributes.dims("dims");
  Dims back = dims;
  for (int i = 0; i < dims.rank(); ++i) back[dimension(dims[i], dims.rank())] = i;
  b.give(0, b.add("permute", {b.grad()}, {{"dims", back}}));
}
/// give() sums over what was repeated.
void expand(Backward& b, const Op&) {
  b.give(0, b.grad());
}
void slice(Backward& b, const Op& op) {
  const Dims shape = b.type(b.in()).shape;
  b.give(0, b.add("slice_backward", {b.grad()},
                  {{"shape", shape},
                   {"dim", op.attributes.integer("dim")},
                   {"start", op.attributes.integer("start")},
                   {"step", op.attributes.integer("step")}}));
}
void select(Backward& b, const Op& op) {
  const Dims shape = b.type(b.in()).shape;
  b.give(0, b.add("select_backward", {b.grad()},
                  {{"shape", shape},
                   {"dim", op.attributes.integer("dim")},
                   {"index", op.attributes.integer("index")}}));
}
/// Parts that nothing depends on count as zeros.
std::vector<TensorIndex> parts(Backward& b, const Op& op) {
  std::vector<TensorIndex> gradients;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    TensorIndex g = b.grad(i);
    if (g == graph_none) {
      const TensorType type = b.type(op.outputs[i]);
      g = b.add("zeros", {}, {{"shape", type.shape}, {"dtype", std::string(name(type.element))}});
    }
    gradients.push_back(g);
  }
  return gradients;
}
void split(Backward& b, const Op& op) {
  b.give(0, b.add("cat", parts(b, op), {{"dim", op.attributes.integer("dim")}}));
}
void unbind(Backward& b, const Op& op) {
  b.give(0, b.add("stack", parts(b, op), {{"dim", op.attributes.integer("dim")}}));
}
void copied(Backward& b, const Op&) {
  b.give(0, b.grad());
}
void cat(Backward& b, const Op& op) {
  const std::int64_t dim = op.attributes.integer("dim");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Dims shape = b.type(b.in(i)).shape;
    const std::int64_t size = shape[dimension(dim, shape.rank())];
    if (b.needs(i))
      b.give(i, b.add("slice", {b.grad()}, {{"dim", dim}, {"start", start}, {"end", start + size}}));
    start += size;
  }
}
void stack(Backward& b, const Op& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (b.needs(i))
      b.give(i, b.add("select", {b.grad()},
                      {{"dim", op.attributes.integer("dim")}, {"index", static_cast<std::int64_t>(i)}}));
}
/// What was written over has no gradient.
void copy_into(Backward& b, const Op&) {
  if (b.needs(1)) b.give(1, b.grad());
}

}  // namespace

std::vector<GradientEntry> view_gradients() {
  return {{"view", reshaped},    {"reshape", reshaped},   {"flatten", reshaped},
          {"squeeze", reshaped}, {"unsqueeze", reshaped}, {"transpose", transpose},
          {"permute", permute},  {"expand", expand},      {"slice", slice},
          {"select", select},    {"split", split},        {"chunk", split},
          {"unbind", unbind},    {"contiguous", copied},  {"clone", copied},
          {"to", copied},        {"type_as", copied},     {"cat", cat},
          {"stack", stack},      {"copy_", copy_into},    {"zeros", nullptr},
          {"empty", nullptr},    {"arange", nullptr},     {"to_device", nullptr}};
}

}  // namespace gpusim
