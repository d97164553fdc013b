// SPDX-License-Identifier: Apache-2.0
#include "sim/app/html_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/app/explain_command.hpp"
#include "sim/app/output_file.hpp"
#include "sim/config/csv.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim {

void require_plots() {
  if (report::has_plots()) return;
  throw ConfigError(
      Diagnostic{.where = whole("--html"),
                 .path = {},
                 .what = "this gpusim was built without the library that draws the plots (Apache ECharts)",
                 .hint = "run 'sh cmake/install_echarts.sh' in gpusim's source folder (it needs npm), then "
                         "configure and build again"});
}

void write_html(const Scenario& scenario, const report::ScenarioReport& result, const std::string& path,
                bool several_scenarios, const Surroundings& surroundings) {
  std::filesystem::path file(path);
  if (several_scenarios)
    file.replace_filename(file.stem().string() + "." + std::filesystem::path(scenario.file).stem().string() +
                          file.extension().string());
  write_output(file, report::to_html(result, explained_variants(scenario, false), GPUSIM_VERSION));
  surroundings.err(fmt::format("report written to {}\n", file.string()));
}

SweepPlotRows::SweepPlotRows(report::SweepTable table, bool json_lines, std::int64_t points,
                             std::size_t rows_per_point)
    : table_(std::move(table)), json_lines_(json_lines) {
  const std::int64_t points_max = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(report::html_rows_max / std::max<std::size_t>(1, rows_per_point)));
  table_.every = std::max<std::int64_t>(1, (points + points_max - 1) / points_max);
}

void SweepPlotRows::add(std::string_view bytes) {
  for (;;) {
    const std::size_t end = bytes.find('\n');
    open_line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    add_line(open_line_);
    open_line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void SweepPlotRows::add_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) add_line(line);
  if (in.bad() || !in.eof())
    throw ConfigError(
        Diagnostic{.where = whole(path), .path = {}, .what = "cannot be read again", .hint = {}});
}

void SweepPlotRows::add_line(std::string_view line) {
  if (line.empty()) return;
  if (!json_lines_ && !std::exchange(header_read_, true)) return;
  ++table_.rows_in_all;
  std::vector<std::string> row;
  if (json_lines_) {
    row = report::json_cells(line, table_.columns);
  } else {
    for (config::CsvCell& cell : config::csv_cells(line)) row.push_back(std::move(cell.text));
  }
  row.resize(table_.columns.size());
  const auto point = config::csv_number(row.front());
  if (point && static_cast<std::int64_t>(*point) % table_.every != 0) return;
  table_.rows.push_back(std::move(row));
}

void SweepPlotRows::write(const std::string& path, const Surroundings& surroundings) {
  write_output(path, report::to_html(table_, GPUSIM_VERSION));
  surroundings.err(fmt::format("plots written to {}\n", path));
}

}  // namespace gpusim
