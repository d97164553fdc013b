// SPDX-License-Identifier: Apache-2.0
#include "sim/report/explain_recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "models/graph/catalogue.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t groups_shown = 12;

double mib(Bytes bytes) {
  return static_cast<double>(bytes.value()) / (1 << 20);
}

std::string_view reason(Ban ban, RecomputePolicy policy) {
  switch (ban) {
    case Ban::None:
      return policy == RecomputePolicy::MinCut || policy == RecomputePolicy::MemoryBudget
                 ? "keeping it costs least"
                 : "the policy keeps it";
    case Ban::Input:
      return "it is given";
    case Ban::Asked:
      return "asked for, or has to be";
    case Ban::NotListed:
      return "its op does not run again";
    case Ban::Random:
      return "its op draws random numbers";
    case Ban::Expensive:
      return "expensive to run again";
    case Ban::Materialized:
      return "backward's product reads it";
    case Ban::Reduction:
      return "far smaller than its source";
    case Ban::FarApart:
      return "its source was used long ago";
    case Ban::LongChain:
      return "its kernel would be too long";
  }
  return "";
}

std::map<TensorIndex, const TensorDecision*> decisions_of(const RecomputePlan& plan) {
  std::map<TensorIndex, const TensorDecision*> decisions;
  for (const TensorDecision& decision : plan.decisions) decisions[decision.tensor] = &decision;
  return decisions;
}

/// "min_cut", "memory_budget: knapsack, 49.9 % of what min_cut keeps".
std::string policy_text(const RecomputePlan& plan) {
  std::string text(name(plan.policy));
  if (plan.policy == RecomputePolicy::MemoryBudget)
    text += fmt::format(" ({}, {:.1f} %)", name(plan.step), 100 * plan.memory_ratio);
  return text;
}

std::string setting_text(const RecomputeSetting& setting) {
  return setting.policy == RecomputePolicy::MemoryBudget ? fmt::format("memory_budget {:.2f}", setting.budget)
                                                         : std::string(name(setting.policy));
}

}  // namespace

std::string recompute_text(const RegionRecompute& region) {
  const RecomputePlan& plan = region.plan;
  const OpGraph& graph = *region.joint;
  std::string out =
      fmt::format("  kept for backward by {}:\n    {:.1f} MiB of {:.1f} that backward would read; ",
                  policy_text(plan), mib(plan.saved_bytes), mib(plan.stored_bytes));
  out +=
      fmt::format("{} ops run again, {:.3g} GFLOP\n", plan.run_again.size(), plan.flops_again.value() / 1e9);
  if (plan.random_states > 0)
    out += fmt::format("    and the generator's state for {} random ops\n", plan.random_states);
  const auto decisions = decisions_of(plan);
  struct Group {
    std::int64_t count = 0;
    Bytes bytes{0};
  };
  std::map<std::tuple<std::string_view, std::string, std::string_view>, Group> groups;
  for (const TensorIndex t : plan.saved) {
    const GraphTensor& tensor = graph.tensors[t];
    std::string shape = to_string(tensor.type.shape);
    shape.erase(std::remove(shape.begin(), shape.end(), ' '), shape.end());
    const std::string type = fmt::format("{} {}", name(tensor.type.element), shape);
    Group& group =
        groups[{graph.ops[tensor.producer].kind->name, type, reason(decisions.at(t)->ban, plan.policy)}];
    ++group.count;
    group.bytes += dense_bytes(tensor.type);
  }
  std::vector<std::pair<std::tuple<std::string_view, std::string, std::string_view>, Group>> order(
      groups.begin(), groups.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::int64_t left = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [op, type, why] = order[i].first;
    const Group& group = order[i].second;
    if (i >= groups_shown) {
      left += group.count;
      continue;
    }
    const std::string_view kind = op.substr(0, std::min<std::size_t>(op.size(), 14));
    out +=
        fmt::format("    {:>3} {:<14} {:<19} {:>7.1f}  {}\n", group.count, kind, type, mib(group.bytes), why);
  }
  if (left > 0) out += fmt::format("    and {} smaller ones\n", left);
  return out;
}

nlohmann::ordered_json recompute_json(const RegionRecompute& region) {
  const RecomputePlan& plan = region.plan;
  const OpGraph& graph = *region.joint;
  nlohmann::ordered_json out;
  out["region"] = region.region;
  out["policy"] = std::string(name(plan.policy));
  if (plan.policy == RecomputePolicy::MemoryBudget) {
    out["memory_ratio"] = plan.memory_ratio;
    out["step"] = std::string(name(plan.step));
  }
  out["saved_bytes"] = plan.saved_bytes.value();
  out["stored_bytes"] = plan.stored_bytes.value();
  out["saved"] = nlohmann::ordered_json::array();
  const auto decisions = decisions_of(plan);
  for (const TensorIndex t : plan.saved) {
    const GraphTensor& tensor = graph.tensors[t];
    const TensorDecision& decision = *decisions.at(t);
    out["saved"].push_back({{"tensor", tensor.name},
                            {"op", std::string(graph.ops[tensor.producer].kind->name)},
                            {"bytes", dense_bytes(tensor.type).value()},
                            {"reason", std::string(reason(decision.ban, plan.policy))},
                            {"distance", decision.distance}});
  }
  out["run_again"] = nlohmann::ordered_json::array();
  for (const OpIndex op : plan.run_again) out["run_again"].push_back(graph.ops[op].name);
  out["flops_again"] = plan.flops_again.value();
  out["random_states"] = plan.random_states;
  return out;
}

std::string curve_text(const std::vector<CurvePoint>& points) {
  std::string out = "  step time and peak memory by what is kept (*: nothing beats it in both):\n";
  out += fmt::format("    {:<20} {:>12} {:>12} {:>12} {:>12}\n", "", "kept", "again", "step time", "peak");
  for (const CurvePoint& point : points)
    out += fmt::format("  {} {:<20} {:>9.3f} GB {:>6.3f} TFLOP {:>9.2f} ms {:>9.3f} GB\n",
                       point.on_front ? '*' : ' ', setting_text(point.setting),
                       static_cast<double>(point.saved.value()) / 1e9, point.flops_again.value() / 1e12,
                       static_cast<double>(point.time.count()) / 1e9,
                       static_cast<double>(point.peak.value()) / 1e9);
  return out;
}

nlohmann::ordered_json curve_json(const std::vector<CurvePoint>& points) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const CurvePoint& point : points)
    out.push_back({{"policy", std::string(name(point.setting.policy))},
                   {"memory_budget", point.setting.budget},
                   {"saved_bytes", point.saved.value()},
                   {"flops_again", point.flops_again.value()},
                   {"step_time_us", static_cast<double>(point.time.count()) / 1e6},
                   {"peak_memory_bytes", point.peak.value()},
                   {"on_front", point.on_front}});
  return out;
}

}  // namespace gpusim::report
