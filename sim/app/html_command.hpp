// SPDX-License-Identifier: Apache-2.0
// `--html OUT.html` of run and sweep.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/app/command_line.hpp"
#include "sim/report/html_report.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// To be called before anything is simulated. Throws ConfigError: the plotting library is not built in.
void require_plots();

/// `path`, where several scenarios are run with the scenario's name before its ending. Throws ConfigError:
/// the file cannot be written.
void write_html(const Scenario& scenario, const report::ScenarioReport& result, const std::string& path,
                bool several_scenarios, const Surroundings& surroundings);

/// Takes the rows of a sweep as they come and keeps those that are plotted: all variants of every n-th point,
/// so that there are at most report::html_rows_max.
class SweepPlotRows {
 public:
  /// `table`: all but its rows; they are JSON Lines or CSV with a header.
  SweepPlotRows(report::SweepTable table, bool json_lines, std::int64_t points, std::size_t rows_per_point);

  /// Whole lines or parts of them.
  void add(std::string_view bytes);
  /// The rows of a file. Throws ConfigError.
  void add_file(const std::string& path);
  void write(const std::string& path, const Surroundings& surroundings);

 private:
  void add_line(std::string_view line);

  report::SweepTable table_;
  bool json_lines_;
  bool header_read_ = false;
  std::string open_line_;
};

}  // namespace gpusim
