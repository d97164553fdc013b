// SPDX-License-Identifier: Apache-2.0
// Kernels that go by index: gathers, scatters, embedding gradients, losses.
#include <bit>

#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

/// Up to so many rows one block goes over them one after the other.
constexpr std::int64_t few_rows = 16;

/// Filling `bytes` with one value: bytes, or starting the blocks.
KernelFigures fill(const Pricing& p, double bytes, double elements) {
  const IndexedCalibration& c = p.calibration.indexed;
  KernelFigures figures;
  figures.blocks = std::ceil(elements / 1024);
  const double cold_bytes = bytes * p.cache.cold_writes;
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.fill_share), KernelLimit::Memory},
                                             {p.l2(bytes), KernelLimit::Cache},
                                             {p.block_starts(figures.blocks), KernelLimit::Blocks}};
  figures.seconds = p.calibration.pointwise.start + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(p.calibration.pointwise.start, terms);
  figures.hbm_bytes = cold_bytes;
  return figures;
}

/// Up to so many rows an embedding's gradient is added up without sorting them.
constexpr std::int64_t embedding_rows_unsorted = 3072;
/// Bytes of the keys (int64), of which a radix sort orders one a pass.
constexpr int sort_digits = 8;

/// Pairs of 16 bytes up to which one block of 256 threads sorts all: 9 for each (cub's DispatchRadixSort, its
/// 19 items of 4 bytes).
constexpr std::int64_t single_tile_rows = 256 * 9;

/// Sorts `rows` keys by `digits` of their bytes: clears counters, makes the histogram of all digits and its
/// sums, then a pass for each; few rows in one kernel.
GpuOps radix_sort(const Pricing& p, std::int64_t rows, int digits) {
  if (rows <= single_tile_rows) {
    KernelFigures tile;
    tile.seconds = 5.1e-6;  // Measured: 2048 rows by 12 bits (held-out/training.csv).
    tile.blocks = 1;
    tile.threads = 256;
    return {kernel("sort", tile)};
  }
  const GpuOpEstimate tiny = price(p, TinyKernel{}).front();
  const GpuOpEstimate clear = memset_op(p, 4);
  KernelFigures digit;
  digit.seconds = p.calibration.layer.sort_digit;
  digit.blocks = std::ceil(static_cast<double>(rows) / 4096);
  digit.threads = 384;
  GpuOps ops = {clear, clear, tiny, tiny};
  for (int i = 0; i < digits; ++i) {
    ops.push_back(clear);
    ops.push_back(kernel("sort_digit", digit));
  }
  return ops;
}

/// The rows sorted by their place: numbers them, sorts the pairs, finds where a place begins, cuts its rows
/// into parts of at most ten (NROWS_PER_THREAD), adds up each part, then the parts of a place.
GpuOps sorted_embedding_backward(const Pricing& p, const EmbeddingBackward& work, const GpuOpEstimate& zeros,
                                 KernelFigures add) {
  const IndexedCalibration& c = p.calibration.indexed;
  const double rows = static_cast<double>(work.rows);
  const GpuOpEstimate tiny = price(p, TinyKernel{}).front();
  GpuOps ops = {tiny};  // Places.
  const GpuOps sort = radix_sort(p, work.rows, sort_digits);
  ops.insert(ops.end(), sort.begin(), sort.end());
  ops.push_back(zeros);
  // Unique places, parts per place, their sums, the number of parts, where each begins.
  for (int i = 0; i < 7; ++i) ops.push_back(tiny);
  add.seconds = p.calibration.pointwise.start +
                p.sm_cycles(rows * static_cast<double>(work.columns) * c.segment_element);
  add.blocks = rows;
  ops.push_back(kernel("embedding_segments", add));
  ops.push_back(kernel("embedding_backward", add));
  return ops;
}

}  // namespace

