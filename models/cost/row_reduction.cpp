// SPDX-License-Identifier: Apache-2.0
// Eager reductions along rows: norms, softmax, sums, argmax, and the backward of norms and softmax.
#include <bit>

#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

/// Shared memory that a block of PyTorch's softmax can keep a row in: 48 KiB, less what its warps exchange.
constexpr double softmax_row_bytes_max = 48 * 1024 - 128;
/// Rows up to which its kernel of a warp per row goes (ATen/native/cuda/PersistentSoftmax.cuh).
constexpr std::int64_t softmax_warp_columns_max = 2048;

struct Shape {
  double rows, columns, elements, read, written;
};

Shape shape_of(const RowReduction& work) {
  Shape s{};
  s.rows = static_cast<double>(work.rows);
  s.columns = static_cast<double>(work.columns);
  s.elements = s.rows * s.columns;
  s.read = s.elements * bytes_of(work.input);
  s.written = s.elements * bytes_of(work.output);
  return s;
}

/// `hot` at no cold reads, `factor` times as much at all of them.
double colder(const Pricing& p, double hot, double factor) {
  return hot * (1 + (factor - 1) * p.cache.cold_reads);
}

/// Bytes that pass the memory when `rows_in_flight` rows are read again after all of them were read once.
double read_again(const Pricing& p, double bytes, double row_bytes, double rows_in_flight) {
  return bytes * p.miss(row_bytes * rows_in_flight);
}

/// layer_norm and rms_norm: a block of 128 threads per row, statistics first, then the row again.
GpuOps norm(const Pricing& p, const RowReduction& work, bool rms) {
  const NormCalibration& c = p.calibration.norm;
  const Shape s = shape_of(work);
  const double in_flight = std::min(s.rows, c.blocks_per_sm * p.sms());
  const double again = read_again(p, s.read, (s.read + s.written) / s.rows, in_flight);
  const double cold_bytes = s.read * p.cache.cold_reads + s.written * p.cache.cold_writes + again;
  const double element = c.element * (rms ? c.rms_element : 1);
  // 128 threads, each of which takes four elements at a time.
  constexpr double round = 512;
  const double block = colder(
      p,
      (c.block + p.cycles(c.block_element * round * std::ceil(s.columns / round))) * (rms ? c.rms_block : 1),
      c.block_cold);
  const double fixed = (rms ? c.rms_start : c.start) +
                       p.latency(p.calibration.memory.latency, p.cache.cold_reads, s.read + s.written);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(2 * s.read + s.written), KernelLimit::Cache},
      {p.sm_cycles(s.rows * c.row) + p.lane_cycles(s.elements * element), KernelLimit::Compute},
      {block, KernelLimit::Overhead}};
  KernelFigures figures;
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = s.elements * (rms ? 5 : 8);
  figures.blocks = s.rows;
  figures.threads = 128;
  return {kernel(rms ? "rms_norm" : "layer_norm", figures)};
}

GpuOps softmax(const Pricing& p, const RowReduction& work, bool log) {
  const SoftmaxCalibration& c = p.calibration.softmax;
  const Shape s = shape_of(work);
  const double row_bytes = s.read / s.rows;
  double element = c.shared_memory;
  double passes = 1;
  double start = c.start;
  double padded = s.elements;
  double block = p.cycles(c.block_element * s.columns);
  KernelFigures figures;
  figures.blocks = s.rows;
  figures.threads = 1024;
  if (work.columns <= softmax_warp_columns_max) {
    // Compiled for powers of two: the lanes go over what is beyond the row as well.
    const auto columns = static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(work.columns)));
    padded = s.rows * columns;
    element = c.warp;
    start = c.warp_start + c.warp_step * columns / 32;
    block = 0;
    figures.blocks = std::ceil(s.rows / 4);
    figures.threads = 128;
  } else if (work.columns <= 8192) {
    element = c.registers;
  } else if (row_bytes > softmax_row_bytes_max) {
    passes = 3;  // Maximum, sum, result: each reads the row.
  }
  // One exponential less: the result is a difference.
  if (log && work.columns > softmax_warp_columns_max) element *= c.log;
  const double again = (passes - 1) * read_again(p, s.read, row_bytes, std::min(s.rows, 2 * p.sms()));
  const double cold_bytes = s.read * p.cache.cold_reads + s.written * p.cache.cold_writes + again;
  const double fixed = start + p.latency(c.latency, p.cache.cold_reads, s.read + s.written);
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
                                             {p.l2(passes * s.read + s.written), KernelLimit::Cache},
                                             {p.lane_cycles(padded * element), KernelLimit::Compute},
                                             {block, KernelLimit::Overhead}};
  figures.seconds = fixed + soft_maximum(3, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = s.elements * 5;
  return {kernel("softmax", figures)};
}

