// SPDX-License-Identifier: Apache-2.0
// Ops element by element, casts and copies.
#include <algorithm>
#include <cmath>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

double cycles(const GpuSpec& gpu, std::initializer_list<AluFunction> functions) {
  double sum = 0;
  for (const AluFunction f : functions) sum += lane_cycles(f, gpu);
  return sum;
}

MadeTensor made(const OpView& op, const Dims& shape, ElementType element) {
  return {.type = {.element = element, .shape = shape, .strides = pointwise_strides(op.inputs, shape)}};
}

/// Functions of numbers that are not whole give floating results.
ElementType floating(ElementType type) {
  return is_floating(type) ? type : ElementType::Fp32;
}

// --- One tensor.

std::vector<MadeTensor> infer_same(const OpView& op) {
  return {made(op, op.in().shape, op.in().element)};
}
std::vector<MadeTensor> infer_floating(const OpView& op) {
  return {made(op, op.in().shape, floating(op.in().element))};
}
std::vector<MadeTensor> infer_truth(const OpView& op) {
  return {made(op, op.in().shape, ElementType::Bool)};
}
std::vector<MadeTensor> infer_in_place(const OpView& op) {
  if (op.has(1) && !(broadcast(op.in().shape, op.in(1).shape) == op.in().shape))
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " cannot take up one of " +
                     to_string(op.in(1).shape));
  return {{.type = op.in(), .view_of = 0}};
}

struct FunctionName {
  std::string_view name;
  std::string_view help;
  AluFunction function;
};
constexpr FunctionName functions[]{
    {"abs", "Absolute value", AluFunction::Add},      {"cos", "Cosine", AluFunction::Cos},
    {"erf", "Error function", AluFunction::Erf},      {"exp", "Exponential", AluFunction::Exp},
    {"log", "Natural logarithm", AluFunction::Log},   {"neg", "Sign changed", AluFunction::Add},
    {"reciprocal", "1 / x", AluFunction::Divide},     {"relu", "max(x, 0)", AluFunction::Add},
    {"rsqrt", "1 / sqrt(x)", AluFunction::Rsqrt},     {"sigmoid", "1 / (1 + exp(-x))", AluFunction::Sigmoid},
    {"silu", "x sigmoid(x)", AluFunction::Silu},      {"sin", "Sine", AluFunction::Sin},
    {"sqrt", "Square root", AluFunction::Rsqrt},      {"square", "x * x", AluFunction::Mul},
    {"tanh", "Hyperbolic tangent", AluFunction::Tanh}};

template <std::size_t Which>
std::vector<EagerCall> eager_function(const OpView& op, const GpuSpec& gpu) {
  Pointwise work = pointwise_work(op, lane_cycles(functions[Which].function, gpu));
  // Eager kernels divide exactly.
  const AluFunction f = functions[Which].function;
  work.divisions = f == AluFunction::Silu || f == AluFunction::Sigmoid || f == AluFunction::Divide ? 1 : 0;
  return {{.host_op = functions[Which].name, .work = {work}}};
}

std::vector<EagerCall> eager_gelu(const OpView& op, const GpuSpec& gpu) {
  const bool tanh = op.attributes.word("approximate") == "tanh";
  return {{.host_op = "gelu",
           .work = {pointwise_work(op, lane_cycles(tanh ? AluFunction::GeluTanh : AluFunction::Gelu, gpu))}}};
}
std::vector<MadeTensor> infer_gelu(const OpView& op) {
  const std::string& how = op.attributes.word("approximate");
  if (how != "none" && how != "tanh") throw ShapeError("approximate is 'none' or 'tanh', not '" + how + "'");
  return infer_same(op);
}

std::vector<EagerCall> eager_pow(const OpView& op, const GpuSpec& gpu) {
  const double exponent = op.attributes.number("exponent");
  // PyTorch has kernels of their own for squares, cubes, roots; others go over logarithms.
  double cost = 0;
  if (exponent == 2 || exponent == 3)
    cost = lane_cycles(AluFunction::Mul, gpu) * (exponent - 1);
  else if (exponent == 0.5 || exponent == -0.5)
    cost = lane_cycles(AluFunction::Rsqrt, gpu);
  else if (exponent == -1)
    cost = lane_cycles(AluFunction::Divide, gpu);
  else
    cost = cycles(gpu, {AluFunction::Log, AluFunction::Exp});
  return {{.host_op = "pow", .work = {pointwise_work(op, cost)}}};
}

