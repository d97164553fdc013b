// SPDX-License-Identifier: Apache-2.0
// Batch norm: with given statistics one elementwise kernel, in training sums over all pixels before it. Grids
// are those of ATen/native/cuda/Normalization.cuh.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

constexpr std::int64_t threads = 512;
/// Blocks of a kernel of sums that an SM holds at once (its registers).
constexpr double resident = 3;
/// Channels from which on the blocks of a kernel over all elements draw all that they can.
constexpr double wide = 81;

/// Blocks of 512 threads, a channel for each thread in a row and a pixel for each row.
struct Grid {
  std::int64_t pixels = 1;  ///< That a block takes at once.
  std::int64_t along_channels = 1;
  std::int64_t along_pixels = 1;
  double blocks() const { return static_cast<double>(along_channels * along_pixels); }
};

std::int64_t last_power_of_two(std::int64_t n) {
  std::int64_t power = 1;
  while (2 * power <= n) power *= 2;
  return power;
}

/// A thread takes 16 pixels at least, and 128 blocks share a channel at most; those that have to join what
/// they found are eight or one.
Grid grid_of(std::int64_t pixels, std::int64_t channels, bool join) {
  std::int64_t width = std::min<std::int64_t>(last_power_of_two(channels), 32);
  const std::int64_t height = std::min(last_power_of_two(ceil_divide(pixels, 16)), threads / width);
  if (width * height != threads) width = std::min(last_power_of_two(channels), threads / height);
  Grid grid{height, ceil_divide(channels, width),
            std::min<std::int64_t>(ceil_divide(pixels, height * 16), 128)};
  if (join && grid.along_pixels < 8) grid.along_pixels = 1;
  return grid;
}

/// The sums: each thread goes over its pixels four at a time and waits for the memory each time, the longer
/// the more blocks are on its SM.
KernelFigures sums(const Pricing& p, const BatchNorm& work, const Grid& grid, double bytes) {
  const BatchNormCalibration& c = p.calibration.batch_norm;
  const double step = work.backward ? c.gradient_step : c.step;
  const double cold = 1 + (work.backward ? c.gradient_cold : c.step_cold) * p.cache.cold_reads;
  const double shared = work.backward ? c.gradient_shared : c.step_shared;
  const double steps =
      static_cast<double>(ceil_divide(work.batch * work.spatial, grid.pixels * grid.along_pixels * 4));
  const double waves = std::ceil(grid.blocks() / (resident * p.sms()));
  const double each_sm = std::ceil(grid.blocks() / p.sms());
  const double cold_bytes = bytes * p.cache.cold_reads;
  const std::initializer_list<Term> terms = {
      {steps * (waves * step * cold + each_sm * shared) + each_sm * c.block, KernelLimit::Compute},
      {p.memory(cold_bytes, p.calibration.pointwise.memory_share), KernelLimit::Memory}};
  KernelFigures figures;
  const double fixed = c.start + (grid.along_pixels > 1 ? c.merge : 0);
  figures.seconds = fixed + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(fixed, terms);
  figures.hbm_bytes = cold_bytes;
  figures.blocks = grid.blocks();
  figures.threads = threads;
  return figures;
}

/// `reads` tensors of `bytes` each, read again, and one written.
KernelFigures apply(const Pricing& p, const BatchNorm& work, double bytes, double reads) {
  const BatchNormCalibration& c = p.calibration.batch_norm;
  const double share = (work.backward ? c.gradient_share : c.apply_share) *
                       std::min(1.0, static_cast<double>(work.channels) / wide);
  // What was read since the sums went over it may have left the L2; what is written ends in the memory where
  // all of it together does not fit.
  const double cold_bytes =
      bytes * (reads * p.miss(reads * bytes) + std::max(p.cache.cold_writes, p.miss((reads + 1) * bytes)));
  const double cached_bytes = (reads + 1) * bytes - cold_bytes;
  const double transfer = p.memory(cold_bytes + c.cached * cached_bytes, share);
  KernelFigures figures;
  figures.seconds = c.apply_start + transfer;
  figures.limit = limit_of(c.apply_start, {{transfer, KernelLimit::Memory}});
  figures.hbm_bytes = cold_bytes;
  figures.blocks = grid_of(work.batch * work.spatial, work.channels, false).blocks();
  figures.threads = threads;
  return figures;
}

