// SPDX-License-Identifier: Apache-2.0
// Layers of vision networks and routing: batch and group norm, pooling, top-k, sort.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

double product_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// An elementwise pass over `elements` of `dtype`, read `reads` times and written once.
GpuOpEstimate pass(const Pricing& p, double elements, Dtype dtype, double reads, double writes,
                   double lane_cycles) {
  Pointwise work;
  work.elements = std::llround(elements);
  work.read = Bytes(std::llround(elements * reads * bytes_of(dtype)));
  work.written = Bytes(std::llround(elements * writes * bytes_of(dtype)));
  work.lane_cycles = lane_cycles;
  work.access = Pointwise::Access::Unrolled;
  return price(p, work).front();
}

}  // namespace

GpuOps price(const Pricing& p, const BatchNorm& work) {
  const double elements = product_of(work.batch, work.channels, work.spatial);
  if (elements == 0) return {};
  GpuOpEstimate apply = pass(p, elements, work.dtype, work.training ? 2 : 1, 1, 4);
  apply.name = work.training ? "batch_norm" : "batch_norm_apply";
  apply.cost.flops = Flops(elements * (work.training ? 8 : 2));
  return {apply};
}

GpuOps price(const Pricing& p, const GroupNorm& work) {
  const double elements = product_of(work.batch, work.channels, work.spatial);
  if (elements == 0 || work.groups == 0) return {};
  RowReduction moments;
  moments.kind = RowReduction::Kind::Sum;
  moments.rows = work.batch * work.groups;
  moments.columns = work.channels / work.groups * work.spatial;
  moments.input = work.dtype;
  GpuOps ops = price(p, moments);
  for (GpuOpEstimate& op : ops) op.name = "group_norm_moments";
  ops.push_back(price(p, TinyKernel{}).front());
  GpuOpEstimate apply = pass(p, elements, work.dtype, 1, 1, 4);
  apply.name = "group_norm_apply";
  ops.push_back(apply);
  return ops;
}

GpuOps price(const Pricing& p, const Pooling& work) {
  if (work.outputs == 0) return {};
  Pointwise pool;
  pool.elements = work.outputs;
  pool.read = Bytes(std::llround(static_cast<double>(work.inputs) * bytes_of(work.dtype)));
  pool.written = Bytes(std::llround(static_cast<double>(work.outputs) * bytes_of(work.dtype)));
  pool.lane_cycles = 4 * static_cast<double>(work.window);
  pool.access = Pointwise::Access::Strided;
  GpuOpEstimate op = price(p, pool).front();
  op.name = "pooling";
  return {op};
}

GpuOps price(const Pricing& p, const TopK& work) {
  if (work.rows == 0 || work.columns == 0 || work.k == 0) return {};
  RowReduction scan;
  scan.kind = RowReduction::Kind::ArgMax;
  scan.rows = work.rows;
  scan.columns = work.columns;
  scan.input = work.dtype;
  GpuOpEstimate op = price(p, scan).front();
  op.name = "top_k";
  GpuOps ops = {op};
  if (work.sorted && work.k > 1) ops.push_back(price(p, TinyKernel{}).front());
  return ops;
}

GpuOps price(const Pricing& p, const Sort& work) {
  if (work.rows == 0 || work.columns == 0) return {};
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.columns);
  // Radix sort: a pass per byte of the key, each moving keys and places.
  const double bytes = elements * (bytes_of(work.dtype) + 8);
  GpuOps ops;
  for (int digit = 0; digit < std::max(1, bits(work.dtype) / 8); ++digit) {
    KernelFigures figures;
    const double transfer = p.memory(2 * bytes, p.calibration.pointwise.memory_share);
    figures.seconds = 4 * p.calibration.pointwise.start + transfer;
    figures.limit = limit_of(4 * p.calibration.pointwise.start, {{transfer, KernelLimit::Memory}});
    figures.hbm_bytes = 2 * bytes;
    figures.blocks = std::ceil(elements / 4096);
    figures.threads = 256;
    ops.push_back(kernel("sort_digit", figures));
  }
  return ops;
}

}  // namespace gpusim::cost
