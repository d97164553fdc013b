// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "models/units/text.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/sweep_knobs.hpp"
#include "sim/config/error.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/config/whole.hpp"
#include "sim/report/metrics.hpp"

namespace gpusim {
namespace {

constexpr std::array<std::string_view, 9> main_columns{
    "step_time_us", "makespan_us", "gpu_busy_us",       "gpu_utilization",  "regime",
    "mfu",          "hfu",         "tokens_per_second", "peak_memory_bytes"};

/// Figures that the isolated run or the step's structure tells: no steady step is looked for if a sweep asks
/// for no other.
bool is_of_isolated_run(const std::string& column) {
  static constexpr std::array<std::string_view, 7> names{
      "makespan_us", "launch_queue_max", "compile_time_s",          "graph_breaks",
      "model_flops", "hardware_flops",   "out_of_memory.over_bytes"};
  return std::find(names.begin(), names.end(), column) != names.end() || column.starts_with("window.") ||
         column.starts_with("memory.");
}

/// What is wrong with a scenario at one point, read only.
std::vector<Diagnostic> mistakes_at(const SweepPlan& plan, const std::vector<std::string>& sets,
                                    const std::shared_ptr<config::FileStore>& files,
                                    std::optional<Scenario>* read = nullptr) {
  ScenarioOptions options = plan.options;
  options.files = files;
  options.sets.insert(options.sets.end(), sets.begin(), sets.end());
  try {
    Scenario scenario = read_scenario_tree(plan.tree, plan.file, options);
    if (read != nullptr) *read = std::move(scenario);
    return {};
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
}

/// Finds for each axis a value that the scenario takes; throws what is wrong with the first one if there is
/// none among those it tries.
class AxisCheck {
 public:
  AxisCheck(const SweepPlan& plan, std::shared_ptr<config::FileStore> files)
      : plan_(plan), files_(std::move(files)), at_(plan.points.axes().size(), 0) {}

  /// Which values were found.
  std::vector<std::uint32_t> run() {
    Errors errors;
    for (std::size_t axis = 0; axis < at_.size(); ++axis) check(axis, errors);
    errors.throw_if_any();
    return at_;
  }
  /// They, as `--set` takes them.
  std::vector<std::string> sets() const {
    std::vector<std::string> all;
    for (std::size_t axis = 0; axis < at_.size(); ++axis) all.push_back(set(axis));
    return all;
  }

 private:
  std::string set(std::size_t axis) const {
    const sweep::Axis& a = plan_.points.axes()[axis];
    return a.path + '=' + a.values[at_[axis]];
  }

  void check(std::size_t axis, Errors& errors) {
    const std::size_t count = plan_.points.axes()[axis].values.size();
    std::vector<std::size_t> tries;
    for (std::size_t value = 0; value < std::min<std::size_t>(count, 8); ++value) tries.push_back(value);
    if (count > 8) tries.push_back(count - 1);
    std::vector<Diagnostic> first;
    for (const std::size_t value : tries) {
      at_[axis] = static_cast<std::uint32_t>(value);
      std::vector<Diagnostic> own;
      for (Diagnostic& diagnostic : mistakes_at(plan_, sets(), files_))
        if (diagnostic.where.file == "--set " + set(axis)) own.push_back(std::move(diagnostic));
      if (own.empty()) return;
      if (first.empty()) first = std::move(own);
    }
    at_[axis] = 0;
    for (Diagnostic& diagnostic : first) {
      diagnostic.where.file = "--vary " + set(axis);
      errors.add(std::move(diagnostic));
    }
  }

  const SweepPlan& plan_;
  std::shared_ptr<config::FileStore> files_;
  std::vector<std::uint32_t> at_;
};

std::int64_t checked(const char* option, std::optional<std::int64_t> value, std::int64_t least) {
  if (value && *value < least)
    throw ConfigError(Diagnostic{.where = whole(option),
                                 .path = {},
                                 .what = fmt::format("must be at least {}, not {}", least, *value),
                                 .hint = {}});
  return value.value_or(0);
}

sweep::Points points_of(const SweepArguments& arguments, const config::Limits& limits) {
  Errors errors;
  std::vector<sweep::Axis> axes;
  for (const std::string& vary : arguments.vary)
    errors.collect([&] { axes.push_back(sweep::parse_axis(vary, limits.axis_values_max)); });
  errors.throw_if_any();
  sweep::Drawing drawing;
  if (arguments.zip) drawing.combine = sweep::Combine::Zip;
  if (arguments.random) {
    if (arguments.zip)
      throw ConfigError(Diagnostic{.where = whole("--random"),
                                   .path = {},
                                   .what = "draws from all combinations, and --zip has none",
                                   .hint = "give one of the two"});
    drawing = {.combine = sweep::Combine::Random,
               .count = *arguments.random,
               .seed = static_cast<std::uint64_t>(arguments.seed.value_or(0))};
  }
  return sweep::Points(std::move(axes), drawing, limits.points_max);
}

std::vector<std::size_t> places_of(const std::vector<std::string>& columns) {
  std::vector<std::size_t> places;
  const std::vector<report::Field> all = report::fields(report::Metrics{});
  for (const std::string& column : columns)
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].path == column) places.push_back(i);
  return places;
}

}  // namespace

