// SPDX-License-Identifier: Apache-2.0
// Gradients of ops element by element, as torch's derivatives.yaml has them.
#include "models/graph/autograd.hpp"

namespace gpusim {
namespace {

TensorIndex scaled(Backward& b, TensorIndex t, double by) {
  return b.add("mul", {t, graph_none}, {{"scalar", by}});
}
TensorIndex times(Backward& b, TensorIndex x, TensorIndex y) {
  return b.add("mul", {x, y});
}

void add(Backward& b, const Op&) {
  for (std::size_t i : {std::size_t{0}, std::size_t{1}})
    if (b.needs(i)) b.give(i, b.grad());
}
void sub(Backward& b, const Op&) {
  if (b.needs(0)) b.give(0, b.grad());
  if (b.needs(1)) b.give(1, b.add("neg", {b.grad()}));
}
void rsub(Backward& b, const Op&) {
  b.give(0, b.add("neg", {b.grad()}));
}
void mul(Backward& b, const Op& op) {
  if (!b.has(1)) return b.give(0, scaled(b, b.grad(), op.attributes.number("scalar")));
  if (b.needs(0)) b.give(0, times(b, b.grad(), b.in(1)));
  if (b.needs(1)) b.give(1, times(b, b.grad(), b.in(0)));
}
void div(Backward& b, const Op& op) {
  if (!b.has(1))
    return b.give(0, b.add("div", {b.grad(), graph_none}, {{"scalar", op.attributes.number("scalar")}}));
  if (b.needs(0)) b.give(0, b.add("div", {b.grad(), b.in(1)}));
  // -grad * ((a / b) / b)
  if (b.needs(1))
    b.give(1, times(b, b.add("neg", {b.grad()}), b.add("div", {b.add("div", {b.in(0), b.in(1)}), b.in(1)})));
}
/// number / x, made as a reciprocal and a product: -grad * number * r * r.
void rdiv(Backward& b, const Op& op) {
  const TensorIndex g = scaled(b, b.grad(), op.attributes.number("scalar"));
  const TensorIndex r = b.add("reciprocal", {b.in()});
  b.give(0, times(b, b.add("neg", {g}), times(b, r, r)));
}
void neg(Backward& b, const Op&) {
  b.give(0, b.add("neg", {b.grad()}));
}
void abs(Backward& b, const Op&) {
  b.give(0, times(b, b.grad(), b.add("clamp", {b.in()}, {{"min", -1.0}, {"max", 1.0}})));
}
void exp(Backward& b, const Op&) {
  b.give(0, times(b, b.grad(), b.out()));
}
void log(Backward& b, const Op&) {
  b.give(0, b.add("div", {b.grad(), b.in()}));
}
void sin(Backward& b, const Op&) {
  b.give(0, times(b, b.grad(), b.add("cos", {b.in()})));
}
void cos(Backward& b, const Op&) {
  b.give(0, times(b, b.grad(), b.add("neg", {b.add("sin", {b.in()})})));
}
/// grad * 2 / sqrt(pi) * exp(-x^2)
void erf(Backward& b, const Op&) {
  const TensorIndex square = b.add("pow", {b.in()}, {{"exponent", 2.0}});
  const TensorIndex bell = b.add("exp", {b.add("neg", {square})});
  b.give(0, times(b, scaled(b, bell, 1.1283791670955126), b.grad()));
}
/// grad / (2 result)
void sqrt(Backward& b, const Op&) {
  b.give(0, b.add("div", {b.grad(), scaled(b, b.out(), 2)}));
}
/// -0.5 grad result^3
void rsqrt(Backward& b, const Op&) {
  const TensorIndex cube = b.add("pow", {b.out()}, {{"exponent", 3.0}});
  b.give(0, times(b, scaled(b, b.grad(), -0.5), cube));
}
/// -grad result^2
void reciprocal(Backward& b, const Op&) {
  b.give(0, times(b, b.add("neg", {b.grad()}), times(b, b.out(), b.out())));
}
void power(Backward& b, double exponent) {
  // grad * (exponent * x^(exponent - 1))
  TensorIndex base = b.in();
  if (exponent != 2)
    base = b.add("pow", {base}, {{"exponent", exponent - 1}});
  else
    base = b.add("pow", {base}, {{"exponent", 1.0}});
  b.give(0, times(b, b.grad(), scaled(b, base, exponent)));
}
void pow(Backward& b, const Op& op) {
  power(b, op.attributes.number("exponent"));
}
void square(Backward& b, const Op&) {
  power(b, 2);
}
template <const char* const& Kind>
void from_result(Backward& b, const Op&) {
  b.give(0, b.add(Kind, {b.grad(), b.out()}));
}
constexpr const char* threshold_name = "threshold_backward";
constexpr const char* tanh_name = "tanh_backward";
constexpr const char* sigmoid_name = "sigmoid_backward";
void silu(Backward& b, const Op&) {
  b.give(0, b.add("silu_backward", {b.grad(), b.in()}));
}
void gelu(Backward& b, const Op& op) {
  b.give(0, b.add("gelu_backward", {b.grad(), b.in()}, {{"approximate", op.attributes.word("approximate")}}));
}
void clamp(Backward& b, const Op&) {
  const TensorIndex inside = b.add("eq", {b.in(), b.out()});
  b.give(0, b.add("where", {inside, b.grad(), graph_none}, {{"scalar", 0.0}}));
}
/// Each element's gradient goes to the one that was taken.
template <const char* const& Taken>
void chosen(Backward& b, const Op& op) {
  const TensorIndex mask =
      b.has(1) ? b.add(Taken, {b.in(0), b.in(1)})
               : b.add(Taken, {b.in(0), graph_none}, {{"scalar", op.attributes.number("scalar")}});
  if (b.needs(0)) b.give(0, b.add("masked_fill", {b.grad(), b.add("logical_not", {mask})}, {{"value", 0.0}}));
  if (b.needs(1)) b.give(1, b.add("masked_fill", {b.grad(), mask}, {{"value", 0.0}}));
}
constexpr const char* ge_name = "ge";
constexpr const char* le_name = "le";
void where(Backward& b, const Op&) {
  if (b.needs(1)) b.give(1, b.add("where", {b.in(0), b.grad(), graph_none}, {{"scalar", 0.0}}));
  if (b.needs(2))
    b.give(2, b.add("where", {b.add("logical_not", {b.in(0)}), b.grad(), graph_none}, {{"scalar", 0.0}}));
}
void masked_fill(Backward& b, const Op&) {
  b.give(0, b.add("masked_fill", {b.grad(), b.in(1)}, {{"value", 0.0}}));
}
void addcmul(Backward& b, const Op&) {
  if (b.needs(0)) b.give(0, b.grad());
  if (b.needs(1)) b.give(1, times(b, b.grad(), b.in(2)));
  if (b.needs(2)) b.give(2, times(b, b.grad(), b.in(1)));
}
void dropout(Backward& b, const Op& op) {
  if (op.outputs.size() == 1) return b.give(0, b.grad());
  b.give(0, b.add("dropout_backward", {b.grad(), b.out(1)}, {{"p", op.attributes.number("p")}}));
}

}  // namespace

std::vector<GradientEntry> pointwise_gradients() {
  return {{"add", add},
          {"add_", add},
          {"sub", sub},
          {"rsub", rsub},
          {"mul", mul},
          {"div", div},
          {"rdiv", rdiv},
          {"neg", neg},
          {"abs", abs},
          {"exp", exp},
          {"log", log},
          {"sin", sin},
          {"cos", cos},
          {"erf", erf},
          {"sqrt", sqrt},
          {"rsqrt", rsqrt},
          {"reciprocal", reciprocal},
          {"pow", pow},
          {"square", square},
          {"relu", from_result<threshold_name>},
          {"relu_", from_result<threshold_name>},
          {"tanh", from_result<tanh_name>},
          {"sigmoid", from_result<sigmoid_name>},
          {"silu", silu},
          {"gelu", gelu},
          {"clamp", clamp},
          {"maximum", chosen<ge_name>},
          {"minimum", chosen<le_name>},
          {"where", where},
          {"masked_fill", masked_fill},
          {"addcmul", addcmul},
          {"dropout", dropout},
          {"eq", nullptr},
          {"ne", nullptr},
          {"lt", nullptr},
          {"le", nullptr},
          {"gt", nullptr},
          {"ge", nullptr},
          {"floor_divide", nullptr},
          {"logical_not", nullptr}};
}

}  // namespace gpusim
