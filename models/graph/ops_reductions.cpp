// SPDX-License-Identifier: Apache-2.0
// Sums and other reductions, norms, softmax, losses, pooling.
#include <algorithm>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

// --- Over any dimensions.

/// The dimensions that a reduction goes over; all if none are given.
std::array<bool, Dims::rank_max> reduced(const OpView& op) {
  std::array<bool, Dims::rank_max> over{};
  const int rank = op.in().shape.rank();
  if (!op.attributes.has("dim")) {
    for (int i = 0; i < rank; ++i) over[static_cast<std::size_t>(i)] = true;
    return over;
  }
  for (const std::int64_t d : op.attributes.dims("dim"))
    over[static_cast<std::size_t>(dimension(d, rank))] = true;
  return over;
}

Dims reduced_shape(const OpView& op) {
  const auto over = reduced(op);
  const bool keep = op.attributes.flag("keepdim");
  Dims shape;
  for (int i = 0; i < op.in().shape.rank(); ++i) {
    if (!over[static_cast<std::size_t>(i)])
      shape.push_back(op.in().shape[i]);
    else if (keep)
      shape.push_back(1);
  }
  return shape;
}

std::vector<MadeTensor> infer_reduction(const OpView& op) {
  return {{.type = contiguous_tensor(op.in().element, reduced_shape(op))}};
}
std::vector<MadeTensor> infer_sum(const OpView& op) {
  const ElementType in = op.in().element;
  return {{.type = contiguous_tensor(is_floating(in) ? in : ElementType::Int64, reduced_shape(op))}};
}
std::vector<MadeTensor> infer_mean(const OpView& op) {
  if (!is_floating(op.in().element)) throw ShapeError("the mean of integers needs a cast before");
  return infer_reduction(op);
}
std::vector<MadeTensor> infer_any(const OpView& op) {
  return {{.type = contiguous_tensor(ElementType::Bool, reduced_shape(op))}};
}
std::vector<MadeTensor> infer_argmax(const OpView& op) {
  return {{.type = contiguous_tensor(ElementType::Int64, reduced_shape(op))}};
}

/// Along the last dimensions: rows. Along the first, or in the middle: columns. Along all: one number.
KernelWork reduction_work(const OpView& op, RowReduction::Kind kind) {
  const auto over = reduced(op);
  const TensorType& in = op.in();
  const std::int64_t kept = elements(op.out());
  const std::int64_t all = elements(in);
  const Dtype from = kernel_dtype(in.element);
  const Dtype to = kernel_dtype(op.out().element);
  // What matters is how the reduced elements lie in memory: next to each other or not.
  bool innermost = false;
  for (int i = 0; i < in.shape.rank(); ++i)
    if (in.shape[i] > 1 && in.strides[i] == 1) innermost = over[static_cast<std::size_t>(i)];
  if (kept == 1 && kind != RowReduction::Kind::ArgMax) return FullReduction{.elements = all, .input = from};
  if (innermost || all == kept || kind == RowReduction::Kind::ArgMax)
    return RowReduction{.kind = kind,
                        .rows = kept,
                        .columns = all / std::max<std::int64_t>(kept, 1),
                        .input = from,
                        .output = to};
  return ColumnReduction{.rows = all / kept, .columns = kept, .input = from, .output = to};
}

constexpr std::string_view reduction_hosts[]{"sum", "mean", "amax", "amin", "any"};
template <std::size_t Which>
std::vector<EagerCall> eager_reduction(const OpView& op, const GpuSpec&) {
  return {{.host_op = reduction_hosts[Which], .work = {reduction_work(op, RowReduction::Kind::Sum)}}};
}
/// Sizes as of the sum; both results in the input's dtype.
std::vector<MadeTensor> infer_var_mean(const OpView& op) {
  const std::vector<MadeTensor> one = infer_mean(op);
  return {one.front(), one.front()};
}
std::vector<EagerCall> eager_var_mean(const OpView& op, const GpuSpec&) {
  return {{.host_op = "mean", .work = {reduction_work(op, RowReduction::Kind::LayerNorm)}}};
}
std::vector<EagerCall> eager_argmax(const OpView& op, const GpuSpec&) {
  return {{.host_op = "argmax", .work = {reduction_work(op, RowReduction::Kind::ArgMax)}}};
}

// --- Along the last dimension, keeping the shape.

