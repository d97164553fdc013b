// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions and attention.
#include <algorithm>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

std::string shapes(const TensorType& a, const TensorType& b) {
  return to_string(a.shape) + " and " + to_string(b.shape);
}

void want_one_dtype(const OpView& op, std::size_t a, std::size_t b) {
  if (op.in(a).element != op.in(b).element)
    throw ShapeError("operands of dtype " + std::string(name(op.in(a).element)) + " and " +
                         std::string(name(op.in(b).element)) + " cannot be multiplied",
                     "cast one with to(x, dtype) or type_as(x, other)");
  if (!product_dtype(op.in(a).element))
    throw ShapeError("there are no products of dtype " + std::string(name(op.in(a).element)));
}

Dtype dtype_of(const TensorType& type, const GpuSpec& gpu) {
  return matmul_dtype(type.element, gpu);
}

double doubled(std::initializer_list<std::int64_t> factors) {
  double product = 2;
  for (const std::int64_t f : factors) product *= static_cast<double>(f);
  return product;
}

/// A matrix whose columns are contiguous: the transposed look at one of rows.
bool is_matrix_of_columns(const TensorType& type) {
  return type.shape.rank() == 2 && type.strides[0] == 1 && type.strides[1] >= type.shape[0] &&
         type.shape[1] > 1;
}

// --- linear.

std::vector<OwnTensor> own_linear(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("a scalar has no last dimension");
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  if (!op.attributes.has("features"))
    throw ShapeError("needs its number of outputs, or a weight",
                     "linear(x, 4 * d_model) or linear(x, weight=wte)");
  const std::int64_t features = op.attributes.integer("features");
  if (features < 1)
    throw ShapeError("the number of outputs must be at least 1, not " + std::to_string(features));
  own.push_back(
      {.input = 1, .type = contiguous_tensor(op.in().element, Dims{features, op.in().shape.back()})});
  if (!op.has(2) && op.attributes.flag("bias"))
    own.push_back({.input = 2, .type = contiguous_tensor(op.in().element, Dims{features})});
  return own;
}
std::vector<MadeTensor> infer_linear(const OpView& op) {
  const TensorType& w = op.in(1);
  if (w.shape.rank() != 2 || w.shape[1] != op.in().shape.back())
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) +
                         " does not go with a weight of shape " + to_string(w.shape),
                     "a weight is [outputs, inputs]");
  if (op.has(2) && elements(op.in(2)) != w.shape[0])
    throw ShapeError("a bias of shape " + to_string(op.in(2).shape) + " for " + std::to_string(w.shape[0]) +
                     " outputs");
  want_one_dtype(op, 0, 1);
  Dims shape = op.in().shape;
  shape[shape.rank() - 1] = w.shape[0];
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
Flops flops_linear(const OpView& op) {
  return Flops(doubled({elements(op.in()), op.in(1).shape[0]}));
}
std::vector<EagerCall> eager_linear(const OpView& op, const GpuSpec& gpu) {
  const TensorType& x = op.in();
  const std::int64_t k = x.shape.back();
  MatrixProduct product{.m = elements(x) / k,
                        .n = op.in(1).shape[0],
                        .k = k,
                        .dtype = dtype_of(x, gpu),
                        .output = dtype_of(op.out(), gpu)};
  EagerCall call{.host_op = op.has(2) ? "linear_bias" : "linear", .work = {}};
  const bool rows = is_matrix_of_rows(x);
  if (!rows) call.work.push_back(copy_work(x, contiguous_tensor(x.element, x.shape)));
  // The library adds the bias where the rows are laid out plainly; otherwise the framework does, in place.
  const bool fused = op.has(2) && (x.shape.rank() == 2 || is_contiguous(x));
  if (fused) product.epilogue = Epilogue::Bias;
  call.work.push_back(product);
  if (op.has(2) && !fused) {
    const TensorType* operands[]{&op.out(), &op.in(2)};
    const TensorType* result[]{&op.out()};
    call.work.push_back(
        pointwise_work({operands, op.attributes, result}, lane_cycles(AluFunction::Add, gpu)));
  }
  return {call};
}

// --- matmul, bmm.

