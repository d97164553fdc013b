// SPDX-License-Identifier: Apache-2.0
// Rows of a sweep as bytes: one line of CSV or of JSON for a point and variant, or cells for a database.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/units/quantity.hpp"
#include "sim/report/result.hpp"

namespace gpusim::sweep {

enum class Format : std::uint8_t {
  Csv,
  JsonLines,
  Cells,  ///< For read_cells().
};

/// What each row has: "point", "variant", the paths that are varied, result columns, "error".
struct Columns {
  std::vector<std::string> axes;
  std::vector<std::string> results;
  std::vector<std::string> all() const;
};

/// Writes the cells of rows in the order of the columns. Text never holds a line break, so that a row of CSV
/// or JSON is a line. Numbers are written as `gpusim run --format csv` and `json` do.
class RowEncoder {
 public:
  RowEncoder(Format format, Columns columns);

  Format format() const { return format_; }
  const Columns& columns() const { return columns_; }
  /// The line before the first row; empty where there is none.
  std::string header() const;

  /// A text as the cell of axis `axis`: a number if it reads as one. To be kept, and put in by add_encoded().
  std::string axis_cell(std::size_t axis, std::string_view value) const;
  std::string variant_cell(std::string_view variant) const;

  void begin(std::string& out, std::int64_t point) const;
  void add_encoded(std::string& out, std::string_view cell) const { out += cell; }
  /// The cell of result column `column`.
  void add(std::string& out, std::size_t column, const report::Value& value) const;
  void add(std::string& out, std::size_t column, Picoseconds time) const;
  void end(std::string& out) const;
  /// Ends a row that has an error: all result cells are empty.
  void end_with_error(std::string& out, std::string_view error) const;

 private:
  void add_value(std::string& out, std::string_view key, const report::Value& value) const;

  Format format_;
  Columns columns_;
  std::vector<std::string> axis_keys_;  ///< What stands before the cell: ',' or ',"key":'.
  std::vector<std::string> result_keys_;
  std::string no_error_;
};

/// The cells of one row of Format::Cells, taken from the front of `bytes`.
std::vector<report::Value> read_cells(std::string_view& bytes, std::size_t count);

/// `text` on one line: breaks and other control characters become spaces, several spaces one.
std::string one_line(std::string_view text);

}  // namespace gpusim::sweep
