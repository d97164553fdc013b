// SPDX-License-Identifier: Apache-2.0
// The forward pass as training runs it. Internal to models/graph.
#pragma once

#include <string>

#include "models/graph/graph_writer.hpp"
#include "models/graph/training.hpp"

namespace gpusim {

/// A tensor in 8 bits, and the factor that it was multiplied by before: what its largest value allows.
struct Scaled8 {
  TensorIndex values = graph_none;  ///< Of the same shape.
  TensorIndex scale = graph_none;   ///< One fp32 number.
};
/// torchao's dynamic scaling per tensor (torchao/float8/float8_scaling_utils.py, float8_utils.py): the
/// largest absolute value, the format's largest over it, the product in fp32, limited and cast. `add`: adds
/// an op of a kind with inputs and attributes, and returns what it makes.
template <class Add>
Scaled8 scale_to_8_bits(Add add, TensorIndex t) {
  constexpr double largest = 448;  // Of e4m3: 1.75 * 2^8.
  const TensorIndex most = add("amax", {add("abs", {t}, {})}, {});
  const TensorIndex wide = add("to", {most}, {{"dtype", std::string("fp32")}});
  const TensorIndex limited = add("clamp", {wide}, {{"min", 1e-12}, {"max", 1e38}});
  const TensorIndex inverse = add("reciprocal", {limited}, {});
  const TensorIndex scale = add("mul", {inverse, graph_none}, {{"scalar", largest}});
  const TensorIndex scaled = add("mul", {add("to", {t}, {{"dtype", std::string("fp32")}}), scale}, {});
  const TensorIndex clamped = add("clamp", {scaled}, {{"min", -largest}, {"max", largest}});
  return {.values = add("to", {clamped}, {{"dtype", std::string("fp8")}}), .scale = scale};
}
/// Whether a linear layer's products run in 8 bits: torch._scaled_mm takes sizes that 16 divides.
bool fits_8_bits(const TensorType& x, const TensorType& weight);

/// Writes the ops of `forward` with what training changes of them: casts under autocast, dropout that drops,
/// norms that keep what backward needs, the loss behind the network. Returns the loss.
TensorIndex write_forward(GraphWriter& writer, const OpGraph& forward, const TrainingOptions& options);

}  // namespace gpusim
