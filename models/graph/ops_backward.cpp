// SPDX-License-Identifier: Apache-2.0
// What backward runs that no forward pass has, as autograd's formulas name it. Products have no op of their
// own there: their gradients are products.
#include <algorithm>
#include <utility>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

std::int64_t spatial(const TensorType& type) {
  std::int64_t product = 1;
  for (int i = 2; i < type.shape.rank(); ++i) product *= type.shape[i];
  return product;
}

TensorType like(const TensorType& type) {
  return is_channels_last(type) && !is_contiguous(type) ? TensorType{type.element, type.shape, type.strides}
                                                        : contiguous_tensor(type.element, type.shape);
}

// --- Element by element.

std::vector<MadeTensor> infer_pointwise(const OpView& op) {
  want_floating_gradient(op);
  want_same_shape(op, 1, "a tensor");
  return {{.type = {.element = op.in().element,
                    .shape = op.in().shape,
                    .strides = pointwise_strides(op.inputs, op.in().shape)}}};
}
std::vector<MadeTensor> infer_gelu_backward(const OpView& op) {
  const std::string& how = op.attributes.word("approximate");
  if (how != "none" && how != "tanh") throw ShapeError("approximate is 'none' or 'tanh', not '" + how + "'");
  return infer_pointwise(op);
}
std::vector<MadeTensor> infer_dropout_backward(const OpView& op) {
  const double p = op.attributes.number("p");
  if (!(p >= 0 && p < 1)) throw ShapeError("the share of dropped elements must be in [0, 1)");
  if (op.in(1).element != ElementType::Bool) throw ShapeError("the mask must be of dtype bool");
  return infer_pointwise(op);
}

std::vector<EagerCall> pointwise_call(const OpView& op, std::string_view host, double cycles,
                                      int divisions = 0) {
  Pointwise work = pointwise_work(op, cycles);
  work.divisions = divisions;
  return {{.host_op = host, .work = {work}}};
}
double times(AluFunction f, double count, const GpuSpec& gpu) {
  return count * lane_cycles(f, gpu);
}
std::vector<EagerCall> eager_threshold_backward(const OpView& op, const GpuSpec& gpu) {
  return pointwise_call(op, "threshold_backward", times(AluFunction::Add, 1, gpu));
}
std::vector<EagerCall> eager_gelu_backward(const OpView& op, const GpuSpec& gpu) {
  // By erf also the density, an exponential; by tanh its own derivative, which takes a few products.
  const bool tanh = op.attributes.word("approximate") == "tanh";
  const double cycles = tanh ? times(AluFunction::GeluTanh, 1, gpu) + times(AluFunction::Mul, 10, gpu)
                             : times(AluFunction::Gelu, 1, gpu) + times(AluFunction::Exp, 1, gpu);
  return pointwise_call(op, "gelu_backward", cycles);
}
std::vector<EagerCall> eager_silu_backward(const OpView& op, const GpuSpec& gpu) {
  return pointwise_call(op, "silu_backward",
                        times(AluFunction::Silu, 1, gpu) + times(AluFunction::Mul, 3, gpu), 1);
}
std::vector<EagerCall> eager_tanh_backward(const OpView& op, const GpuSpec& gpu) {
  return pointwise_call(op, "tanh_backward", times(AluFunction::Mul, 3, gpu));
}
std::vector<EagerCall> eager_sigmoid_backward(const OpView& op, const GpuSpec& gpu) {
  return pointwise_call(op, "sigmoid_backward", times(AluFunction::Mul, 3, gpu));
}
std::vector<EagerCall> eager_dropout_backward(const OpView& op, const GpuSpec& gpu) {
  return pointwise_call(op, "dropout_backward", times(AluFunction::Mul, 2, gpu));
}

// --- Softmax and losses.

