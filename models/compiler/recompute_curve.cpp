// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute_curve.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace gpusim {
namespace {

using Order = std::tuple<Picoseconds, Bytes, std::size_t>;

/// From the fastest on, what needs less memory than all that is faster.
void mark_front(std::vector<CurvePoint>& points) {
  std::vector<Order> order;
  for (std::size_t i = 0; i < points.size(); ++i)
    order.emplace_back(points[i].cost.time, points[i].cost.peak, i);
  std::sort(order.begin(), order.end());
  for (std::size_t k = 0; k < order.size(); ++k) {
    CurvePoint& point = points[std::get<2>(order[k])];
    point.on_front = true;
    for (std::size_t before = 0; before < k; ++before)
      if (std::get<1>(order[before]) <= point.cost.peak) point.on_front = false;
  }
}

}  // namespace

std::vector<CurvePoint> recompute_curve(const OpGraph& joint, const RecomputeOptions& options,
                                        const std::function<StepCost(const RecomputePlan&)>& cost) {
  std::vector<CurvePoint> points;
  std::set<std::pair<std::vector<TensorIndex>, std::vector<OpIndex>>> known;
  const auto add = [&](const RecomputePlan& plan, double budget) {
    if (!known.emplace(plan.saved, plan.run_again).second) return;
    points.push_back({.policy = plan.policy,
                      .budget = budget,
                      .step = plan.step,
                      .saved_bytes = plan.saved_bytes,
                      .flops_again = plan.flops_again,
                      .cost = cost(plan)});
  };
  RecomputeOptions one = options;
  for (const RecomputePolicy policy :
       {RecomputePolicy::MinCut, RecomputePolicy::StoreAll, RecomputePolicy::Selective,
        RecomputePolicy::Blocks, RecomputePolicy::RecomputeAll}) {
    one.policy = policy;
    one.memory_budget = 1;
    add(plan_recompute(joint, one), 1);
  }
  for_each_budget(joint, options, add);
  mark_front(points);
  return points;
}

std::vector<CurvePoint> front_of(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> front;
  std::copy_if(points.begin(), points.end(), std::back_inserter(front),
               [](const CurvePoint& point) { return point.on_front; });
  std::stable_sort(front.begin(), front.end(),
                   [](const CurvePoint& a, const CurvePoint& b) { return a.cost.time < b.cost.time; });
  return front;
}

}  // namespace gpusim