std::vector<EagerCall> eager_cheap(const OpView& op, const GpuSpec& gpu, std::string_view host) {
  return {{.host_op = host, .work = {pointwise_work(op, lane_cycles(AluFunction::Add, gpu))}}};
}

// --- Two tensors, or a tensor and a number.

void want_operand(const OpView& op) {
  if (!op.has(1) && !op.attributes.has("scalar"))
    throw ShapeError("needs a second tensor or a number", "write it as a + b, a * 2.0");
  if (op.has(1) && op.attributes.has("scalar"))
    throw ShapeError("takes a second tensor or a number, not both");
}

ElementType result_type(const OpView& op) {
  const TensorType& a = op.in();
  if (op.has(1)) {
    // A tensor without dimensions gives way to one with dimensions, as a number does.
    const TensorType& b = op.in(1);
    if (a.shape.empty() != b.shape.empty() && is_floating(a.element) == is_floating(b.element))
      return a.shape.empty() ? b.element : a.element;
    return promote(a.element, b.element);
  }
  const double scalar = op.attributes.number("scalar");
  return scalar != std::floor(scalar) ? floating(a.element) : a.element;
}

Dims result_shape(const OpView& op) {
  return op.has(1) ? broadcast(op.in().shape, op.in(1).shape) : op.in().shape;
}

std::vector<MadeTensor> infer_arithmetic(const OpView& op) {
  want_operand(op);
  return {made(op, result_shape(op), result_type(op))};
}
std::vector<MadeTensor> infer_division(const OpView& op) {
  want_operand(op);
  return {made(op, result_shape(op), floating(result_type(op)))};
}
std::vector<MadeTensor> infer_floor_division(const OpView& op) {
  want_operand(op);
  if (op.attributes.has("scalar") && op.attributes.number("scalar") == 0)
    throw ShapeError("division by zero");
  return {made(op, result_shape(op), result_type(op))};
}
std::vector<EagerCall> eager_floor_divide(const OpView& op, const GpuSpec& gpu) {
  return {{.host_op = "floor_divide", .work = {pointwise_work(op, lane_cycles(AluFunction::Divide, gpu))}}};
}
std::vector<MadeTensor> infer_comparison(const OpView& op) {
  want_operand(op);
  return {made(op, result_shape(op), ElementType::Bool)};
}

constexpr std::string_view host_names[]{"add", "sub", "mul", "div", "maximum", "minimum", "eq",
                                        "ne",  "lt",  "le",  "gt",  "ge",      "add_",    "mul_"};

template <std::size_t Which>
std::vector<EagerCall> eager_binary(const OpView& op, const GpuSpec& gpu) {
  const AluFunction f = host_names[Which] == "div" && op.has(1) ? AluFunction::Divide : AluFunction::Add;
  Pointwise work = pointwise_work(op, lane_cycles(f, gpu));
  work.divisions = f == AluFunction::Divide ? 1 : 0;
  return {{.host_op = host_names[Which], .work = {work}}};
}

std::vector<EagerCall> eager_rdiv(const OpView& op, const GpuSpec& gpu) {
  // Python runs reciprocal() and then a product with the number.
  return {{.host_op = "reciprocal", .work = {pointwise_work(op, lane_cycles(AluFunction::Divide, gpu))}},
          {.host_op = "mul", .work = {pointwise_work(op, lane_cycles(AluFunction::Mul, gpu))}}};
}

std::vector<MadeTensor> infer_where(const OpView& op) {
  Dims shape = broadcast(op.in().shape, op.in(1).shape);
  ElementType element = op.in(1).element;
  if (op.has(2)) {
    shape = broadcast(shape, op.in(2).shape);
    element = promote(element, op.in(2).element);
  }
  if (op.in().element != ElementType::Bool) throw ShapeError("the condition must be of dtype bool");
  return {{.type = contiguous_tensor(element, shape)}};
}
std::vector<EagerCall> eager_where(const OpView& op, const GpuSpec& gpu) {
  std::vector<EagerCall> calls;
  // A number becomes a tensor of one element first.
  if (!op.has(2))
    calls.push_back(
        {.host_op = "full", .work = {fill_work({.element = op.in(1).element, .shape = {}, .strides = {}})}});
  calls.push_back({.host_op = "where", .work = {pointwise_work(op, lane_cycles(AluFunction::Add, gpu))}});
  return calls;
}

