// SPDX-License-Identifier: Apache-2.0
// Ops that look at the same memory in another way, and the copies they become where that is not possible.
#include <algorithm>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

MadeTensor view_of_first(Dims shape, Dims strides, ElementType element) {
  return {.type = {.element = element, .shape = shape, .strides = strides}, .view_of = 0};
}

/// The shape with its one -1 filled in.
Dims resolved_shape(const OpView& op) {
  Dims shape = op.attributes.dims("shape");
  const std::int64_t count = elements(op.in());
  int open = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      if (open >= 0) throw ShapeError("only one size can be -1");
      open = i;
      continue;
    }
    if (shape[i] < 1)
      throw ShapeError("sizes must be at least 1, not " + std::to_string(shape[i]),
                       "-1 stands for what is left over");
    if (__builtin_mul_overflow(known, shape[i], &known))
      throw ShapeError("the sizes multiply to more than 2^63");
  }
  if (open >= 0) {
    if (count % known != 0)
      throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " does not divide into " +
                       to_string(shape));
    shape[open] = count / known;
    known *= shape[open];
  }
  if (known != count)
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " (" + std::to_string(count) +
                     " elements) cannot be seen as " + to_string(shape) + " (" + std::to_string(known) + ")");
  return shape;
}

std::vector<MadeTensor> infer_view(const OpView& op) {
  const Dims shape = resolved_shape(op);
  const auto strides = view_strides(op.in(), shape);
  if (!strides)
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " and strides " +
                         to_string(op.in().strides) + " cannot be seen as " + to_string(shape) +
                         " without a copy",
                     "use reshape(), which copies, or contiguous() before");
  return {view_of_first(shape, *strides, op.in().element)};
}

std::vector<MadeTensor> reshaped(const OpView& op, const Dims& shape) {
  if (const auto strides = view_strides(op.in(), shape))
    return {view_of_first(shape, *strides, op.in().element)};
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}

std::vector<MadeTensor> infer_reshape(const OpView& op) {
  return reshaped(op, resolved_shape(op));
}

std::vector<MadeTensor> infer_flatten(const OpView& op) {
  const Dims& old = op.in().shape;
  const int start = dimension(op.attributes.integer("start"), old.rank());
  const int end = dimension(op.attributes.integer("end"), old.rank());
  if (end < start) throw ShapeError("the last dimension to flatten comes before the first");
  Dims shape;
  std::int64_t folded = 1;
  for (int i = 0; i < old.rank(); ++i) {
    if (i < start || i > end) {
      shape.push_back(old[i]);
      continue;
    }
    folded *= old[i];
    if (i == end) shape.push_back(folded);
  }
  return reshaped(op, shape);
}

/// What a reshape that had to copy runs: a copy of the input, in the input's shape, into rows.
std::vector<EagerCall> eager_reshape(const OpView& op, const GpuSpec&) {
  const bool copied = !view_strides(op.in(), op.out().shape).has_value();
  if (!copied) return {{.host_op = op.out().shape == op.in().shape ? "view" : "reshape", .work = {}}};
  return {{.host_op = "reshape_copy",
           .work = {copy_work(op.in(), contiguous_tensor(op.in().element, op.in().shape))}}};
}

template <const char* Name>
std::vector<EagerCall> eager_named(const OpView&, const GpuSpec&) {
  return {{.host_op = Name, .work = {}}};
}

std::vector<MadeTensor> infer_transpose(const OpView& op) {
  Dims shape = op.in().shape;
  Dims strides = op.in().strides;
  const int a = dimension(op.attributes.integer("dim0"), shape.rank());
  const int b = dimension(op.attributes.integer("dim1"), shape.rank());
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return {view_of_first(shape, strides, op.in().element)};
}

