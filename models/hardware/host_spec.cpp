// SPDX-License-Identifier: Apache-2.0
#include "models/hardware/host_spec.hpp"

#include "models/units/time_range.hpp"

namespace gpusim {

Picoseconds scaled(const HostSpec& host, Picoseconds time) {
  if (host.speed == 1) return time;
  return time_in_range(static_cast<double>(time.count()) / host.speed);
}

Picoseconds op_time(const HostSpec& host, std::string_view op, HostOpMode mode) {
  const auto listed = host.ops.find(op);
  if (listed == host.ops.end() && !host.default_op) {
    std::string known;
    for (const auto& [known_op, cost] : host.ops) known += (known.empty() ? "" : ", ") + known_op;
    throw NoHostOpError(host.key + " has no cost for op '" + std::string(op) + "'; known: " + known);
  }
  const HostOpCost& cost = listed == host.ops.end() ? *host.default_op : listed->second;
  switch (mode) {
    case HostOpMode::NoGrad:
      return scaled(host, cost.no_grad);
    case HostOpMode::Grad:
      return scaled(host, cost.grad.value_or(cost.no_grad));
    case HostOpMode::Backward:
      break;
  }
  if (cost.backward) return scaled(host, *cost.backward);
  if (host.default_op && host.default_op->backward) return scaled(host, *host.default_op->backward);
  throw NoHostOpError(host.key + " has no backward cost for op '" + std::string(op) + "'");
}

std::int32_t op_launches(const HostSpec& host, std::string_view op) {
  const auto listed = host.ops.find(op);
  return listed == host.ops.end() ? 1 : listed->second.launches;
}

LaunchExtra launch_extra(const HostSpec& host, HostOpMode mode) {
  if (!host.after_profiler) return {};
  return {.main = op_time(host, "after_profiler", mode),
          .backward = op_time(host, "after_profiler", HostOpMode::Backward),
          .node = op_time(host, "after_profiler_node", HostOpMode::NoGrad)};
}

std::vector<SpecProblem> problems(const HostSpec& host) {
  std::vector<SpecProblem> found;
  if (host.name.empty()) found.push_back({"name", "must not be empty"});
  if (!(std::isfinite(host.speed) && host.speed > 0)) found.push_back({"speed", "must be positive"});
  if (host.after_profiler &&
      (host.ops.count("after_profiler") == 0 || host.ops.count("after_profiler_node") == 0))
    found.push_back({"after_profiler", "needs costs of after_profiler and after_profiler_node under ops"});
  const auto check = [&](const std::string& path, const HostOpCost& cost) {
    if (cost.no_grad < Picoseconds{0} || cost.grad.value_or(Picoseconds{0}) < Picoseconds{0} ||
        cost.backward.value_or(Picoseconds{0}) < Picoseconds{0})
      found.push_back({path, "must not be negative"});
  };
  for (const auto& [op, cost] : host.ops) check("ops." + op, cost);
  if (host.default_op) check("default_op", *host.default_op);
  return found;
}

}  // namespace gpusim
