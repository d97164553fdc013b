// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels and copies: a start, then whatever is slowest of memory, L2, starting blocks and
// arithmetic.
#include <limits>

#include "models/cost/kernel_terms.hpp"
#include "models/units/time_range.hpp"

namespace gpusim::cost {
namespace {

/// Time of working off places where the L2 has the operands, relative to where the memory has them.
constexpr double hot_strided = 0.72;
constexpr double hot_strided_wide = 0.89;

/// Elements per block of PyTorch's vectorized and unrolled elementwise kernels.
constexpr std::int64_t vectorized_block = 1024;
constexpr std::int64_t unrolled_block = 512;
/// Elements of four bytes and more: two for each thread, not four.
constexpr std::int64_t unrolled_wide_block = 256;
constexpr std::int64_t threads_per_block = 128;
/// Kernels of one op, each of which goes over at most 2^31 bytes.
constexpr std::int32_t parts_most = 1 << 16;

struct Stream {
  double elements = 0;
  double read = 0;
  double written = 0;
  double lane_cycles = 0;  ///< Per element, of functions.
  double places = 0;       ///< Lane-cycles per element of finding and moving it.
  std::int64_t per_block = vectorized_block;
  double start = 0;
  double memory_share = 1;
  double extra_sm_cycles = 0;  ///< Per element, of units that are not the lanes.
  double tail_cycles = 0;      ///< Of the last block.
};

/// A vectorized kernel's last block, if it is not full, does its elements one by one: cycles.
double tail_of(const PointwiseCalibration& c, std::int64_t elements, double lane_cycles) {
  const std::int64_t rest = elements % vectorized_block;
  const auto rounds = static_cast<double>(ceil_divide(rest, threads_per_block));
  return rounds * (c.tail + c.tail_chain * lane_cycles);
}

/// The common form: start + latency + soft maximum.
KernelFigures stream(const Pricing& p, const Stream& s) {
  const PointwiseCalibration& c = p.calibration.pointwise;
  const double bytes = s.read + s.written;
  const double cold_bytes = s.read * p.cache.cold_reads + s.written * p.cache.cold_writes;
  KernelFigures figures;
  figures.blocks = std::ceil(s.elements / static_cast<double>(s.per_block));
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, s.memory_share), KernelLimit::Memory},
      {p.l2(bytes), KernelLimit::Cache},
      {p.block_starts(figures.blocks), KernelLimit::Blocks},
      {p.lane_cycles(s.elements * (s.lane_cycles + s.places)) + p.sm_cycles(s.elements * s.extra_sm_cycles),
       KernelLimit::Compute}};
  const double fixed = s.start + p.cycles(c.chain * s.lane_cycles + s.tail_cycles) +
                       p.latency(p.calibration.memory.latency, p.cache.cold_reads, bytes);
  figures.seconds = fixed + soft_maximum(c.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = s.lane_cycles > 0 ? s.elements : 0;
  return figures;
}

}  // namespace

GpuOps price(const Pricing& p, const Pointwise& work) {
  if (work.elements == 0) return {};
  if (work.parts > parts_most)
    throw TimeRangeError(
        "an elementwise op would go over more than 2^47 bytes, which is the most (elementwise_bytes_max)");
  if (work.parts > 1) {
    Pointwise part = work;
    part.parts = 1;
    part.elements = ceil_divide(work.elements, work.parts);
    part.read = Bytes(ceil_divide(work.read.value(), work.parts));
    part.written = Bytes(ceil_divide(work.written.value(), work.parts));
    return GpuOps(static_cast<std::size_t>(work.parts), price(p, part).front());
  }
  const PointwiseCalibration& c = p.calibration.pointwise;
  Stream s;
  s.elements = static_cast<double>(work.elements);
  s.read = static_cast<double>(work.read.value());
  s.written = static_cast<double>(work.written.value());
  s.lane_cycles = work.lane_cycles * c.alu;
  s.start = c.start;
  s.memory_share = c.memory_share;
  if (work.access != Pointwise::Access::Vectorized) s.per_block = unrolled_block;
  const bool wide = s.written >= 4 * s.elements;
  switch (work.access) {
    case Pointwise::Access::Vectorized:
      s.tail_cycles = tail_of(c, work.elements, s.lane_cycles);
      break;
    case Pointwise::Access::Unrolled:
      s.start = c.unrolled_start;
      s.places = c.unrolled;
      s.memory_share = c.unrolled_share;
      break;
    case Pointwise::Access::Strided:
      s.start = wide ? c.strided_wide_start : c.strided_start;
      if (wide) s.per_block = unrolled_wide_block;
      // Where the L2 has the operands, places are worked off faster than they come from memory: rows times a
      // column of 4096 take 1.45 to 1.94 ns per thousand hot, 2.43 cold (graph_chains.csv).
      s.places = wide ? c.strided_wide * (hot_strided_wide + (1 - hot_strided_wide) * p.cache.cold_reads)
                      : c.strided * (hot_strided + (1 - hot_strided) * p.cache.cold_reads);
      break;
    case Pointwise::Access::StridedCast:
      s.start = c.strided_cast_start;
      s.places = c.strided_cast;
      break;
  }
  s.start += work.divisions * c.division_start;
  s.places += work.divisions * c.division;
  return {kernel("elementwise", stream(p, s))};
}