RowReduction rows_of(const OpView& op, RowReduction::Kind kind, std::int64_t columns) {
  return {.kind = kind,
          .rows = elements(op.in()) / columns,
          .columns = columns,
          .input = kernel_dtype(op.in().element),
          .output = kernel_dtype(op.out().element)};
}

std::vector<MadeTensor> infer_softmax(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("a scalar has no dimension");
  dimension(op.attributes.integer("dim"), op.in().shape.rank());
  if (!is_floating(op.in().element)) throw ShapeError("softmax is for floating tensors");
  ElementType out = op.in().element;
  if (op.attributes.has("dtype")) out = *find_element_type(op.attributes.word("dtype"));
  return {{.type = contiguous_tensor(out, op.in().shape)}};
}
template <RowReduction::Kind Kind>
std::vector<EagerCall> eager_softmax(const OpView& op, const GpuSpec&) {
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  EagerCall call{.host_op = "softmax", .work = {}};
  if (!is_contiguous(op.in()))
    call.work.push_back(copy_work(op.in(), contiguous_tensor(op.in().element, op.in().shape)));
  call.work.push_back(rows_of(op, Kind, op.in().shape[at]));
  return {call};
}

std::vector<OwnTensor> own_norm(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("a scalar cannot be normalised");
  std::vector<OwnTensor> own;
  if (!op.attributes.flag("affine")) return own;
  const TensorType type = contiguous_tensor(
      op.attributes.has("dtype") ? *find_element_type(op.attributes.word("dtype")) : op.in().element,
      gpusim::Dims{op.in().shape.back()});
  if (!op.has(1)) {
    own.push_back({.input = 1, .type = type});
    if (op.inputs.size() > 2 && !op.has(2) && op.attributes.flag("bias"))
      own.push_back({.input = 2, .type = type});
  }
  return own;
}
/// Adds what a norm keeps for backward: so many statistics in fp32.
void add_statistics(const OpView& op, const gpusim::Dims& shape, int count, std::vector<MadeTensor>& made) {
  if (!op.attributes.flag("save")) return;
  for (int i = 0; i < count; ++i) made.push_back({.type = contiguous_tensor(ElementType::Fp32, shape)});
}
template <bool Rms>
std::vector<MadeTensor> infer_norm(const OpView& op) {
  for (std::size_t i = 1; i < op.inputs.size(); ++i)
    if (op.has(i) && elements(op.in(i)) != op.in().shape.back())
      throw ShapeError("weights of shape " + to_string(op.in(i).shape) + " for rows of " +
                       std::to_string(op.in().shape.back()));
  std::vector<MadeTensor> made{{.type = contiguous_tensor(op.in().element, op.in().shape)}};
  gpusim::Dims rows = op.in().shape;
  rows[rows.rank() - 1] = 1;
  add_statistics(op, rows, Rms ? 1 : 2, made);
  return made;
}
template <bool Rms>
std::vector<EagerCall> eager_norm(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = Rms ? "rms_norm" : "layer_norm", .work = {}};
  if (!is_contiguous(op.in()))
    call.work.push_back(copy_work(op.in(), contiguous_tensor(op.in().element, op.in().shape)));
  call.work.push_back(
      rows_of(op, Rms ? RowReduction::Kind::RmsNorm : RowReduction::Kind::LayerNorm, op.in().shape.back()));
  return {call};
}

// --- Over channels.

void want_channels(const OpView& op) {
  if (op.in().shape.rank() < 3)
    throw ShapeError("takes [batch, channels, ...], not a tensor of shape " + to_string(op.in().shape));
}
std::int64_t spatial(const TensorType& type) {
  std::int64_t product = 1;
  for (int i = 2; i < type.shape.rank(); ++i) product *= type.shape[i];
  return product;
}

