// SPDX-License-Identifier: Apache-2.0
#include "sim/app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "models/graph/catalogue.hpp"
#include "sim/app/advise_command.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/explain_command.hpp"
#include "sim/app/html_command.hpp"
#include "sim/app/junit.hpp"
#include "sim/app/limit_options.hpp"
#include "sim/app/list_interconnects.hpp"
#include "sim/app/output_file.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/app/shell_support.hpp"
#include "sim/app/sweep_command.hpp"
#include "sim/app/trace_commands.hpp"
#include "sim/app/trace_use_commands.hpp"
#include "sim/app/update_expectations.hpp"
#include "sim/app/validate_command.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"
#include "sim/engine/program.hpp"
#include "sim/report/chrome_trace.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {
namespace {

namespace fs = std::filesystem;

/// The arguments are wrong in a way that CLI11 does not know.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RunArguments {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  std::vector<std::string> variants;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> seed;
  std::string format = "text";
  std::string trace;
  std::string html;
  std::string junit;
  bool critical_path = false;
  bool curve = false;
  bool update = false;  ///< Of test: rewrite what is expected.
};

std::string with_newline(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Command {
 public:
  explicit Command(const Surroundings& surroundings) : surroundings_(surroundings) {}

  ExitCode run(const RunArguments& arguments) {
    if (!arguments.html.empty()) require_plots();
    const ScenarioOptions options = scenario_options(arguments);
    std::vector<Scenario> scenarios;
    std::vector<std::shared_ptr<config::InputDigest>> inputs;
    Errors errors;
    for (const std::string& file : arguments.files)
      errors.collect([&] {
        inputs.push_back(std::make_shared<config::InputDigest>());
        ScenarioOptions own = options;
        own.inputs = inputs.back();
        scenarios.push_back(read(file, own));
      });
    // Several files, each with its own mistakes: in the order given, not sorted into each other.
    if (!errors.empty()) throw ConfigError(errors.diagnostics());

    std::size_t runs = 0;
    for (const Scenario& scenario : scenarios) runs += scenario.variants.size();
    RunOptions run_options = simulation_options();
    run_options.timeline = !arguments.trace.empty() || !arguments.html.empty();
    run_options.idle_intervals = !arguments.html.empty();
    run_options.critical_path = arguments.critical_path;

    TraceStore traces(surroundings_.limits);
    std::vector<report::ScenarioReport> reports;
    bool first = true;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      const Scenario& scenario = scenarios[i];
      run_options.inputs = inputs[i];
      reports.push_back(run_scenario(scenario, traces, run_options));
      reports.back().input = inputs[i]->text();
      if (!arguments.trace.empty()) write_traces(scenario, reports.back(), arguments.trace, runs);
      if (!arguments.html.empty())
        write_html(scenario, reports.back(), arguments.html, scenarios.size() > 1, surroundings_);
      for (report::VariantResult& result : reports.back().variants) result.timeline.reset();
      if (arguments.format != "text") continue;
      if (!first) out("\n");
      first = false;
      out(with_newline(report::to_text(reports.back())));
      out(config::origin_line(GPUSIM_VERSION, reports.back().input));
      reports.clear();
    }
    if (arguments.format == "json") out(with_newline(report::to_json(reports, GPUSIM_VERSION)));
    if (arguments.format == "csv") out(with_newline(report::to_csv(reports, GPUSIM_VERSION)));
    return ExitCode::Done;
  }

  ExitCode explained(const RunArguments& arguments) {
    for (const std::string& file : arguments.files) {
      ScenarioOptions options = scenario_options(arguments);
      options.inputs = std::make_shared<config::InputDigest>();
      const Scenario scenario = read(file, options);
      const std::string input = options.inputs->text();
      out(with_newline(explain(scenario, arguments.format, arguments.curve, input)));
      if (arguments.format == "text") out(config::origin_line(GPUSIM_VERSION, input));
    }
    return ExitCode::Done;
  }

  ExitCode test(const std::vector<std::string>& paths, const RunArguments& arguments) {
    const std::vector<fs::path> files = scenario_files(paths);
    const ScenarioOptions options = scenario_options(arguments);
    RunOptions run_options = simulation_options();
    run_options.one_cuda_graph = false;
    if (arguments.update &&
        !(arguments.sets.empty() && !arguments.steps && !arguments.seed && arguments.variants.empty()))
      throw UsageError(
          "--update: what is expected is for the file as it is, without --set, --variant, --steps and "
          "--seed");
    std::size_t failed = 0;
    std::size_t broken = 0;
    std::size_t checked = 0;
    std::vector<JunitCase> cases;
    for (const fs::path& file : files) {
      try {
        TraceStore traces(surroundings_.limits);
        const Scenario scenario = read(file.string(), options);
        report::ScenarioReport result = run_scenario(scenario, traces, run_options);
        if (arguments.update) update(file, scenario, result);
        std::size_t passed = 0;
        std::string messages;
        for (const report::ExpectationResult& expectation : result.expectations) {
          ++checked;
          cases.push_back({file.string(), expectation.path + ' ' + expectation.relation,
                           expectation.pass ? "" : describe(expectation), ""});
          if (expectation.pass) {
            ++passed;
          } else {
            messages += fmt::format("{}: failed: {}\n", expectation.where, describe(expectation));
          }
        }
        if (!messages.empty()) ++failed;
        if (result.expectations.empty()) cases.push_back({file.string(), "runs", "", ""});
        out(fmt::format("{} {}: {} of {} expectations hold\n", messages.empty() ? "ok    " : "FAILED",
                        file.string(), passed, result.expectations.size()));
        out(messages);
      } catch (const std::exception& error) {
        if (!report_bad_input(error)) throw;
        ++broken;
        cases.push_back({file.string(), "runs", "", error.what()});
        out(fmt::format("ERROR  {}\n", file.string()));
      }
    }
    out(fmt::format("{} scenario{}, {} expectation{}: {}\n", files.size(), files.size() == 1 ? "" : "s",
                    checked, checked == 1 ? "" : "s",
                    failed == 0 && broken == 0 ? std::string("all hold")
                                               : fmt::format("{} failed, {} could not run", failed, broken)));
    if (!arguments.junit.empty()) write_output(arguments.junit, to_junit(cases));
    if (broken > 0) return ExitCode::BadInput;
    return failed > 0 ? ExitCode::ExpectationFailed : ExitCode::Done;
  }

  /// Rewrites the file's expectations, says what has changed, and counts that as passed.
  void update(const fs::path& file, const Scenario& scenario, report::ScenarioReport& result) {
    const UpdatedExpectations updated = update_expectations(read_file(file), scenario, result.expectations);
    for (const std::string& left : updated.left) err(fmt::format("{}\n", left));
    if (updated.updates.empty()) return;
    write_output(file, updated.text);
    for (const ExpectationUpdate& one : updated.updates)
      out(fmt::format("{}: {}: {} -> {}\n", one.where, one.path, one.before, one.after));
    ScenarioOptions options = scenario_options({});
    const Scenario again = read(file.string(), options);
    for (std::size_t i = 0; i < result.expectations.size(); ++i)
      result.expectations[i].pass = is_as_expected(again.expectations[i], result.expectations[i].actual);
  }

  ExitCode list(const std::string& what) {
    config::SearchPath search = search_path();
    if (what == "ops") return list_ops();
    if (what == "limits") {
      out(config::limits_text());
      return ExitCode::Done;
    }
    if (what == "networks") return list_networks(search);
    if (what == "backends") return list_backends(search);
    if (what == "interconnects") {
      out(list_interconnects(search));
      return ExitCode::Done;
    }
    const bool hardware = what == "hardware";
    const std::string kind = hardware ? "hardware" : "hosts";
    std::vector<std::string> names = config::known_configs(kind, search);
    std::size_t width = 4;
    for (const std::string& name : names) width = std::max(width, name.size());
    for (const std::string& name : names) {
      const fs::path file = config::find_config(kind, name, Location{"list " + kind, 0, 0}, search);
      const config::Node root = config::load_config(file, search);
      if (hardware) {
        const GpuSpec gpu = config::read_hardware(root, search);
        const auto bf16 = gpu.peak.find(Dtype::Bf16);
        const auto fp16 = gpu.peak.find(Dtype::Fp16);
        const std::string peak = bf16   ? format_quantity(*bf16) + " bf16"
                                 : fp16 ? format_quantity(*fp16) + " fp16"
                                        : std::string("-");
        out(fmt::format("{:<{}}  {:<28}  {:>9}  {:>10}  {}\n", name, width, gpu.name,
                        format_quantity(gpu.memory.capacity), format_quantity(gpu.memory.bandwidth), peak));
      } else {
        out(fmt::format("{:<{}}  {}\n", name, width, config::read_host(root, search).name));
      }
    }
    return ExitCode::Done;
  }

  ExitCode list_ops() {
    for (const OpKind& kind : op_catalogue())
      out(fmt::format("{}\n    {} ({})\n", op_signature(kind), kind.help, name(kind.fusion)));
    return ExitCode::Done;
  }

  ExitCode list_backends(const config::SearchPath& search) {
    for (const Backend& backend : config::known_backends(search)) {
      std::string modes;
      for (const BackendMode& mode : backend.modes) modes += (modes.empty() ? "" : " ") + mode.name;
      out(fmt::format("{}: {}, {}\n    {}\n", backend.key, backend.name, backend.help, modes));
    }
    return ExitCode::Done;
  }

  ExitCode list_networks(const config::SearchPath& search) {
    for (const std::string& key : config::known_configs("networks", search)) {
      const fs::path file = config::find_config("networks", key, Location{"list networks", 0, 0}, search);
      const Network network = config::read_network_file(config::load_config(file, search), key, search);
      std::string parameters;
      for (const Network::Parameter& parameter : network.parameters)
        parameters += fmt::format(
            "{}{}={}", parameters.empty() ? "" : " ", parameter.name,
            std::visit([](const auto& value) { return fmt::format("{}", value); }, parameter.value));
      out(fmt::format("{}: {}\n    {}\n", key, network.name, parameters));
    }
    return ExitCode::Done;
  }

  /// Prints what the user did wrong; false if the error is not of that kind.
  bool report_bad_input(const std::exception& error) const {
    const bool known = dynamic_cast<const ConfigError*>(&error) != nullptr ||
                       dynamic_cast<const TraceError*>(&error) != nullptr ||
                       dynamic_cast<const engine::DeadlockError*>(&error) != nullptr ||
                       dynamic_cast<const engine::TimeLimitError*>(&error) != nullptr;
    if (known) {
      err(with_newline(error.what()));
      return true;
    }
    if (dynamic_cast<const UsageError*>(&error) != nullptr ||
        dynamic_cast<const fs::filesystem_error*>(&error)) {
      err(fmt::format("gpusim: error: {}\n", error.what()));
      return true;
    }
    return false;
  }

  config::SearchPath search_path() const {
    config::SearchPath search;
    search.beside = ".";
    search.extra = surroundings_.config_folders;
    search.files = std::make_shared<config::FileStore>(surroundings_.limits);
    return search;
  }

  void out(std::string_view text) const { surroundings_.out(text); }
  void err(std::string_view text) const { surroundings_.err(text); }

 private:
  ScenarioOptions scenario_options(const RunArguments& arguments) const {
    ScenarioOptions options;
    options.sets = arguments.sets;
    options.variants = arguments.variants;
    options.metrics = metric_paths();
    options.config_folders = surroundings_.config_folders;
    options.files = std::make_shared<config::FileStore>(surroundings_.limits);
    options.limits = surroundings_.limits;
    if (arguments.steps) {
      if (*arguments.steps < 1)
        throw UsageError(fmt::format("--steps: must be at least 1, not {}", *arguments.steps));
      options.steps = arguments.steps;
    }
    if (arguments.seed) {
      if (*arguments.seed < 0)
        throw UsageError(fmt::format("--seed: must not be negative, but is {}", *arguments.seed));
      options.seed = static_cast<std::uint64_t>(*arguments.seed);
    }
    return options;
  }

  RunOptions simulation_options() const {
    RunOptions options;
    options.config_folders = surroundings_.config_folders;
    options.limits = surroundings_.limits;
    return options;
  }

  static Scenario read(const std::string& file, const ScenarioOptions& options) {
    return is_trace_file(file) ? trace_scenario(file, options) : read_scenario(file, options);
  }

  /// Files as they are, folders with all *.yaml below them in the order of their paths.
  static std::vector<fs::path> scenario_files(const std::vector<std::string>& paths) {
    std::vector<fs::path> files;
    for (const std::string& path : paths) {
      std::error_code ignored;
      if (!fs::is_directory(path, ignored)) {
        files.emplace_back(path);
        continue;
      }
      std::vector<fs::path> found;
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
        // Configurations beside a scenario are no scenarios.
        const std::string folder = entry.path().parent_path().filename().string();
        if (folder == "hardware" || folder == "hosts" || folder == "backends") continue;
        if (entry.is_regular_file() && entry.path().extension() == ".yaml") found.push_back(entry.path());
      }
      if (found.empty()) throw UsageError(fmt::format("no *.yaml file in '{}'", path));
      std::sort(found.begin(), found.end());
      files.insert(files.end(), found.begin(), found.end());
    }
    return files;
  }

  /// OUT.json for a single run; else OUT.SCENARIO.VARIANT.json, the scenario only where there are several.
  void write_traces(const Scenario& scenario, const report::ScenarioReport& result, const std::string& path,
                    std::size_t runs) const {
    const bool several_scenarios = runs > scenario.variants.size();
    for (std::size_t i = 0; i < result.variants.size(); ++i) {
      const report::VariantResult& run = result.variants[i];
      fs::path file(path);
      if (runs > 1) {
        std::string stem = file.stem().string();
        if (several_scenarios) stem += "." + fs::path(scenario.file).stem().string();
        file.replace_filename(stem + "." + run.variant + file.extension().string());
      }
      report::ChromeTraceOptions options;
      options.title = fmt::format("{} ({})", scenario.name, run.variant);
      options.device_name = run.device.name;
      options.device_memory_bytes = run.device.capacity.value_or(Bytes(0)).value();
      options.sms = run.device.sms;
      options.steps_per_program = run.steps_per_program;
      options.step_starts = run.step_starts;
      options.memory = run.memory_marks;
      options.version = GPUSIM_VERSION;
      options.input = result.input;
      write_output(file, [&](std::ostream& stream) {
        report::write_chrome_trace(stream, run.program, *run.timeline, options);
      });
      err(fmt::format("trace of {} written to {}\n", run.variant, file.string()));
    }
  }

  const Surroundings& surroundings_;
};