std::vector<MadeTensor> infer_masked_fill(const OpView& op) {
  if (op.in(1).element != ElementType::Bool) throw ShapeError("the mask must be of dtype bool");
  return {made(op, broadcast(op.in().shape, op.in(1).shape), op.in().element)};
}
std::vector<EagerCall> eager_masked_fill(const OpView& op, const GpuSpec& gpu) {
  // A copy of the tensor, which the driver makes where nothing changes, then the places of the mask are
  // overwritten in it.
  const KernelWork copied = is_dense(op.in()) && op.in().strides == op.out().strides
                                ? KernelWork(Memcpy{.bytes = dense_bytes(op.out())})
                                : copy_work(op.in(), op.out());
  const TensorType* operands[]{&op.out(), &op.in(1)};
  const TensorType* result[]{&op.out()};
  return {{.host_op = "masked_fill",
           .work = {copied,
                    pointwise_work({operands, op.attributes, result}, lane_cycles(AluFunction::Add, gpu))}}};
}

std::vector<MadeTensor> infer_addcmul(const OpView& op) {
  const Dims shape = broadcast(op.in().shape, broadcast(op.in(1).shape, op.in(2).shape));
  return {made(op, shape, promote(op.in().element, promote(op.in(1).element, op.in(2).element)))};
}
std::vector<EagerCall> eager_addcmul(const OpView& op, const GpuSpec& gpu) {
  return eager_cheap(op, gpu, "addcmul");
}
std::vector<EagerCall> eager_relu_in_place(const OpView& op, const GpuSpec& gpu) {
  return eager_cheap(op, gpu, "relu_");
}
std::vector<EagerCall> eager_clamp(const OpView& op, const GpuSpec& gpu) {
  return eager_cheap(op, gpu, "clamp");
}
std::vector<EagerCall> eager_not(const OpView& op, const GpuSpec& gpu) {
  return eager_cheap(op, gpu, "logical_not");
}

// --- Casts, copies, fills.

ElementType target_element(const OpView& op) {
  return *find_element_type(op.attributes.word("dtype"));
}
std::vector<MadeTensor> infer_to(const OpView& op) {
  const ElementType to = target_element(op);
  if (to == op.in().element) return {{.type = op.in(), .view_of = 0}};
  return {made(op, op.in().shape, to)};
}
std::vector<MadeTensor> infer_type_as(const OpView& op) {
  if (op.in(1).element == op.in().element) return {{.type = op.in(), .view_of = 0}};
  return {{.type = {.element = op.in(1).element,
                    .shape = op.in().shape,
                    .strides = pointwise_strides(op.inputs.first(1), op.in().shape)}}};
}
std::vector<EagerCall> eager_cast(const OpView& op, const GpuSpec&) {
  if (op.in().element == op.out().element) return {{.host_op = "no_op", .work = {}}};
  return {{.host_op = "to", .work = {copy_work(op.in(), op.out())}}};
}

std::vector<MadeTensor> infer_clone(const OpView& op) {
  return {made(op, op.in().shape, op.in().element)};
}
std::vector<EagerCall> eager_clone(const OpView& op, const GpuSpec&) {
  // Equal layouts are copied by the driver, as a memcpy within the device.
  if (is_dense(op.in()) && op.in().strides == op.out().strides)
    return {{.host_op = "clone", .work = {Memcpy{.bytes = dense_bytes(op.out())}}}};
  return {{.host_op = "clone", .work = {copy_work(op.in(), op.out())}}};
}

std::vector<MadeTensor> infer_copy_into(const OpView& op) {
  if (!(broadcast(op.in().shape, op.in(1).shape) == op.in().shape))
    throw ShapeError("a tensor of shape " + to_string(op.in(1).shape) + " cannot be copied into one of " +
                     to_string(op.in().shape));
  return {{.type = op.in(), .view_of = 0}};
}
std::vector<EagerCall> eager_copy_into(const OpView& op, const GpuSpec&) {
  if (op.in() == op.in(1) && is_dense(op.in()))
    return {{.host_op = "copy_", .work = {Memcpy{.bytes = dense_bytes(op.in())}}}};
  return {{.host_op = "copy_", .work = {copy_work(op.in(1), op.in())}}};
}