std::vector<OwnTensor> own_batch_norm(const OpView& op) {
  want_channels(op);
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  const TensorType type = contiguous_tensor(op.in().element, gpusim::Dims{op.in().shape[1]});
  own.push_back({.input = 1, .type = type});
  own.push_back({.input = 2, .type = type});
  own.push_back({.input = 3, .type = type, .role = Role::Buffer});
  own.push_back({.input = 4, .type = type, .role = Role::Buffer});
  if (op.attributes.flag("training"))
    own.push_back(
        {.input = 5, .type = contiguous_tensor(ElementType::Int64, gpusim::Dims{}), .role = Role::Buffer});
  return own;
}
std::vector<OwnTensor> own_group_norm(const OpView& op) {
  want_channels(op);
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  const TensorType type = contiguous_tensor(op.in().element, gpusim::Dims{op.in().shape[1]});
  own.push_back({.input = 1, .type = type});
  own.push_back({.input = 2, .type = type});
  return own;
}
std::vector<MadeTensor> infer_channel_norm(const OpView& op) {
  want_channels(op);
  std::vector<MadeTensor> made{
      {.type = {.element = op.in().element,
                .shape = op.in().shape,
                .strides = is_channels_last(op.in()) ? op.in().strides : contiguous_strides(op.in().shape)}}};
  if (op.attributes.flag("save") && !op.attributes.flag("training"))
    throw ShapeError("save=true needs training=true: with given statistics there is nothing to keep");
  add_statistics(op, gpusim::Dims{op.in().shape[1]}, 2, made);
  return made;
}
std::vector<MadeTensor> infer_group_norm(const OpView& op) {
  want_channels(op);
  const std::int64_t groups = op.attributes.integer("groups");
  if (groups < 1 || op.in().shape[1] % groups != 0)
    throw ShapeError(std::to_string(op.in().shape[1]) + " channels do not divide into " +
                     std::to_string(groups) + " groups");
  std::vector<MadeTensor> made{{.type = contiguous_tensor(op.in().element, op.in().shape)}};
  add_statistics(op, gpusim::Dims{op.in().shape[0], groups}, 2, made);
  return made;
}
std::vector<EagerCall> eager_batch_norm(const OpView& op, const GpuSpec&) {
  const bool training = op.attributes.flag("training");
  EagerCall norm{.host_op = "batch_norm",
                 .work = {BatchNorm{.batch = op.in().shape[0],
                                    .channels = op.in().shape[1],
                                    .spatial = spatial(op.in()),
                                    .dtype = kernel_dtype(op.in().element),
                                    .training = training,
                                    .channels_last = is_channels_last(op.in())}}};
  // The module counts the batches that it has tracked.
  if (!op.has(5)) return {norm};
  return {{.host_op = "add_", .work = {TinyKernel{}}}, norm};
}
std::vector<EagerCall> eager_group_norm(const OpView& op, const GpuSpec&) {
  return {{.host_op = "group_norm",
           .work = {GroupNorm{.batch = op.in().shape[0],
                              .channels = op.in().shape[1],
                              .spatial = spatial(op.in()),
                              .groups = op.attributes.integer("groups"),
                              .dtype = kernel_dtype(op.in().element),
                              .channels_last = is_channels_last(op.in())}}}};
}

// --- Pooling.

