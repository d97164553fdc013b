// SPDX-License-Identifier: Apache-2.0
#include "sim/app/validate_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/app/run_variant.hpp"
#include "sim/app/validate_collectives.hpp"
#include "sim/report/metrics.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/validate/collective_table.hpp"
#include "sim/validate/score.hpp"

namespace gpusim {
namespace {

class Predictor {
 public:
  Predictor(const ValidateArguments& arguments, const Surroundings& surroundings,
            std::filesystem::path folder)
      : arguments_(arguments),
        surroundings_(surroundings),
        folder_(std::move(folder)),
        traces_(surroundings.limits),
        files_(std::make_shared<config::FileStore>(surroundings.limits)) {}

  validate::Prediction predict(const validate::Case& row, std::optional<double> host_speed) {
    ScenarioOptions options;
    options.sets = row.sets;
    if (host_speed) options.sets.push_back(fmt::format("host.speed={}", *host_speed));
    options.sets.insert(options.sets.end(), arguments_.sets.begin(), arguments_.sets.end());
    if (!row.variant.empty()) options.variants = {row.variant};
    options.steps = row.steps;
    options.config_folders = surroundings_.config_folders;
    options.files = files_;
    options.limits = surroundings_.limits;
    const Scenario scenario = read_scenario(folder_ / row.scenario, options);
    if (scenario.variants.size() != 1)
      throw ConfigError(Diagnostic{row.where, "variant",
                                   fmt::format("'{}' has {} variants, so the row must name one", row.scenario,
                                               scenario.variants.size()),
                                   ""});
    const Variant& variant = scenario.variants.front();
    RunOptions run_options;
    run_options.one_cuda_graph = false;
    run_options.fit_memory = false;
    run_options.config_folders = surroundings_.config_folders;
    run_options.limits = surroundings_.limits;
    const report::VariantResult result = run_variant(variant, traces_, run_options);
    const report::Metrics m = report::metrics(result);
    validate::Prediction p;
    // Measured steps run in groups from an idle device, with one synchronisation at the end of each group.
    Picoseconds group = result.isolated.totals.wall;
    if (variant.hardware) group += variant.hardware->launch.sync_return;
    p.step_us = microseconds(group) / static_cast<double>(row.steps);
    p.busy_us = microseconds(m.gpu_busy);
    p.gpu_ops = m.gpu_ops;
    // Measured FLOPs are those of the framework's counter, which counts what runs.
    p.flops = result.hardware_flops ? m.hardware_flops : m.model_flops;
    // Measured peaks are torch.cuda.max_memory_allocated(), which does not see the pool of CUDA graph trees.
    p.peak_bytes =
        static_cast<double>(result.memory ? result.memory->allocated.value() : m.peak_memory_bytes);
    p.cuda_graph = variant.cuda_graph == CudaGraphMode::Full && m.kernel_launches == 0;
    return p;
  }

  /// The host speed at which this row's step takes as long as it was measured to; nothing if none between
  /// 1/16 and 16 does.
  std::optional<double> calibrate(const validate::Case& row) {
    double slow = 1.0 / 16;
    double fast = 16;
    const double wanted = row.step_us->value;
    if (predict(row, slow).step_us < wanted || predict(row, fast).step_us > wanted) return std::nullopt;
    // A faster host never makes a step longer, so halving finds it.
    for (int i = 0; i < 24; ++i) {
      const double middle = std::sqrt(slow * fast);
      (predict(row, middle).step_us > wanted ? slow : fast) = middle;
    }
    return std::sqrt(slow * fast);
  }

 private:
  const ValidateArguments& arguments_;
  const Surroundings& surroundings_;
  std::filesystem::path folder_;
  TraceStore traces_;
  std::shared_ptr<config::FileStore> files_;
};

}  // namespace

ExitCode run_validate(const ValidateArguments& arguments, const Surroundings& surroundings) {
  bool past_limits = false;
  std::vector<validate::Table> tables;
  std::vector<std::vector<validate::Prediction>> all;
  for (const std::string& file : arguments.tables) {
    if (validate::holds_collectives(file)) {
      past_limits = validate_collectives(file, arguments.format, surroundings) || past_limits;
      continue;
    }
    const validate::Table& table = tables.emplace_back(validate::read_table(file));
    Predictor predictor(arguments, surroundings, std::filesystem::path(file).parent_path());
    std::map<std::string, double> speeds;
    for (const auto& [machine, name] : table.calibrations) {
      const auto row =
          std::find_if(table.cases.begin(), table.cases.end(),
                       [&, &wanted = name](const validate::Case& c) { return c.name == wanted; });
      if (!row->step_us)
        throw ConfigError(Diagnostic{row->where, "step_us", "the row to calibrate on has no step time", ""});
      const auto speed = predictor.calibrate(*row);
      if (!speed)
        throw ConfigError(Diagnostic{row->where, "step_us",
                                     "no host speed makes this step take as long as it was measured to",
                                     "calibrate on a row that the host bounds"});
      speeds[machine] = *speed;
      if (arguments.format == "text")
        surroundings.out(fmt::format("host of machine {}: speed {:.3f}, set by {}\n", machine, *speed, name));
    }
    std::vector<validate::Prediction> predictions;
    for (const validate::Case& row : table.cases) {
      const auto speed = speeds.find(row.machine);
      predictions.push_back(
          predictor.predict(row, speed == speeds.end() ? std::nullopt : std::optional(speed->second)));
    }
    const validate::Result result = validate::score(table, predictions);
    if (arguments.format == "csv") {
      surroundings.out(validate::to_csv(result));
    } else {
      if (!speeds.empty()) surroundings.out("\n");
      surroundings.out(validate::to_text(result));
    }
    past_limits = past_limits || !result.failures.empty();
    all.push_back(std::move(predictions));
  }
  if (arguments.format == "text") surroundings.out(validate::to_text(validate::directions(tables, all)));
  return past_limits ? ExitCode::ExpectationFailed : ExitCode::Done;
}

}  // namespace gpusim