std::vector<MadeTensor> infer_permute(const OpView& op) {
  const Dims& order = op.attributes.dims("dims");
  const Dims& old = op.in().shape;
  if (order.rank() != old.rank())
    throw ShapeError("an order of " + std::to_string(order.rank()) + " dimensions for a tensor of " +
                     std::to_string(old.rank()));
  Dims shape;
  Dims strides;
  std::array<bool, Dims::rank_max> used{};
  for (const std::int64_t d : order) {
    const int from = dimension(d, old.rank());
    if (used[static_cast<std::size_t>(from)])
      throw ShapeError("dimension " + std::to_string(from) + " is named twice");
    used[static_cast<std::size_t>(from)] = true;
    shape.push_back(old[from]);
    strides.push_back(op.in().strides[from]);
  }
  return {view_of_first(shape, strides, op.in().element)};
}

std::vector<MadeTensor> infer_unsqueeze(const OpView& op) {
  const TensorType& in = op.in();
  if (in.shape.full())
    throw ShapeError("a tensor has at most " + std::to_string(Dims::rank_max) + " dimensions (rank_max)");
  const int at = dimension(op.attributes.integer("dim"), in.shape.rank() + 1);
  Dims shape;
  Dims strides;
  for (int i = 0; i <= in.shape.rank(); ++i) {
    if (i == at) {
      shape.push_back(1);
      strides.push_back(i < in.shape.rank() ? in.strides[i] * in.shape[i] : 1);
    }
    if (i < in.shape.rank()) {
      shape.push_back(in.shape[i]);
      strides.push_back(in.strides[i]);
    }
  }
  return {view_of_first(shape, strides, in.element)};
}

std::vector<MadeTensor> infer_squeeze(const OpView& op) {
  const TensorType& in = op.in();
  const int at = dimension(op.attributes.integer("dim"), in.shape.rank());
  Dims shape;
  Dims strides;
  for (int i = 0; i < in.shape.rank(); ++i) {
    if (i == at && in.shape[i] == 1) continue;
    shape.push_back(in.shape[i]);
    strides.push_back(in.strides[i]);
  }
  return {view_of_first(shape, strides, in.element)};
}

std::vector<MadeTensor> infer_expand(const OpView& op) {
  const TensorType& in = op.in();
  Dims shape = op.attributes.dims("shape");
  if (shape.rank() < in.shape.rank())
    throw ShapeError("a tensor of shape " + to_string(in.shape) + " cannot be expanded to " +
                     to_string(shape));
  Dims strides = shape;
  const int more = shape.rank() - in.shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    const bool there = i >= more;
    const std::int64_t old = there ? in.shape[i - more] : 1;
    if (shape[i] == -1 && there) shape[i] = old;
    if (shape[i] < 1 || (old != 1 && shape[i] != old))
      throw ShapeError("a tensor of shape " + to_string(in.shape) + " cannot be expanded to " +
                           to_string(op.attributes.dims("shape")),
                       "only dimensions of size 1 grow");
    strides[i] = there && shape[i] == old ? in.strides[i - more] : 0;
  }
  return {view_of_first(shape, strides, in.element)};
}

std::vector<MadeTensor> infer_select(const OpView& op) {
  const TensorType& in = op.in();
  if (in.shape.empty()) throw ShapeError("a scalar has no dimension to select from");
  const int at = dimension(op.attributes.integer("dim"), in.shape.rank());
  std::int64_t index = op.attributes.integer("index");
  if (index < -in.shape[at] || index >= in.shape[at])
    throw ShapeError("index " + std::to_string(index) + " is outside of dimension " + std::to_string(at) +
                     " of " + to_string(in.shape));
  Dims shape;
  Dims strides;
  for (int i = 0; i < in.shape.rank(); ++i) {
    if (i == at) continue;
    shape.push_back(in.shape[i]);
    strides.push_back(in.strides[i]);
  }
  return {view_of_first(shape, strides, in.element)};
}

