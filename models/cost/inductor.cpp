// SPDX-License-Identifier: Apache-2.0
// Kernels that torch.compile generates: elementwise, rows kept in registers, rows looped over, sums over the
// first axis.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

/// Longest row that Inductor keeps in registers.
constexpr std::int64_t persistent_columns_max = 1024;

double cold_latency(const Pricing& p, double read) {
  return p.latency(p.calibration.inductor.latency, p.cache.cold_reads, read);
}

double block_starts(const Pricing& p, double blocks) {
  return p.cycles(blocks * p.calibration.inductor.block_start);
}

/// Lane-cycles per element that the reduction itself takes.
double reduction_cycles(const InductorCalibration& c, InductorRowReduction::Reduction reduction) {
  switch (reduction) {
    case InductorRowReduction::Reduction::Plain:
      return 0;
    case InductorRowReduction::Reduction::Welford:
      return c.welford;
    case InductorRowReduction::Reduction::OnlineSoftmax:
      return c.softmax;
  }
  return 0;
}

KernelFigures persistent(const Pricing& p, const InductorRowReduction& work, double read, double written) {
  const InductorCalibration& c = p.calibration.inductor;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  const double cold_bytes = read * p.cache.cold_reads + written * p.cache.cold_writes;
  const double cycles =
      c.persistent_alu * reduction_cycles(c, work.reduction) + c.fused_alu * work.lane_cycles;
  KernelFigures figures;
  figures.blocks = static_cast<double>(work.rows);
  figures.threads = 32;
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
                                             {p.l2(read + written), KernelLimit::Cache},
                                             {block_starts(p, figures.blocks), KernelLimit::Blocks},
                                             {p.lane_cycles(elements * cycles), KernelLimit::Compute}};
  const double fixed = c.persistent_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  return figures;
}

KernelFigures looped(const Pricing& p, const InductorRowReduction& work, double read, double written) {
  const InductorCalibration& c = p.calibration.inductor;
  const double rows = static_cast<double>(work.rows);
  const double elements = rows * static_cast<double>(work.columns);
  const double again = work.read_again.value() > 0 ? static_cast<double>(work.read_again.value()) : read;
  const double in_flight = std::min(rows, c.rows_per_sm * p.sms()) * (again + written) / rows;
  const double miss = p.miss(in_flight);

  KernelFigures figures;
  double seconds = 0;
  std::initializer_list<Term> terms = {};
  // Loops of reduction: the first one reads for the first time.
  for (std::int32_t loop = 0; loop < std::max(1, work.reductions); ++loop) {
    const double bytes = loop == 0 ? read * p.cache.cold_reads : again * miss;
    const double moved = loop == 0 ? read : again;
    seconds += soft_maximum(
        c.sharpness, {{p.memory(bytes, c.memory_share), KernelLimit::Memory},
                      {p.l2(moved), KernelLimit::Cache},
                      {p.lane_cycles(elements * (reduction_cycles(c, work.reduction) +
                                                 (work.writes_rows ? 0 : c.fused_alu * work.lane_cycles))),
                       KernelLimit::Compute}});
    figures.hbm_bytes += bytes;
  }
  if (work.writes_rows) {
    const double bytes = written * p.cache.cold_writes + again * miss;
    seconds += soft_maximum(
        c.sharpness, {{p.memory(bytes, c.memory_share), KernelLimit::Memory},
                      {p.l2(again + written), KernelLimit::Cache},
                      {p.lane_cycles(elements * c.fused_alu * work.lane_cycles), KernelLimit::Compute}});
    figures.hbm_bytes += bytes;
  }
  static_cast<void>(terms);
  const double loops = work.reductions - 1 + (work.writes_rows ? 1 : 0);
  const double fixed =
      c.looped_start + c.looped_loop * loops + cold_latency(p, read) + p.sm_cycles(rows * c.looped_block);
  figures.seconds = fixed + seconds;
  figures.limit = fixed > seconds ? KernelLimit::Overhead : KernelLimit::Memory;
  figures.blocks = rows;
  figures.threads = 512;
  return figures;
}

}  // namespace

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
      {p.lane_cycles(elements * work.lane_cycles), KernelLimit::Compute}};
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
  const double cold_bytes = read * p.cache.cold_reads;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  KernelFigures figures;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
      {p.l2(read), KernelLimit::Cache},
      {p.lane_cycles(elements * c.fused_alu * work.lane_cycles), KernelLimit::Compute}};
  const double fixed = c.column_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements;
  figures.blocks = std::ceil(static_cast<double>(work.columns) / 8);
  GpuOps ops = {kernel("fused_column_sum", figures)};
  // Fewer columns than threads in flight: the rows are split, and a second kernel adds up.
  if (work.columns < 64 * p.gpu.sms && work.rows > 64) {
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
      {p.lane_cycles(elements * c.fused_alu * work.lane_cycles), KernelLimit::Compute}};
  const double fixed = c.looped_start + cold_latency(p, read);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements;
  figures.blocks = std::max(1.0, std::ceil(elements / 8192));
  GpuOps ops = {kernel("fused_full_sum", figures)};
  if (elements > 8192) {
    KernelFigures second;
    second.seconds = c.column_second;
    ops.push_back(kernel("fused_full_sum_join", second));
  }
  return ops;
}

}  // namespace gpusim::cost
