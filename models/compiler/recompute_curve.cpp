// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute_curve.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

namespace gpusim {

std::vector<RecomputeSetting> curve_settings() {
  std::vector<RecomputeSetting> settings;
  for (const RecomputePolicy policy :
       {RecomputePolicy::StoreAll, RecomputePolicy::MinCut, RecomputePolicy::Selective,
        RecomputePolicy::Blocks, RecomputePolicy::RecomputeAll})
    settings.push_back({.policy = policy});
  for (int percent = 95; percent >= 0; percent -= 5)
    settings.push_back({.policy = RecomputePolicy::MemoryBudget, .budget = percent / 100.0});
  return settings;
}

RecomputeOptions with_setting(RecomputeOptions options, const RecomputeSetting& setting) {
  options.policy = setting.policy;
  options.memory_budget = setting.budget;
  return options;
}

void mark_front(std::vector<CurvePoint>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(points[a].time, points[a].peak) < std::tie(points[b].time, points[b].peak);
  });
  // From the fastest on: what needs less memory than all that is faster.
  std::optional<Bytes> least;
  for (const std::size_t i : order) {
    points[i].on_front = !least || points[i].peak < *least;
    if (points[i].on_front) least = points[i].peak;
  }
}

}  // namespace gpusim
