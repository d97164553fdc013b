// SPDX-License-Identifier: Apache-2.0
// What a GPU op does, fine enough to colour a picture by it: KernelGroup with its `Other` taken apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/engine/program.hpp"

namespace gpusim::report {

enum class KernelFamily : std::uint8_t {
  MatrixProduct,  ///< Products and convolutions, the sum behind a split-K product too.
  Attention,
  Reduction,  ///< Norms, softmax, losses, sums; fused kernels that hold one.
  Elementwise,
  Optimizer,
  Communication,
  Copy,   ///< Copies and memsets, kernels that only move data.
  Other,  ///< Lookups, sorting, and names that say nothing.
};
inline constexpr std::size_t kernel_family_count = 8;

/// "matrix_product", "attention", "reduction", "elementwise", "optimizer", "communication", "copy", "other".
std::string_view name(KernelFamily family);

/// By the habits of kernel_group(), and beyond those by names of PyTorch's own kernels, of Inductor's (which
/// say whether they reduce) and of what gpusim prices ("add: elementwise").
KernelFamily kernel_family(std::string_view kernel, engine::OpKind kind);

}  // namespace gpusim::report