std::int64_t pooled(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t padding) {
  const std::int64_t out = (size + 2 * padding - window) / stride + 1;
  if (window < 1 || stride < 1 || padding < 0 || size + 2 * padding < window || out < 1)
    throw ShapeError("a window of " + std::to_string(window) + " does not fit into " + std::to_string(size));
  return out;
}
void want_image(const OpView& op) {
  if (op.in().shape.rank() != 4)
    throw ShapeError("takes [batch, channels, height, width], not a tensor of shape " +
                     to_string(op.in().shape));
}
MadeTensor image(const OpView& op, std::int64_t height, std::int64_t width) {
  const gpusim::Dims shape{op.in().shape[0], op.in().shape[1], height, width};
  return {.type = {.element = op.in().element,
                   .shape = shape,
                   .strides =
                       is_channels_last(op.in()) ? channels_last_strides(shape) : contiguous_strides(shape)}};
}
std::vector<MadeTensor> infer_pool(const OpView& op) {
  want_image(op);
  const std::int64_t window = op.attributes.integer("kernel");
  const std::int64_t stride = op.attributes.has("stride") ? op.attributes.integer("stride") : window;
  const std::int64_t padding = op.attributes.integer("padding");
  return {image(op, pooled(op.in().shape[2], window, stride, padding),
                pooled(op.in().shape[3], window, stride, padding))};
}
std::vector<MadeTensor> infer_adaptive_pool(const OpView& op) {
  want_image(op);
  const std::int64_t size = op.attributes.integer("size");
  if (size < 1) throw ShapeError("the output size must be at least 1");
  return {image(op, size, size)};
}
/// With the place of the largest in its image, which backward asks for.
std::vector<MadeTensor> infer_max_pool(const OpView& op) {
  std::vector<MadeTensor> made = infer_pool(op);
  if (op.attributes.flag("save")) {
    made.push_back(made.front());
    made.back().type.element = ElementType::Int64;
  }
  return made;
}
template <bool Max>
std::vector<EagerCall> eager_pool(const OpView& op, const GpuSpec&) {
  const std::int64_t window = op.attributes.integer("kernel");
  return {{.host_op = Max ? "max_pool2d" : "avg_pool2d",
           .work = {Pooling{.outputs = elements(op.out()),
                            .inputs = elements(op.in()),
                            .window = window * window,
                            .dtype = kernel_dtype(op.in().element),
                            .channels_last = is_channels_last(op.in())}}}};
}
std::vector<EagerCall> eager_adaptive_pool(const OpView& op, const GpuSpec&) {
  // To one pixel it is the mean over height and width.
  if (op.out().shape[2] == 1 && op.out().shape[3] == 1) {
    const std::int64_t kept = op.in().shape[0] * op.in().shape[1];
    const std::int64_t over = op.in().shape[2] * op.in().shape[3];
    const Dtype dtype = kernel_dtype(op.in().element);
    if (is_channels_last(op.in()) && op.in().shape[1] > 1)
      return {{.host_op = "adaptive_avg_pool2d",
               .work = {ColumnReduction{.rows = over, .columns = kept, .input = dtype, .output = dtype}}}};
    return {{.host_op = "adaptive_avg_pool2d",
             .work = {RowReduction{.kind = RowReduction::Kind::Sum,
                                   .rows = kept,
                                   .columns = over,
                                   .input = dtype,
                                   .output = dtype}}}};
  }
  return {{.host_op = "adaptive_avg_pool2d",
           .work = {Pooling{.outputs = elements(op.out()),
                            .inputs = elements(op.in()),
                            .window = std::max<std::int64_t>(elements(op.in()) / elements(op.out()), 1),
                            .dtype = kernel_dtype(op.in().element),
                            .channels_last = is_channels_last(op.in())}}}};
}

// --- Losses.

void want_targets(const OpView& op) {
  if (op.in().shape.rank() != 2)
    throw ShapeError("takes logits of shape [rows, classes], not " + to_string(op.in().shape),
                     "view(logits, [-1, vocab])");
  if (op.in(1).shape.rank() != 1 || op.in(1).shape[0] != op.in().shape[0])
    throw ShapeError("takes one label a row, but the labels have shape " + to_string(op.in(1).shape));
  if (is_floating(op.in(1).element)) throw ShapeError("labels must be integers");
}
std::vector<MadeTensor> infer_loss(const OpView& op) {
  want_targets(op);
  return {{.type = contiguous_tensor(op.in().element, {})}};
}
EagerCall nll(const OpView& op) {
  return {
      .host_op = "nll_loss",
      .work = {LossGather{
          .rows = op.in().shape[0], .classes = op.in().shape[1], .dtype = kernel_dtype(op.in().element)}}};
}
std::vector<EagerCall> eager_nll(const OpView& op, const GpuSpec&) {
  return {nll(op)};
}
std::vector<EagerCall> eager_cross_entropy(const OpView& op, const GpuSpec&) {
  RowReduction softmax = rows_of(op, RowReduction::Kind::LogSoftmax, op.in().shape[1]);
  return {{.host_op = "cross_entropy",
           .work = {softmax, nll(op).work.front()},
           .workspace = dense_bytes(op.in())}};
}

}  // namespace

