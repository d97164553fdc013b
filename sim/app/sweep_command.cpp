// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "sim/app/interruption.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/sweep_plan.hpp"
#include "sim/config/error.hpp"

namespace gpusim {
namespace {

int jobs_of(const SweepArguments& arguments) {
  constexpr std::int64_t most = 4096;
  if (arguments.jobs < 0 || arguments.jobs > most)
    throw ConfigError(Diagnostic{.where = {"--jobs", 0, 0},
                                 .path = {},
                                 .what = fmt::format("must be 1 to {}, not {}", most, arguments.jobs),
                                 .hint = "leave it away for one thread a core"});
  if (arguments.jobs > 0) return static_cast<int>(arguments.jobs);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::string points_text(std::int64_t count) {
  return fmt::format("{} point{}", count, count == 1 ? "" : "s");
}

}  // namespace

void add_sweep_options(CLI::App& app, SweepArguments& arguments) {
  const auto repeated = [](CLI::Option* option, const char* type) {
    option->type_name(type)->expected(1)->allow_extra_args(false)->multi_option_policy(
        CLI::MultiOptionPolicy::TakeAll);
    return option;
  };
  app.add_option("file", arguments.file, "Scenario (.yaml) or profiler trace (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  repeated(app.add_option(
               "--vary", arguments.vary,
               "Values of a path of the scenario: a,b,c, or lo:hi:step, or lo:hi:log:n; may be repeated"),
           "PATH=VALUES")
      ->required();
  app.add_flag("--zip", arguments.zip,
               "Take the values of all --vary side by side, not in every combination");
  app.add_option("--random", arguments.random, "Draw so many of the combinations (--seed says which)")
      ->type_name("N");
  app.add_option("--shard", arguments.shard, "Only part K of N of the points")->type_name("K/N");
  app.add_option("--jobs,-j", arguments.jobs, "Threads; as many as there are cores if not given")
      ->type_name("N");
  app.add_option("--out", arguments.out, "Write to a .csv, .jsonl or .sqlite file instead of standard output")
      ->type_name("FILE");
  app.add_flag("--resume", arguments.resume, "Go on with the file of an interrupted sweep");
  app.add_option("--columns", arguments.columns, "Result columns, by the names of run --format csv; or all")
      ->type_name("NAME,...")
      ->delimiter(',');
  repeated(app.add_option("--set", arguments.sets,
                          "Change a value of the scenario at all points; may be repeated"),
           "PATH=VALUE");
  repeated(app.add_option("--variant", arguments.variants, "Only this variant; may be repeated"), "NAME");
  app.add_option("--steps", arguments.steps, "Simulate exactly so many steps from an idle machine")
      ->type_name("N");
  app.add_option("--seed", arguments.seed, "Seed of random durations, and of --random")->type_name("N");
}

ExitCode run_sweep(const SweepArguments& arguments, const Surroundings& surroundings) {
  const int jobs = jobs_of(arguments);
  if (arguments.resume && arguments.out.empty())
    throw ConfigError(Diagnostic{.where = {"--resume", 0, 0},
                                 .path = {},
                                 .what = "needs a file to go on with",
                                 .hint = "write --out FILE.csv"});
  const sweep::Shard shard = arguments.shard.empty() ? sweep::Shard{} : sweep::parse_shard(arguments.shard);
  const SweepPlan plan = make_sweep_plan(arguments, surroundings);
  const sweep::Stretch all = shard.of(plan.points.count());

  const std::unique_ptr<sweep::Table> table =
      arguments.out.empty() ? sweep::stream_table(surroundings.out, plan.encoder)
                            : sweep::open_table({.path = arguments.out,
                                                 .identity = identity_of(plan, arguments, all),
                                                 .points = all,
                                                 .rows_per_point = plan.variants.size(),
                                                 .resume = arguments.resume},
                                                plan.encoder);
  const std::int64_t before = table->finished();
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<ProgressBar> bar;
  if (surroundings.err_is_terminal)
    bar = std::make_unique<ProgressBar>(surroundings.err, before, all.count());

  RowErrors errors;
  int signal = 0;
  {
    const Interruption interruption;
    sweep::run_in_order({.points = {all.first + before, all.end},
                         .jobs = jobs,
                         .make_worker = [&] { return make_sweep_worker(plan, errors); },
                         .write =
                             [&](const sweep::Stretch& points, std::string_view rows) {
                               table->append(rows, points.count());
                               if (bar) bar->update(table->finished());
                             },
                         .stop = [] { return Interruption::signal() != 0; }});
    signal = Interruption::signal();
  }
  if (bar) bar->clear();

  const std::int64_t done = table->finished();
  const std::int64_t rows = (done - before) * static_cast<std::int64_t>(plan.variants.size());
  if (errors.count() > 0)
    surroundings.err(fmt::format("gpusim sweep: {} of {} rows have an error; the first, at point {}:\n{}\n",
                                 errors.count(), rows, errors.first_point(), errors.first()));
  if (signal != 0 && done < all.count()) {
    surroundings.err(fmt::format(
        "gpusim sweep: interrupted: {} of {} are done{}\n", done, points_text(all.count()),
        arguments.out.empty() ? "" : fmt::format(" and in {}; --resume goes on with it", arguments.out)));
    return signal == SIGINT ? ExitCode::Interrupted : ExitCode::Terminated;
  }
  if (!arguments.out.empty()) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    surroundings.err(fmt::format("{}{} in {:.2f} s: {}\n", points_text(done - before),
                                 before > 0 ? fmt::format(", after {} before", before) : "", seconds,
                                 arguments.out));
  }
  return rows > 0 && errors.count() == rows ? ExitCode::BadInput : ExitCode::Done;
}

}  // namespace gpusim