/// Adds the options that say what to simulate.
void add_scenario_options(CLI::App& app, RunArguments& arguments) {
  // One value each: without that the option would take the files behind it.
  app.add_option("--set", arguments.sets, "Change a value of the scenario, as PATH=VALUE; may be repeated")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--variant", arguments.variants, "Only this variant; may be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--steps", arguments.steps, "Simulate exactly so many steps from an idle machine")
      ->type_name("N");
  app.add_option("--seed", arguments.seed, "Seed of random durations")->type_name("N");
}

CLI::App* add_trace_reader(CLI::App& trace_app, const std::string& name, const std::string& help,
                           const std::vector<std::string>& formats, TraceArguments& arguments) {
  CLI::App* app = trace_app.add_subcommand(name, help);
  app->add_option("files", arguments.files, "Profiler trace (.json, .json.gz), or folder of them")
      ->type_name("FILE")
      ->required();
  app->add_option("--format", arguments.format, fmt::format("{}", fmt::join(formats, ", ")))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  return app;
}

}  // namespace

OutputError::OutputError(int error_number)
    : std::runtime_error(fmt::format("cannot write the results: {}", std::strerror(error_number))),
      closed_pipe_(error_number == EPIPE) {}

ExitCode run_command_line(std::vector<std::string> arguments, const Surroundings& outside) {
  Surroundings surroundings = outside;  // With limits to come.
  Command command(surroundings);
  CLI::App app("Where does a deep-learning step's time go, and what would each remedy buy?", "gpusim");
  app.set_version_flag("--version", std::string("gpusim ") + GPUSIM_VERSION);
  app.require_subcommand(1);
  const CLI::IsMember formats({"text", "json", "csv"});

  RunArguments run;
  CLI::App* run_app = app.add_subcommand("run", "Simulate scenarios or profiler traces and report");
  run_app->add_option("files", run.files, "Scenario (.yaml) or profiler trace (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  add_scenario_options(*run_app, run);
  run_app->add_option("--format", run.format, "text, json or csv")->check(formats)->type_name("FORMAT");
  run_app->add_flag("--critical-path", run.critical_path,
                    "Report what the isolated run waited for, moment by moment");
  run_app->add_option("--trace", run.trace, "Write the timeline as a Chrome trace")->type_name("OUT.json");
  run_app->add_option("--html", run.html, "Write a report to look at, as one HTML file")
      ->type_name("OUT.html");

  RunArguments test;
  CLI::App* test_app = app.add_subcommand("test", "Check the expectations of scenarios");
  test_app->add_option("paths", test.files, "Scenario, or folder with scenarios below it")
      ->type_name("PATH")
      ->required();
  add_scenario_options(*test_app, test);
  test_app->add_flag("--update", test.update,
                     "Rewrite the values of 'equals:' that do not hold, in the files");
  test_app->add_option("--junit", test.junit, "Write the results as JUnit XML too")->type_name("OUT.xml");

  RunArguments explain_arguments;
  CLI::App* explain_app = app.add_subcommand(
      "explain", "What the compilers of a scenario's variants join, refuse and record, and why");
  explain_app->add_option("files", explain_arguments.files, "Scenario (.yaml)")
      ->type_name("FILE")
      ->required();
  add_scenario_options(*explain_app, explain_arguments);
  explain_app->add_flag("--recompute-curve", explain_arguments.curve,
                        "Step time and peak memory of a training step by what it keeps for backward");
  explain_app->add_option("--format", explain_arguments.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");

  AdviseArguments advise;
  CLI::App* advise_app =
      app.add_subcommand("advise", "Search for what to change in a scenario, and what each change brings");
  add_advise_options(*advise_app, advise);

  SweepArguments sweep;
  CLI::App* sweep_app =
      app.add_subcommand("sweep", "Simulate a scenario at many points, one row for each point and variant");
  add_sweep_options(*sweep_app, sweep);

  std::string list_what;
  CLI::App* list_app = app.add_subcommand("list", "Show what scenarios can name");
  list_app->add_option("what", list_what, "hardware, hosts, networks, backends, interconnects, ops or limits")
      ->check(CLI::IsMember({"hardware", "hosts", "networks", "backends", "interconnects", "ops", "limits"}))
      ->type_name("WHAT")
      ->required();

  CLI::App* trace_app = app.add_subcommand("trace", "Look at profiler traces");
  trace_app->require_subcommand(1);
  TraceArguments trace_arguments;
  add_trace_reader(*trace_app, "summary", "What a trace says, and what to look at first",
                   {"text", "json", "csv"}, trace_arguments);
  CLI::App* path_app =
      add_trace_reader(*trace_app, "critical-path", "What a traced run waited for, moment by moment",
                       {"text", "json"}, trace_arguments);
  path_app->add_option("--top", trace_arguments.top, "Lines of each table")->type_name("N");

  TraceUseCommands trace_use(*trace_app);

  CalibrateArguments calibration;
  CLI::App* calibrate_app =
      app.add_subcommand("calibrate", "Fit a device's kernel formulas to measured kernels");
  calibrate_app->add_option("tables", calibration.tables, "Measured kernels (.csv)")
      ->type_name("KERNELS.csv")
      ->required();
  calibrate_app->add_option("--base", calibration.base, "Device to start from, by name")
      ->type_name("NAME")
      ->required();
  calibrate_app->add_option("--out", calibration.out, "Write the fitted calibration: section")
      ->type_name("OUT.yaml");
  calibrate_app
      ->add_option("--folds", calibration.folds,
                   "Hold out whole groups (grouped), single cases (random), none")
      ->check(CLI::IsMember({"grouped", "random", "none"}))
      ->type_name("HOW");
  calibrate_app->add_option("--family", calibration.families, "Only this family; may be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  calibrate_app->add_option("--seed", calibration.seed, "Seed of folds and starting values")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  calibrate_app->add_option("--worst", calibration.worst, "How many of the worst cases to list")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  calibrate_app->add_flag("--check", calibration.check, "Fit nothing, say how well the device does as it is");

  ValidateArguments validation;
  CLI::App* validate_app = app.add_subcommand("validate", "Compare predictions with measured cases");
  validate_app->add_option("tables", validation.tables, "Tables of measured cases")
      ->required()
      ->type_name("TABLE.csv");
  validate_app
      ->add_option("--set", validation.sets, "Change a value of every case: path=value; may be repeated")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  validate_app->add_option("--format", validation.format, "text or csv")
      ->check(CLI::IsMember({"text", "csv"}))
      ->type_name("FORMAT");

  std::string shell;
  CLI::App* completion_app =
      app.add_subcommand("completion", "Print what makes a shell complete gpusim's words");
  completion_app->add_option("shell", shell, "bash or zsh")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("SHELL")
      ->required();
  CLI::App* man_app = app.add_subcommand("man", "Print the manual page, as roff");
  std::vector<std::string> limits;
  for (CLI::App* reader :
       {run_app, test_app, explain_app, advise_app, sweep_app, validate_app, calibrate_app})
    add_limit_option(*reader, limits);
  for (CLI::App* reader : trace_app->get_subcommands([](const CLI::App*) { return true; }))
    add_limit_option(*reader, limits);
  add_examples(app);

  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    surroundings.out(out.str());
    surroundings.err(err.str());
    return code == 0 ? ExitCode::Done : ExitCode::BadInput;
  }

  try {
    surroundings.limits = limits_of(limits);
    limit_memory(surroundings.limits);
    if (*run_app) return command.run(run);
    if (*test_app) return command.test(test.files, test);
    if (*explain_app) return command.explained(explain_arguments);
    if (*advise_app) return run_advise(advise, surroundings);
    if (*sweep_app) return run_sweep(sweep, surroundings);
    if (*completion_app || *man_app) {
      surroundings.out(*man_app          ? manual_page(app, GPUSIM_VERSION)
                       : shell == "bash" ? bash_completion(app)
                                         : zsh_completion(app));
      return ExitCode::Done;
    }
    if (*list_app) return command.list(list_what);
    if (*validate_app) return run_validate(validation, surroundings);
    if (*calibrate_app) return run_calibrate(calibration, surroundings, command.search_path());
    if (trace_use.parsed()) return trace_use.run(surroundings, command.search_path());
    if (*path_app) return run_trace_critical_path(trace_arguments, surroundings);
    return run_trace_summary(trace_arguments, surroundings);
  } catch (const OutputError&) {
    throw;
  } catch (const std::length_error&) {  // What std::vector says to a size that no memory has.
    surroundings.err("gpusim: error: out of memory\n");
    return ExitCode::BadInput;
  } catch (const std::bad_alloc&) {
    surroundings.err(surroundings.limits.memory_bytes == config::no_limit
                         ? "gpusim: error: out of memory\n"
                         : "gpusim: error: more memory is needed than the limit memory_bytes allows\n");
    return ExitCode::BadInput;
  } catch (const std::exception& error) {
    if (command.report_bad_input(error)) return ExitCode::BadInput;
    surroundings.err(fmt::format("gpusim: internal error: {}\n", error.what()));
    return ExitCode::InternalError;
  }
}

}  // namespace gpusim
