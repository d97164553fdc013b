// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/compile_time.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "models/graph/catalogue.hpp"

namespace gpusim {

CompileCounts compile_counts(const OpGraph& graph, const CapturedStep& step) {
  CompileCounts counts;
  std::set<OpIndex> products;
  for (std::size_t r = 0; r < step.regions.size(); ++r) {
    const Region& region = step.regions[r];
    if (!region.compiled || region.like != r) continue;
    const bool is_new = region.same_graph == r;
    ++(is_new ? counts.regions : counts.regions_again);
    (is_new ? counts.ops : counts.ops_again) += region.last - region.first;
    for (OpIndex i = region.first; i < region.last; ++i)
      if (graph.ops[i].kind->fusion == FusionClass::Product) products.insert(graph.ops[i].like);
  }
  counts.products = static_cast<std::int64_t>(products.size());
  return counts;
}

Picoseconds compile_time(const CompileCost& cost, const CompileCounts& counts, bool warm_cache) {
  const double compiled = cost.base * static_cast<double>(counts.regions) +
                          cost.per_op * static_cast<double>(counts.ops) +
                          cost.per_kernel * static_cast<double>(counts.kernels) +
                          cost.per_product * static_cast<double>(counts.products);
  const double found = cost.base * static_cast<double>(counts.regions_again) +
                       cost.per_op * static_cast<double>(counts.ops_again);
  return from_seconds(cost.process + (warm_cache ? cost.warm_share : 1) * compiled + cost.warm_share * found);
}

double break_even_steps(Picoseconds compile, Picoseconds eager_step, Picoseconds compiled_step) {
  if (compiled_step >= eager_step) return std::numeric_limits<double>::infinity();
  return seconds(compile) / seconds(eager_step - compiled_step);
}

double gain_left(double eager_share) {
  return std::max(0.0, 1 - 1.5 * eager_share);
}

double eager_share(const CapturedStep& step) {
  std::int64_t all = 0;
  std::int64_t eager = 0;
  for (const Region& region : step.regions) {
    all += region.last - region.first;
    if (!region.compiled) eager += region.last - region.first;
  }
  return all == 0 ? 0 : static_cast<double>(eager) / static_cast<double>(all);
}

}  // namespace gpusim
