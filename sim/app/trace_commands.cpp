// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/app/limit_options.hpp"
#include "sim/app/progress.hpp"
#include "sim/report/trace_report.hpp"
#include "sim/trace/ranks.hpp"

namespace gpusim {
namespace {

namespace fs = std::filesystem;

/// A file that is read faster than anybody looks.
constexpr std::uint64_t worth_a_progress_bar = 50'000'000;

bool is_trace_name(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".trace");
}

std::vector<std::string> trace_files(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (!fs::is_directory(argument, ignored)) {
      files.push_back(argument);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(argument)) {
      if (entry.is_regular_file() && is_trace_name(entry.path().filename().string()))
        found.push_back(entry.path().string());
    }
    if (found.empty()) throw TraceError(argument, {}, "a folder without any trace (*.json, *.json.gz)");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Trace read_shown(const std::string& file, const Surroundings& surroundings) {
  const TraceLimits limits = trace_limits(surroundings.limits);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error || size < worth_a_progress_bar || !surroundings.err_is_terminal) return read_trace(file, limits);
  constexpr std::uint64_t mb = 1'000'000;
  ProgressBar bar(surroundings.err, 0, static_cast<std::int64_t>(size / mb));
  Trace trace = read_trace(file, limits, [&](std::uint64_t taken, std::uint64_t) {
    bar.update(static_cast<std::int64_t>(taken / mb));
  });
  bar.clear();
  return trace;
}

std::string with_newline(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

}  // namespace

ExitCode run_trace_summary(const TraceArguments& arguments, const Surroundings& surroundings) {
  const std::vector<std::string> files = trace_files(arguments.files);
  std::vector<std::string> objects;
  std::vector<RankTrace> ranks;
  std::string text;
  if (arguments.format == "csv") surroundings.out(summary_csv_header() + "\n");
  for (const std::string& file : files) {
    const Trace trace = read_shown(file, surroundings);
    if (arguments.format == "csv") {
      surroundings.out(summary_csv_row(summarize(trace)) + "\n");
      continue;
    }
    const report::TraceAnalysis analysis(trace);
    if (arguments.format == "json") {
      objects.push_back(report::trace_summary_json(trace, analysis));
      continue;
    }
    if (files.size() > 1) ranks.emplace_back(trace);
    text += (text.empty() ? "" : "\n") + with_newline(report::trace_summary_text(trace, analysis));
  }
  if (arguments.format == "json") surroundings.out(with_newline(json_list(objects)));
  if (arguments.format != "text") return ExitCode::Done;
  // Of ranks of one run the comparison comes first: there may be many of them.
  if (are_ranks_of_one_run(ranks)) text = report::rank_text(ranks) + "\n" + text;
  surroundings.out(text);
  return ExitCode::Done;
}

ExitCode run_trace_critical_path(const TraceArguments& arguments, const Surroundings& surroundings) {
  std::vector<std::string> objects;
  bool first = true;
  for (const std::string& file : trace_files(arguments.files)) {
    const Trace trace = read_shown(file, surroundings);
    const TracePath path = trace_path(trace, arguments.top);
    if (arguments.format == "json") {
      objects.push_back(report::trace_path_json(trace, path, arguments.top));
      continue;
    }
    if (!first) surroundings.out("\n");
    first = false;
    surroundings.out(with_newline(report::trace_path_text(trace, path, arguments.top)));
  }
  if (arguments.format == "json") surroundings.out(with_newline(json_list(objects)));
  return ExitCode::Done;
}

}  // namespace gpusim