std::vector<MadeTensor> infer_softmax_backward(const OpView& op) {
  want_floating_gradient(op);
  if (op.in().shape.empty()) throw ShapeError("a scalar has no dimension");
  dimension(op.attributes.integer("dim"), op.in().shape.rank());
  want_same_shape(op, 1, "a result");
  ElementType made = op.in().element;
  if (op.attributes.has("dtype")) made = *find_element_type(op.attributes.word("dtype"));
  return {{.type = contiguous_tensor(made, op.in().shape)}};
}
template <bool Log>
std::vector<EagerCall> eager_softmax_backward(const OpView& op, const GpuSpec& gpu) {
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  EagerCall call{.host_op = "softmax_backward", .work = {}};
  add_contiguous(op.in(), call.work);
  // Softmax's own gradient multiplies by the result in a kernel before; that of its logarithm needs nothing.
  if (!Log) call.work.push_back(pointwise_work(op, times(AluFunction::Mul, 1, gpu)));
  call.work.push_back(RowReduction{.kind = RowReduction::Kind::SoftmaxBackward,
                                   .rows = elements(op.in()) / op.in().shape[at],
                                   .columns = op.in().shape[at],
                                   .input = kernel_dtype(op.in().element),
                                   .output = kernel_dtype(op.out().element)});
  return {call};
}

std::vector<MadeTensor> infer_nll_loss_backward(const OpView& op) {
  want_floating_gradient(op);
  if (elements(op.in()) != 1)
    throw ShapeError("the gradient of a mean loss is one number, not of shape " + to_string(op.in().shape));
  const Dims& rows = op.in(1).shape;
  if (rows.rank() != 2)
    throw ShapeError("takes log-probabilities of shape [rows, classes], not " + to_string(rows));
  if (op.in(2).shape.rank() != 1 || op.in(2).shape[0] != rows[0])
    throw ShapeError("takes one label a row, but the labels have shape " + to_string(op.in(2).shape));
  want_indices(op, 2);
  return {{.type = contiguous_tensor(op.in(1).element, rows)}};
}
std::vector<EagerCall> eager_nll_loss_backward(const OpView& op, const GpuSpec&) {
  return {{.host_op = "nll_loss_backward",
           .work = {LossGather{.rows = op.out().shape[0],
                               .classes = op.out().shape[1],
                               .dtype = kernel_dtype(op.out().element),
                               .backward = true}}}};
}

// --- Norms.

template <bool Rms>
std::vector<MadeTensor> infer_norm_backward(const OpView& op) {
  want_floating_gradient(op);
  if (op.in().shape.empty()) throw ShapeError("a scalar cannot be normalised");
  want_same_shape(op, 1, "an input");
  constexpr std::size_t weight = Rms ? 3 : 4;
  const TensorType& x = op.in(1);
  for (std::size_t i = 2; i < weight; ++i)
    if (elements(op.in(i)) != row_count(x))
      throw ShapeError("statistics of shape " + to_string(op.in(i).shape) + " for " +
                       std::to_string(row_count(x)) + " rows");
  std::vector<MadeTensor> made{{.type = contiguous_tensor(x.element, x.shape)}};
  for (std::size_t i = weight; i < op.inputs.size(); ++i) {
    if (!op.has(i)) continue;
    if (elements(op.in(i)) != x.shape.back())
      throw ShapeError("weights of shape " + to_string(op.in(i).shape) + " for rows of " +
                       std::to_string(x.shape.back()));
    made.push_back({.type = contiguous_tensor(op.in(i).element, op.in(i).shape)});
  }
  return made;
}
template <bool Rms>
std::vector<EagerCall> eager_norm_backward(const OpView& op, const GpuSpec&) {
  const TensorType& x = op.in(1);
  EagerCall call{.host_op = Rms ? "rms_norm_backward" : "layer_norm_backward", .work = {}};
  add_contiguous(op.in(), call.work);
  add_contiguous(x, call.work);
  call.work.push_back(
      RowReduction{.kind = Rms ? RowReduction::Kind::RmsNormBackward : RowReduction::Kind::LayerNormBackward,
                   .rows = row_count(x),
                   .columns = x.shape.back(),
                   .input = kernel_dtype(x.element),
                   .output = kernel_dtype(op.out().element)});
  return {call};
}

