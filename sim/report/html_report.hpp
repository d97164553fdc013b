// SPDX-License-Identifier: Apache-2.0
// Reports to look at: one HTML file that needs nothing else, no network either. docs/reports.md tells how to
// read its plots. The pages are in html/, built into the program; the plots are drawn by Apache ECharts,
// which is built in where it was found (docs/dependencies.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/explain_report.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

/// Whether the plotting library is built in; without it no report can be written.
bool has_plots();

/// Of one timeline at most so many ops and calls are drawn, those of the first steps; the page says where it
/// ends.
inline constexpr std::size_t html_events_max = 150'000;
/// Of a sweep at most so many rows are plotted: every n-th point.
inline constexpr std::size_t html_rows_max = 100'000;

/// Variants with a timeline get one, with memory_marks memory over time; `explained`: what compilers did, of
/// the variants that have one. Same results, same bytes. Pre: has_plots().
std::string to_html(const ScenarioReport& report, const std::vector<ExplainedVariant>& explained,
                    std::string_view version);

/// A sweep's rows as text cells: columns "point", "variant", axes, results, "error".
struct SweepTable {
  std::string title;
  std::string file;     ///< As given by the user.
  std::string input;    ///< Digest of what the rows come from.
  std::string command;  ///< What was asked for, in words.
  std::vector<std::string> columns;
  std::size_t axes = 0;  ///< So many columns behind the first two are varied.
  std::vector<std::vector<std::string>> rows;
  std::int64_t every = 1;        ///< Only of every so many points.
  std::int64_t rows_in_all = 0;  ///< With those left out.
};
/// The cells of a line of JSON Lines, by the names of their columns; unknown is empty.
std::vector<std::string> json_cells(std::string_view line, const std::vector<std::string>& columns);
/// Pre: has_plots().
std::string to_html(const SweepTable& table, std::string_view version);

}  // namespace gpusim::report
