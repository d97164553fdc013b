// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/compile_time.hpp"

#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "models/graph/catalogue.hpp"

namespace gpusim {

CompileCounts compile_counts(const OpGraph& graph, const CapturedStep& step) {
  CompileCounts counts;
  std::set<OpIndex> products;
  std::set<std::vector<OpIndex>> known;
  for (std::size_t r = 0; r < step.regions.size(); ++r) {
    const Region& region = step.regions[r];
    if (!region.compiled || region.like != r) continue;
    std::vector<OpIndex> ops;
    for (OpIndex i = region.first; i < region.last; ++i) {
      ops.push_back(graph.ops[i].like);
      if (graph.ops[i].kind->fusion == FusionClass::Product) products.insert(graph.ops[i].like);
    }
    const auto count = static_cast<std::int64_t>(ops.size());
    const bool is_new = known.insert(std::move(ops)).second;
    ++(is_new ? counts.regions : counts.regions_again);
    (is_new ? counts.ops : counts.ops_again) += count;
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

}  // namespace gpusim