std::vector<std::string> result_columns(const std::vector<std::string>& wanted) {
  if (wanted.empty()) return {main_columns.begin(), main_columns.end()};
  std::vector<std::string> known;
  for (const report::Field& field : report::fields(report::Metrics{}))
    if (field.path != "variant") known.push_back(field.path);
  std::vector<std::string> columns;
  Errors errors;
  for (const std::string& name : wanted) {
    if (name == "all") {
      columns = known;
      break;
    }
    const auto path = report::path_of_field(name);
    if (!path || *path == "variant") {
      errors.add({.where = whole("--columns " + name),
                  .path = {},
                  .what = "no such figure",
                  .hint = nearest_name(name, known)
                              ? name_hint(name, known, "figures")
                              : "gpusim run --format csv has all of them in its first line"});
    } else if (std::find(columns.begin(), columns.end(), *path) == columns.end()) {
      columns.push_back(*path);
    }
  }
  errors.throw_if_any();
  return columns;
}

SweepPlan make_sweep_plan(const SweepArguments& arguments, const Surroundings& surroundings) {
  result_columns(arguments.columns);
  sweep::Points points = points_of(arguments, surroundings.limits);
  const sweep::Format format = arguments.out.empty() ? sweep::Format::Csv : sweep::format_of(arguments.out);
  return make_sweep_plan({.tree = scenario_tree(arguments.file, surroundings.limits),
                          .points = std::move(points),
                          .format = format},
                         arguments, surroundings.config_folders, surroundings.limits);
}

SweepPlan make_sweep_plan(SweepQuestion question, const SweepArguments& arguments,
                          const std::vector<std::filesystem::path>& config_folders,
                          const config::Limits& limits) {
  const std::vector<std::string> results = result_columns(arguments.columns);
  std::vector<std::string> paths;
  for (const sweep::Axis& axis : question.points.axes()) paths.push_back(axis.path);
  SweepPlan plan{
      .tree = std::move(question.tree),
      .file = arguments.file,
      .options = {},
      .run = {},
      .points = std::move(question.points),
      .variants = {},
      .encoder = sweep::RowEncoder(question.format, {.axes = std::move(paths), .results = results}),
      .figures = places_of(results)};
  plan.options.sets = arguments.sets;
  plan.options.variants = arguments.variants;
  plan.options.metrics = metric_paths();
  plan.options.config_folders = config_folders;
  plan.options.limits = limits;
  checked("--steps", arguments.steps, 1);
  plan.options.steps = arguments.steps;
  if (arguments.seed) plan.options.seed = static_cast<std::uint64_t>(checked("--seed", arguments.seed, 0));

  const auto asks_for = [&](const auto& what) { return std::any_of(results.begin(), results.end(), what); };
  plan.run.config_folders = config_folders;
  plan.run.limits = limits;
  plan.run.one_cuda_graph = false;
  plan.run.shapes = false;
  plan.run.steady = asks_for([](const std::string& column) { return !is_of_isolated_run(column); });
  plan.run.phases = asks_for([](const std::string& column) { return column.starts_with("phases."); });
  plan.run.fit_memory = asks_for([](const std::string& column) {
    return column.starts_with("out_of_memory.") && column != "out_of_memory.over_bytes";
  });

  const auto files = std::make_shared<config::FileStore>(limits);
  std::optional<Scenario> scenario;
  AxisCheck check(plan, files);
  const std::vector<std::uint32_t> base = check.run();
  const std::vector<std::string> sets = check.sets();
  const std::vector<Diagnostic> mistakes = mistakes_at(plan, sets, files, &scenario);
  // Values that do not go together are matters of their points, if the scenario itself is right.
  if (!scenario && (sets.empty() || !mistakes_at(plan, {}, files, &scenario).empty()))
    throw ConfigError(mistakes);
  config::InputDigest inputs;
  inputs.add_scenario(plan.tree, is_trace_file(plan.file));
  files->note(inputs);
  for (std::size_t i = 0; i < plan.options.sets.size(); ++i)  // The order counts.
    inputs.add("set " + std::to_string(i), plan.options.sets[i]);
  if (plan.options.steps) inputs.add("steps", std::to_string(*plan.options.steps));
  if (plan.options.seed) inputs.add("seed", std::to_string(*plan.options.seed));
  for (const Variant& variant : scenario->variants) {
    plan.variants.push_back(variant.name);
    if (const auto* trace = std::get_if<TraceWorkload>(&variant.workload.source))
      inputs.add_trace(trace->resolved);
  }
  plan.input = inputs.text();
  if (mistakes.empty()) find_knobs(plan, base);
  return plan;
}

sweep::Identity identity_of(const SweepPlan& plan, const SweepArguments& arguments,
                            const sweep::Stretch& points) {
  std::string text = fmt::format("gpusim {}\ninput: {}\n", GPUSIM_VERSION, plan.input);
  for (const std::string& set : arguments.sets) text += fmt::format("set: {}\n", set);
  for (const std::string& vary : arguments.vary) text += fmt::format("vary: {}\n", sweep::one_line(vary));
  if (arguments.zip) text += "zip\n";
  if (arguments.random) text += fmt::format("random: {}\n", *arguments.random);
  if (arguments.seed) text += fmt::format("seed: {}\n", *arguments.seed);
  if (arguments.steps) text += fmt::format("steps: {}\n", *arguments.steps);
  for (const std::string& variant : plan.variants) text += fmt::format("variant: {}\n", variant);
  text += fmt::format("points: {} to {} of {}\n", points.first, points.end - 1, plan.points.count());
  std::string columns;
  for (const std::string& column : plan.encoder.columns().all())
    columns += (columns.empty() ? "" : ",") + column;
  text += fmt::format("columns: {}\n", columns);
  // The scenario's path is for people: the same scenario in another place is the same sweep.
  return {.digest = config::sha256(text),
          .description = text + fmt::format("scenario: {}\n", plan.file),
          .version = GPUSIM_VERSION,
          .input = plan.input};
}

}  // namespace gpusim
