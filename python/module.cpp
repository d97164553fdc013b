// SPDX-License-Identifier: Apache-2.0
// The extension module gpusim._core: what the package's Python calls. It reads and simulates as the command
// line does, by the same functions of sim/app, without holding Python's lock.
#include <Python.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "python/columns.hpp"
#include "python/source.hpp"
#include "sim/app/advise_command.hpp"
#include "sim/app/expectations.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/app/sweep_columns.hpp"
#include "sim/app/sweep_plan.hpp"
#include "sim/config/error.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/config/whole.hpp"
#include "sim/engine/program.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim::python {
namespace {

namespace py = pybind11;

using Names = std::vector<std::string>;

std::vector<std::filesystem::path> folders_of(const Names& names) {
  return {names.begin(), names.end()};
}

/// A scenario's results, from which JSON, text and timelines are made when asked for.
class Answer {
 public:
  explicit Answer(report::ScenarioReport report) : report_(std::move(report)) {}

  std::string json() const { return report::to_json({report_}, GPUSIM_VERSION); }
  std::string text() const {
    return report::to_text(report_) + config::origin_line(GPUSIM_VERSION, report_.input);
  }
  py::object timeline(std::size_t variant) const {
    const report::VariantResult& result = report_.variants.at(variant);
    return result.timeline ? py::object(timeline_of(result)) : py::object(py::none());
  }

 private:
  report::ScenarioReport report_;
};

Answer run(const py::object& source, Names sets, Names variants, std::optional<std::int64_t> steps,
           std::optional<std::int64_t> seed, bool timeline, bool critical_path, const Names& config_folders) {
  const Source from = source_of(source);
  const py::gil_scoped_release released;
  const auto at_least = [](const char* name, std::int64_t least, std::int64_t value) {
    if (value < least)
      throw ConfigError(
          Diagnostic{.where = whole(name),
                     .path = {},
                     .what = "must be at least " + std::to_string(least) + ", not " + std::to_string(value),
                     .hint = {}});
  };
  if (steps) at_least("steps", 1, *steps);
  if (seed) at_least("seed", 0, *seed);
  ScenarioOptions options;
  options.sets = std::move(sets);
  options.variants = std::move(variants);
  options.steps = steps;
  if (seed) options.seed = static_cast<std::uint64_t>(*seed);
  options.metrics = metric_paths();
  options.config_folders = folders_of(config_folders);
  RunOptions run;
  run.timeline = timeline;
  run.critical_path = critical_path;
  run.config_folders = options.config_folders;
  options.inputs = run.inputs = std::make_shared<config::InputDigest>();
  TraceStore traces;
  report::ScenarioReport report =
      run_scenario(read_scenario_tree(from.tree, from.file, options), traces, run);
  report.input = run.inputs->text();
  return Answer(std::move(report));
}

using Axes = std::vector<std::pair<std::string, Names>>;

sweep::Points points_of(const Axes& axes, const std::string& mode, std::int64_t count, std::int64_t seed) {
  std::vector<sweep::Axis> all;
  for (const auto& [path, values] : axes) all.push_back({path, values});
  return sweep::Points(std::move(all), {.combine = mode == "zip"      ? sweep::Combine::Zip
                                                   : mode == "random" ? sweep::Combine::Random
                                                                      : sweep::Combine::Grid,
                                        .count = count,
                                        .seed = static_cast<std::uint64_t>(seed)});
}

/// Runs the sweep on other threads, and asks Python now and then whether it shall go on.
py::dict sweep_points(const py::object& source, const Axes& axes, const std::string& mode, std::int64_t count,
                      Names columns, Names sets, Names variants, std::optional<std::int64_t> steps,
                      std::optional<std::int64_t> seed, int jobs, const Names& config_folders,
                      const py::object& progress) {
  const Source from = source_of(source);
  SweepArguments arguments;
  arguments.file = from.file;
  arguments.columns = std::move(columns);
  arguments.sets = std::move(sets);
  arguments.variants = std::move(variants);
  arguments.steps = steps;
  arguments.seed = seed;
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> finished{0};
  std::vector<SweepColumn> rows;
  {
    const py::gil_scoped_release released;
    sweep::Points points = points_of(axes, mode, count, seed.value_or(0));
    const std::int64_t all = points.count();
    const SweepPlan plan = make_sweep_plan({.tree = from.tree, .points = std::move(points)}, arguments,
                                           folders_of(config_folders));
    std::future<std::vector<SweepColumn>> working = std::async(std::launch::async, [&] {
      return sweep_columns(plan, {.jobs = jobs,
                                  .stop = [&] { return stop.load(); },
                                  .finished = [&](std::int64_t points_done) { finished = points_done; }});
    });
    std::exception_ptr interrupted;
    bool last = false;
    while (!last) {
      last = working.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
      if (interrupted) continue;
      const py::gil_scoped_acquire held;
      try {
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!progress.is_none()) progress(finished.load(), all);
      } catch (...) {
        interrupted = std::current_exception();
        stop = true;
      }
    }
    rows = working.get();
    if (interrupted) {
      const py::gil_scoped_acquire held;
      std::rethrow_exception(interrupted);
    }
  }
  return to_dict(rows);
}

/// As `gpusim advise --format json`.
std::string find_changes(const py::object& source, const std::string& variant, const std::string& objective,
                         const std::string& memory_max, const std::string& latency_max,
                         const std::string& price, Names backends, Names sets,
                         std::optional<std::int64_t> steps, int jobs, const Names& config_folders) {
  const Source from = source_of(source);
  const py::gil_scoped_release released;
  const AdviceFound found = find_advice(from.tree,
                                        {.file = from.file,
                                         .sets = std::move(sets),
                                         .variant = variant,
                                         .objective = objective,
                                         .memory_max = memory_max,
                                         .latency_max = latency_max,
                                         .price = price,
                                         .backends = std::move(backends),
                                         .steps = steps,
                                         .jobs = jobs},
                                        folders_of(config_folders));
  return gpusim::advise::to_json(found.advice, found.question, found.subject, GPUSIM_VERSION);
}

/// Raises gpusim._errors.NAME.
template <class... Arguments>
void raise(const char* name, Arguments&&... arguments) {
  const py::object type = py::module_::import("gpusim._errors").attr(name);
  const py::object error = type(std::forward<Arguments>(arguments)...);
  PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const ConfigError& error) {
    py::list diagnostics;
    for (const Diagnostic& d : error.diagnostics())
      diagnostics.append(py::make_tuple(d.where.file, d.where.line, d.where.column, d.path, d.what, d.hint));
    raise("ConfigError", error.what(), diagnostics);
  } catch (const engine::DeadlockError& error) {
    raise("DeadlockError", error.what());
  } catch (const engine::TimeLimitError& error) {
    raise("TimeLimitError", error.what());
  } catch (const TraceError& error) {
    raise("TraceError", error.what());
  }
}

}  // namespace
}  // namespace gpusim::python

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  using namespace gpusim::python;
  module.doc() = "The simulator itself. Use the functions of the package gpusim.";
  module.attr("version") = GPUSIM_VERSION;
  py::register_exception_translator(&translate);
  py::class_<Answer>(module, "Answer")
      .def("json", &Answer::json)
      .def("text", &Answer::text)
      .def("timeline", &Answer::timeline);
  module.def("run", &run);
  module.def("sweep", &sweep_points);
  module.def("advise", &find_changes);
  module.def("axis_values",
             [](const std::string& argument) { return gpusim::sweep::parse_axis(argument).values; });
}
