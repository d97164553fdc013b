// SPDX-License-Identifier: Apache-2.0
#include "sim/validate/validation_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "sim/config/csv.hpp"
#include "sim/validate/table_text.hpp"

namespace gpusim::validate {
namespace {

constexpr std::size_t table_bytes_max = 64 << 20;

const std::vector<std::string> known_columns{"case",    "scenario", "variant",     "set",          "machine",
                                             "steps",   "step_us",  "step_us_low", "step_us_high", "busy_us",
                                             "gpu_ops", "flops",    "peak_bytes",  "note"};
const std::vector<std::string> needed_columns{"case", "scenario"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

class TableReader {
 public:
  explicit TableReader(std::string name) : name_(std::move(name)) {}

  Table read(const std::string& text) {
    std::istringstream in(text);
    int line_number = 0;
    for (std::string line; std::getline(in, line);) {
      ++line_number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      line_ = line_number;
      if (line[0] == '#') {
        read_directive(line);
      } else if (columns_.empty()) {
        read_header(line);
      } else {
        read_row(line);
      }
    }
    line_ = 1;
    if (columns_.empty())
      fail(1, "", "the table has no header",
           "its first line names the columns: case,scenario,set,step_us,...");
    for (const auto& [machine, row] : table_.calibrations)
      if (names_.count(row) == 0)
        fail(1, "calibrate", fmt::format("there is no case '{}' to calibrate '{}' on", row, machine), "");
    errors_.throw_if_any();
    return std::move(table_);
  }

 private:
  void fail(int column, std::string path, std::string what, std::string hint) {
    errors_.add({{name_, line_, column}, std::move(path), std::move(what), std::move(hint)});
  }

  /// `# limit: ...` and `# calibrate: ...`; other comments are for people.
  void read_directive(const std::string& line) {
    const auto words = split(line, ' ');
    if (words.size() >= 2 && words[1] == "limit:") {
      Limit limit;
      limit.where = {name_, line_, 1};
      for (std::size_t i = 2; i < words.size(); ++i) {
        const std::optional<LimitWord> word = read_limit_word(words[i], "mean=5%", failing());
        if (!word) {
          limit.group += (limit.group.empty() ? "" : " ") + words[i];
        } else if (word->key == "mean") {
          limit.mean = word->share;
        } else if (word->key == "worst") {
          limit.worst = word->share;
        } else if (word->key == "exact") {
          limit.exact = word->share;
        } else if (!word->key.empty()) {
          fail(1, "limit", fmt::format("unknown limit '{}'", word->key), "known: mean, worst, exact");
        }
      }
      table_.limits.push_back(std::move(limit));
    } else if (words.size() >= 2 && words[1] == "calibrate:") {
      if (words.size() != 5 || words[3] != "on") {
        fail(1, "calibrate", "expected a machine and a case", "write '# calibrate: MACHINE on CASE'");
        return;
      }
      table_.calibrations[words[2]] = words[4];
    }
  }

  Fail failing() {
    return [this](int column, const std::string& path, const std::string& what, const std::string& hint) {
      fail(column, path, what, hint);
    };
  }

  void read_header(const std::string& line) {
    columns_ = read_columns(line, known_columns, needed_columns, failing());
  }

  void read_row(const std::string& line) {
    const std::vector<config::CsvCell> cells = config::csv_cells(line);
    if (cells.size() != columns_.size()) {
      fail(1, "", fmt::format("{} cells, but the header names {} columns", cells.size(), columns_.size()),
           "");
      return;
    }
    Case row;
    row.where = {name_, line_, 1};
    std::optional<double> low;
    std::optional<double> high;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& column = columns_[i];
      const std::string& text = cells[i].text;
      if (column == "case")
        row.name = text;
      else if (column == "scenario")
        row.scenario = text;
      else if (column == "variant")
        row.variant = text;
      else if (column == "set")
        row.sets = split(text, ';');
      else if (column == "machine")
        row.machine = text;
      else if (column == "note")
        row.note = text;
      else if (!text.empty()) {
        const auto value = config::csv_number(text);
        if (!value || *value < 0) {
          fail(cells[i].column, column, fmt::format("'{}' is no number of at least 0", text), "");
          continue;
        }
        if (column == "steps")
          row.steps = static_cast<std::int64_t>(std::clamp(*value, 1.0, 1e6));
        else if (column == "step_us")
          row.step_us = Measured{*value, *value, *value};
        else if (column == "step_us_low")
          low = value;
        else if (column == "step_us_high")
          high = value;
        else if (column == "busy_us")
          row.busy_us = value;
        else if (column == "gpu_ops")
          row.gpu_ops = value;
        else if (column == "flops")
          row.flops = value;
        else if (column == "peak_bytes")
          row.peak_bytes = value;
      }
    }
    if (row.step_us) {
      row.step_us->low = low.value_or(row.step_us->value);
      row.step_us->high = high.value_or(row.step_us->value);
    }
    if (row.name.empty() || row.scenario.empty()) fail(1, "", "a row needs a case and a scenario", "");
    if (!names_.insert(row.name).second) fail(1, "case", fmt::format("'{}' is there twice", row.name), "");
    table_.cases.push_back(std::move(row));
  }

  std::string name_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::set<std::string> names_;
  Table table_;
  Errors errors_;
};

}  // namespace

Table read_table_text(const std::string& text, const std::string& name) {
  return TableReader(name).read(text);
}

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, std::string what, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.where.file = file.string();
  diagnostic.what = std::move(what);
  diagnostic.hint = std::move(hint);
  throw ConfigError(std::move(diagnostic));
}

}  // namespace

Table read_table(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    refuse(file, "is a directory", "give a table of measured cases");
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(file, "cannot be read", "");
  std::string text;
  std::array<char, 1 << 16> part{};
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > table_bytes_max) refuse(file, "is larger than 64 MiB (table_bytes_max)", "");
  }
  return read_table_text(text, file.string());
}

}  // namespace gpusim::validate