std::vector<MadeTensor> infer_channel_norm_backward(const OpView& op, std::int64_t statistics) {
  want_floating_gradient(op);
  const TensorType& x = op.in(1);
  if (x.shape.rank() < 3)
    throw ShapeError("takes [batch, channels, ...], not a tensor of shape " + to_string(x.shape));
  want_same_shape(op, 1, "an input");
  for (std::size_t i = 2; i < 4; ++i)
    if (elements(op.in(i)) != statistics)
      throw ShapeError("statistics of shape " + to_string(op.in(i).shape) + ", not of " +
                       std::to_string(statistics) + " elements");
  if (elements(op.in(4)) != x.shape[1])
    throw ShapeError("weights of shape " + to_string(op.in(4).shape) + " for " + std::to_string(x.shape[1]) +
                     " channels");
  const TensorType weight = contiguous_tensor(op.in(4).element, op.in(4).shape);
  return {{.type = like(x)}, {.type = weight}, {.type = weight}};
}
std::vector<MadeTensor> infer_batch_norm_backward(const OpView& op) {
  return infer_channel_norm_backward(op, op.in(1).shape.rank() > 1 ? op.in(1).shape[1] : 0);
}
std::vector<MadeTensor> infer_group_norm_backward(const OpView& op) {
  const std::int64_t groups = op.attributes.integer("groups");
  const Dims& x = op.in(1).shape;
  if (groups < 1 || (x.rank() > 1 && x[1] % groups != 0))
    throw ShapeError("the channels of " + to_string(x) + " do not divide into " + std::to_string(groups) +
                     " groups");
  return infer_channel_norm_backward(op, x.rank() > 0 ? x[0] * groups : 0);
}
std::vector<EagerCall> eager_batch_norm_backward(const OpView& op, const GpuSpec&) {
  const TensorType& x = op.in(1);
  return {{.host_op = "batch_norm_backward",
           .work = {BatchNorm{.batch = x.shape[0],
                              .channels = x.shape[1],
                              .spatial = spatial(x),
                              .dtype = kernel_dtype(x.element),
                              .training = true,
                              .channels_last = is_channels_last(x),
                              .backward = true}}}};
}
std::vector<EagerCall> eager_group_norm_backward(const OpView& op, const GpuSpec&) {
  const TensorType& x = op.in(1);
  return {{.host_op = "group_norm_backward",
           .work = {GroupNorm{.batch = x.shape[0],
                              .channels = x.shape[1],
                              .spatial = spatial(x),
                              .groups = op.attributes.integer("groups"),
                              .dtype = kernel_dtype(x.element),
                              .channels_last = is_channels_last(x)}}}};
}

// --- Attention, convolutions, grouped products.

std::vector<MadeTensor> infer_attention_backward(const OpView& op) {
  want_floating_gradient(op);
  for (std::size_t i = 0; i < 5; ++i)
    if (op.in(i).shape.rank() != 4)
      throw ShapeError("takes tensors of shape [batch, heads, length, head size], not " +
                       to_string(op.in(i).shape));
  want_same_shape(op, 4, "a result");
  const Dims& q = op.in(1).shape;
  if (elements(op.in(5)) != q[0] * q[1] * q[2])
    throw ShapeError("one logarithm of a sum for each query, not of shape " + to_string(op.in(5).shape));
  // Each gradient lies in memory as what it belongs to, so that one projection's gradients can be joined.
  std::vector<MadeTensor> made;
  for (std::size_t i = 1; i < 4; ++i) {
    const TensorType* operand[]{op.inputs[i]};
    made.push_back({.type = {.element = op.in(i).element,
                             .shape = op.in(i).shape,
                             .strides = pointwise_strides(operand, op.in(i).shape)}});
  }
  return made;
}
Flops flops_attention_backward(const OpView& op) {
  const Dims& q = op.in(1).shape;
  const Dims& v = op.in(3).shape;
  // Five products over all scores: the scores again, the gradients of probabilities, values, queries, keys.
  const double scores = static_cast<double>(q[0] * q[1]) * static_cast<double>(q[2] * v[2]);
  return Flops(2 * scores * static_cast<double>(3 * q[3] + 2 * v[3]));
}
std::vector<EagerCall> eager_attention_backward(const OpView& op, const GpuSpec& gpu) {
  const Dims& q = op.in(1).shape;
  const Dims& k = op.in(2).shape;
  return {{.host_op = "sdpa_backward",
           .work = {AttentionBackward{.forward = {.batch = q[0],
                                                  .heads = q[1],
                                                  .kv_heads = k[1],
                                                  .query_length = q[2],
                                                  .kv_length = k[2],
                                                  .head_dim = q[3],
                                                  .causal = op.attributes.flag("is_causal"),
                                                  .dtype = convolution_dtype(op.in(1).element, gpu)}}}}};
}

