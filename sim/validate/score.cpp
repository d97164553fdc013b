// SPDX-License-Identifier: Apache-2.0
#include "sim/validate/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace gpusim::validate {
namespace {

Score scored(std::string group, const Case& row, const Measured& measured, double predicted) {
  Score s;
  s.group = std::move(group);
  s.name = row.name;
  s.measured = measured.value;
  s.predicted = predicted;
  if (measured.value > 0) {
    s.error = predicted / measured.value - 1;
    s.noise = (measured.high - measured.low) / 2 / measured.value;
  } else {
    s.error = predicted > 0 ? 1 : 0;
  }
  s.outside = predicted < measured.low && measured.low > 0     ? predicted / measured.low - 1
              : predicted > measured.high && measured.high > 0 ? predicted / measured.high - 1
              : measured.value > 0                             ? 0
                                                               : s.error;
  return s;
}

Score scored(std::string group, const Case& row, double measured, double predicted) {
  return scored(std::move(group), row, Measured{measured, measured, measured}, predicted);
}

std::string amount(double value) {
  if (value >= 1e12) return fmt::format("{:.3f}T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.3f}G", value / 1e9);
  if (value >= 1e7) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.6g}", value);
}

}  // namespace

std::string step_group(const Case& row, const Prediction& prediction) {
  if (prediction.cuda_graph) return "CUDA graph";
  if (!row.busy_us || !row.step_us || row.step_us->value <= 0) return "step";
  return *row.busy_us / row.step_us->value >= device_bound_share ? "device-bound" : "host-bound";
}

Result score(const Table& table, const std::vector<Prediction>& predictions) {
  Result result;
  for (const char* name :
       {"device-bound", "CUDA graph", "host-bound", "step", "GPU busy", "GPU ops", "FLOPs", "peak memory"})
    result.groups.push_back({.name = name, .scores = {}});
  const auto add = [&](Score s) {
    for (Group& group : result.groups)
      if (group.name == s.group) group.scores.push_back(std::move(s));
  };
  for (std::size_t i = 0; i < table.cases.size(); ++i) {
    const Case& row = table.cases[i];
    const Prediction& p = predictions[i];
    if (row.step_us) {
      Score s = scored(step_group(row, p), row, *row.step_us, p.step_us);
      const auto calibrated = table.calibrations.find(row.machine);
      s.calibrated_on = calibrated != table.calibrations.end() && calibrated->second == row.name;
      add(std::move(s));
    }
    if (row.busy_us) add(scored("GPU busy", row, *row.busy_us, p.busy_us));
    if (row.gpu_ops) add(scored("GPU ops", row, *row.gpu_ops, p.gpu_ops));
    if (row.flops && p.flops) add(scored("FLOPs", row, *row.flops, *p.flops));
    if (row.peak_bytes) add(scored("peak memory", row, *row.peak_bytes, p.peak_bytes));
  }
  std::erase_if(result.groups, [](const Group& group) { return group.scores.empty(); });
  for (Group& group : result.groups) {
    std::stable_sort(group.scores.begin(), group.scores.end(), [](const Score& a, const Score& b) {
      return std::pair(std::abs(a.outside), std::abs(a.error)) >
             std::pair(std::abs(b.outside), std::abs(b.error));
    });
    std::size_t exact = 0;
    for (const Score& s : group.scores) {
      if (s.calibrated_on) continue;
      ++group.counted;
      group.mean += std::abs(s.outside);
      group.mean_error += std::abs(s.error);
      group.worst = std::max(group.worst, std::abs(s.outside));
      if (std::abs(s.predicted - s.measured) < 1e-9 * std::max(1.0, s.measured)) ++exact;
    }
    if (group.counted > 0) {
      const auto count = static_cast<double>(group.counted);
      group.mean /= count;
      group.mean_error /= count;
      group.exact = static_cast<double>(exact) / count;
    }
  }
  for (const Limit& limit : table.limits) {
    const auto group = std::find_if(result.groups.begin(), result.groups.end(),
                                    [&](const Group& g) { return g.name == limit.group; });
    if (group == result.groups.end()) {
      result.failures.push_back({limit.group, "has a limit, but no case"});
      continue;
    }
    const auto past = [&](std::string_view what, double actual, double allowed) {
      result.failures.push_back(
          {limit.group, fmt::format("{} {:.1f} %, allowed {:.1f} %", what, 100 * actual, 100 * allowed)});
    };
    if (limit.mean && group->mean > *limit.mean) past("mean", group->mean, *limit.mean);
    if (limit.worst && group->worst > *limit.worst) past("worst", group->worst, *limit.worst);
    if (limit.exact && group->exact < *limit.exact) past("exact", group->exact, *limit.exact);
  }
  return result;
}