std::vector<OpKind> reduction_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) {
    if (kind.fusion == FusionClass::Pointwise) kind.fusion = FusionClass::Reduction;
    kinds.push_back(std::move(kind));
  };
  const std::vector<OpAttribute> over{{"dim", AttributeType::Dims, {}, true}, {"keepdim", Flag, false}};
  add({.name = "sum",
       .help = "Sum over dimensions, or over all",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_sum,
       .eager = eager_reduction<0>});
  add({.name = "mean",
       .help = "Mean over dimensions, or over all",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_mean,
       .eager = eager_reduction<1>});
  add({.name = "var_mean",
       .help = "Variance (not of a sample) and mean over dimensions",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_var_mean,
       .eager = eager_var_mean});
  add({.name = "amax",
       .help = "Largest over dimensions",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_reduction,
       .eager = eager_reduction<2>});
  add({.name = "amin",
       .help = "Smallest over dimensions",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_reduction,
       .eager = eager_reduction<3>});
  add({.name = "any",
       .help = "Whether any is true",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_any,
       .eager = eager_reduction<4>});
  add({.name = "argmax",
       .help = "Place of the largest",
       .inputs = {{"x"}},
       .attributes = over,
       .infer = infer_argmax,
       .eager = eager_argmax});
  const std::vector<OpAttribute> along{{"dim", Integer, std::int64_t{-1}}, {"dtype", Element, {}, true}};
  add({.name = "softmax",
       .help = "Softmax along a dimension",
       .inputs = {{"x"}},
       .attributes = along,
       .infer = infer_softmax,
       .eager = eager_softmax<RowReduction::Kind::Softmax>});
  add({.name = "log_softmax",
       .help = "Logarithm of the softmax",
       .inputs = {{"x"}},
       .attributes = along,
       .infer = infer_softmax,
       .eager = eager_softmax<RowReduction::Kind::LogSoftmax>});
  add({.name = "layer_norm",
       .help = "LayerNorm over the last dimension, built in",
       .inputs = {{"x"}, {"weight", InputNeed::Own}, {"bias", InputNeed::Own}},
       .attributes = {{"affine", Flag, true},
                      {"bias", Flag, true},
                      {"dtype", Element, {}, true},
                      {"save", Flag, false}},
       .own = own_norm,
       .infer = infer_norm<false>,
       .eager = eager_norm<false>,
       .module = true});
  add({.name = "rms_norm",
       .help = "RMSNorm over the last dimension, built in",
       .inputs = {{"x"}, {"weight", InputNeed::Own}},
       .attributes = {{"affine", Flag, true}, {"dtype", Element, {}, true}, {"save", Flag, false}},
       .own = own_norm,
       .infer = infer_norm<true>,
       .eager = eager_norm<true>,
       .module = true});
  add({.name = "batch_norm",
       .help = "BatchNorm over [batch, channels, ...]",
       .inputs = {{"x"},
                  {"weight", InputNeed::Own},
                  {"bias", InputNeed::Own},
                  {"running_mean", InputNeed::Own},
                  {"running_var", InputNeed::Own},
                  {"num_batches_tracked", InputNeed::Own}},
       .attributes = {{"training", Flag, false}, {"save", Flag, false}},
       .own = own_batch_norm,
       .infer = infer_channel_norm,
       .eager = eager_batch_norm,
       .module = true});
  add({.name = "group_norm",
       .help = "GroupNorm over [batch, channels, ...]",
       .inputs = {{"x"}, {"weight", InputNeed::Own}, {"bias", InputNeed::Own}},
       .attributes = {{"groups", Integer}, {"save", Flag, false}},
       .own = own_group_norm,
       .infer = infer_group_norm,
       .eager = eager_group_norm,
       .module = true});
  const std::vector<OpAttribute> window{
      {"kernel", Integer}, {"stride", Integer, {}, true}, {"padding", Integer, std::int64_t{0}}};
  add({.name = "max_pool2d",
       .help = "Largest of each window",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = {{"kernel", Integer},
                      {"stride", Integer, {}, true},
                      {"padding", Integer, std::int64_t{0}},
                      {"save", Flag, false}},
       .infer = infer_max_pool,
       .eager = eager_pool<true>});
  add({.name = "avg_pool2d",
       .help = "Mean of each window",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = window,
       .infer = infer_pool,
       .eager = eager_pool<false>});
  add({.name = "adaptive_avg_pool2d",
       .help = "Means over equal parts of an image",
       .inputs = {{"x"}},
       .attributes = {{"size", Integer, std::int64_t{1}}},
       .infer = infer_adaptive_pool,
       .eager = eager_adaptive_pool});
  add({.name = "nll_loss",
       .help = "Mean of the negative log-probabilities of the labels",
       .inputs = {{"log_probabilities"}, {"labels"}},
       .attributes = {},
       .infer = infer_loss,
       .eager = eager_nll});
  add({.name = "cross_entropy",
       .help = "log_softmax and nll_loss",
       .inputs = {{"logits"}, {"labels"}},
       .attributes = {},
       .infer = infer_loss,
       .eager = eager_cross_entropy});
  return kinds;
}

}  // namespace gpusim