std::vector<MadeTensor> infer_conv_backward(const OpView& op) {
  want_floating_gradient(op);
  const Dims& grad = op.in().shape;
  const Dims& x = op.in(1).shape;
  const Dims& w = op.in(2).shape;
  for (const Dims& shape : {grad, x, w})
    if (shape.rank() != 4)
      throw ShapeError("takes [batch, channels, height, width], not a tensor of shape " + to_string(shape));
  for (const char* attribute : {"stride", "dilation", "groups"})
    if (op.attributes.integer(attribute) < 1)
      throw ShapeError(std::string(attribute) + " must be at least 1");
  const Convolution c = convolution_of(op.in(1), op.in(2), op.attributes);
  if (!(grad == Dims{c.batch, c.out_channels, c.out_height(), c.out_width()}))
    throw ShapeError("a gradient of shape " + to_string(grad) + " does not belong to a convolution of " +
                     to_string(x) + " with " + to_string(w));
  std::vector<MadeTensor> made;
  if (op.attributes.flag("input_grad")) made.push_back({.type = like(op.in(1))});
  made.push_back({.type = like(op.in(2))});
  return made;
}
Flops flops_conv_backward(const OpView& op) {
  const Dims& w = op.in(2).shape;
  const double one = 2 * static_cast<double>(elements(op.in())) * static_cast<double>(w[1] * w[2] * w[3]);
  return Flops(op.attributes.flag("input_grad") ? 2 * one : one);
}
std::vector<EagerCall> eager_conv_backward(const OpView& op, const GpuSpec& gpu) {
  Convolution c = convolution_of(op.in(1), op.in(2), op.attributes);
  c.dtype = convolution_dtype(op.in(1).element, gpu);
  EagerCall call{.host_op = "conv2d_backward", .work = {}};
  if (op.attributes.flag("input_grad")) {
    c.pass = Convolution::Pass::InputGradient;
    call.work.push_back(c);
  }
  c.pass = Convolution::Pass::WeightGradient;
  call.work.push_back(c);
  return {call};
}

std::vector<MadeTensor> infer_grouped_backward(const OpView& op) {
  want_floating_gradient(op);
  const Dims& grad = op.in().shape;
  const Dims& x = op.in(1).shape;
  const Dims& w = op.in(2).shape;  // [groups, in, out]
  if (grad.rank() != 2 || x.rank() != 2 || w.rank() != 3 || grad[0] != x[0] || x[1] != w[1] ||
      grad[1] != w[2])
    throw ShapeError("a gradient of shape " + to_string(grad) + " does not belong to rows of shape " +
                     to_string(x) + " and weights of shape " + to_string(w));
  return {{.type = contiguous_tensor(op.in(1).element, x)}, {.type = contiguous_tensor(op.in(2).element, w)}};
}
Flops flops_grouped_backward(const OpView& op) {
  const Dims& x = op.in(1).shape;
  return Flops(4 * static_cast<double>(x[0]) * static_cast<double>(x[1]) *
               static_cast<double>(op.in().shape[1]));
}
std::vector<EagerCall> eager_grouped_backward(const OpView& op, const GpuSpec& gpu) {
  const Dims& w = op.in(2).shape;
  GroupedProduct input{.groups = w[0],
                       .rows = op.in().shape[0],
                       .n = w[1],
                       .k = w[2],
                       .dtype = matmul_dtype(op.in(1).element, gpu)};
  GroupedProduct weight = input;
  std::swap(weight.n, weight.k);
  return {{.host_op = "grouped_mm_backward", .work = {input}},
          {.host_op = "grouped_mm_backward", .work = {weight}}};
}

// --- Pooling.

