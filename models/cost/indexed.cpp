// SPDX-License-Identifier: Apache-2.0
// Kernels that go by index: gathers, scatters, embedding gradients, losses.
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
  const double few = work.rows > 1 && work.rows <= few_rows ? rows * c.gather_few_row : 0;
  const double fixed =
      c.gather_start + few + p.latency(p.calibration.memory.latency, p.cache.cold_reads, 2 * bytes);
  figures.seconds = fixed + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  return {kernel("gather", figures)};
}

GpuOps price(const Pricing& p, const Scatter& work) {
  if (work.rows == 0 || work.row_bytes.value() == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  const double bytes = static_cast<double>(work.rows) * static_cast<double>(work.row_bytes.value());
  const double elements = bytes / bytes_of(work.dtype);
  KernelFigures figures;
  figures.blocks = std::ceil(elements / 512);
  const double cold_bytes = bytes * (p.cache.cold_reads + (work.add ? 2 : 1) * p.cache.cold_writes);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, c.gather_share), KernelLimit::Memory},
      {p.sm_cycles(work.add ? elements * c.index_add : 0), KernelLimit::Compute},
      {p.block_starts(figures.blocks), KernelLimit::Blocks}};
  figures.seconds = c.index_start + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(c.index_start, terms);
  figures.flops = work.add ? elements : 0;
  figures.hbm_bytes = cold_bytes;
  return {kernel(work.add ? "index_add" : "index_copy", figures)};
}

GpuOps price(const Pricing& p, const EmbeddingBackward& work) {
  if (work.columns == 0 || work.table_rows == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  const double table = static_cast<double>(work.table_rows) * static_cast<double>(work.columns);
  const double added = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  KernelFigures add;
  add.seconds = c.gather_start + p.sm_cycles(added * c.scatter_element);
  add.limit = KernelLimit::Compute;
  add.flops = added;
  add.hbm_bytes = added * bytes_of(work.dtype) * 3;
  add.blocks = static_cast<double>(work.rows);
  return {kernel("fill", fill(p, table * bytes_of(work.dtype), table)), kernel("embedding_backward", add)};
}

GpuOps price(const Pricing& p, const LossGather& work) {
  if (work.rows == 0) return {};
  const IndexedCalibration& c = p.calibration.indexed;
  KernelFigures pick;
  // One block goes over all rows.
  pick.seconds = c.loss;
  pick.flops = static_cast<double>(work.rows);
  pick.hbm_bytes = static_cast<double>(work.rows) * 32;
  if (!work.backward) return {kernel("loss", pick)};
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.classes);
  pick.seconds = c.loss / 2;
  return {kernel("fill", fill(p, elements * bytes_of(work.dtype), elements)), kernel("loss_backward", pick)};
}

}  // namespace gpusim::cost