std::vector<MadeTensor> infer_fill(const OpView& op) {
  const Dims& shape = op.attributes.dims("shape");
  for (const std::int64_t size : shape)
    if (size < 1) throw ShapeError("sizes must be at least 1, not " + std::to_string(size));
  return {{.type = contiguous_tensor(*find_element_type(op.attributes.word("dtype")), shape)}};
}
std::vector<EagerCall> eager_zeros(const OpView& op, const GpuSpec&) {
  return {{.host_op = "zeros", .work = {fill_work(op.out())}}};
}
std::vector<EagerCall> eager_empty(const OpView&, const GpuSpec&) {
  return {{.host_op = "empty", .work = {}}};
}
std::vector<MadeTensor> infer_arange(const OpView& op) {
  const std::int64_t count = op.attributes.integer("count");
  if (count < 1) throw ShapeError("a range has at least one number, not " + std::to_string(count));
  return {{.type = contiguous_tensor(*find_element_type(op.attributes.word("dtype")), Dims{count})}};
}
std::vector<EagerCall> eager_arange(const OpView& op, const GpuSpec&) {
  return {{.host_op = "arange", .work = {fill_work(op.out())}}};
}

std::vector<MadeTensor> infer_dropout(const OpView& op) {
  const double p = op.attributes.number("p");
  if (!(p >= 0 && p < 1)) throw ShapeError("the share of dropped elements must be in [0, 1)");
  if (!op.attributes.flag("training") || p == 0) return {{.type = op.in(), .view_of = 0}};
  return {made(op, op.in().shape, op.in().element), made(op, op.in().shape, ElementType::Bool)};
}
std::vector<EagerCall> eager_dropout(const OpView& op, const GpuSpec&) {
  if (op.outputs.size() == 1) return {{.host_op = "dropout_off", .work = {}}};
  return {{.host_op = "dropout",
           .work = {Dropout{.elements = elements(op.out()),
                            .element_bytes = static_cast<std::int32_t>(size_of(op.out().element))}}}};
}

template <std::size_t... I>
void add_functions(std::vector<OpKind>& kinds, std::index_sequence<I...>) {
  (kinds.push_back(
       {.name = functions[I].name,
        .help = functions[I].help,
        .inputs = {{"x"}},
        .attributes = {},
        .infer = functions[I].function == AluFunction::Add || functions[I].function == AluFunction::Mul
                     ? infer_same
                     : infer_floating,
        .eager = eager_function<I>}),
   ...);
}

}  // namespace