std::vector<MadeTensor> infer_slice(const OpView& op) {
  const TensorType& in = op.in();
  const int at = dimension(op.attributes.integer("dim"), in.shape.rank());
  const std::int64_t size = in.shape[at];
  const auto clamped = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t start = clamped(op.attributes.integer("start"));
  const std::int64_t end = op.attributes.has("end") ? clamped(op.attributes.integer("end")) : size;
  const std::int64_t step = op.attributes.integer("step");
  if (step < 1) throw ShapeError("the step of a slice must be at least 1");
  if (end <= start)
    throw ShapeError("the slice from " + std::to_string(start) + " to " + std::to_string(end) +
                     " of dimension " + std::to_string(at) + " of " + to_string(in.shape) + " is empty");
  Dims shape = in.shape;
  Dims strides = in.strides;
  shape[at] = (end - start + step - 1) / step;
  strides[at] *= step;
  return {view_of_first(shape, strides, in.element)};
}

std::vector<MadeTensor> cut(const OpView& op, const std::vector<std::int64_t>& sizes, int at) {
  std::vector<MadeTensor> parts;
  for (const std::int64_t size : sizes) {
    Dims shape = op.in().shape;
    shape[at] = size;
    parts.push_back(view_of_first(shape, op.in().strides, op.in().element));
  }
  return parts;
}

std::vector<MadeTensor> infer_split(const OpView& op) {
  const Dims& old = op.in().shape;
  const Dims& wanted = op.attributes.dims("sizes");
  const int at = dimension(op.attributes.integer("dim"), old.rank());
  std::vector<std::int64_t> sizes;
  if (wanted.rank() == 1) {
    if (wanted[0] < 1)
      throw ShapeError("parts must have a size of at least 1, not " + std::to_string(wanted[0]));
    if (old[at] / wanted[0] > 1024) throw ShapeError("a split into more than 1024 parts (split_parts_max)");
    for (std::int64_t left = old[at]; left > 0; left -= wanted[0]) sizes.push_back(std::min(left, wanted[0]));
  } else {
    std::int64_t sum = 0;
    for (const std::int64_t size : wanted) {
      if (size < 1) throw ShapeError("parts must have a size of at least 1, not " + std::to_string(size));
      sizes.push_back(size);
      sum += size;
    }
    if (sum != old[at])
      throw ShapeError("the parts " + to_string(wanted) + " add up to " + std::to_string(sum) +
                       ", but dimension " + std::to_string(at) + " of " + to_string(old) + " has " +
                       std::to_string(old[at]));
  }
  return cut(op, sizes, at);
}

std::vector<MadeTensor> infer_chunk(const OpView& op) {
  const Dims& old = op.in().shape;
  const int at = dimension(op.attributes.integer("dim"), old.rank());
  const std::int64_t chunks = op.attributes.integer("chunks");
  if (chunks < 1 || chunks > 1024)
    throw ShapeError("a tensor is cut into 1 to 1024 chunks, not " + std::to_string(chunks));
  const std::int64_t each = (old[at] + chunks - 1) / chunks;
  std::vector<std::int64_t> sizes;
  for (std::int64_t left = old[at]; left > 0; left -= each) sizes.push_back(std::min(left, each));
  return cut(op, sizes, at);
}

std::vector<MadeTensor> infer_unbind(const OpView& op) {
  const TensorType& in = op.in();
  if (in.shape.empty()) throw ShapeError("a scalar has no dimension to take apart");
  const int at = dimension(op.attributes.integer("dim"), in.shape.rank());
  if (in.shape[at] > 1024) throw ShapeError("a tensor of more than 1024 parts (split_parts_max)");
  Dims shape;
  Dims strides;
  for (int i = 0; i < in.shape.rank(); ++i) {
    if (i == at) continue;
    shape.push_back(in.shape[i]);
    strides.push_back(in.strides[i]);
  }
  return std::vector<MadeTensor>(static_cast<std::size_t>(in.shape[at]),
                                 view_of_first(shape, strides, in.element));
}

std::vector<MadeTensor> infer_contiguous(const OpView& op) {
  const TensorType& in = op.in();
  const bool last = op.attributes.flag("channels_last");
  const Dims wanted = last ? channels_last_strides(in.shape) : contiguous_strides(in.shape);
  if (last ? is_channels_last(in) : is_contiguous(in))
    return {view_of_first(in.shape, in.strides, in.element)};
  return {{.type = {.element = in.element, .shape = in.shape, .strides = wanted}}};
}

