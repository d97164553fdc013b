// SPDX-License-Identifier: Apache-2.0
// What can be told of an eager kernel from a trace without shapes: its name gives function, operands and
// number formats, its grid the number of elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/cost/kernel_work.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// What a compiler that fuses could do with a kernel.
enum class FusionRole : std::uint8_t {
  Pointwise,     ///< One result per element.
  RowReduction,  ///< One number per row: sum, mean, maximum along the last axis.
  Norm,          ///< Layer, RMS norm: reduces each row and writes a tensor of its shape.
  Softmax,
  NormWeights,      ///< Gradient of a norm's weight and bias: its norm's backward makes it on the way.
  ColumnReduction,  ///< Sum over rows: a kernel of its own in compiled code too.
  Fixed,            ///< Products, attention, communication, optimizers, gathers, anything not recognised.
};

struct KernelTraits {
  FusionRole role = FusionRole::Fixed;
  bool backward = false;           ///< Reads something that forward has kept, beside the gradient.
  bool fill = false;               ///< Writes a constant.
  std::int32_t inputs = 1;         ///< Tensors read.
  std::int64_t elements = 0;       ///< Of the result, up to a block's worth too many; 0: unknown.
  std::int64_t rows = 0;           ///< Of reductions and norms; 0: unknown.
  std::int32_t read_bytes = 4;     ///< Of an element of its inputs.
  std::int32_t written_bytes = 4;  ///< Of an element of its result.
  AluFunction function = AluFunction::Add;
};

/// Kernels of PyTorch (elementwise, reduce, norm, softmax) are recognised by the naming of their templates.
KernelTraits kernel_traits(std::string_view name, const TraceOp& op);

/// For tables: what an elementwise kernel computes rather than how it loops ("elementwise
/// CUDAFunctor_add<float>"), other names without arguments and common namespaces.
std::string telling_name(std::string_view name);

/// Whether `pattern` occurs in `name`; `*` stands for any run of characters. Case counts.
bool matches_pattern(std::string_view name, std::string_view pattern);

/// Whether a product's time is that of reading its weights: by the tile in its name (one of its sides below
/// 32 rows), and matrix-vector kernels.
bool is_thin_product(std::string_view name);

}  // namespace gpusim