GpuOps softmax_backward(const Pricing& p, const RowReduction& work) {
  const SoftmaxCalibration& c = p.calibration.softmax;
  const Shape s = shape_of(work);
  // Two inputs, read for the row's sum and again for the result.
  const bool keeps_row = work.columns <= 1024;
  const double row_bytes = 2 * s.read / s.rows;
  const double again =
      keeps_row ? 0 : c.backward * read_again(p, 2 * s.read, row_bytes, std::min(s.rows, 4 * p.sms()));
  const double cold_bytes = 2 * s.read * p.cache.cold_reads + s.written * p.cache.cold_writes + again;
  const double fixed = c.start + p.latency(c.latency, p.cache.cold_reads, 2 * s.read + s.written);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2((keeps_row ? 2 : 4) * s.read + s.written), KernelLimit::Cache},
      {p.lane_cycles(s.elements * c.warp / 2), KernelLimit::Compute},
      {p.cycles(2 * c.block_element * s.columns), KernelLimit::Overhead}};
  KernelFigures figures;
  figures.seconds = fixed + soft_maximum(3, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = s.elements * 4;
  figures.blocks = keeps_row ? std::ceil(s.rows / 4) : s.rows;
  figures.threads = keeps_row ? 128 : 512;
  return {kernel("softmax_backward", figures)};
}

/// Threads that PyTorch gives a row: a warp, or a whole block where a warp's threads would have 256 elements
/// or more each; fewer rows than 16 leave more threads for each.
struct RowThreads {
  double per_row;
  bool block_per_row;
};

RowThreads row_threads(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t block = 512;
  const auto power_of_two = [](std::int64_t x, std::int64_t limit) {
    std::int64_t power = 1;
    while (2 * power <= std::min(x, limit)) power *= 2;
    return power;
  };
  const std::int64_t height =
      power_of_two(rows, block / std::min<std::int64_t>(32, power_of_two(columns, 32)));
  const std::int64_t width = power_of_two(columns, block / height);
  const std::int64_t each = columns / width;
  if (each >= 256 || each >= height * 16) return {static_cast<double>(width * height), true};
  return {static_cast<double>(width), width >= block};
}

GpuOps row_sum(const Pricing& p, const RowReduction& work, bool argmax) {
  const RowSumCalibration& c = p.calibration.row_sum;
  const Shape s = shape_of(work);
  const RowThreads threads = row_threads(work.rows, work.columns);
  // Wider elements take longer to arrive, but not in proportion.
  const double width = std::sqrt(bytes_of(work.input) / 2);
  const double step =
      width * colder(p, argmax ? c.argmax_step : c.sum_step, argmax ? c.argmax_cold : c.sum_cold);
  const double per_row = threads.block_per_row ? (argmax ? c.argmax_block_row : c.sum_block_row)
                                               : (argmax ? c.argmax_warp_row : c.sum_warp_row) *
                                                     std::min(1.0, threads.per_row / 32);
  const double cold_bytes = s.read * p.cache.cold_reads;
  const double fixed = c.start + p.latency(p.calibration.memory.latency, p.cache.cold_reads, s.read) +
                       p.sm_cycles(s.rows * per_row);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(s.read), KernelLimit::Cache},
      {p.lane_cycles(argmax ? s.elements * c.argmax_element : 0), KernelLimit::Compute},
      {s.columns / threads.per_row * step, KernelLimit::Overhead}};
  KernelFigures figures;
  figures.seconds = fixed + soft_maximum(3, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes + s.rows * (argmax ? 8 : bytes_of(work.output));
  figures.flops = s.elements;
  figures.blocks = threads.block_per_row ? s.rows : std::ceil(s.rows * threads.per_row / 512);
  figures.threads = 512;
  return {kernel(argmax ? "argmax" : "row_sum", figures)};
}

