// SPDX-License-Identifier: Apache-2.0
// Kernels that torch.compile generates: elementwise, rows kept in registers, rows looped over, sums over the
// first axis.
#include <bit>

#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

/// fp32 lanes of an SM.
constexpr double lanes_per_sm = 128;
/// Longest row that Inductor keeps in registers.
constexpr std::int64_t persistent_columns_max = 1024;

double cold_latency(const Pricing& p, double read) {
  return p.latency(p.calibration.inductor.latency, p.cache.cold_reads, read);
}

double block_starts(const Pricing& p, double blocks) {
  return p.cycles(blocks * p.calibration.inductor.block_start);
}

/// Lane-cycles per element of all loops over a row, and of the functions fused into them.
double row_cycles(const InductorCalibration& c, const InductorRowReduction& work) {
  const double loops = std::max(1, work.reductions) + (work.writes_rows ? 1 : 0);
  double cycles = loops * c.loop + work.lane_cycles;
  if (work.reduction == InductorRowReduction::Reduction::Welford) cycles += c.welford;
  if (work.reduction == InductorRowReduction::Reduction::OnlineSoftmax) cycles += c.softmax;
  return cycles;
}

/// A warp per row, which stays in registers.
KernelFigures persistent(const Pricing& p, const InductorRowReduction& work, double read, double written) {
  const InductorCalibration& c = p.calibration.inductor;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  const double cold_bytes = read * p.cache.cold_reads + written * p.cache.cold_writes;
  KernelFigures figures;
  figures.blocks = static_cast<double>(work.rows);
  figures.threads = 32;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read + written), KernelLimit::Cache},
      {block_starts(p, figures.blocks), KernelLimit::Blocks},
      {p.lane_cycles(elements * c.persistent_alu * row_cycles(c, work)), KernelLimit::Compute}};
  const double fixed = c.persistent_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  return figures;
}

/// A block of 512 threads per row, a loop for each reduction and one to write. Later loops find the row in
/// the L2 where all rows in flight fit there.
KernelFigures looped(const Pricing& p, const InductorRowReduction& work, double read, double written) {
  const InductorCalibration& c = p.calibration.inductor;
  const double rows = static_cast<double>(work.rows);
  const double elements = rows * static_cast<double>(work.columns);
  const double again = work.read_again.value() > 0 ? static_cast<double>(work.read_again.value()) : read;
  const double later_loops = std::max(1, work.reductions) - 1 + (work.writes_rows ? 1 : 0);
  const double in_flight = std::min(1.0, c.rows_per_sm * p.sms() / rows) * (again + written);
  const double cold_bytes =
      read * p.cache.cold_reads + written * p.cache.cold_writes + later_loops * again * p.miss(in_flight);
  KernelFigures figures;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read + later_loops * again + written), KernelLimit::Cache},
      {block_starts(p, rows), KernelLimit::Blocks},
      {p.lane_cycles(elements * row_cycles(c, work)), KernelLimit::Compute}};
  const double fixed = c.looped_start + c.looped_loop * later_loops + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.blocks = rows;
  figures.threads = 512;
  return figures;
}

/// Rows that each block of a kernel of mixed orders goes over, one after the other (codegen/simd.py,
/// _codegen_mix_order_reduction).
double rows_each(const Pricing& p, std::int64_t rows) {
  const auto wanted =
      static_cast<std::uint64_t>(std::max<std::int64_t>(rows / (8 * std::int64_t{p.gpu.sms}), 1));
  return static_cast<double>(std::clamp<std::uint64_t>(std::bit_floor(wanted), 16, 128));
}

/// Each row waits for its data: the next one starts when it has been reduced and written. Blocks of four
/// warps with a row and the sums of its columns in registers fill an SM four at a time.
GpuOpEstimate mixed_kernel(const Pricing& p, const InductorMixedReduction& work) {
  constexpr double blocks_per_sm = 4;
  const InductorCalibration& c = p.calibration.inductor;
  const double rows = static_cast<double>(work.rows);
  const double columns = static_cast<double>(work.columns);
  const double each = rows_each(p, work.rows);
  KernelFigures figures;
  figures.blocks = std::ceil(rows / each);
  figures.threads = 128;
  const double read = static_cast<double>(work.read.value() + work.shared.value());
  const double written = static_cast<double>(work.written.value()) + figures.blocks * columns * 4 * work.sums;
  const double cold_bytes = read * p.cache.cold_reads + written * p.cache.cold_writes;
  // Two loops over the row, reducing and writing, and one sum more for each column.
  const double cycles = c.persistent_alu * ((2 + work.sums) * c.loop + work.lane_cycles);
  const double in_turn = each * std::ceil(figures.blocks / (blocks_per_sm * p.sms()));
  const double arithmetic = p.cycles(blocks_per_sm * columns * cycles / lanes_per_sm);
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
                                             {p.l2(read + written), KernelLimit::Cache},
                                             {in_turn * (c.latency + arithmetic), KernelLimit::Overhead},
                                             {p.lane_cycles(rows * columns * cycles), KernelLimit::Compute}};
  const double fixed = c.persistent_start;
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = rows * columns * (work.sums + 2);
  return kernel("fused_mixed_reduction", figures);
}

}  // namespace