struct Batched {
  Dims batch;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

Batched batched(const OpView& op) {
  const Dims& a = op.in().shape;
  const Dims& b = op.in(1).shape;
  if (a.rank() < 2 || b.rank() < 2)
    throw ShapeError("takes tensors of at least two dimensions, not " + shapes(op.in(), op.in(1)));
  if (a.back() != b.back(1))
    throw ShapeError("shapes " + shapes(op.in(), op.in(1)) + " do not go together: " +
                     std::to_string(a.back()) + " columns and " + std::to_string(b.back(1)) + " rows");
  Dims batch_a;
  Dims batch_b;
  for (int i = 0; i + 2 < a.rank(); ++i) batch_a.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) batch_b.push_back(b[i]);
  return {broadcast(batch_a, batch_b), a.back(1), b.back(), a.back()};
}

std::vector<MadeTensor> infer_matmul(const OpView& op) {
  const Batched p = batched(op);
  want_one_dtype(op, 0, 1);
  Dims shape = p.batch;
  if (shape.rank() + 2 > Dims::rank_max) throw ShapeError("a tensor has at most 8 dimensions (rank_max)");
  shape.push_back(p.m);
  shape.push_back(p.n);
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
Flops flops_matmul(const OpView& op) {
  const Batched p = batched(op);
  return Flops(doubled({element_count(p.batch), p.m, p.n, p.k}));
}

/// An operand with the batch dimensions of the product, broadcast ones with a stride of 0.
TensorType operand_of_batch(const TensorType& operand, const Dims& batch) {
  TensorType full = operand;
  full.shape = batch;
  full.strides = batch;
  const int more = batch.rank() + 2 - operand.shape.rank();
  for (int i = 0; i < batch.rank(); ++i) {
    const bool there = i >= more;
    full.strides[i] = there && operand.shape[i - more] == batch[i] ? operand.strides[i - more] : 0;
  }
  for (int i = 2; i >= 1; --i) {
    full.shape.push_back(operand.shape.back(i - 1));
    full.strides.push_back(operand.strides.back(i - 1));
  }
  return full;
}
void add_operand_copy(const TensorType& operand, const Dims& batch, std::vector<KernelWork>& work) {
  if (!copied_for_product(operand, batch)) return;
  const TensorType full = operand_of_batch(operand, batch);
  work.push_back(copy_work(full, contiguous_tensor(full.element, full.shape)));
}

std::vector<EagerCall> eager_matmul(const OpView& op, const GpuSpec& gpu) {
  const Batched p = batched(op);
  EagerCall call{.host_op = "matmul", .work = {}};
  MatrixProduct product{.batch = element_count(p.batch),
                        .m = p.m,
                        .n = p.n,
                        .k = p.k,
                        .dtype = dtype_of(op.in(), gpu),
                        .output = dtype_of(op.out(), gpu)};
  if (op.in(1).shape.rank() == 2) {
    // The rows of all batches against one matrix: one plain product.
    product.m *= product.batch;
    product.batch = 1;
    call.host_op = "mm";
    // The library reads a matrix by rows or by columns.
    product.left_transposed = is_matrix_of_columns(op.in());
    product.right_transposed = is_matrix_of_columns(op.in(1));
    if (!product.left_transposed && !is_matrix_of_rows(op.in()))
      call.work.push_back(copy_work(op.in(), contiguous_tensor(op.in().element, op.in().shape)));
  } else {
    add_operand_copy(op.in(), p.batch, call.work);
    add_operand_copy(op.in(1), p.batch, call.work);
    if (op.in().shape.rank() == 3 && op.in(1).shape.rank() == 3) call.host_op = "bmm";
  }
  call.work.push_back(product);
  return {call};
}

std::vector<MadeTensor> infer_addmm(const OpView& op) {
  const Dims& a = op.in(1).shape;
  const Dims& b = op.in(2).shape;
  if (a.rank() != 2 || b.rank() != 2 || a[1] != b[0])
    throw ShapeError("shapes " + shapes(op.in(1), op.in(2)) + " cannot be multiplied");
  want_one_dtype(op, 1, 2);
  const Dims shape{a[0], b[1]};
  if (!(broadcast(op.in().shape, shape) == shape))
    throw ShapeError("a bias of shape " + to_string(op.in().shape) + " cannot be added to " +
                     to_string(shape));
  return {{.type = contiguous_tensor(op.in(1).element, shape)}};
}
Flops flops_addmm(const OpView& op) {
  return Flops(doubled({op.in(1).shape[0], op.in(1).shape[1], op.in(2).shape[1]}));
}
std::vector<EagerCall> eager_addmm(const OpView& op, const GpuSpec& gpu) {
  const bool row = elements(op.in()) == op.out().shape[1];
  EagerCall call{.host_op = "addmm", .work = {}};
  // A bias of one row is the library's epilogue; a full matrix is copied into the result first and added to.
  if (!row) call.work.push_back(copy_work(op.in(), op.out()));
  call.work.push_back(MatrixProduct{.m = op.out().shape[0],
                                    .n = op.out().shape[1],
                                    .k = op.in(1).shape[1],
                                    .dtype = dtype_of(op.in(1), gpu),
                                    .output = dtype_of(op.out(), gpu),
                                    .epilogue = row ? Epilogue::Bias : Epilogue::None});
  return {call};
}

// --- Grouped products (mixture of experts): rows sorted by group, one weight per group.

std::vector<OwnTensor> own_grouped(const OpView& op) {
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  if (op.in().shape.rank() != 2)
    throw ShapeError("takes rows of shape [rows, inputs], not " + to_string(op.in().shape));
  if (!op.attributes.has("features") || !op.attributes.has("groups"))
    throw ShapeError("needs groups and features, or a weight",
                     "grouped_mm(rows, features=4 * d_model, groups=experts)");
  const std::int64_t groups = op.attributes.integer("groups");
  const std::int64_t features = op.attributes.integer("features");
  if (groups < 1 || features < 1) throw ShapeError("groups and features must be at least 1");
  own.push_back(
      {.input = 1, .type = contiguous_tensor(op.in().element, Dims{groups, op.in().shape[1], features})});
  return own;
}
std::vector<MadeTensor> infer_grouped(const OpView& op) {
  const Dims& w = op.in(1).shape;
  if (op.in().shape.rank() != 2 || w.rank() != 3 || w[1] != op.in().shape[1])
    throw ShapeError("shapes " + shapes(op.in(), op.in(1)) + " do not go together",
                     "rows [rows, inputs], weight [groups, inputs, outputs]");
  want_one_dtype(op, 0, 1);
  return {{.type = contiguous_tensor(op.in().element, Dims{op.in().shape[0], w[2]})}};
}
Flops flops_grouped(const OpView& op) {
  return Flops(doubled({op.in().shape[0], op.in().shape[1], op.in(1).shape[2]}));
}
std::vector<EagerCall> eager_grouped(const OpView& op, const GpuSpec& gpu) {
  return {{.host_op = "grouped_mm",
           .work = {GroupedProduct{.groups = op.in(1).shape[0],
                                   .rows = op.in().shape[0],
                                   .n = op.in(1).shape[2],
                                   .k = op.in().shape[1],
                                   .dtype = dtype_of(op.in(), gpu)}}}};
}

// --- Convolution.

Convolution convolution(const OpView& op) {
  return convolution_of(op.in(), op.in(1), op.attributes);
}
std::vector<OwnTensor> own_conv(const OpView& op) {
  const Dims& x = op.in().shape;
  if (x.rank() != 4)
    throw ShapeError("takes [batch, channels, height, width], not a tensor of shape " + to_string(x));
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  if (!op.attributes.has("channels") || !op.attributes.has("kernel"))
    throw ShapeError("needs channels and kernel, or a weight", "conv2d(x, 64, kernel=3, padding=1)");
  const std::int64_t channels = op.attributes.integer("channels");
  const std::int64_t kernel = op.attributes.integer("kernel");
  const std::int64_t groups = op.attributes.integer("groups");
  if (channels < 1 || kernel < 1 || groups < 1)
    throw ShapeError("channels, kernel and groups must be at least 1");
  if (x[1] % groups != 0 || channels % groups != 0)
    throw ShapeError(std::to_string(x[1]) + " and " + std::to_string(channels) +
                     " channels do not divide into " + std::to_string(groups) + " groups");
  const Dims shape{channels, x[1] / groups, kernel, kernel};
  own.push_back({.input = 1,
                 .type = {.element = op.in().element,
                          .shape = shape,
                          .strides = is_channels_last(op.in()) ? channels_last_strides(shape)
                                                               : contiguous_strides(shape)}});
  if (!op.has(2) && op.attributes.flag("bias"))
    own.push_back({.input = 2, .type = contiguous_tensor(op.in().element, Dims{channels})});
  return own;
}
std::vector<MadeTensor> infer_conv(const OpView& op) {
  const Dims& w = op.in(1).shape;
  if (op.in().shape.rank() != 4)
    throw ShapeError("takes [batch, channels, height, width], not a tensor of shape " +
                     to_string(op.in().shape));
  for (const char* attribute : {"stride", "dilation", "groups"})
    if (op.attributes.integer(attribute) < 1)
      throw ShapeError(std::string(attribute) + " must be at least 1");
  if (op.attributes.integer("padding") < 0) throw ShapeError("padding must not be negative");
  if (w.rank() != 4 || w[1] * op.attributes.integer("groups") != op.in().shape[1])
    throw ShapeError("an input of shape " + to_string(op.in().shape) +
                     " does not go with a weight of shape " + to_string(w));
  want_one_dtype(op, 0, 1);
  const Convolution c = convolution(op);
  if (c.out_height() < 1 || c.out_width() < 1)
    throw ShapeError("a kernel of " + std::to_string(w[2]) + " does not fit into an image of " +
                     to_string(op.in().shape));
  const Dims shape{c.batch, c.out_channels, c.out_height(), c.out_width()};
  return {{.type = {.element = op.in().element,
                    .shape = shape,
                    .strides = is_channels_last(op.in()) ? channels_last_strides(shape)
                                                         : contiguous_strides(shape)}}};
}
Flops flops_conv(const OpView& op) {
  const Dims& w = op.in(1).shape;
  return Flops(doubled({elements(op.out()), w[1], w[2], w[3]}));
}
std::vector<EagerCall> eager_conv(const OpView& op, const GpuSpec& gpu) {
  Convolution work = convolution(op);
  work.dtype = convolution_dtype(op.in().element, gpu);
  EagerCall call{.host_op = "conv2d", .work = {work}};
  // Kernels that want the channels last work on a copy of the input, and write to one of the output.
  if (!is_channels_last(op.in()) && (op.in(1).shape[2] > 1 || op.attributes.integer("stride") > 1))
    call.workspace = dense_bytes(op.in());
  if (op.has(2)) {
    // The framework adds the bias itself, in place.
    TensorType bias = op.in(2);
    bias.shape = Dims{1, op.out().shape[1], 1, 1};
    bias.strides = contiguous_strides(bias.shape);
    const TensorType* operands[]{&op.out(), &bias};
    const TensorType* result[]{&op.out()};
    call.work.push_back(
        pointwise_work({operands, op.attributes, result}, lane_cycles(AluFunction::Add, gpu)));
  }
  return {call};
}

// --- Attention.

std::vector<MadeTensor> infer_attention(const OpView& op) {
  const Dims& q = op.in().shape;
  const Dims& k = op.in(1).shape;
  const Dims& v = op.in(2).shape;
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    throw ShapeError("takes tensors of shape [batch, heads, length, head size], not " + to_string(q) + ", " +
                     to_string(k) + " and " + to_string(v));
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3])
    throw ShapeError("shapes " + to_string(q) + ", " + to_string(k) + " and " + to_string(v) +
                     " do not go together");
  if (q[1] % k[1] != 0 || (q[1] != k[1] && !op.attributes.flag("enable_gqa")))
    throw ShapeError(std::to_string(q[1]) + " heads of queries and " + std::to_string(k[1]) + " of keys",
                     q[1] % k[1] == 0 ? "set enable_gqa=true for grouped queries" : "");
  if (op.has(3)) {
    const Dims scores{q[0], q[1], q[2], k[2]};
    if (!(broadcast(op.in(3).shape, scores) == scores))
      throw ShapeError("a mask of shape " + to_string(op.in(3).shape) + " does not go with scores of shape " +
                       to_string(scores));
  }
  want_one_dtype(op, 0, 1);
  want_one_dtype(op, 1, 2);
  // The result lies in memory as the queries do: heads next to the head size where they come from one
  // projection, and the sequence outermost where it was so (nn.MultiheadAttention).
  Dims shape = q;
  shape[3] = v[3];
  Dims strides = contiguous_strides(shape);
  if (q[1] > 1 && q[2] > 1 ? op.in().strides[2] > op.in().strides[1] : op.in().strides[1] != q[2] * q[3])
    strides = Dims{q[2] * q[1] * v[3], v[3], q[1] * v[3], 1};
  if (q[0] > 1 && q[2] > 1 && op.in().strides[2] > op.in().strides[0])
    strides = Dims{q[1] * v[3], v[3], q[0] * q[1] * v[3], 1};
  std::vector<MadeTensor> made{{.type = {.element = op.in().element, .shape = shape, .strides = strides}}};
  // The logarithm of each row's sum, from which backward makes the scores again.
  if (op.attributes.flag("save"))
    made.push_back({.type = contiguous_tensor(ElementType::Fp32, Dims{q[0], q[1], q[2]})});
  return made;
}
Flops flops_attention(const OpView& op) {
  const Dims& q = op.in().shape;
  const Dims& v = op.in(2).shape;
  // Two products over all scores, causal or not, as torch counts.
  return Flops(doubled({q[0], q[1], q[2], v[2], q[3]}) + doubled({q[0], q[1], q[2], v[2], v[3]}));
}
std::vector<EagerCall> eager_attention(const OpView& op, const GpuSpec& gpu) {
  const Dims& q = op.in().shape;
  const Dims& k = op.in(1).shape;
  EagerCall call{.host_op = op.has(3) ? "sdpa_mask" : "sdpa", .work = {}};
  // A mask of truth values becomes one of 0 and -inf first.
  const bool masked = op.has(3) && op.in(3).element == ElementType::Bool;
  if (q[2] == 1)
    call.work.push_back(AttentionDecode{.batch = q[0],
                                        .heads = q[1],
                                        .kv_heads = k[1],
                                        .kv_length = k[2],
                                        .head_dim = q[3],
                                        .dtype = convolution_dtype(op.in().element, gpu),
                                        .masked = masked});
  else
    call.work.push_back(Attention{.batch = q[0],
                                  .heads = q[1],
                                  .kv_heads = k[1],
                                  .query_length = q[2],
                                  .kv_length = k[2],
                                  .head_dim = q[3],
                                  .causal = op.attributes.flag("is_causal"),
                                  .dtype = convolution_dtype(op.in().element, gpu),
                                  .masked = masked});
  return {call};
}

}  // namespace

