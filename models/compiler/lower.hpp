// SPDX-License-Identifier: Apache-2.0
// From ops to loops: what becomes a buffer of its own, and what is computed again wherever it is needed.
#pragma once

#include "models/compiler/loops.hpp"
#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// When a value becomes a buffer. Anything else is computed inside of every loop that reads it. The numbers
/// are TorchInductor's (torch/_inductor/config.py).
struct RealizeRules {
  std::int32_t reads = 4;              ///< Buffers read by a value with several users: more than that.
  std::int32_t functions = 30;         ///< Operations in a value with several users: more than that.
  std::int32_t accumulated_reads = 8;  ///< Buffers read, whoever uses the value.
  std::int32_t functions_max = 100;    ///< Operations, whoever uses the value.
  std::int64_t unrolled = 8;           ///< A reduction of fewer values becomes elementwise.
  std::int32_t cat_inputs = 8;         ///< A concatenation of at most so many may be one elementwise loop.
  friend bool operator==(const RealizeRules&, const RealizeRules&) = default;
};

struct LowerOptions {
  RealizeRules realize;
  /// A bias that only elementwise ops see is added by them, not by the product. Inductor's pass for it
  /// (unfuse_bias_add_to_pointwise) left every bias to the product in what was measured with PyTorch 2.11.
  bool unfuse_bias = false;
  bool library_norms = false;  ///< Norms and softmax are kernels of a library.
  bool padding = false;        ///< See ProductRules::padding.
  bool realize_all = false;    ///< Every op's result becomes a buffer: nothing is computed twice.
};

/// The product with its rows filled up to multiples of 16 bytes where that pays (ProductRules::padding), else
/// as it is. Inductor (fx_passes/pad_mm.py) does so where m n k / (m k + k n + m n) is more than half of the
/// FLOPs that the device does while it reads a byte, and padding is faster when it is timed: by far, for the
/// old kernels reach a tenth of the peak.
MatrixProduct filled_up(MatrixProduct product, const GpuSpec& gpu);

/// Per tensor of the graph, how far into its storage it begins, in elements.
std::vector<std::int64_t> view_offsets(const OpGraph& graph);

/// Lowers the ops [first, last) as TorchInductor's lowering does. `offsets`: of view_offsets().
LoopGraph lower(const OpGraph& graph, const GpuSpec& gpu, OpIndex first, OpIndex last,
                const std::vector<std::int64_t>& offsets, const LowerOptions& options = {});

}  // namespace gpusim