void want_pooled(const OpView& op) {
  want_floating_gradient(op);
  const Dims& grad = op.in().shape;
  const Dims& x = op.in(1).shape;
  if (grad.rank() != 4 || x.rank() != 4 || grad[0] != x[0] || grad[1] != x[1])
    throw ShapeError("a gradient of shape " + to_string(grad) + " does not belong to an image of shape " +
                     to_string(x));
}
std::vector<MadeTensor> infer_pool_backward(const OpView& op) {
  want_pooled(op);
  return {{.type = like(op.in(1))}};
}
std::vector<MadeTensor> infer_max_pool_backward(const OpView& op) {
  want_pooled(op);
  want_same_shape(op, 2, "places");
  want_indices(op, 2);
  return {{.type = like(op.in(1))}};
}
Pooling pooling_backward(const OpView& op, std::int64_t window) {
  return {.outputs = elements(op.in()),
          .inputs = elements(op.in(1)),
          .window = window,
          .dtype = kernel_dtype(op.in().element),
          .channels_last = is_channels_last(op.in(1))};
}
template <bool Max>
std::vector<EagerCall> eager_pool_backward(const OpView& op, const GpuSpec&) {
  const std::int64_t window = op.attributes.integer("kernel");
  EagerCall call{.host_op = Max ? "max_pool2d_backward" : "avg_pool2d_backward", .work = {}};
  if (Max) call.work.push_back(fill_work(op.out()));
  Pooling pooling = pooling_backward(op, window * window);
  pooling.backward = Max;
  call.work.push_back(pooling);
  return {call};
}
std::vector<EagerCall> eager_adaptive_pool_backward(const OpView& op, const GpuSpec&) {
  return {{.host_op = "adaptive_avg_pool2d_backward",
           .work = {Pointwise{.elements = elements(op.out()),
                              .read = dense_bytes(op.in()),
                              .written = dense_bytes(op.out()),
                              .access = Pointwise::Access::Strided}}}};
}

}  // namespace