GpuOps training_channels_last(const Pricing& p, const BatchNorm& work) {
  const double elements = static_cast<double>(work.batch) * static_cast<double>(work.channels) *
                          static_cast<double>(work.spatial);
  const double bytes = elements * bytes_of(work.dtype);
  const double reads = work.backward ? 2 : 1;
  const Grid grid = grid_of(work.batch * work.spatial, work.channels, true);
  KernelFigures first = sums(p, work, grid, reads * bytes);
  KernelFigures second = apply(p, work, bytes, reads);
  first.flops = elements * 4;
  second.flops = elements * (work.backward ? 6 : 4);
  GpuOps ops;
  if (grid.along_pixels > 1) {
    ops = price(p, TinyKernel{});  // Counters of blocks that are done.
    ops.front().name = "fill";
  }
  ops.push_back(kernel(work.backward ? "batch_norm_gradient_sums" : "batch_norm_statistics", first));
  if (!work.backward) {
    ops.push_back(price(p, TinyKernel{}).front());
    ops.back().name = "batch_norm_running";
  }
  ops.push_back(kernel(work.backward ? "batch_norm_gradient" : "batch_norm_apply", second));
  return ops;
}

}  // namespace

GpuOps price(const Pricing& p, const BatchNorm& work) {
  const double elements = static_cast<double>(work.batch) * static_cast<double>(work.channels) *
                          static_cast<double>(work.spatial);
  if (elements == 0) return {};
  if (work.training && work.channels_last) return training_channels_last(p, work);
  const LayerCalibration& c = p.calibration.layer;
  const double bytes = elements * bytes_of(work.dtype);
  // Training reads everything for the statistics, then again for the result. (Channels first, training is not
  // measured: one kernel is priced for it, forward and backward.)
  const double reads = work.training ? 2 : 1;
  const double cold_bytes = bytes * (reads * p.cache.cold_reads + p.cache.cold_writes);
  KernelFigures figures;
  figures.blocks = work.channels_last ? std::ceil(elements / 8192)
                                      : static_cast<double>(work.batch) * static_cast<double>(work.channels);
  figures.threads = 512;
  // Channels last: a warp takes 32 channels of a pixel, and 128 times as many blocks as there are such groups
  // at most, which draw all of the bandwidth from about 97 channels on. Channels first: a block takes one
  // plane.
  const double channels = static_cast<double>(work.channels);
  const double share = c.batch_norm_share * (work.channels_last ? std::min(1.0, channels / 97) : 0.6);
  const std::initializer_list<Term> terms = {
      {p.memory(cold_bytes, share), KernelLimit::Memory},
      {p.block_starts(figures.blocks), KernelLimit::Blocks},
      {p.lane_cycles(reads * elements * c.batch_norm_element), KernelLimit::Compute}};
  figures.seconds = c.batch_norm_start + soft_maximum(p.calibration.pointwise.sharpness, terms);
  figures.limit = limit_of(c.batch_norm_start, terms);
  figures.hbm_bytes = cold_bytes;
  figures.flops = elements * (work.training ? 8 : 2);
  if (work.training) return {kernel("batch_norm", figures)};
  // The running statistics are brought to the formats of the kernel first.
  Pointwise widen;
  widen.elements = work.channels;
  const GpuOpEstimate root = price(p, widen).front();
  widen.access = Pointwise::Access::Unrolled;
  const GpuOpEstimate cast = price(p, widen).front();
  return {cast, root, kernel("batch_norm_apply", figures)};
}

}  // namespace gpusim::cost
