// SPDX-License-Identifier: Apache-2.0
#include "sim/config/csv.hpp"

#include <charconv>
#include <cmath>
#include <cstddef>

namespace gpusim::config {

std::vector<CsvCell> csv_cells(std::string_view line) {
  std::vector<CsvCell> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back().text += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.push_back({"", static_cast<int>(i) + 2});
    } else {
      cells.back().text += c;
    }
  }
  return cells;
}

std::optional<double> csv_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace gpusim::config