Directions directions(const std::vector<Table>& tables,
                      const std::vector<std::vector<Prediction>>& predictions) {
  struct Mode {
    const Case* row = nullptr;
    double predicted = 0;
  };
  std::map<std::string, std::vector<Mode>> workloads;
  for (std::size_t t = 0; t < tables.size(); ++t)
    for (std::size_t i = 0; i < tables[t].cases.size(); ++i) {
      const Case& row = tables[t].cases[i];
      const std::size_t slash = row.name.rfind('/');
      if (!row.step_us || slash == std::string::npos) continue;
      workloads[row.name.substr(0, slash)].push_back({&row, predictions[t][i].step_us});
    }
  Directions result;
  for (const auto& [name, modes] : workloads)
    for (std::size_t i = 0; i < modes.size(); ++i)
      for (std::size_t j = i + 1; j < modes.size(); ++j) {
        const Mode& a = modes[i];
        const Mode& b = modes[j];
        const bool apart = a.row->step_us->high * (1 + widened) < b.row->step_us->low ||
                           b.row->step_us->high * (1 + widened) < a.row->step_us->low;
        if (!apart) continue;
        ++result.pairs;
        if ((a.row->step_us->value < b.row->step_us->value) == (a.predicted < b.predicted)) {
          ++result.right;
          continue;
        }
        result.wrong.push_back(fmt::format("{} {}, predicted {}\n         {} {}, predicted {}", a.row->name,
                                           amount(a.row->step_us->value), amount(a.predicted), b.row->name,
                                           amount(b.row->step_us->value), amount(b.predicted)));
      }
  return result;
}

std::string to_text(const Directions& directions) {
  if (directions.pairs == 0) return {};
  std::string out = fmt::format(
      "which mode is faster: right in {} of {} pairs that {:.0f} % more range leaves "
      "apart\n",
      directions.right, directions.pairs, 100 * widened);
  for (const std::string& pair : directions.wrong) out += "  wrong: " + pair + '\n';
  return out;
}

std::string to_text(const Result& result) {
  std::string out;
  for (const Group& group : result.groups) {
    out += fmt::format("{}: {} {}, mean {:.1f} %, worst {:.1f} % outside [p10, p90]\n", group.name,
                       group.counted, group.counted == 1 ? "case" : "cases", 100 * group.mean,
                       100 * group.worst);
    out += fmt::format("  mean error {:.1f} %, exact {:.0f} %\n", 100 * group.mean_error, 100 * group.exact);
    out +=
        fmt::format("  {:<36}{:>10}{:>11}{:>9}{:>9}\n", "case", "measured", "predicted", "error", "outside");
    for (const Score& s : group.scores) {
      std::string name = s.name.size() > 35 ? s.name.substr(0, 34) + "~" : s.name;
      out += fmt::format("  {:<36}{:>10}{:>11}{:>+8.1f}%{:>+8.1f}%{}\n", name, amount(s.measured),
                         amount(s.predicted), 100 * s.error, 100 * s.outside, s.calibrated_on ? " *" : "");
    }
    out += '\n';
  }
  for (const Group& group : result.groups)
    if (std::any_of(group.scores.begin(), group.scores.end(),
                    [](const Score& s) { return s.calibrated_on; })) {
      out += "* the host's speed is set by this row, so it does not count\n";
      break;
    }
  for (const Failure& failure : result.failures)
    out += fmt::format("past the limit: {}: {}\n", failure.group, failure.what);
  if (result.failures.empty()) out += "within all limits\n";
  return out;
}

std::string to_csv(const Result& result) {
  std::string out = "group,case,measured,predicted,error,outside,noise,calibrated_on\n";
  for (const Group& group : result.groups)
    for (const Score& s : group.scores)
      out += fmt::format("{},{},{:.6g},{:.6g},{:.5f},{:.5f},{:.5f},{}\n", s.group, s.name, s.measured,
                         s.predicted, s.error, s.outside, s.noise, s.calibrated_on ? "true" : "false");
  return out;
}

}  // namespace gpusim::validate
