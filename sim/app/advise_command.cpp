// SPDX-License-Identifier: Apache-2.0
#include "sim/app/advise_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "models/units/text.hpp"
#include "sim/app/advise_knobs.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/plan_store.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/error.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/config/load.hpp"
#include "sim/config/names.hpp"
#include "sim/config/whole.hpp"
#include "sim/engine/program.hpp"
#include "sim/report/metrics.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/sweep/in_order.hpp"

namespace gpusim {
namespace {

[[noreturn]] void refuse(const std::string& option, std::string what, std::string hint) {
  throw ConfigError(
      Diagnostic{.where = whole(option), .path = {}, .what = std::move(what), .hint = std::move(hint)});
}

/// The value of an option, as scenarios write it.
template <config::Readable T>
std::optional<T> quantity(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return config::load_text(text, option).as<T>(config::positive);
  } catch (const ConfigError& error) {
    refuse(option, error.diagnostics().front().what, error.diagnostics().front().hint);
  }
}

/// "2.50", "2.50 $/h", "$2.50/h".
std::optional<double> price_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::string number = text;
  for (const char* unit : {"$/h", "/h", "$"})
    if (const std::size_t at = number.find(unit); at != std::string::npos)
      number.erase(at, std::string_view(unit).size());
  number.erase(std::remove(number.begin(), number.end(), ' '), number.end());
  try {
    const auto price = config::load_text(number, "--price").as<double>();
    if (price > 0) return price;
  } catch (const ConfigError&) {
  }
  refuse("--price", "'" + text + "' is no price of an hour", "write a number such as '2.50 $/h'");
}

/// Simulates settings; used by one thread.
class SettingWorker : public sweep::Worker {
 public:
  SettingWorker(const config::Node& tree, const std::string& file, ScenarioOptions options, RunOptions run,
                const advise::Question& question, const std::vector<advise::Setting>& settings,
                std::vector<advise::Outcome>& outcomes)
      : tree_(tree),
        file_(file),
        options_(std::move(options)),
        run_(std::move(run)),
        question_(question),
        settings_(settings),
        outcomes_(outcomes),
        base_sets_(options_.sets),
        traces_(options_.limits) {
    options_.files = std::make_shared<config::FileStore>(options_.limits);
    options_.workloads = std::make_shared<WorkloadStore>();
    run_.plans = std::make_shared<PlanStore>();
  }

  std::string rows(const sweep::Stretch& points) override {
    for (std::int64_t point = points.first; point < points.end; ++point) {
      const auto at = static_cast<std::size_t>(point);
      outcomes_[at] = outcome_of(settings_[at]);
    }
    return {};
  }

 private:
  advise::Outcome outcome_of(const advise::Setting& setting) {
    options_.sets = base_sets_;
    for (std::size_t knob = 0; knob < setting.size(); ++knob) {
      const std::vector<std::string>& sets = question_.knobs[knob].choices[setting[knob]].sets;
      options_.sets.insert(options_.sets.end(), sets.begin(), sets.end());
    }
    advise::Outcome outcome;
    try {
      const Scenario scenario = read_scenario_tree(tree_, file_, options_);
      const report::VariantResult result = run_variant(scenario.variants.front(), traces_, run_);
      const report::Metrics metrics = report::metrics(result);
      outcome.step_time = metrics.step_time;
      outcome.tokens = result.tokens;
      outcome.memory = Bytes(metrics.peak_memory_bytes);
      outcome.compile_time = metrics.compile_time;
      outcome.regime = report::name(metrics.regime);
    } catch (const ConfigError& error) {
      outcome.refused = error.diagnostics().front().what;
    } catch (const engine::DeadlockError&) {
      outcome.refused = "the step would be stuck";
    } catch (const engine::TimeLimitError& error) {
      outcome.refused = error.what();
    }
    return outcome;
  }

  const config::Node& tree_;
  const std::string& file_;
  ScenarioOptions options_;
  RunOptions run_;
  const advise::Question& question_;
  const std::vector<advise::Setting>& settings_;
  std::vector<advise::Outcome>& outcomes_;
  std::vector<std::string> base_sets_;
  TraceStore traces_;
};

std::vector<Backend> backends_of(const std::vector<std::string>& wanted, const config::SearchPath& search,
                                 const Variant& variant) {
  std::vector<std::string> names = wanted.empty() ? measured_backends() : wanted;
  const std::vector<Backend> known = config::known_backends(search);
  if (names == std::vector<std::string>{"all"}) return known;
  // How it is is always among them.
  if (wanted.empty() && variant.compile) names.push_back(variant.compile->backend.key);
  std::vector<Backend> found;
  for (const Backend& backend : known)
    if (std::find(names.begin(), names.end(), backend.key) != names.end()) found.push_back(backend);
  for (const std::string& name : wanted)
    if (std::none_of(known.begin(), known.end(), [&](const Backend& b) { return b.key == name; })) {
      std::vector<std::string> keys{"all"};
      for (const Backend& backend : known) keys.push_back(backend.key);
      refuse("--backend " + name, "no such backend", name_hint(name, keys, "backends"));
    }
  return found;
}

}  // namespace