GpuOps price(const Pricing& p, const TransposedCopy& work) {
  if (work.elements == 0) return {};
  Stream s;
  s.elements = static_cast<double>(work.elements);
  s.read = s.written = s.elements * work.element_bytes;
  s.start = p.calibration.pointwise.start;
  s.memory_share = p.calibration.pointwise.memory_share;
  s.per_block = unrolled_block;
  s.extra_sm_cycles = p.calibration.copy.transposed_cycles;
  return {kernel("transposed_copy", stream(p, s))};
}

GpuOps price(const Pricing& p, const Concatenation& work) {
  if (work.elements == 0) return {};
  Stream s;
  s.elements = static_cast<double>(work.elements);
  s.read = s.written = s.elements * work.element_bytes;
  s.start = p.calibration.copy.cat_start;
  s.memory_share = p.calibration.copy.cat_share;
  KernelFigures figures = stream(p, s);
  if (work.strided) {
    const double places = s.start + p.cycles(p.calibration.copy.cat_strided) * s.elements / p.sms();
    if (places > figures.seconds) {
      figures.seconds = places;
      figures.limit = KernelLimit::Compute;
    }
  }
  return {kernel("cat", figures)};
}

namespace {

/// A random number for each element. As many blocks as the device holds at once; each goes over its elements
/// in a loop.
GpuOps random_kernel(const Pricing& p, std::string_view name, std::int64_t elements, std::int64_t bytes_read,
                     std::int64_t bytes_written) {
  if (elements == 0) return {};
  Stream s;
  s.elements = static_cast<double>(elements);
  s.read = s.elements * static_cast<double>(bytes_read);
  s.written = s.elements * static_cast<double>(bytes_written);
  s.lane_cycles = p.calibration.copy.random;
  s.start = p.calibration.pointwise.start;
  s.memory_share = p.calibration.pointwise.memory_share;
  KernelFigures figures = stream(p, s);
  figures.blocks = std::min(figures.blocks, 8 * p.sms());
  figures.threads = 256;
  return {kernel(name, figures)};
}

}  // namespace

GpuOps price(const Pricing& p, const Dropout& work) {
  // A byte of mask beside each element.
  return random_kernel(p, "dropout", work.elements, work.element_bytes, work.element_bytes + 1);
}

GpuOps price(const Pricing& p, const RandomFill& work) {
  return random_kernel(p, "random_fill", work.elements, 0, work.element_bytes);
}

GpuOps price(const Pricing& p, const Memset& work) {
  if (work.bytes.value() == 0) return {};
  return {memset_op(p, static_cast<double>(work.bytes.value()))};
}

GpuOps price(const Pricing& p, const Memcpy& work) {
  GpuOpEstimate op;
  op.kind = GpuOpKind::Memcpy;
  op.cost.limit = KernelLimit::Memory;
  op.cost.blocks = 0;
  op.cost.threads = 0;
  switch (work.direction) {
    case Memcpy::Direction::HostToDevice:
      op.name = "copy_to_device";
      op.cost.duration = host_to_device_time(p.gpu, work.bytes);
      op.cost.hbm_bytes = work.bytes;
      break;
    case Memcpy::Direction::DeviceToHost:
      op.name = "copy_to_host";
      op.cost.duration = device_to_host_time(p.gpu, work.bytes);
      op.cost.hbm_bytes = work.bytes;
      break;
    case Memcpy::Direction::DeviceToDevice:
      op.name = "copy_on_device";
      op.cost.duration = device_to_device_time(p.gpu, work.bytes);
      op.cost.hbm_bytes = 2 * work.bytes;
      break;
  }
  return {op};
}

GpuOps price(const Pricing& p, const TinyKernel&) {
  KernelFigures figures;
  figures.seconds = p.calibration.pointwise.start;
  return {kernel("tiny", figures)};
}

}  // namespace gpusim::cost

namespace gpusim {

std::int32_t pointwise_parts(Bytes largest) {
  std::int32_t parts = 1;
  for (std::int64_t bytes = largest.value(); bytes > std::numeric_limits<std::int32_t>::max();
       bytes = (bytes + 1) / 2)
    parts *= 2;
  return parts;
}

}  // namespace gpusim