std::vector<EagerCall> eager_contiguous(const OpView& op, const GpuSpec&) {
  const bool last = op.attributes.flag("channels_last");
  if (last ? is_channels_last(op.in()) : is_contiguous(op.in())) return {{.host_op = "no_op", .work = {}}};
  return {{.host_op = "contiguous_copy", .work = {copy_work(op.in(), op.out())}}};
}

constexpr char view_name[] = "view";
constexpr char transpose_name[] = "transpose";
constexpr char permute_name[] = "permute";
constexpr char unsqueeze_name[] = "unsqueeze";
constexpr char expand_name[] = "expand";
constexpr char select_name[] = "select";
constexpr char slice_name[] = "slice";
constexpr char split_name[] = "split";
constexpr char chunk_name[] = "chunk";
constexpr char unbind_name[] = "unbind";

}  // namespace

std::vector<OpKind> view_ops() {
  const auto view = [](std::string_view name, std::string_view help, std::vector<OpAttribute> attributes,
                       std::vector<MadeTensor> (*infer)(const OpView&),
                       std::vector<EagerCall> (*eager)(const OpView&, const GpuSpec&)) {
    OpKind kind;
    kind.name = name;
    kind.help = help;
    kind.fusion = FusionClass::View;
    kind.recompute = RecomputeClass::Free;
    kind.inputs = {{"x"}};
    kind.attributes = std::move(attributes);
    kind.infer = infer;
    kind.eager = eager;
    return kind;
  };
  using enum AttributeType;
  const AttributeValue last = std::int64_t{-1};
  const AttributeValue first = std::int64_t{0};
  return {
      view("view", "The same elements in another shape; an error where that needs a copy", {{"shape", Dims}},
           infer_view, eager_named<view_name>),
      view("reshape", "The same elements in another shape, copied where needed", {{"shape", Dims}},
           infer_reshape, eager_reshape),
      view("flatten", "Folds neighbouring dimensions into one",
           {{"start", Integer, first}, {"end", Integer, last}}, infer_flatten, eager_reshape),
      view("transpose", "Swaps two dimensions", {{"dim0", Integer}, {"dim1", Integer}}, infer_transpose,
           eager_named<transpose_name>),
      view("permute", "Reorders the dimensions", {{"dims", Dims}}, infer_permute, eager_named<permute_name>),
      view("unsqueeze", "Adds a dimension of size 1", {{"dim", Integer}}, infer_unsqueeze,
           eager_named<unsqueeze_name>),
      view("squeeze", "Drops a dimension of size 1", {{"dim", Integer}}, infer_squeeze,
           eager_named<unsqueeze_name>),
      view("expand", "Repeats along dimensions of size 1 without a copy", {{"shape", Dims}}, infer_expand,
           eager_named<expand_name>),
      view("select", "One place of a dimension, which goes away", {{"dim", Integer}, {"index", Integer}},
           infer_select, eager_named<select_name>),
      view("slice", "Part of a dimension",
           {{"dim", Integer},
            {"start", Integer, first},
            {"end", Integer, {}, true},
            {"step", Integer, std::int64_t{1}}},
           infer_slice, eager_named<slice_name>),
      view("split", "Cuts a dimension into parts of one size, or of the sizes given",
           {{"sizes", Dims}, {"dim", Integer, last}}, infer_split, eager_named<split_name>),
      view("chunk", "Cuts a dimension into so many parts", {{"chunks", Integer}, {"dim", Integer, last}},
           infer_chunk, eager_named<chunk_name>),
      view("unbind", "All places of a dimension, which goes away", {{"dim", Integer, first}}, infer_unbind,
           eager_named<unbind_name>),
      view("contiguous", "Laid out row by row (or channels last), copied where it is not",
           {{"channels_last", Flag, false}}, infer_contiguous, eager_contiguous),
  };
}

}  // namespace gpusim
