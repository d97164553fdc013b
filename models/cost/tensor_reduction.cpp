// SPDX-License-Identifier: Apache-2.0
// Eager sums over the first axis and over everything, as PyTorch lays their blocks out.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

constexpr std::int64_t block_threads = 512;
/// Elements per thread from which PyTorch lets several blocks share an output.
constexpr double split_from = 256;

/// Blocks that share an output: so many that each thread still has 16 elements and no SM more than four
/// blocks, but never so few that a thread has more than 256.
double sharing_blocks(const Pricing& p, double per_thread, double output_blocks) {
  const double target = std::ceil(16 * p.sms() / output_blocks);
  return std::max({1.0, std::min(target, std::floor(per_thread / 16)), std::floor(per_thread / split_from)});
}

}  // namespace

GpuOps price(const Pricing& p, const ColumnReduction& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  const ColumnSumCalibration& c = p.calibration.column_sum;
  const double rows = static_cast<double>(work.rows);
  const double columns = static_cast<double>(work.columns);
  const double read = rows * columns * bytes_of(work.input);
  const double cold_bytes = read * p.cache.cold_reads;

  // A block has 32 x 4 threads with four columns each; the four share a column's rows from 64 rows on.
  const bool shared = work.rows >= 64;
  const double column_blocks = std::ceil(columns / (shared ? 128 : 512));
  const double rows_each = shared ? std::ceil(rows / 4) : rows;
  double splits = 1;
  if (rows_each >= split_from) splits = sharing_blocks(p, rows_each, column_blocks);

  GpuOps ops;
  double fixed = c.start + p.latency(p.calibration.memory.latency, p.cache.cold_reads, read);
  if (splits > 1) {
    ops.push_back(memset_op(p, 4 * column_blocks));
    fixed += c.split + c.split_each * splits;
  }
  const double steps = std::ceil(rows_each / splits / 4);
  const double chain = steps * c.step * (1 + (c.step_cold - 1) * p.cache.cold_reads);
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.memory_share), KernelLimit::Memory},
                                             {p.l2(read), KernelLimit::Cache},
                                             {chain, KernelLimit::Overhead}};
  KernelFigures figures;
  figures.seconds = fixed + soft_maximum(3, terms) + c.block * column_blocks * splits / p.sms();
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes + columns * bytes_of(work.output);
  figures.flops = rows * columns;
  figures.blocks = column_blocks * splits;
  ops.push_back(kernel("column_sum", figures));
  return ops;
}

GpuOps price(const Pricing& p, const FullReduction& work) {
  if (work.elements == 0) return {};
  const ColumnSumCalibration& c = p.calibration.column_sum;
  const double elements = static_cast<double>(work.elements);
  const double read = elements * bytes_of(work.input);
  const double cold_bytes = read * p.cache.cold_reads;
  KernelFigures figures;
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements;
  figures.threads = block_threads;
  const double per_thread = std::floor(elements / block_threads);
  if (per_thread < split_from) {
    figures.seconds = c.start + p.latency(p.calibration.memory.latency, p.cache.cold_reads, read) +
                      p.cycles(elements * c.full_element);
    return {kernel("full_sum", figures)};
  }
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.full_share), KernelLimit::Memory},
                                             {p.l2(read), KernelLimit::Cache}};
  // Blocks of 512 threads fill an SM four at a time.
  figures.blocks = sharing_blocks(p, per_thread, 4);
  const double fixed = c.full_start + figures.blocks * c.full_each;
  figures.seconds = fixed + soft_maximum(3, terms);
  figures.limit = limit_of(fixed, terms);
  return {memset_op(p, 4), kernel("full_sum", figures)};
}

}  // namespace gpusim::cost