void add_advise_options(CLI::App& app, AdviseArguments& arguments) {
  const auto repeated = [](CLI::Option* option, const char* type) {
    option->type_name(type)->expected(1)->allow_extra_args(false)->multi_option_policy(
        CLI::MultiOptionPolicy::TakeAll);
  };
  app.add_option("file", arguments.file, "Scenario (.yaml) or profiler trace (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  app.add_option("--variant", arguments.variant, "The variant to change; the first if not given")
      ->type_name("NAME");
  app.add_option("--objective", arguments.objective,
                 "What is to be small: time of a step, of a token, or cost")
      ->check(CLI::IsMember({"step", "tokens", "cost"}))
      ->type_name("step|tokens|cost");
  app.add_option("--max-memory", arguments.memory_max, "The most memory; what the device has if not given")
      ->type_name("BYTES");
  app.add_option("--max-latency", arguments.latency_max, "The longest step")->type_name("TIME");
  app.add_option("--price", arguments.price, "Of an hour on this machine: '2.50 $/h'")->type_name("PRICE");
  repeated(app.add_option("--backend", arguments.backends,
                          "A compiler to try, or all; eager and inductor if not given; may be repeated"),
           "NAME");
  repeated(app.add_option("--set", arguments.sets, "Change a value of the scenario first; may be repeated"),
           "PATH=VALUE");
  app.add_option("--steps", arguments.steps, "Simulate exactly so many steps from an idle machine")
      ->type_name("N");
  app.add_option("--jobs,-j", arguments.jobs, "Threads; as many as there are cores if not given")
      ->type_name("N");
  app.add_option("--format", arguments.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
}

AdviceFound find_advice(const config::Node& tree, const AdviseArguments& arguments,
                        const std::vector<std::filesystem::path>& config_folders,
                        const config::Limits& limits) {
  AdviceFound found;
  advise::Question& question = found.question;
  question.objective = arguments.objective == "tokens" ? advise::Objective::Tokens
                       : arguments.objective == "cost" ? advise::Objective::Cost
                                                       : advise::Objective::Step;
  question.limits = {.memory = quantity<Bytes>("--max-memory", arguments.memory_max),
                     .latency = quantity<Picoseconds>("--max-latency", arguments.latency_max)};
  found.subject.price = price_of(arguments.price);
  if (question.objective == advise::Objective::Cost && !found.subject.price)
    refuse("--objective cost", "needs the price of an hour", "add --price '2.50 $/h'");
  if (arguments.steps && *arguments.steps < 1)
    refuse("--steps", fmt::format("must be at least 1, not {}", *arguments.steps), "");
  if (arguments.jobs < 0) refuse("--jobs", fmt::format("must be at least 1, not {}", arguments.jobs), "");

  ScenarioOptions options;
  options.sets = arguments.sets;
  if (!arguments.variant.empty()) options.variants = {arguments.variant};
  options.metrics = metric_paths();
  options.config_folders = config_folders;
  options.limits = limits;
  options.steps = arguments.steps;
  options.inputs = std::make_shared<config::InputDigest>();
  const Scenario scenario = read_scenario_tree(tree, arguments.file, options);
  found.subject.input = options.inputs->text();
  options.inputs.reset();
  const Variant& variant = scenario.variants.front();
  if (question.objective != advise::Objective::Step &&
      !std::holds_alternative<NetworkWorkload>(variant.workload.source))
    refuse("--objective " + arguments.objective, "only steps of networks have tokens", "leave it away");
  if (!question.limits.memory && variant.hardware && variant.hardware->memory.capacity > Bytes(0))
    question.limits.memory = variant.hardware->memory.capacity;
  options.variants = {variant.name};

  config::SearchPath search;
  search.beside = std::filesystem::path(arguments.file).parent_path();
  if (search.beside.empty()) search.beside = ".";
  search.extra = config_folders;
  const AdviseKnobs knobs = advise_knobs(tree, variant, backends_of(arguments.backends, search, variant),
                                         question.objective != advise::Objective::Step);
  question.knobs = knobs.knobs;
  question.makes_sense = [knobs](const advise::Setting& setting) { return knobs.makes_sense(setting); };

  RunOptions run;
  run.one_cuda_graph = false;
  run.fit_memory = false;
  run.phases = false;
  run.shapes = false;
  run.config_folders = config_folders;
  run.limits = limits;
  const int jobs = arguments.jobs > 0 ? static_cast<int>(std::min<std::int64_t>(arguments.jobs, 4096))
                                      : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  question.evaluate = [&](const std::vector<advise::Setting>& settings) {
    std::vector<advise::Outcome> outcomes(settings.size());
    sweep::run_in_order({.points = {0, static_cast<std::int64_t>(settings.size())},
                         .jobs = jobs,
                         .make_worker =
                             [&] {
                               return std::make_unique<SettingWorker>(tree, arguments.file, options, run,
                                                                      question, settings, outcomes);
                             },
                         .write = [](const sweep::Stretch&, std::string_view) {},
                         .stop = {}});
    return outcomes;
  };
  found.advice = advise::search(question);
  question.evaluate = nullptr;  // It knows what ends here.
  found.subject.scenario = scenario.name;
  found.subject.file = arguments.file;
  found.subject.variant = variant.name;
  found.subject.command = "gpusim run " + arguments.file;
  if (scenario.variants.size() > 1 || !arguments.variant.empty())
    found.subject.command += " --variant " + variant.name;
  for (const std::string& set : arguments.sets) found.subject.command += fmt::format(" --set '{}'", set);
  return found;
}

ExitCode run_advise(const AdviseArguments& arguments, const Surroundings& surroundings) {
  const AdviceFound found = find_advice(scenario_tree(arguments.file, surroundings.limits), arguments,
                                        surroundings.config_folders, surroundings.limits);
  surroundings.out(arguments.format == "json"
                       ? advise::to_json(found.advice, found.question, found.subject, GPUSIM_VERSION)
                       : advise::to_text(found.advice, found.question, found.subject) +
                             config::origin_line(GPUSIM_VERSION, found.subject.input));
  return ExitCode::Done;
}

}  // namespace gpusim