GpuOps price(const Pricing& p, const Gather& work) {
  if (work.rows == 0 || work.row_bytes.value() == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  const double rows = static_cast<double>(work.rows);
  const double bytes = rows * static_cast<double>(work.row_bytes.value());
  const double table = static_cast<double>(work.table_bytes.value());
  // Rows that are asked for twice are in the L2 the second time, if the table fits there.
  const double distinct = table > 0 && table < bytes ? table + (bytes - table) * p.miss(table) : bytes;
  KernelFigures figures;
  figures.blocks = rows * std::ceil(static_cast<double>(work.row_bytes.value()) / 4096);
  const double cold_bytes = distinct * p.cache.cold_reads + bytes * p.cache.cold_writes;
  const std::initializer_list<Term> terms = {{p.memory(cold_bytes, c.gather_share), KernelLimit::Memory},
                                             {p.l2(2 * bytes), KernelLimit::Cache},
                                             {p.block_starts(figures.blocks), KernelLimit::Blocks}};
  const double few =
      !work.by_expression && work.rows > 1 && work.rows <= few_rows ? rows * c.gather_few_row : 0;
  const double fixed =
      c.gather_start + few + p.latency(p.calibration.memory.latency, p.cache.cold_reads, 2 * bytes);
  figures.seconds = fixed + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  return {kernel("gather", figures)};
}

GpuOps price(const Pricing& p, const Scatter& work) {
  if (work.rows == 0 || work.row_bytes.value() == 0) return {};
  const bool atomic = work.add && work.sorted_places == 0;
  const IndexedCalibration& c = p.calibration.indexed;
  const double bytes = static_cast<double>(work.rows) * static_cast<double>(work.row_bytes.value());
  const double elements = bytes / bytes_of(work.dtype);
  KernelFigures figures;
  figures.blocks = std::ceil(elements / 512);
  const double cold_bytes = bytes * (p.cache.cold_reads + (work.add ? 2 : 1) * p.cache.cold_writes);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.gather_share), KernelLimit::Memory},
      {p.sm_cycles(atomic ? elements * c.index_add : 0), KernelLimit::Compute},
      {p.block_starts(figures.blocks), KernelLimit::Blocks}};
  figures.seconds = c.index_start + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(c.index_start, terms);
  figures.flops = work.add ? elements : 0;
  figures.hbm_bytes = cold_bytes;
  if (work.sorted_places == 0) return {kernel(work.add ? "index_add" : "index_copy", figures)};
  GpuOps ops =
      radix_sort(p, work.rows,
                 (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(work.sorted_places))) + 7) / 8);
  ops.push_back(kernel("index_add", figures));
  return ops;
}

GpuOps price(const Pricing& p, const EmbeddingBackward& work) {
  if (work.columns == 0 || work.table_rows == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  const double table = static_cast<double>(work.table_rows) * static_cast<double>(work.columns);
  const double added = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  const double table_bytes = table * bytes_of(work.dtype);
  KernelFigures add;
  add.limit = KernelLimit::Overhead;
  add.flops = added;
  add.hbm_bytes = added * bytes_of(work.dtype) * 3;
  const GpuOpEstimate zeros = kernel("fill", fill(p, table_bytes, table));
  if (work.rows > embedding_rows_unsorted) return sorted_embedding_backward(p, work, zeros, add);
  // A block of 1024 threads for 32 columns goes over all rows; each waits for what the table held at its
  // place, from the memory twice as long as from the L2.
  add.blocks = std::ceil(static_cast<double>(work.columns) / 32);
  add.threads = 1024;
  const double waves = std::ceil(add.blocks / (2 * p.sms()));
  add.seconds =
      c.gather_start + waves * static_cast<double>(work.rows) * c.scatter_row * (1 + p.miss(table_bytes));
  return {zeros, kernel("embedding_backward", add)};
}

GpuOps price(const Pricing& p, const LossGather& work) {
  if (work.rows == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  KernelFigures pick;
  // One block of 32 threads goes over all rows.
  pick.blocks = 1;
  pick.threads = 32;
  pick.seconds = p.calibration.pointwise.start + static_cast<double>(work.rows) * c.loss;
  pick.flops = static_cast<double>(work.rows);
  pick.hbm_bytes = static_cast<double>(work.rows) * 32;
  if (!work.backward) return {kernel("loss", pick)};
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.classes);
  const double bytes = elements * bytes_of(work.dtype);
  const std::int32_t parts = pointwise_parts(Bytes(std::llround(bytes)));
  GpuOps ops(static_cast<std::size_t>(parts), kernel("fill", fill(p, bytes / parts, elements / parts)));
  ops.push_back(kernel("loss_backward", pick));
  return ops;
}

}  // namespace gpusim::cost