GpuOps price(const Pricing& p, const InductorMixedReduction& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  GpuOps ops;
  if (work.part != SplitPart::Second) ops.push_back(mixed_kernel(p, work));
  if (work.part == SplitPart::First) return ops;
  const ColumnReduction sum{
      .rows = static_cast<std::int64_t>(std::ceil(static_cast<double>(work.rows) / rows_each(p, work.rows))),
      .columns = work.columns,
      .input = Dtype::Fp32,
      .output = Dtype::Fp32};
  const GpuOps one = price(p, sum);
  const std::int32_t count = work.part == SplitPart::Second ? 1 : work.sums;
  for (std::int32_t i = 0; i < count; ++i) ops.insert(ops.end(), one.begin(), one.end());
  return ops;
}

GpuOps price(const Pricing& p, const InductorPointwise& work) {
  if (work.elements == 0) return {};
  const InductorCalibration& c = p.calibration.inductor;
  const double elements = static_cast<double>(work.elements);
  const double read = static_cast<double>(work.read.value());
  const double written = static_cast<double>(work.written.value());
  const double cold_bytes = read * p.cache.cold_reads + written * p.cache.cold_writes;
  KernelFigures figures;
  figures.blocks = std::ceil(elements / 1024);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read + written), KernelLimit::Cache},
      {block_starts(p, figures.blocks), KernelLimit::Blocks},
      {p.lane_cycles(elements * (c.element + work.lane_cycles + work.strided_reads * c.strided)),
       KernelLimit::Compute}};
  const double fixed = c.start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = work.lane_cycles > 0 ? elements : 0;
  return {kernel("fused_elementwise", figures)};
}

GpuOps price(const Pricing& p, const InductorRowReduction& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  const double shared = static_cast<double>(work.shared.value());
  const double read = static_cast<double>(work.read.value()) + shared;
  const double written = static_cast<double>(work.written.value());
  const bool loops = work.form == InductorRowReduction::Form::Looped ||
                     (work.form == InductorRowReduction::Form::Auto && work.columns > persistent_columns_max);
  KernelFigures figures = loops ? looped(p, work, read, written) : persistent(p, work, read, written);
  figures.flops = static_cast<double>(work.rows) * static_cast<double>(work.columns) *
                  (work.reductions + (work.writes_rows ? 2 : 0));
  return {kernel(loops ? "fused_looped_reduction" : "fused_reduction", figures)};
}

GpuOps price(const Pricing& p, const InductorColumnReduction& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  const InductorCalibration& c = p.calibration.inductor;
  const double read = static_cast<double>(work.read.value());
  const double written = static_cast<double>(work.written.value());
  const double cold_bytes = read * p.cache.cold_reads + written * p.cache.cold_writes;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  KernelFigures figures;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read + written), KernelLimit::Cache},
      {p.lane_cycles(elements * (c.loop + (work.welford ? c.welford : 0) + work.lane_cycles)),
       KernelLimit::Compute}};
  const double fixed = c.column_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements;
  figures.blocks = std::ceil(static_cast<double>(work.columns) / 8);
  GpuOps ops;
  if (work.part != SplitPart::Second) ops.push_back(kernel("fused_column_sum", figures));
  // Fewer columns than threads in flight: the rows are split, and a second kernel adds up.
  const bool split = work.columns < 64 * p.gpu.sms && work.rows > 64;
  if (work.part == SplitPart::Second || (work.part == SplitPart::Both && split)) {
    KernelFigures second;
    second.seconds = c.column_second;
    second.blocks = std::ceil(static_cast<double>(work.columns) / 128);
    ops.push_back(kernel("fused_column_sum_join", second));
  }
  return ops;
}

GpuOps price(const Pricing& p, const InductorFullReduction& work) {
  if (work.elements == 0) return {};
  const InductorCalibration& c = p.calibration.inductor;
  const double elements = static_cast<double>(work.elements);
  const double read = static_cast<double>(work.read.value());
  const double cold_bytes = read * p.cache.cold_reads;
  KernelFigures figures;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read), KernelLimit::Cache},
      {p.lane_cycles(elements * (c.loop + work.lane_cycles)), KernelLimit::Compute}};
  const double fixed = c.looped_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements;
  figures.blocks = std::max(1.0, std::ceil(elements / 8192));
  GpuOps ops;
  if (work.part != SplitPart::Second) ops.push_back(kernel("fused_full_sum", figures));
  if (work.part == SplitPart::Second || (work.part == SplitPart::Both && elements > 8192)) {
    KernelFigures second;
    second.seconds = c.column_second;
    ops.push_back(kernel("fused_full_sum_join", second));
  }
  return ops;
}

}  // namespace gpusim::cost