std::vector<OpKind> pointwise_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  add_functions(kinds, std::make_index_sequence<std::size(functions)>{});
  const std::vector<OpInput> two{{"a"}, {"b", InputNeed::Optional}};
  const std::vector<OpAttribute> or_number{{"scalar", Number, {}, true}};
  const auto add = [&](OpKind kind) { kinds.push_back(std::move(kind)); };
  add({.name = "add",
       .help = "a + b, or a + number",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<0>});
  add({.name = "sub",
       .help = "a - b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<1>});
  add({.name = "rsub",
       .help = "number - a",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<1>});
  add({.name = "mul",
       .help = "a * b, or a * number",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<2>});
  add({.name = "div",
       .help = "a / b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_division,
       .eager = eager_binary<3>});
  add({.name = "rdiv",
       .help = "number / a: a reciprocal and a product",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_division,
       .eager = eager_rdiv});
  add({.name = "floor_divide",
       .help = "a // b, rounded down",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_floor_division,
       .eager = eager_floor_divide});
  add({.name = "maximum",
       .help = "The larger of each two",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<4>});
  add({.name = "minimum",
       .help = "The smaller of each two",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_arithmetic,
       .eager = eager_binary<5>});
  add({.name = "eq",
       .help = "a == b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<6>});
  add({.name = "ne",
       .help = "a != b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<7>});
  add({.name = "lt",
       .help = "a < b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<8>});
  add({.name = "le",
       .help = "a <= b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<9>});
  add({.name = "gt",
       .help = "a > b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<10>});
  add({.name = "ge",
       .help = "a >= b",
       .inputs = two,
       .attributes = or_number,
       .infer = infer_comparison,
       .eager = eager_binary<11>});
  add({.name = "add_",
       .help = "Adds b to a in place",
       .recompute = RecomputeClass::Never,
       .inputs = two,
       .attributes = or_number,
       .infer = infer_in_place,
       .eager = eager_binary<12>});
  add({.name = "mul_",
       .help = "Multiplies a by b in place",
       .recompute = RecomputeClass::Never,
       .inputs = two,
       .attributes = or_number,
       .infer = infer_in_place,
       .eager = eager_binary<13>});
  add({.name = "relu_",
       .help = "max(x, 0) in place",
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_in_place,
       .eager = eager_relu_in_place});
  add({.name = "clamp",
       .help = "Limited to a range",
       .inputs = {{"x"}},
       .attributes = {{"min", Number, {}, true}, {"max", Number, {}, true}},
       .infer = infer_same,
       .eager = eager_clamp});
  add({.name = "logical_not",
       .help = "not x",
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_truth,
       .eager = eager_not});
  add({.name = "pow",
       .help = "x to a number",
       .inputs = {{"x"}},
       .attributes = {{"exponent", Number}},
       .infer = infer_floating,
       .eager = eager_pow});
  add({.name = "gelu",
       .help = "GELU, by erf or approximate='tanh'",
       .inputs = {{"x"}},
       .attributes = {{"approximate", Word, std::string("none")}},
       .infer = infer_gelu,
       .eager = eager_gelu});
  add({.name = "addcmul",
       .help = "x + a * b",
       .inputs = {{"x"}, {"a"}, {"b"}},
       .attributes = {},
       .infer = infer_addcmul,
       .eager = eager_addcmul});
  add({.name = "where",
       .help = "a where the condition holds, else b or a number",
       .inputs = {{"condition"}, {"a"}, {"b", InputNeed::Optional}},
       .attributes = {{"scalar", Number, {}, true}},
       .infer = infer_where,
       .eager = eager_where});
  add({.name = "masked_fill",
       .help = "x with a number where the mask holds",
       .inputs = {{"x"}, {"mask"}},
       .attributes = {{"value", Number}},
       .infer = infer_masked_fill,
       .eager = eager_masked_fill});
  add({.name = "to",
       .help = "Cast to another dtype",
       .inputs = {{"x"}},
       .attributes = {{"dtype", Element}},
       .infer = infer_to,
       .eager = eager_cast});
  add({.name = "type_as",
       .help = "Cast to another tensor's dtype",
       .inputs = {{"x"}, {"other"}},
       .attributes = {},
       .infer = infer_type_as,
       .eager = eager_cast});
  add({.name = "clone",
       .help = "A copy",
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_clone,
       .eager = eager_clone});
  add({.name = "copy_",
       .help = "Copies `source` into `x`",
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}, {"source"}},
       .attributes = {},
       .infer = infer_copy_into,
       .eager = eager_copy_into});
  add({.name = "zeros",
       .help = "Filled with zeros, or another number",
       .inputs = {},
       .attributes = {{"shape", AttributeType::Dims},
                      {"dtype", Element, std::string("network")},
                      {"value", Number, 0.0}},
       .infer = infer_fill,
       .eager = eager_zeros});
  add({.name = "empty",
       .help = "Memory without contents",
       .inputs = {},
       .attributes = {{"shape", AttributeType::Dims}, {"dtype", Element, std::string("network")}},
       .infer = infer_fill,
       .eager = eager_empty});
  add({.name = "arange",
       .help = "0, 1, 2, ...",
       .inputs = {},
       .attributes = {{"count", Integer}, {"dtype", Element, std::string("int64")}},
       .infer = infer_arange,
       .eager = eager_arange});
  add({.name = "dropout",
       .help = "Zeroes a share of the elements; nothing unless training",
       .fusion = FusionClass::Random,
       .recompute = RecomputeClass::Random,
       .inputs = {{"x"}},
       .attributes = {{"p", Number, 0.1}, {"training", Flag, false}},
       .infer = infer_dropout,
       .eager = eager_dropout});
  return kinds;
}

}  // namespace gpusim
