// SPDX-License-Identifier: Apache-2.0
// What the families of kernels have in common: the device's rates in seconds, soft maxima, sizes. For the
// files of this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "models/hardware/kernel_calibration.hpp"

namespace gpusim::cost {

/// A term of a soft maximum, and what it means if it is the largest.
struct Term {
  double seconds = 0;
  KernelLimit limit = KernelLimit::Overhead;
};

/// (sum of x^p)^(1/p): the maximum, rounded off where two terms are alike. 0 without a positive term.
inline double soft_maximum(double exponent, std::initializer_list<Term> terms) {
  double largest = 0;
  for (const Term& term : terms) largest = std::max(largest, term.seconds);
  if (largest <= 0) return 0;
  double sum = 0;
  for (const Term& term : terms)
    if (term.seconds > 0) sum += std::pow(term.seconds / largest, exponent);
  return largest * std::pow(sum, 1 / exponent);
}

/// A device with its calibration, in plain numbers of SI units.
struct Pricing {
  const GpuSpec& gpu;
  const KernelCalibration& calibration;
  CacheState cache;

  double sms() const { return gpu.sms; }
  /// s for `cycles` on one SM, or on the whole device where cycles of a device-wide unit are meant.
  double cycles(double cycles) const { return cycles / gpu.clock.value(); }
  /// s for a total of `cycles` spread evenly over all SMs.
  double sm_cycles(double cycles) const { return cycles / (sms() * gpu.clock.value()); }
  /// s for a total of `cycles` spread over all fp32 lanes.
  double lane_cycles(double cycles) const { return cycles / lanes_per_second(); }
  double lanes_per_second() const;
  /// s to move `bytes` between the memory and the chip at `share` of the datasheet's rate.
  double memory(double bytes, double share) const { return bytes / (share * gpu.memory.bandwidth.value()); }
  /// s to move `bytes` between the L2 and the SMs.
  double l2(double bytes) const {
    return bytes / (calibration.memory.l2_bytes_per_cycle * sms() * gpu.clock.value());
  }
  /// s to start `blocks` blocks one after the other.
  double block_starts(double blocks) const { return cycles(blocks * calibration.memory.block_start); }
  /// s that the first access to the memory adds, for a kernel that moves `bytes`, `share` of them cold.
  double latency(double latency, double share, double bytes) const {
    if (latency <= 0) return 0;
    const double ramp = calibration.memory.latency_bytes * latency * gpu.memory.bandwidth.value();
    return latency * share * std::min(1.0, bytes / ramp);
  }
  /// Of `working_set` bytes that all SMs go over again together, the share that has left the L2 by then.
  double miss(double working_set) const;
};

inline double bytes_of(Dtype dtype) {
  return bits(dtype) / 8.0;
}

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// What a formula hands to kernel(): seconds and what goes into the report.
struct KernelFigures {
  double seconds = 0;
  double flops = 0;
  double hbm_bytes = 0;
  KernelLimit limit = KernelLimit::Overhead;
  double blocks = 1;
  std::int32_t threads = 128;
};

/// The limit of the largest term, or Overhead where `fixed` seconds are more than it.
KernelLimit limit_of(double fixed, std::initializer_list<Term> terms);

GpuOpEstimate kernel(std::string_view name, const KernelFigures& figures);
/// A memset of `bytes` on the device.
GpuOpEstimate memset_op(const Pricing& pricing, double bytes);

using GpuOps = std::vector<GpuOpEstimate>;

GpuOps price(const Pricing&, const Pointwise&);
GpuOps price(const Pricing&, const TransposedCopy&);
GpuOps price(const Pricing&, const Concatenation&);
GpuOps price(const Pricing&, const Dropout&);
GpuOps price(const Pricing&, const RandomFill&);
GpuOps price(const Pricing&, const RowReduction&);
GpuOps price(const Pricing&, const ColumnReduction&);
GpuOps price(const Pricing&, const FullReduction&);
GpuOps price(const Pricing&, const BatchNorm&);
GpuOps price(const Pricing&, const GroupNorm&);
GpuOps price(const Pricing&, const Pooling&);
GpuOps price(const Pricing&, const TopK&);
GpuOps price(const Pricing&, const Sort&);
GpuOps price(const Pricing&, const MatrixProduct&);
GpuOps price(const Pricing&, const GroupedProduct&);
GpuOps price(const Pricing&, const Convolution&);
GpuOps price(const Pricing&, const Attention&);
GpuOps price(const Pricing&, const AttentionBackward&);
GpuOps price(const Pricing&, const AttentionDecode&);
GpuOps price(const Pricing&, const Gather&);
GpuOps price(const Pricing&, const EmbeddingBackward&);
GpuOps price(const Pricing&, const Scatter&);
GpuOps price(const Pricing&, const LossGather&);
GpuOps price(const Pricing&, const MultiTensor&);
GpuOps price(const Pricing&, const InductorPointwise&);
GpuOps price(const Pricing&, const InductorRowReduction&);
GpuOps price(const Pricing&, const InductorColumnReduction&);
GpuOps price(const Pricing&, const InductorFullReduction&);
GpuOps price(const Pricing&, const InductorMixedReduction&);
GpuOps price(const Pricing&, const Memset&);
GpuOps price(const Pricing&, const Memcpy&);
GpuOps price(const Pricing&, const TinyKernel&);
GpuOps price(const Pricing&, const Collective&);

}  // namespace gpusim::cost