GpuOps norm_backward(const Pricing& p, const RowReduction& work, bool rms) {
  const NormBackwardCalibration& c = p.calibration.norm_backward;
  const Shape s = shape_of(work);
  GpuOps ops;

  {  // The input's gradient: reads the incoming gradient and the input, as the forward does.
    const double in_flight = std::min(s.rows, c.blocks_per_sm * p.sms());
    const double again = read_again(p, 2 * s.read, (2 * s.read + s.written) / s.rows, in_flight);
    const double cold_bytes = 2 * s.read * p.cache.cold_reads + s.written * p.cache.cold_writes + again;
    const double block = colder(p, p.cycles(c.block_element * s.columns), c.block_cold);
    const std::initializer_list<Term> terms = {
        {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
        {p.sm_cycles(s.rows * c.row) + p.lane_cycles(s.elements * c.element), KernelLimit::Compute},
        {block, KernelLimit::Overhead}};
    KernelFigures figures;
    figures.seconds = c.start + soft_maximum(p.calibration.norm.sharpness, terms);
    figures.limit = limit_of(c.start, terms);
    figures.hbm_bytes = cold_bytes;
    figures.flops = s.elements * (rms ? 10 : 12);
    figures.blocks = s.rows;
    ops.push_back(kernel(rms ? "rms_norm_backward" : "layer_norm_backward", figures));
  }

  // Weights: a block per 32 columns goes over all rows; very many rows of few columns are split and added up.
  const bool split = work.rows > 64 * 1024 && work.columns / 32 < p.gpu.sms / 2;
  {
    // What the first kernel has just read is still in the L2 where it fits.
    const double cold = p.miss(2 * s.read + s.written);
    const double cold_bytes = 2 * s.read * cold;
    const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.weights_share), KernelLimit::Memory},
                                               {p.l2(2 * s.read), KernelLimit::Cache},
                                               {split ? 0 : s.rows * c.weights_row, KernelLimit::Overhead}};
    KernelFigures figures;
    figures.seconds = p.calibration.pointwise.start + soft_maximum(p.calibration.norm.sharpness, terms);
    figures.limit = limit_of(p.calibration.pointwise.start, terms);
    figures.hbm_bytes = cold_bytes;
    figures.flops = s.elements * 4;
    figures.blocks = std::ceil(s.columns / 32);
    figures.threads = 1024;
    ops.push_back(kernel("norm_weights_backward", figures));
  }
  if (split) {
    for (int i = 0; i < (rms ? 1 : 2); ++i) {
      ops.push_back(memset_op(p, 4));
      KernelFigures figures;
      figures.seconds = c.reduce;
      figures.flops = s.elements / 64;
      ops.push_back(kernel("column_sum", figures));
    }
  }
  return ops;
}

}  // namespace

GpuOps price(const Pricing& p, const RowReduction& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  switch (work.kind) {
    case RowReduction::Kind::LayerNorm:
      return norm(p, work, false);
    case RowReduction::Kind::RmsNorm:
      return norm(p, work, true);
    case RowReduction::Kind::Softmax:
      return softmax(p, work, false);
    case RowReduction::Kind::LogSoftmax:
      return softmax(p, work, true);
    case RowReduction::Kind::Sum:
      return row_sum(p, work, false);
    case RowReduction::Kind::ArgMax:
      return row_sum(p, work, true);
    case RowReduction::Kind::LayerNormBackward:
      return norm_backward(p, work, false);
    case RowReduction::Kind::RmsNormBackward:
      return norm_backward(p, work, true);
    case RowReduction::Kind::SoftmaxBackward:
      return softmax_backward(p, work);
  }
  return {};
}

}  // namespace gpusim::cost
