// SPDX-License-Identifier: Apache-2.0
// Lines of comma-separated values (RFC 4180, without line breaks in quotes).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusim::config {

struct CsvCell {
  std::string text;
  int column = 1;  ///< Where it begins in its line, from 1.
};

/// The cells of a line; quotes hold commas, two quotes in quotes are one.
std::vector<CsvCell> csv_cells(std::string_view line);

/// The finite number that a whole text is; nothing if it is none.
std::optional<double> csv_number(std::string_view text);

}  // namespace gpusim::config
