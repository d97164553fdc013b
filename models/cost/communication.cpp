// SPDX-License-Identifier: Apache-2.0
// Collectives among the other kernels of a step.
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "models/cost/collectives.hpp"
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

/// Names of kernels outlive the estimates that show them.
std::string_view kept_name(CollectiveKind kind, Dtype dtype, CollectiveAlgorithm algorithm) {
  constexpr int algorithms = 4;
  // Built once and never changed: the table, not state.
  static const auto names = [] {
    std::array<std::string, static_cast<std::size_t>(collective_kind_count * dtype_count * algorithms)> all;
    for (int k = 0; k < collective_kind_count; ++k)
      for (int d = 0; d < dtype_count; ++d)
        for (int a = 0; a < algorithms; ++a)
          all[static_cast<std::size_t>((k * dtype_count + d) * algorithms + a)] = collective_kernel_name(
              static_cast<CollectiveKind>(k), static_cast<Dtype>(d), static_cast<CollectiveAlgorithm>(a));
    return all;
  }();
  return names[static_cast<std::size_t>((static_cast<int>(kind) * dtype_count + static_cast<int>(dtype)) *
                                            algorithms +
                                        static_cast<int>(algorithm))];
}

}  // namespace

GpuOps price(const Pricing& p, const Collective& work) {
  if (work.ranks <= 1 || work.bytes <= Bytes(0)) return {};
  if (!p.gpu.links)
    throw std::invalid_argument(
        "'" + p.gpu.key + "' has no interconnect: nothing is known about how its ranks reach each other");
  const CollectiveCost cost = collective_cost(work, *p.gpu.links);
  GpuOpEstimate op;
  op.name = kept_name(work.kind, work.dtype, cost.plan.algorithm);
  op.cost.duration = cost.duration;
  op.cost.hbm_bytes = cost.hbm_bytes;
  op.cost.limit = KernelLimit::Overhead;
  op.cost.blocks = cost.blocks;
  op.cost.threads = cost.threads;
  return {op};
}

}  // namespace gpusim::cost
