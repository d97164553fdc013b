// SPDX-License-Identifier: Apache-2.0
// What products and convolutions have in common: one product in tiles and waves. For the files of this
// folder.
#pragma once

#include <string_view>

#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {

inline constexpr double full_tile = 256 * 128;

inline bool on_vector_units(Dtype dtype) {
  return dtype == Dtype::Fp32 || dtype == Dtype::Fp64;
}

/// `batch` products [m, k] x [k, n], with what they read and write in bytes.
struct Product {
  double batch, m, n, k;
  double read, written;
  Dtype dtype;
  bool aligned = true;
  double speed = 1;  ///< Relative to a plain product.
  bool may_split = true;
  bool bias = false;
  bool gradient = false;    ///< The right operand lies as [k, n].
  bool of_weight = false;   ///< And the left one as [k, m].
  double memory_share = 0;  ///< Of the memory's bandwidth.
  double start = 0;         ///< s more than a plain product's.
  bool coarse = false;      ///< Kernels with few sizes of tiles.
  /// Split along k into as many parts as fill the SMs, where that is faster; the parts cost `split_setup` s.
  bool any_splits = false;
  bool must_split = false;  ///< Into two parts at least.
  double split_setup = 0;
};

struct ProductOps {
  GpuOps ops;
  double tiles;
  double splits;
};

/// The product kernel, and the one that adds up its parts where it is split along k.
ProductOps product(const Pricing& p, const Product& w, std::string_view name);

}  // namespace gpusim::cost
