// SPDX-License-Identifier: Apache-2.0
#include "sim/app/fit_memory.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/compiled_variant.hpp"
#include "sim/app/network_run.hpp"
#include "sim/config/error.hpp"
#include "sim/report/metrics.hpp"

namespace gpusim {
namespace {

struct Setting {
  std::vector<std::string> changes;
  Variant variant;
};

NetworkWorkload& network_of(Variant& variant) {
  return std::get<NetworkWorkload>(variant.workload.source);
}

/// The variant as it is, and with less kept for backward.
std::vector<Setting> settings_of(const Variant& variant) {
  std::vector<Setting> settings{{{}, variant}};
  const auto& workload = std::get<NetworkWorkload>(variant.workload.source);
  if (!workload.training) return settings;
  if (is_compiled(variant)) return settings;
  for (const Checkpointing checkpointing : {Checkpointing::Selective, Checkpointing::Blocks}) {
    if (workload.training->checkpointing == checkpointing) continue;
    Setting& setting = settings.emplace_back();
    setting.changes = {fmt::format("workload.checkpointing={}", name(checkpointing))};
    setting.variant = variant;
    network_of(setting.variant).training->checkpointing = checkpointing;
  }
  return settings;
}

std::optional<report::OutOfMemory::Way> try_out(Setting& setting, Bytes capacity, TraceStore& traces,
                                                const RunOptions& options) {
  try {
    NetworkWorkload& workload = network_of(setting.variant);
    rebuild(workload, setting.variant);
    report::VariantResult built;
    CudaGraphMode cuda_graph = setting.variant.cuda_graph;
    build_network(workload, setting.variant, options, built, cuda_graph);
    if (*built.peak_memory > capacity) return std::nullopt;
    const report::Metrics m = report::metrics(run_variant(setting.variant, traces, options));
    return report::OutOfMemory::Way{.changes = setting.changes,
                                    .step_time = m.step_time,
                                    .peak = *built.peak_memory,
                                    .tokens_per_second = m.tokens_per_second};
  } catch (const ConfigError&) {
    return std::nullopt;  // Such as a batch for which the compiler refuses the step.
  }
}

}  // namespace

report::OutOfMemory fit_memory(const NetworkWorkload& workload, const Variant& variant, Bytes peak,
                               TraceStore& traces, const RunOptions& options) {
  const Bytes capacity = variant.hardware->memory.capacity;
  report::OutOfMemory result{.over = peak - capacity};
  RunOptions quick = options;
  quick.timeline = quick.critical_path = quick.one_cuda_graph = quick.fit_memory = false;
  Variant plain = variant;
  plain.shapes.clear();
  std::vector<Setting> settings = settings_of(plain);
  settings.front().changes.clear();
  for (std::int64_t batch = workload.sizes.batch; batch >= 1 && !result.way; batch /= 2) {
    for (Setting setting : settings) {
      const bool as_it_is = batch == workload.sizes.batch && setting.changes.empty();
      if (as_it_is) continue;
      if (batch != workload.sizes.batch) setting.changes.push_back(fmt::format("workload.batch={}", batch));
      network_of(setting.variant).sizes.batch = batch;
      ++result.tried;
      auto way = try_out(setting, capacity, traces, quick);
      if (way && (!result.way || way->step_time < result.way->step_time)) result.way = std::move(way);
    }
  }
  return result;
}

}  // namespace gpusim
