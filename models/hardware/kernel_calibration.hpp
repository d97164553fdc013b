// SPDX-License-Identifier: Apache-2.0
// The numbers that the kernel formulas of models/cost are fitted with: `calibration:` of a hardware file.
//
// Times are seconds. What scales with the device is said relative to it, so that a device without numbers of
// its own can borrow them: shares of a datasheet rate, and cycles of one SM or of one of its fp32 lanes.
// docs/accuracy.md says how they are fitted and how far each can be trusted on another device.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/launch_model.hpp"

namespace gpusim {

/// What all kernels share.
struct MemoryCalibration {
  double l2_bytes_per_cycle = 0;  ///< L2 bandwidth, bytes per cycle and SM.
  double resident = 0;            ///< Share of the L2 up to which data that is used in turn stays in it.
  double evicted = 0;             ///< Share from which on nothing of it is left.
  double latency = 0;             ///< s, what the first access to the memory adds to a kernel.
  double latency_bytes =
      0;  ///< Traffic at which all of the latency shows, as a multiple of latency x bandwidth.
  double block_start = 0;  ///< Cycles from one block's start to the next one's, whole device.
  double memset = 0;       ///< s, a memset of a few bytes.
};

/// Arithmetic of functions, cycles of one lane and element (fp32).
struct AluCalibration {
  double add = 0;
  double mul = 0;
  double div = 0;
  double rsqrt = 0;
  double exp = 0;
  double log = 0;
  double sin = 0;
  double cos = 0;
  double tanh = 0;
  double erf = 0;
  double sigmoid = 0;
  double silu = 0;
  double gelu = 0;
  double gelu_tanh = 0;
};

/// Eager elementwise kernels.
struct PointwiseCalibration {
  double start = 0;               ///< s, the shortest kernel.
  double chain = 0;               ///< Cycles that the last element waits for each lane-cycle of its function.
  double memory_share = 0;        ///< Of the memory's bandwidth.
  double sharpness = 0;           ///< Exponent of the soft maximum of its limits.
  double alu = 0;                 ///< Eager arithmetic relative to AluCalibration.
  double division_start = 0;      ///< s more with an exact division (sigmoid, silu, div),
  double division = 0;            ///< and lane-cycles per element more.
  double unrolled_start = 0;      ///< s, a cast to a wider format,
  double unrolled = 0;            ///< and its lane-cycles per element,
  double unrolled_share = 0;      ///< and what it gets of the memory's bandwidth.
  double strided_start = 0;       ///< s, operands that are broadcast or not contiguous,
  double strided = 0;             ///< and the lane-cycles per element of finding their places.
  double strided_wide_start = 0;  ///< s, the same for elements of 4 bytes and more,
  double strided_wide = 0;        ///< and lane-cycles per element.
  double strided_cast_start = 0;  ///< s with a change of format,
  double strided_cast = 0;        ///< and lane-cycles per element.
  double tail = 0;                ///< Cycles that each further element of a thread in the last block takes,
  double tail_chain = 0;          ///< and for each lane-cycle of its function.
};

/// Copies that are not elementwise, and random numbers.
struct CopyCalibration {
  double transposed_cycles = 0;  ///< SM-cycles per element of a transposed copy (one sector each).
  double cat_start = 0;          ///< s
  double cat_strided = 0;        ///< SM-cycles per element of joining tensors that are not contiguous.
  double cat_share = 0;          ///< Of the memory's bandwidth.
  double random = 0;             ///< Lane-cycles per random number.
};

/// Eager layer_norm and rms_norm: one block per row.
struct NormCalibration {
  double start = 0;          ///< s
  double memory_share = 0;   ///< Of the memory's bandwidth.
  double row = 0;            ///< SM-cycles per row.
  double element = 0;        ///< Lane-cycles per element.
  double block = 0;          ///< s, a single block, however short its row.
  double block_element = 0;  ///< Cycles that a single block needs per element, in rounds of 512.
  double block_cold = 0;     ///< The same from memory, as a multiple.
  double rms_start = 0;      ///< s, rms_norm
  double rms_element = 0;    ///< rms_norm relative to layer_norm: arithmetic
  double rms_block = 0;      ///< and single block.
  double blocks_per_sm = 0;  ///< Rows in flight on an SM; where they do not fit the L2, rows are read twice.
  double sharpness = 0;      ///< Exponent of the soft maximum.
};

/// Eager softmax: three kernels by the row's length.
struct SoftmaxCalibration {
  double start = 0;          ///< s, a block per row.
  double warp_start = 0;     ///< s, a warp per row.
  double latency = 0;        ///< s
  double memory_share = 0;   ///< Of the memory's bandwidth.
  double warp = 0;           ///< Lane-cycles per element, up to 2048 columns (a warp per row),
  double warp_step = 0;      ///< and s for each element of a lane.
  double registers = 0;      ///< The same up to 8192 columns (a block per row).
  double shared_memory = 0;  ///< The same beyond.
  double log = 0;            ///< Of log_softmax relative to them, beyond 1024 columns.
  double block_element = 0;  ///< Cycles that a single block needs per element.
  double backward = 0;       ///< Passes over the row that the backward makes.
};

/// Eager sums and argmax along rows.
struct RowSumCalibration {
  double start = 0;             ///< s
  double memory_share = 0;      ///< Of the memory's bandwidth.
  double sum_step = 0;          ///< s per element that one thread adds up, from the L2.
  double argmax_step = 0;       ///< The same for argmax.
  double sum_cold = 0;          ///< From memory, as a multiple.
  double argmax_cold = 0;       ///< The same for argmax.
  double argmax_element = 0;    ///< Lane-cycles per element of argmax.
  double sum_warp_row = 0;      ///< SM-cycles per row, a warp for each.
  double argmax_warp_row = 0;   ///< The same for argmax.
  double sum_block_row = 0;     ///< SM-cycles per row, a block for each.
  double argmax_block_row = 0;  ///< The same for argmax.
};

/// Eager sums over the first axis and of everything.
struct ColumnSumCalibration {
  double start = 0;         ///< s
  double memory_share = 0;  ///< Of the memory's bandwidth.
  double step = 0;          ///< s per four rows that one thread adds up, from the L2.
  double step_cold = 0;     ///< From memory, as a multiple.
  double split = 0;         ///< s, when several blocks share a column.
  double split_each = 0;    ///< s per such block: the last one adds up all partial sums.
  double block = 0;         ///< s per block that an SM runs.
  double full_share = 0;    ///< Sum of everything: share of the memory's bandwidth,
  double full_start = 0;    ///< s, fixed time,
  double full_each = 0;     ///< s more per block,
  double full_element = 0;  ///< and cycles per element where a single block does it.
};

/// Backward of layer_norm: a kernel for the input's gradient, one for those of weight and bias.
struct NormBackwardCalibration {
  double start = 0;          ///< s
  double memory_share = 0;   ///< Of the memory's bandwidth.
  double row = 0;            ///< SM-cycles per row.
  double element = 0;        ///< Lane-cycles per element.
  double block_element = 0;  ///< Cycles that a single block needs per element.
  double block_cold = 0;     ///< From memory, as a multiple.
  double weights_row = 0;    ///< s per row, where few blocks do all rows.
  double weights_share = 0;  ///< Of the memory's bandwidth, in the kernel for weight and bias.
  double blocks_per_sm = 0;  ///< Rows in flight on an SM; where they do not fit the L2, rows are read twice.
  double reduce = 0;         ///< s, two further reductions from 65536 rows on.
};

/// Layers of vision networks, top-k and sorting.
struct LayerCalibration {
  double batch_norm_start = 0;    ///< s
  double batch_norm_element = 0;  ///< Lane-cycles per element.
  double batch_norm_share = 0;    ///< Of the memory's bandwidth.
  double pool_element = 0;        ///< Lane-cycles per element of a window.
  double pool_wave = 0;           ///< s, one wave of blocks where the channels come last.
  double pool_backward = 0;       ///< Backward of max pooling relative to forward, channels last.
  double moments_start = 0;       ///< s, mean and variance of a group of channels,
  double moments_step = 0;        ///< s more per element of a thread.
  double top_k_start = 0;         ///< s
  double top_k_row = 0;           ///< s per row.
  double top_k_column = 0;        ///< s per element of a row.
  double sort_small = 0;          ///< s, sorting up to 32 elements.
  double sort_block = 0;          ///< s, up to 4096 elements by one block.
  double sort_digit = 0;          ///< s per digit beyond.
};

/// BatchNorm in training, channels last: a kernel of sums over the pixels (statistics; of the gradient) and
/// one that goes over all elements again, each of blocks of 512 threads.
struct BatchNormCalibration {
  double start = 0;            ///< s, a kernel of sums.
  double merge = 0;            ///< s, where several blocks share a channel: the last one joins them.
  double block = 0;            ///< s per block that an SM runs one after the other.
  double step = 0;             ///< s per four pixels of a thread: statistics,
  double step_cold = 0;        ///< so much more from memory, as a multiple,
  double step_shared = 0;      ///< and s for each block on the same SM.
  double gradient_step = 0;    ///< The same for the sums of the gradient.
  double gradient_cold = 0;    ///< The same.
  double gradient_shared = 0;  ///< The same.
  double apply_start = 0;      ///< s, a kernel over all elements,
  double apply_share = 0;      ///< its share of the memory's bandwidth, forward
  double gradient_share = 0;   ///< and backward,
  double cached = 0;           ///< and the time of a byte from the L2 relative to one from memory.
};

/// Matrix products in tiles and waves.
struct ProductCalibration {
  double start = 0;                ///< s
  double latency = 0;              ///< s, operands from memory.
  double split_reduce = 0;         ///< s, adding up the parts of a product split along k.
  double reduce_bytes = 0;         ///< The same per byte: share of the memory's bandwidth.
  double peak_share = 0;           ///< Of the dense peak, inside a tile.
  double tile = 0;                 ///< s per full tile (256 x 128): start, end and writing.
  double step = 0;                 ///< Cycles that a tile needs for each k at least, however small it is.
  double memory_share = 0;         ///< Of the memory's bandwidth.
  double memory_blocks = 0;        ///< Blocks per SM that it takes to draw all of the bandwidth.
  double sharpness = 0;            ///< Exponent of the soft maximum.
  double fp8 = 0;                  ///< Share of the fp8 peak, relative to 16-bit.
  double fp16 = 0;                 ///< The same for fp16: its numbers draw more power.
  double fp32 = 0;                 ///< The same for fp32 on vector units.
  double tf32 = 0;                 ///< The same for tf32,
  double tf32_start = 0;           ///< and s more of its kernels;
  double tf32_input_gradient = 0;  ///< the same where only the right operand lies the other way round,
  double tf32_input_gradient_start = 0;    ///< as in the gradient of a layer's input,
  double tf32_weight_gradient = 0;         ///< and where both do, as in the gradient of its weight.
  double tf32_weight_gradient_start = 0;   ///< s
  double bias = 0;                         ///< s, longer with a bias added by the library.
  double misaligned = 0;                   ///< Share of the peak with rows that are no multiple of 16 bytes.
  double convolution = 0;                  ///< Relative speed of implicit products with strides or windows.
  double first_layer = 0;                  ///< The same with channels too few for the tensor cores' kernels.
  double first_layer_weight_gradient = 0;  ///< The same for the gradient of its weight,
  double first_layer_weight_gradient_start = 0;  ///< and s more.
  double input_gradient = 0;                     ///< Relative speed of a convolution's input gradient,
  double input_gradient_start = 0;               ///< and s more;
  double strided_gradient = 0;                   ///< the same with a stride,
  double strided_gradient_start = 0;             ///< s more;
  double weight_gradient = 0;                    ///< the same of its weight gradient,
  double weight_gradient_start = 0;              ///< s more,
  double weight_gradient_split = 0;  ///< and s more where it is split: the kernel that prepares for that.
  double narrow_gradient = 0;        ///< Up to 64 channels in the result of a gradient, relative speed.
  double grouped = 0;                ///< Relative speed of grouped products.
  double grouped_memory = 0;         ///< Of the memory's bandwidth, in grouped products.
  double grouped_setup = 0;          ///< s, the kernel that lays out a grouped product.
};

/// Fused attention (flash). The unit of work is a block of 128 x 128 scores.
struct AttentionCalibration {
  double start = 0;                ///< s
  double item = 0;                 ///< s per 128 queries of one head.
  double softmax = 0;              ///< SM-cycles per block of scores.
  double peak_share = 0;           ///< Of the dense peak, in the two products.
  double causal_block = 0;         ///< Blocks of scores with a causal mask, relative time.
  double causal_tail = 0;          ///< Share of the longest item that is left alone at the end.
  double mask = 0;                 ///< SM-cycles per block of scores that a mask tensor adds,
  double ragged = 0;               ///< and keys that do not fill the last block, without a causal mask.
  double backward_start = 0;       ///< s
  double backward_item = 0;        ///< s per 128 queries of one head.
  double backward_softmax = 0;     ///< SM-cycles per block of scores.
  double backward_peak_share = 0;  ///< Of the dense peak, in the five products.
  double backward_streams = 0;     ///< Of the memory's bandwidth, in the kernels before and after.
  // fp32 runs in kernels of its own, in blocks of 64 x 64 scores.
  double fp32_start = 0;                ///< s
  double fp32_softmax = 0;              ///< SM-cycles per block of scores.
  double fp32_peak_share = 0;           ///< Of the dense tf32 peak, in the two products.
  double fp32_causal_tail = 0;          ///< Share of the longest item that is left alone at the end.
  double fp32_backward_start = 0;       ///< s
  double fp32_backward_softmax = 0;     ///< SM-cycles per block of scores.
  double fp32_backward_peak_share = 0;  ///< Of the dense tf32 peak, in the five products.
  double fp32_backward_tail = 0;        ///< As fp32_causal_tail.
  double decode_start = 0;              ///< s
  double decode_share = 0;              ///< Of the memory's bandwidth.
  double decode_cached = 0;             ///< The same for a cache in the L2.
  double decode_reduce = 0;             ///< s, joining the parts of a sequence.
};

/// Gathers, scatters, losses.
struct IndexedCalibration {
  double gather_start = 0;     ///< s
  double gather_share = 0;     ///< Of the memory's bandwidth.
  double gather_few_row = 0;   ///< s per row where there are 2 to 16: one after the other.
  double scatter_row = 0;      ///< s per row of an embedding's gradient, with the table in the L2.
  double segment_element = 0;  ///< SM-cycles per element of each of two kernels where rows were sorted.
  double index_add = 0;        ///< SM-cycles per element added at an index.
  double index_start = 0;      ///< s, writing at indices.
  double fill_share = 0;       ///< Of the memory's bandwidth, filling a table with zeros.
  double loss = 0;             ///< s per row, picking the labels' numbers.
};

/// Lists of tensors.
struct OptimizerCalibration {
  double fused_share = 0;         ///< Of the memory's bandwidth, tensors whose size is no multiple of four,
  double fused_vector_share = 0;  ///< and those that are read four elements at a time.
  double foreach_share = 0;       ///< The same for one pass of many.
  double fused_element = 0;       ///< Lane-cycles per element of all of an optimizer in one function.
  double fused_step = 0;          ///< s per 2048 elements that a block takes, where few blocks run,
  double foreach_step = 0;        ///< and the same for one pass of many.
  double start = 0;               ///< s per kernel.
};

/// Kernels of torch.compile.
struct InductorCalibration {
  double start = 0;             ///< s, elementwise.
  double latency = 0;           ///< s, input from memory.
  double memory_share = 0;      ///< Of the memory's bandwidth.
  double block_start = 0;       ///< Cycles from one block's start to the next one's, whole device.
  double sharpness = 0;         ///< Exponent of the soft maximum.
  double element = 0;           ///< Lane-cycles per element besides functions: places, conversions.
  double strided = 0;           ///< Lane-cycles per element of each load an element at a time.
  double persistent_start = 0;  ///< s
  double persistent_alu = 0;    ///< Arithmetic of rows in registers relative to the looped form.
  double looped_start = 0;      ///< s
  double looped_loop = 0;       ///< s, more of it for each loop after the first.
  double loop = 0;              ///< Lane-cycles per element of each loop over the row.
  double welford = 0;           ///< Lane-cycles per element that mean and variance in one loop add.
  double softmax = 0;           ///< The same for maximum and sum of exponentials in one loop.
  double rows_per_sm =
      0;  ///< Rows in flight on an SM; where they do not fit the L2, loops read memory again.
  double column_start = 0;   ///< s, sums over the first axis.
  double column_second = 0;  ///< s, their second kernel.
};

struct KernelCalibration {
  MemoryCalibration memory;
  AluCalibration alu;
  PointwiseCalibration pointwise;
  CopyCalibration copy;
  NormCalibration norm;
  SoftmaxCalibration softmax;
  RowSumCalibration row_sum;
  ColumnSumCalibration column_sum;
  NormBackwardCalibration norm_backward;
  LayerCalibration layer;
  BatchNormCalibration batch_norm;
  ProductCalibration product;
  AttentionCalibration attention;
  IndexedCalibration indexed;
  OptimizerCalibration optimizer;
  InductorCalibration inductor;
  std::string transferred_from;  ///< The device that the numbers were measured on; empty: this one.

  bool operator==(const KernelCalibration&) const;
};

enum class CalibrationUnit {
  Time,    ///< Kept in seconds, written with its unit.
  Cycles,  ///< A bare number.
  Share,   ///< A bare number: part or multiple of a rate.
  Number,  ///< Any other bare number.
};

/// One number of a KernelCalibration: how files call it and where it is.
struct CalibrationParameter {
  std::string_view section;  ///< "pointwise"
  std::string_view key;      ///< "start"
  CalibrationUnit unit;
  std::string_view about;
  double& (*get)(KernelCalibration&);

  double value(const KernelCalibration& calibration) const {
    return get(const_cast<KernelCalibration&>(calibration));
  }
};

/// All of them, in the order of the files.
std::span<const CalibrationParameter> calibration_parameters();

/// Everything that is impossible in `calibration`.
std::vector<SpecProblem> problems(const KernelCalibration& calibration);

}  // namespace gpusim
