// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/kernel_table.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "sim/config/csv.hpp"
#include "sim/config/error.hpp"

namespace gpusim::calibrate {

KernelTable parse_kernel_table(std::string_view text, const std::string& file) {
  KernelTable table;
  std::vector<std::string> columns;
  Errors errors;
  int line_number = 0;
  const auto complain = [&](std::string what, std::string hint = {}) {
    errors.add(Diagnostic{Location{file, line_number, 1}, "", std::move(what), std::move(hint)});
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::vector<config::CsvCell> cells = config::csv_cells(line);
    if (columns.empty()) {
      for (const config::CsvCell& cell : cells) columns.push_back(cell.text);
      for (const char* needed : {"case", "us"})
        if (std::find(columns.begin(), columns.end(), needed) == columns.end())
          complain("the table has no column '" + std::string(needed) + "'",
                   "the first line names the columns: case,us,us_min,kernels");
      errors.throw_if_any();
      continue;
    }
    const auto field = [&](std::string_view column) -> std::string {
      const auto found = std::find(columns.begin(), columns.end(), column);
      const auto index = static_cast<std::size_t>(found - columns.begin());
      return index < cells.size() ? cells[index].text : std::string();
    };
    KernelCase one;
    one.name = field("case");
    const auto us = config::csv_number(field("us"));
    if (!us || *us <= 0) {
      complain("'" + one.name + "' has no duration: us is '" + field("us") + "'",
               "a positive number of microseconds");
      continue;
    }
    one.us = *us;
    one.us_min = config::csv_number(field("us_min")).value_or(*us);
    one.sets = static_cast<int>(config::csv_number(field("sets")).value_or(0));
    one.gpu_ops = static_cast<int>(config::csv_number(field("kernels")).value_or(0));
    if (understand(one))
      table.cases.push_back(std::move(one));
    else
      table.unknown.push_back(one.name);
  }
  errors.throw_if_any();
  return table;
}

KernelTable read_kernel_table(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw ConfigError(Diagnostic{Location{file.string(), 0, 0}, "", "cannot read this table", ""});
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_kernel_table(text, file.string());
}

}  // namespace gpusim::calibrate