std::vector<OpKind> backward_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) { kinds.push_back(std::move(kind)); };
  const std::vector<OpInput> of_result{{"grad"}, {"result"}};
  const std::vector<OpInput> of_input{{"grad"}, {"x"}};
  add({.name = "threshold_backward",
       .help = "Gradient of relu",
       .inputs = of_result,
       .attributes = {},
       .infer = infer_pointwise,
       .eager = eager_threshold_backward});
  add({.name = "gelu_backward",
       .help = "Gradient of gelu",
       .inputs = of_input,
       .attributes = {{"approximate", Word, std::string("none")}},
       .infer = infer_gelu_backward,
       .eager = eager_gelu_backward});
  add({.name = "silu_backward",
       .help = "Gradient of silu",
       .inputs = of_input,
       .attributes = {},
       .infer = infer_pointwise,
       .eager = eager_silu_backward});
  add({.name = "tanh_backward",
       .help = "Gradient of tanh",
       .inputs = of_result,
       .attributes = {},
       .infer = infer_pointwise,
       .eager = eager_tanh_backward});
  add({.name = "sigmoid_backward",
       .help = "Gradient of sigmoid",
       .inputs = of_result,
       .attributes = {},
       .infer = infer_pointwise,
       .eager = eager_sigmoid_backward});
  add({.name = "dropout_backward",
       .help = "Gradient of dropout in training",
       .inputs = {{"grad"}, {"mask"}},
       .attributes = {{"p", Number, 0.1}},
       .infer = infer_dropout_backward,
       .eager = eager_dropout_backward});
  const std::vector<OpAttribute> along{{"dim", Integer, std::int64_t{-1}}, {"dtype", Element, {}, true}};
  add({.name = "softmax_backward",
       .help = "Gradient of softmax, of its dtype unless another is given",
       .fusion = FusionClass::Reduction,
       .inputs = of_result,
       .attributes = along,
       .infer = infer_softmax_backward,
       .eager = eager_softmax_backward<false>});
  add({.name = "log_softmax_backward",
       .help = "Gradient of log_softmax",
       .fusion = FusionClass::Reduction,
       .inputs = of_result,
       .attributes = along,
       .infer = infer_softmax_backward,
       .eager = eager_softmax_backward<true>});
  add({.name = "nll_loss_backward",
       .help = "Gradient of nll_loss: zeros but for the labels",
       .fusion = FusionClass::Scatter,
       .inputs = {{"grad"}, {"log_probabilities"}, {"labels"}},
       .attributes = {},
       .infer = infer_nll_loss_backward,
       .eager = eager_nll_loss_backward});
  add({.name = "layer_norm_backward",
       .help = "Gradients of layer_norm: of x, and of weight and bias where there are any",
       .fusion = FusionClass::Reduction,
       .inputs = {{"grad"},
                  {"x"},
                  {"mean"},
                  {"rstd"},
                  {"weight", InputNeed::Optional},
                  {"bias", InputNeed::Optional}},
       .attributes = {},
       .infer = infer_norm_backward<false>,
       .eager = eager_norm_backward<false>});
  add({.name = "rms_norm_backward",
       .help = "Gradients of rms_norm: of x, and of weight where there is one",
       .fusion = FusionClass::Reduction,
       .inputs = {{"grad"}, {"x"}, {"rstd"}, {"weight", InputNeed::Optional}},
       .attributes = {},
       .infer = infer_norm_backward<true>,
       .eager = eager_norm_backward<true>});
  const std::vector<OpInput> of_channels{{"grad"}, {"x"}, {"mean"}, {"rstd"}, {"weight"}};
  add({.name = "batch_norm_backward",
       .help = "Gradients of batch_norm in training: of x, weight and bias",
       .fusion = FusionClass::Reduction,
       .inputs = {{"grad"}, {"x"}, {"mean"}, {"invstd"}, {"weight"}},
       .attributes = {},
       .infer = infer_batch_norm_backward,
       .eager = eager_batch_norm_backward});
  add({.name = "group_norm_backward",
       .help = "Gradients of group_norm: of x, weight and bias",
       .fusion = FusionClass::Reduction,
       .inputs = of_channels,
       .attributes = {{"groups", Integer}},
       .infer = infer_group_norm_backward,
       .eager = eager_group_norm_backward});
  add({.name = "scaled_dot_product_attention_backward",
       .help = "Gradients of fused attention: of q, k and v",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Expensive,
       .inputs = {{"grad"}, {"q"}, {"k"}, {"v"}, {"out"}, {"logsumexp"}, {"attn_mask", InputNeed::Optional}},
       .attributes = {{"is_causal", Flag, false}, {"enable_gqa", Flag, false}},
       .infer = infer_attention_backward,
       .flops = flops_attention_backward,
       .eager = eager_attention_backward});
  add({.name = "conv2d_backward",
       .help = "Gradients of conv2d: of x unless input_grad=false, and of weight",
       .fusion = FusionClass::Product,
       .recompute = RecomputeClass::Expensive,
       .inputs = {{"grad"}, {"x"}, {"weight"}},
       .attributes = {{"stride", Integer, std::int64_t{1}},
                      {"padding", Integer, std::int64_t{0}},
                      {"dilation", Integer, std::int64_t{1}},
                      {"groups", Integer, std::int64_t{1}},
                      {"input_grad", Flag, true}},
       .infer = infer_conv_backward,
       .flops = flops_conv_backward,
       .eager = eager_conv_backward});
  add({.name = "grouped_mm_backward",
       .help = "Gradients of grouped_mm: of x and weight",
       .fusion = FusionClass::Product,
       .recompute = RecomputeClass::Expensive,
       .inputs = {{"grad"}, {"x"}, {"weight"}, {"ends", InputNeed::Optional}},
       .attributes = {},
       .infer = infer_grouped_backward,
       .flops = flops_grouped_backward,
       .eager = eager_grouped_backward});
  const std::vector<OpAttribute> window{
      {"kernel", Integer}, {"stride", Integer, {}, true}, {"padding", Integer, std::int64_t{0}}};
  add({.name = "max_pool2d_backward",
       .help = "Gradient of max_pool2d: added at the places of the largest",
       .fusion = FusionClass::Library,
       .inputs = {{"grad"}, {"x"}, {"indices"}},
       .attributes = window,
       .infer = infer_max_pool_backward,
       .eager = eager_pool_backward<true>});
  add({.name = "avg_pool2d_backward",
       .help = "Gradient of avg_pool2d",
       .fusion = FusionClass::Library,
       .inputs = of_input,
       .attributes = window,
       .infer = infer_pool_backward,
       .eager = eager_pool_backward<false>});
  add({.name = "adaptive_avg_pool2d_backward",
       .help = "Gradient of adaptive_avg_pool2d",
       .fusion = FusionClass::Library,
       .inputs = of_input,
       .attributes = {},
       .infer = infer_pool_backward,
       .eager = eager_adaptive_pool_backward});
  return kinds;
}

}  // namespace gpusim