bool copied_for_product(const TensorType& operand, const Dims& batch) {
  const TensorType full = operand_of_batch(operand, batch);
  const auto folded =
      view_strides(full, Dims{element_count(batch), operand.shape.back(1), operand.shape.back()});
  const bool readable = operand.strides.back() == 1 || operand.strides.back(1) == 1 ||
                        operand.shape.back() == 1 || operand.shape.back(1) == 1;
  return !(folded && readable);
}

Dtype matmul_dtype(ElementType type, const GpuSpec& gpu) {
  return *product_dtype(type, gpu.tf32_products && gpu.peak.find(Dtype::Tf32).has_value());
}

Dtype convolution_dtype(ElementType type, const GpuSpec& gpu) {
  return *product_dtype(type, gpu.peak.find(Dtype::Tf32).has_value());
}

Convolution convolution_of(const TensorType& x, const TensorType& weight, const Attributes& attributes) {
  return {.batch = x.shape[0],
          .channels = x.shape[1],
          .height = x.shape[2],
          .width = x.shape[3],
          .out_channels = weight.shape[0],
          .kernel_height = weight.shape[2],
          .kernel_width = weight.shape[3],
          .stride = attributes.integer("stride"),
          .padding = attributes.integer("padding"),
          .dilation = attributes.integer("dilation"),
          .groups = attributes.integer("groups"),
          .dtype = *product_dtype(x.element, true),
          .channels_last = is_channels_last(x)};
}

