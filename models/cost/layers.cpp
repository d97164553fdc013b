// SPDX-License-Identifier: Apache-2.0
// Layers of vision networks and routing: group norm, pooling, top-k, sort.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

double product_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

}  // namespace

GpuOps price(const Pricing& p, const GroupNorm& work) {
  const double elements = product_of(work.batch, work.channels, work.spatial);
  if (elements == 0 || work.groups == 0) return {};
  const LayerCalibration& c = p.calibration.layer;
  GpuOps ops;
  if (work.channels_last) {
    ops.push_back(price(p, TransposedCopy{std::llround(elements), bits(work.dtype) / 8}).front());
    ops.back().name = "group_norm_layout";
  }
  constexpr double threads = 512;
  const double rows = static_cast<double>(work.batch) * static_cast<double>(work.groups);
  KernelFigures moments;
  moments.blocks = rows;
  moments.threads = 512;
  const double chain = std::ceil(elements / rows / threads) * c.moments_step;
  const double read = elements * bytes_of(work.dtype) * p.cache.cold_reads;
  const std::initializer_list<Term> terms = {
      {p.memory(read, p.calibration.pointwise.memory_share), KernelLimit::Memory},
      {std::ceil(rows / (4 * p.sms())) * chain, KernelLimit::Overhead}};
  moments.seconds = c.moments_start + soft_maximum(3, terms);
  moments.limit = limit_of(c.moments_start, terms);
  moments.hbm_bytes = read;
  moments.flops = elements * 4;
  ops.push_back(kernel("group_norm_moments", moments));
  ops.push_back(kernel("group_norm_scales", KernelFigures{p.calibration.pointwise.strided_start, 0, 0,
                                                          KernelLimit::Overhead, 1, 256}));
  Pointwise apply;
  apply.elements = std::llround(elements);
  apply.read = apply.written = Bytes(std::llround(elements * bytes_of(work.dtype)));
  apply.access = Pointwise::Access::Strided;
  ops.push_back(price(p, apply).front());
  ops.back().name = "group_norm_apply";
  return ops;
}

GpuOps price(const Pricing& p, const Pooling& work) {
  if (work.outputs == 0) return {};
  const LayerCalibration& c = p.calibration.layer;
  const double outputs = static_cast<double>(work.outputs);
  const double cold_bytes = bytes_of(work.dtype) * (static_cast<double>(work.inputs) * p.cache.cold_reads +
                                                    outputs * p.cache.cold_writes);
  KernelFigures figures;
  figures.blocks = work.channels_last ? std::ceil(outputs / 7168) : std::ceil(outputs / 256);
  figures.threads = work.channels_last ? 1024 : 256;
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, p.calibration.pointwise.memory_share), KernelLimit::Memory},
      {work.channels_last ? c.pool_wave : 0, KernelLimit::Overhead},
      {p.lane_cycles(outputs * static_cast<double>(work.window) * c.pool_element), KernelLimit::Compute}};
  // Backward goes over the same windows, and adds each gradient where it belongs.
  const double slower = work.backward && work.channels_last ? c.pool_backward : 1;
  figures.seconds =
      p.calibration.pointwise.strided_start + slower * soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(0, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = outputs * static_cast<double>(work.window);
  return {kernel("pooling", figures)};
}

GpuOps price(const Pricing& p, const TopK& work) {
  if (work.rows == 0 || work.columns == 0 || work.k == 0) return {};
  const LayerCalibration& c = p.calibration.layer;
  const double rows = static_cast<double>(work.rows);
  KernelFigures pick;
  pick.blocks = rows;
  pick.threads = 32;
  pick.seconds = c.top_k_start + rows * c.top_k_row +
                 std::ceil(rows / (16 * p.sms())) * static_cast<double>(work.columns) * c.top_k_column;
  pick.hbm_bytes = rows * static_cast<double>(work.columns) * bytes_of(work.dtype) * p.cache.cold_reads;
  GpuOps ops = {kernel("top_k", pick)};
  if (work.sorted) {
    KernelFigures order;
    order.blocks = std::ceil(rows / 16);
    order.seconds = c.sort_small + rows * c.top_k_row / 2;
    ops.push_back(kernel("top_k_sort", order));
  }
  return ops;
}

GpuOps price(const Pricing& p, const Sort& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  const LayerCalibration& c = p.calibration.layer;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  const double bytes = elements * (bytes_of(work.dtype) + 8);
  const GpuOpEstimate tiny = price(p, TinyKernel{}).front();
  GpuOpEstimate copy;
  copy.kind = GpuOpKind::Memcpy;
  copy.name = "copy_on_device";
  copy.cost = tiny.cost;
  KernelFigures sort;
  sort.hbm_bytes = bytes;
  if (work.columns <= 4096) {
    // One block per row: keys and places are copied into place around it.
    sort.blocks = static_cast<double>(work.rows);
    // A radix sort whose threads have 32 elements each, or 4 up to 128 elements: 8.7 us (held-out/steps.csv).
    constexpr double few_each = 0.31;
    sort.seconds = work.columns <= 32 ? c.sort_small : (work.columns <= 128 ? few_each : 1) * c.sort_block;
    return {copy, tiny, copy, copy, kernel("sort", sort)};
  }
  GpuOps ops = {copy, tiny, memset_op(p, 4), memset_op(p, 4)};
  // Radix sort, a pass of two kernels for each byte of the key.
  const double transfer = p.memory(2 * bytes, p.calibration.pointwise.memory_share);
  for (int digit = 0; digit < std::max(1, bits(work.dtype) / 8); ++digit) {
    sort.seconds = c.sort_digit + transfer;
    sort.blocks = std::ceil(elements / 4096);
    sort.threads = 384;
    ops.push_back(kernel("sort_digit", sort));
    ops.push_back(tiny);
  }
  ops.push_back(copy);
  ops.push_back(copy);
  return ops;
}

}  // namespace gpusim::cost
