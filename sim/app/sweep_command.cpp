// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "sim/app/html_command.hpp"
#include "sim/app/interruption.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/sweep_plan.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/sweep/ranks.hpp"

namespace gpusim {
namespace {

int jobs_of(const SweepArguments& arguments) {
  constexpr std::int64_t most = 4096;
  if (arguments.jobs < 0 || arguments.jobs > most)
    throw ConfigError(Diagnostic{.where = whole("--jobs"),
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
  app.add_option("--html", arguments.html, "Write plots of the rows, as one HTML file")
      ->type_name("OUT.html");
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

namespace {

/// What run_sweep() says goes through here: other ranks than the first are silent.
Surroundings silent(const Surroundings& surroundings) {
  Surroundings result = surroundings;
  result.out = [](std::string_view) {};
  result.err = [](std::string_view) {};
  result.err_is_terminal = false;
  return result;
}

void refuse(const char* option, std::string what, std::string hint) {
  throw ConfigError(
      Diagnostic{.where = whole(option), .path = {}, .what = std::move(what), .hint = std::move(hint)});
}

class Sweep {
 public:
  Sweep(const SweepArguments& arguments, const Surroundings& surroundings, sweep::Ranks& ranks)
      : arguments_(arguments), surroundings_(surroundings), ranks_(ranks) {}

  /// All that can be wrong before the first point. Throws ConfigError.
  void prepare() {
    jobs_ = jobs_of(arguments_);
    if (ranks_.count() > 1 && arguments_.jobs > 1)
      refuse("--jobs", "each rank of an MPI job has one thread", "start more ranks");
    if (arguments_.resume && arguments_.out.empty())
      refuse("--resume", "needs a file to go on with", "write --out FILE.csv");
    if (!arguments_.html.empty()) {
      require_plots();
      if (!arguments_.out.empty() && sweep::format_of(arguments_.out) == sweep::Format::Cells)
        refuse("--html", "plots are made of CSV or JSON Lines", "write --out FILE.csv or FILE.jsonl");
    }
    const sweep::Shard shard =
        arguments_.shard.empty() ? sweep::Shard{} : sweep::parse_shard(arguments_.shard);
    plan_.emplace(make_sweep_plan(arguments_, surroundings_));
    all_ = shard.of(plan_->points.count());
    if (!ranks_.is_first()) return;
    if (!arguments_.html.empty()) prepare_plots();
    table_ = arguments_.out.empty() ? sweep::stream_table(
                                          [this](std::string_view rows) {
                                            surroundings_.out(rows);
                                            if (plots_) plots_->add(rows);
                                          },
                                          plan_->encoder)
                                    : sweep::open_table({.path = arguments_.out,
                                                         .identity = identity_of(*plan_, arguments_, all_),
                                                         .points = all_,
                                                         .rows_per_point = plan_->variants.size(),
                                                         .resume = arguments_.resume},
                                                        plan_->encoder);
    before_ = table_->finished();
  }

  ExitCode run() {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_ptr<ProgressBar> bar;
    if (surroundings_.err_is_terminal)
      bar = std::make_unique<ProgressBar>(surroundings_.err, before_, all_.count());
    std::string broken;
    int signal = 0;
    {
      const Interruption interruption;
      const sweep::InOrder order{.points = {all_.first + before_, all_.end},
                                 .jobs = jobs_,
                                 .make_worker = [&] { return make_sweep_worker(*plan_, errors_); },
                                 .write =
                                     [&](const sweep::Stretch& points, std::string_view rows) {
                                       table_->append(rows, points.count());
                                       if (bar) bar->update(table_->finished());
                                     },
                                 .stop = [] { return Interruption::signal() != 0; }};
      try {
        if (ranks_.count() > 1)
          ranks_.run(order, {.report = [&] { return errors_.to_text(); },
                             .on_report = [&](std::string_view text) { errors_.add(text); }});
        else
          sweep::run_in_order(order);
      } catch (const sweep::RankError& error) {
        broken = error.what();
      }
      signal = Interruption::signal();
    }
    if (bar) bar->clear();
    if (!ranks_.is_first()) return ExitCode::Done;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report(signal, broken, seconds);
  }

 private:
  void prepare_plots() {
    report::SweepTable table;
    table.title = fmt::format("Sweep of {}", arguments_.file);
    table.file = arguments_.file;
    table.input = plan_->input;
    for (const std::string& axis : arguments_.vary)
      table.command += (table.command.empty() ? "" : "; ") + axis;
    table.columns = plan_->encoder.columns().all();
    table.axes = plan_->encoder.columns().axes.size();
    plots_.emplace(std::move(table), plan_->encoder.format() == sweep::Format::JsonLines, all_.count(),
                   plan_->variants.size());
  }

  ExitCode report(int signal, const std::string& broken, double seconds) const {
    const std::int64_t done = table_->finished();
    const std::int64_t rows = (done - before_) * static_cast<std::int64_t>(plan_->variants.size());
    if (errors_.count() > 0)
      surroundings_.err(
          fmt::format("gpusim sweep: {} of {} rows have an error; the first, at point {}:\n{}\n",
                      errors_.count(), rows, errors_.first_point(), errors_.first()));
    if (!broken.empty()) surroundings_.err(fmt::format("gpusim sweep: {}\n", broken));
    if (done < all_.count()) {
      surroundings_.err(fmt::format(
          "gpusim sweep: interrupted: {} of {} are done{}\n", done, points_text(all_.count()),
          arguments_.out.empty() ? "" : fmt::format(" and in {}; --resume goes on with it", arguments_.out)));
      return signal == SIGINT ? ExitCode::Interrupted
             : signal != 0    ? ExitCode::Terminated
                              : ExitCode::InternalError;
    }
    if (!arguments_.out.empty())
      surroundings_.err(fmt::format("{}{} in {:.2f} s: {}\n", points_text(done - before_),
                                    before_ > 0 ? fmt::format(", after {} before", before_) : "", seconds,
                                    arguments_.out));
    if (plots_) write_plots();
    return rows > 0 && errors_.count() == rows ? ExitCode::BadInput : ExitCode::Done;
  }

  void write_plots() const {
    SweepPlotRows plots = *plots_;
    // With what an earlier run has left.
    if (!arguments_.out.empty()) plots.add_file(arguments_.out);
    plots.write(arguments_.html, surroundings_);
  }

  const SweepArguments& arguments_;
  const Surroundings& surroundings_;
  sweep::Ranks& ranks_;
  int jobs_ = 1;
  std::optional<SweepPlan> plan_;
  sweep::Stretch all_;
  std::unique_ptr<sweep::Table> table_;  ///< Of the first rank.
  std::optional<SweepPlotRows> plots_;   ///< If asked for; without --out they get the rows as they come.
  std::int64_t before_ = 0;              ///< Points done in an earlier run.
  RowErrors errors_;
};

}  // namespace

ExitCode run_sweep(const SweepArguments& arguments, const Surroundings& surroundings) {
  if (sweep::is_part_of_job() && !sweep::has_mpi())
    refuse("gpusim sweep", "started as part of an MPI job, and built without MPI, or it is gone",
           "install libopenmpi-dev and build again, or give each process its part with --shard");
  // The first rank says what is wrong and fails. mpirun stops all ranks as soon as one fails, so the others
  // must not, or it might be stopped before it has said anything.
  constexpr ExitCode silent_end = ExitCode::Done;
  sweep::Ranks ranks;
  const Surroundings own = ranks.is_first() ? surroundings : silent(surroundings);
  Sweep sweep(arguments, own, ranks);
  try {
    sweep.prepare();
  } catch (const std::exception&) {
    ranks.agree(false);
    if (!ranks.is_first()) return silent_end;
    throw;
  }
  if (!ranks.agree(true)) {
    own.err("gpusim sweep: another rank cannot read the scenario as this one does\n");
    return ranks.is_first() ? ExitCode::BadInput : silent_end;
  }
  return sweep.run();
}

}  // namespace gpusim
