// SPDX-License-Identifier: Apache-2.0
#include "sim/validate/table_text.hpp"

#include <algorithm>

#include "sim/config/csv.hpp"
#include "sim/config/error.hpp"

namespace gpusim::validate {

std::vector<std::string> read_columns(const std::string& line, std::span<const std::string> known,
                                      std::span<const std::string> needed, const Fail& fail) {
  std::vector<std::string> columns;
  const auto has = [](std::span<const std::string> names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const config::CsvCell& cell : config::csv_cells(line)) {
    if (!has(known, cell.text))
      fail(cell.column, cell.text, "unknown column", name_hint(cell.text, known, "columns"));
    if (has(columns, cell.text)) fail(cell.column, cell.text, "the column is there twice", "");
    columns.push_back(cell.text);
  }
  for (const std::string& name : needed)
    if (!has(columns, name)) fail(1, name, "the column is missing", "");
  return columns;
}

std::optional<LimitWord> read_limit_word(const std::string& word, const std::string& example,
                                         const Fail& fail) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return std::nullopt;
  std::string value = word.substr(equals + 1);
  const bool percent = !value.empty() && value.back() == '%';
  if (percent) value.pop_back();
  const std::optional<double> share = config::csv_number(value);
  if (equals == 0 || !share || !percent || *share < 0) {
    fail(1, "limit", "'" + word + "' is no percentage", "write " + example);
    return LimitWord{};
  }
  return LimitWord{.key = word.substr(0, equals), .share = *share / 100};
}

}  // namespace gpusim::validate
