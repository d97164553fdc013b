// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients, taken apart.
#include "models/compiler/decomposing.hpp"

namespace gpusim {
namespace {

constexpr double tanh_factor = 0.7978845608028654;  ///< sqrt(2 / pi).
constexpr double tanh_cube = 0.044715;
constexpr double sqrt_half = 0.7071067811865476;
constexpr double bell = 0.3989422804014327;  ///< 1 / sqrt(2 pi).

bool by_tanh(const Op& op) {
  return op.attributes.word("approximate") == "tanh";
}

void gelu(Decomposer& d, const Op& op) {
  const TensorIndex x = d.wide(d.in());
  if (by_tanh(op)) {
    const TensorIndex cube = d.mul(d.mul(x, x), x);
    const TensorIndex inner = d.number("mul", d.plus(x, d.number("mul", cube, tanh_cube)), tanh_factor);
    const TensorIndex half = d.number("mul", x, 0.5);
    d.give(0, d.mul(half, d.number("add", d.add("tanh", {inner}), 1)));
    return;
  }
  const TensorIndex half = d.number("mul", x, 0.5);
  const TensorIndex erf = d.add("erf", {d.number("mul", x, sqrt_half)});
  d.give(0, d.mul(half, d.number("add", erf, 1)));
}

void gelu_backward(Decomposer& d, const Op& op) {
  const TensorIndex grad = d.wide(d.in(0));
  const TensorIndex x = d.wide(d.in(1));
  if (by_tanh(op)) {
    const TensorIndex square = d.mul(x, x);
    const TensorIndex cube = d.mul(square, x);
    const TensorIndex inner = d.number("mul", d.plus(x, d.number("mul", cube, tanh_cube)), tanh_factor);
    const TensorIndex tanh = d.add("tanh", {inner});
    const TensorIndex left = d.number("mul", x, 0.5);
    const TensorIndex right = d.number("add", tanh, 1);
    const TensorIndex left_derivative = d.number("mul", right, 0.5);
    const TensorIndex tanh_derivative = d.number("rsub", d.mul(tanh, tanh), 1);
    const TensorIndex inner_derivative =
        d.number("mul", d.number("add", d.number("mul", square, 3 * tanh_cube), 1), tanh_factor);
    const TensorIndex right_derivative = d.mul(d.mul(left, tanh_derivative), inner_derivative);
    d.give(0, d.mul(grad, d.plus(left_derivative, right_derivative)));
    return;
  }
  const TensorIndex erf = d.add("erf", {d.number("mul", x, sqrt_half)});
  const TensorIndex cdf = d.number("mul", d.number("add", erf, 1), 0.5);
  const TensorIndex density = d.number("mul", d.add("exp", {d.number("mul", d.mul(x, x), -0.5)}), bell);
  d.give(0, d.mul(grad, d.plus(cdf, d.mul(x, density))));
}

/// 1 + exp(-x), which silu and its gradient share.
TensorIndex one_plus_exp(Decomposer& d, TensorIndex x) {
  return d.number("add", d.add("exp", {d.add("neg", {x})}), 1);
}
void silu(Decomposer& d, const Op&) {
  const TensorIndex x = d.wide(d.in());
  d.give(0, d.add("div", {x, one_plus_exp(d, x)}));
}
void silu_backward(Decomposer& d, const Op&) {
  const TensorIndex grad = d.wide(d.in(0));
  const TensorIndex x = d.wide(d.in(1));
  const TensorIndex sigmoid = d.add("reciprocal", {one_plus_exp(d, x)});
  const TensorIndex slope = d.number("add", d.mul(x, d.number("rsub", sigmoid, 1)), 1);
  d.give(0, d.mul(d.mul(grad, sigmoid), slope));
}

void sigmoid_backward(Decomposer& d, const Op&) {
  const TensorIndex result = d.wide(d.in(1));
  d.give(0, d.mul(d.wide(d.in(0)), d.mul(result, d.number("rsub", result, 1))));
}
void tanh_backward(Decomposer& d, const Op&) {
  const TensorIndex result = d.wide(d.in(1));
  d.give(0, d.mul(d.wide(d.in(0)), d.number("rsub", d.mul(result, result), 1)));
}
void threshold_backward(Decomposer& d, const Op&) {
  const TensorIndex below = d.number("le", d.in(1), 0);
  d.give(0, d.add("masked_fill", {d.in(0), below}, {{"value", 0.0}}));
}
void dropout_backward(Decomposer& d, const Op& op) {
  const TensorIndex mask = d.cast(d.in(1), d.element(d.in(0)));
  d.give(0, d.mul(d.in(0), d.number("mul", mask, 1 / (1 - op.attributes.number("p")))));
}

/// To one pixel each: the mean's gradient.
void adaptive_pool_backward(Decomposer& d, const Op&) {
  const Dims grad = d.shape(d.in(0));
  const Dims x = d.shape(d.in(1));
  if (grad.rank() != 4 || grad[2] != 1 || grad[3] != 1) return;
  const TensorIndex all = d.add("expand", {d.in(0)}, {{"shape", x}});
  d.give(0, d.number("div", all, static_cast<double>(x[2] * x[3])));
}

constexpr DecomposeEntry entries[]{{"gelu", "gelu", gelu},
                                   {"gelu_backward", "gelu_backward", gelu_backward},
                                   {"silu", "silu", silu},
                                   {"silu_backward", "silu_backward", silu_backward},
                                   {"sigmoid_backward", "sigmoid_backward", sigmoid_backward},
                                   {"tanh_backward", "tanh_backward", tanh_backward},
                                   {"threshold_backward", "threshold_backward", threshold_backward},
                                   {"dropout_backward", "native_dropout_backward", dropout_backward},
                                   {"adaptive_avg_pool2d_backward", "div", adaptive_pool_backward}};

}  // namespace

std::span<const DecomposeEntry> pointwise_decompositions() {
  return entries;
}

}  // namespace gpusim