// --- Products of 8 bits, scaled: torch._scaled_mm.

std::vector<MadeTensor> infer_scaled(const OpView& op) {
  const TensorType& a = op.in(0);
  const TensorType& b = op.in(1);
  if (size_of(a.element) != 1 || size_of(b.element) != 1)
    throw ShapeError("scaled_mm multiplies tensors of 8 bits, not " + std::string(name(a.element)) + " and " +
                     std::string(name(b.element)));
  if (b.shape.rank() != 2 || b.shape[1] != a.shape.back())
    throw ShapeError(
        "a tensor of shape " + to_string(a.shape) + " does not go with one of shape " + to_string(b.shape),
        "the second one is [outputs, inputs]");
  Dims shape = a.shape;
  shape[shape.rank() - 1] = b.shape[0];
  return {{.type = contiguous_tensor(*find_element_type(op.attributes.word("dtype")), shape)}};
}
Flops flops_scaled(const OpView& op) {
  return Flops(doubled({elements(op.in()), op.in(1).shape[0]}));
}
std::vector<EagerCall> eager_scaled(const OpView& op, const GpuSpec& gpu) {
  const std::int64_t k = op.in().shape.back();
  MatrixProduct product{.m = elements(op.in()) / k,
                        .n = op.in(1).shape[0],
                        .k = k,
                        .dtype = dtype_of(op.in(), gpu),
                        .output = dtype_of(op.out(), gpu)};
  if (op.has(4)) product.epilogue = Epilogue::Bias;
  EagerCall call{.host_op = op.has(4) ? "linear_bias" : "mm", .work = {}};
  call.work.push_back(product);
  return {call};
}

