// SPDX-License-Identifier: Apache-2.0
#include "sim/app/fit_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// Micro-batches that are tried at most: each is simulated.
constexpr std::int64_t parts_max = 64;

struct Setting {
  std::vector<std::string> changes;
  Variant variant;
};

NetworkWorkload& network_of(Variant& variant) {
  return std::get<NetworkWorkload>(variant.workload.source);
}

/// The variant as it is, and ways of keeping less for backward.
std::vector<Setting> settings_of(const Variant& variant) {
  std::vector<Setting> settings{{{}, variant}};
  const auto& workload = std::get<NetworkWorkload>(variant.workload.source);
  if (!workload.training) return settings;
  if (is_compiled(variant)) {
    for (const double budget : {0.5, 0.0}) {
      Setting& setting = settings.emplace_back();
      setting.changes = {fmt::format("recompute.memory_budget={}", budget)};
      setting.variant = variant;
      RecomputeOptions& recompute = setting.variant.compile->recompute.emplace();
      recompute.policy = RecomputePolicy::MemoryBudget;
      recompute.memory_budget = budget;
    }
    return settings;
  }
  for (const Checkpointing checkpointing : {Checkpointing::Selective, Checkpointing::Blocks}) {
    if (workload.training->checkpointing == checkpointing) continue;
    Setting& setting = settings.emplace_back();
    setting.changes = {fmt::format("workload.checkpointing={}", name(checkpointing))};
    setting.variant = variant;
    network_of(setting.variant).training->checkpointing = checkpointing;
  }
  return settings;
}

/// The same work in `parts` of the batch one after the other: micro-batches of a training step; in inference
/// a part is all that is left of the step.
void divide_batch(Setting& setting, std::int64_t parts) {
  if (parts == 1) return;
  NetworkWorkload& workload = network_of(setting.variant);
  workload.sizes.batch /= parts;
  setting.changes.push_back(fmt::format("workload.batch={}", workload.sizes.batch));
  if (!workload.training) return;
  workload.training->accumulation *= parts;
  setting.changes.push_back(fmt::format("workload.accumulation={}", workload.training->accumulation));
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

bool is_faster(const report::OutOfMemory::Way& a, const report::OutOfMemory::Way& b) {
  if (a.tokens_per_second && b.tokens_per_second) return *a.tokens_per_second > *b.tokens_per_second;
  return a.step_time < b.step_time;
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
  const std::vector<Setting> settings = settings_of(plain);
  const std::int64_t batch = workload.sizes.batch;
  bool enough = false;  // With a smaller batch nothing would have to be made again.
  for (std::int64_t parts = 1; parts <= std::min(batch, parts_max) && !enough; ++parts) {
    if (batch % parts != 0) continue;
    for (Setting setting : settings) {
      const bool nothing_made_again = setting.changes.empty();
      if (parts == 1 && nothing_made_again) continue;
      divide_batch(setting, parts);
      ++result.tried;
      auto way = try_out(setting, capacity, traces, quick);
      if (!way) continue;
      enough = enough || nothing_made_again;
      if (!result.way || is_faster(*way, *result.way)) result.way = std::move(way);
    }
  }
  return result;
}

}  // namespace gpusim
