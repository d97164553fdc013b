// SPDX-License-Identifier: Apache-2.0
// GPU ops of one step ranked by the time they take, grouped, and held against the device's roofs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/result.hpp"
#include "sim/trace/kernel_names.hpp"

namespace gpusim::report {

/// Which roof a kernel is nearer to. Overhead: it reaches less than `near_roof` of either.
enum class Bound : std::uint8_t { Unknown, Compute, Memory, Overhead };

/// A kernel at less than this share of both roofs is bound by neither.
inline constexpr double near_roof = 0.3;

/// All GPU ops of one name and kind.
struct RankedKernel {
  std::string name;
  engine::OpKind kind = engine::OpKind::Kernel;
  KernelGroup group = KernelGroup::Other;
  std::int64_t count = 0;  ///< Over KernelRanking::steps steps, as is `total`.
  Picoseconds total{0};
  double flops = 0;                     ///< Of all of them; 0 where unknown.
  double bytes = 0;                     ///< Of all of them; 0 where not known for each.
  std::optional<double> compute_share;  ///< Achieved FLOP/s over the dense peak.
  std::optional<double> memory_share;   ///< Achieved bytes/s over the memory bandwidth.
  Bound bound = Bound::Unknown;

  Picoseconds mean() const { return count ? total / count : Picoseconds(0); }
  /// Share of the nearer roof.
  std::optional<double> roof_share() const;
};

/// Short enough for a table's column.
const char* group_name(KernelGroup group);  ///< "matmul", "attention", "communication", "other".

struct KernelRanking {
  std::int64_t steps = 1;             ///< Steps of the user that the sums are over.
  std::vector<RankedKernel> kernels;  ///< By total time, longest first; equal ones by name.
  Picoseconds total{0};               ///< Of all GPU ops.
  std::array<Picoseconds, kernel_group_count> by_group{};  ///< Kernels only; copies and memsets are the rest.
  Picoseconds copies{0};                                   ///< Copies and memsets.
  double flops = 0;                                        ///< Of all kernels.
  std::optional<double> bytes;  ///< Moved in device memory; known only if every op's are.
  /// Sums over the ops of duration, in ps, times the share of SMs with a block, and times the share of warps;
  /// known only if every op's are.
  std::optional<double> sm_time;
  std::optional<double> warp_time;

  double per_step(double sum) const { return sum / static_cast<double>(steps); }
  Picoseconds per_step(Picoseconds sum) const { return (sum + Picoseconds(steps / 2)) / steps; }
  Picoseconds of(KernelGroup group) const { return by_group[static_cast<std::size_t>(group)]; }
};

/// Durations come from the timeline where there is one, else from the program (a random one counts with its
/// mean).
KernelRanking rank_kernels(const VariantResult& result);

}  // namespace gpusim::report