std::vector<OpKind> product_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) {
    if (kind.fusion == FusionClass::Pointwise) kind.fusion = FusionClass::Product;
    kind.recompute = RecomputeClass::Expensive;
    kinds.push_back(std::move(kind));
  };
  add({.name = "linear",
       .help = "x times the transposed weight, plus a bias",
       .inputs = {{"x"}, {"weight", InputNeed::Own}, {"bias", InputNeed::Own}},
       .attributes = {{"features", Integer, {}, true}, {"bias", Flag, true}},
       .own = own_linear,
       .infer = infer_linear,
       .flops = flops_linear,
       .eager = eager_linear,
       .module = true});
  add({.name = "matmul",
       .help = "Matrix product, broadcast over leading dimensions",
       .inputs = {{"a"}, {"b"}},
       .attributes = {},
       .infer = infer_matmul,
       .flops = flops_matmul,
       .eager = eager_matmul});
  add({.name = "addmm",
       .help = "bias + a times b",
       .inputs = {{"bias"}, {"a"}, {"b"}},
       .attributes = {},
       .infer = infer_addmm,
       .flops = flops_addmm,
       .eager = eager_addmm});
  add({.name = "scaled_mm",
       .help = "Product of 8-bit tensors with their scales; of_a and of_b are what they were cast from",
       .inputs = {{"a"},
                  {"b"},
                  {"scale_a"},
                  {"scale_b"},
                  {"bias", InputNeed::Optional},
                  {"of_a", InputNeed::Optional},
                  {"of_b", InputNeed::Optional}},
       .attributes = {{"dtype", Word, {}, true}},
       .infer = infer_scaled,
       .flops = flops_scaled,
       .eager = eager_scaled});
  add({.name = "grouped_mm",
       .help = "Rows sorted by group times the weight of their group",
       .inputs = {{"x"}, {"weight", InputNeed::Own}, {"ends", InputNeed::Optional}},
       .attributes = {{"features", Integer, {}, true}, {"groups", Integer, {}, true}},
       .own = own_grouped,
       .infer = infer_grouped,
       .flops = flops_grouped,
       .eager = eager_grouped});
  add({.name = "conv2d",
       .help = "2D convolution of [batch, channels, height, width]",
       .inputs = {{"x"}, {"weight", InputNeed::Own}, {"bias", InputNeed::Own}},
       .attributes = {{"channels", Integer, {}, true},
                      {"kernel", Integer, {}, true},
                      {"stride", Integer, std::int64_t{1}},
                      {"padding", Integer, std::int64_t{0}},
                      {"dilation", Integer, std::int64_t{1}},
                      {"groups", Integer, std::int64_t{1}},
                      {"bias", Flag, true}},
       .own = own_conv,
       .infer = infer_conv,
       .flops = flops_conv,
       .eager = eager_conv,
       .module = true});
  add({.name = "scaled_dot_product_attention",
       .help = "Fused attention (flash); with one query a decode kernel",
       .fusion = FusionClass::Library,
       .inputs = {{"q"}, {"k"}, {"v"}, {"attn_mask", InputNeed::Optional}},
       .attributes = {{"is_causal", Flag, false}, {"enable_gqa", Flag, false}, {"save", Flag, false}},
       .infer = infer_attention,
       .flops = flops_attention,
       .eager = eager_attention});
  return kinds;
}

}  // namespace gpusim
