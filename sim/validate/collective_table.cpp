// SPDX-License-Identifier: Apache-2.0
#include "sim/validate/collective_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "models/units/text.hpp"
#include "sim/config/csv.hpp"
#include "sim/validate/table_text.hpp"

namespace gpusim::validate {
namespace {

constexpr std::string_view first_column = "collective";
constexpr Bytes counted_from{16 << 10};
const std::vector<std::string> known_columns{"collective", "bytes",  "dtype",   "ranks",    "ranks_per_node",
                                             "algorithm",  "intra",  "inter",   "eager_us", "graph_us",
                                             "kernel_us",  "blocks", "machine", "note"};
const std::vector<std::string> needed_columns{"collective", "bytes", "ranks", "intra"};
constexpr std::array<CollectiveMeasure, collective_measure_count> measures{
    CollectiveMeasure::Kernel, CollectiveMeasure::Graph, CollectiveMeasure::Eager};

std::size_t index(CollectiveMeasure measure) {
  return static_cast<std::size_t>(measure);
}

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  CollectiveTable read(const std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      if (line[0] == '#')
        read_comment(line);
      else if (columns_.empty())
        read_header(line);
      else
        read_row(line);
    }
    for (const auto& [machine, wanted] : wanted_) {
      const auto row =
          std::find_if(table_.cases.begin(), table_.cases.end(),
                       [&, &machine_name = machine, &case_name = wanted](const CollectiveCase& c) {
                         return c.machine == machine_name && c.name() == case_name;
                       });
      if (row == table_.cases.end() || !row->us[index(CollectiveMeasure::Eager)]) {
        fail(1, "calibrate", fmt::format("there is no eager case '{}' of '{}'", wanted, machine), "");
        continue;
      }
      row->calibrated_on = true;
      table_.calibrations[machine] = static_cast<std::size_t>(row - table_.cases.begin());
    }
    if (columns_.empty())
      fail(1, "", "the table has no header", "it begins with collective,bytes,ranks,intra,...");
    errors_.throw_if_any();
    return std::move(table_);
  }

 private:
  void fail(int column, const std::string& path, const std::string& what, const std::string& hint) {
    errors_.add(Diagnostic{Location{file_, std::max(line_, 1), column}, path, what, hint});
  }

  void read_comment(const std::string& line) {
    constexpr std::string_view calibrate = "# calibrate: ";
    if (line.rfind(calibrate, 0) == 0) {
      const std::size_t on = line.find(" on ");
      if (on == std::string::npos)
        fail(1, "calibrate", "expected a machine and a case", "write '# calibrate: MACHINE on CASE'");
      else
        wanted_[line.substr(calibrate.size(), on - calibrate.size())] = line.substr(on + 4);
      return;
    }
    constexpr std::string_view mark = "# limit: ";
    if (line.rfind(mark, 0) != 0) return;
    std::istringstream words(line.substr(mark.size()));
    CollectiveLimit limit;
    std::string measure;
    for (std::string word; words >> word;) {
      const std::optional<LimitWord> read = read_limit_word(word, "median=10%", failing());
      if (!read)
        measure += (measure.empty() ? "" : " ") + word;
      else if (read->key == "median")
        limit.median = read->share;
      else if (read->key == "worst")
        limit.worst = read->share;
      else if (!read->key.empty())
        fail(1, "limit", fmt::format("unknown limit '{}'", read->key), "known: median, worst");
    }
    const auto found = std::find_if(measures.begin(), measures.end(),
                                    [&](CollectiveMeasure m) { return validate::name(m) == measure; });
    if (found == measures.end()) {
      fail(1, "limit", fmt::format("unknown measure '{}'", measure), "known: kernel, CUDA graph, eager");
      return;
    }
    limit.measure = *found;
    table_.limits.push_back(limit);
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
    CollectiveCase row;
    row.where = {file_, line_, 1};
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (!cells[i].text.empty()) read_cell(columns_[i], cells[i], row);
    if (row.intra.empty()) fail(1, "intra", "a row needs the name of a link", "write for example nvlink4");
    table_.cases.push_back(std::move(row));
  }

  void read_cell(const std::string& column, const config::CsvCell& cell, CollectiveCase& row) {
    const std::string& text = cell.text;
    const auto words = [&](auto found, const char* known) {
      if (!found) fail(cell.column, column, fmt::format("unknown name '{}'", text), known);
      return found;
    };
    if (column == "collective") {
      if (const auto kind =
              words(find_collective_kind(text),
                    "known: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_receive"))
        row.collective.kind = *kind;
    } else if (column == "dtype") {
      if (const auto dtype = words(find_dtype(text), "write for example bf16")) row.collective.dtype = *dtype;
    } else if (column == "algorithm") {
      std::optional<CollectiveAlgorithm> found;
      for (const auto algorithm : {CollectiveAlgorithm::Automatic, CollectiveAlgorithm::Ring,
                                   CollectiveAlgorithm::Tree, CollectiveAlgorithm::Nvls})
        if (gpusim::name(algorithm) == text) found = algorithm;
      if (words(found, "known: automatic, ring, tree, nvls")) row.collective.algorithm = *found;
    } else if (column == "intra") {
      row.intra = text;
    } else if (column == "inter") {
      row.inter = text;
    } else if (column == "machine") {
      row.machine = text;
    } else if (column == "note") {
      row.note = text;
    } else {
      read_number(column, cell, row);
    }
  }

  void read_number(const std::string& column, const config::CsvCell& cell, CollectiveCase& row) {
    const auto value = config::csv_number(cell.text);
    const bool whole = column == "bytes" || column == "ranks" || column == "ranks_per_node";
    if (!value || *value < 0 || *value > 1e15 || (whole && *value != std::floor(*value))) {
      fail(cell.column, column,
           fmt::format("'{}' is no {} of at least 0", cell.text, whole ? "whole number" : "number"), "");
      return;
    }
    if (column == "bytes") row.collective.bytes = Bytes(static_cast<std::int64_t>(*value));
    if (column == "ranks") row.collective.ranks = static_cast<std::int32_t>(std::min(*value, 1e9));
    if (column == "ranks_per_node")
      row.collective.ranks_per_node = static_cast<std::int32_t>(std::min(*value, 1e9));
    if (column == "kernel_us") row.us[index(CollectiveMeasure::Kernel)] = value;
    if (column == "graph_us") row.us[index(CollectiveMeasure::Graph)] = value;
    if (column == "eager_us") row.us[index(CollectiveMeasure::Eager)] = value;
    if (column == "blocks") row.blocks = value;
  }

  std::string file_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::map<std::string, std::string> wanted_;
  CollectiveTable table_;
  Errors errors_;
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Error {
  const CollectiveCase* row;
  double measured;
  double predicted;
  double share() const { return predicted / measured - 1; }
};

std::vector<Error> errors_of(const CollectiveTable& table,
                             const std::vector<CollectivePrediction>& predictions,
                             CollectiveMeasure measure) {
  std::vector<Error> errors;
  for (std::size_t i = 0; i < table.cases.size(); ++i)
    if (const auto& us = table.cases[i].us[index(measure)]; us && *us > 0)
      errors.push_back({&table.cases[i], *us, predictions[i].us[index(measure)]});
  std::stable_sort(errors.begin(), errors.end(),
                   [](const Error& a, const Error& b) { return std::abs(a.share()) > std::abs(b.share()); });
  return errors;
}

}  // namespace

std::string_view name(CollectiveMeasure measure) {
  switch (measure) {
    case CollectiveMeasure::Kernel:
      return "kernel";
    case CollectiveMeasure::Graph:
      return "CUDA graph";
    case CollectiveMeasure::Eager:
      return "eager";
  }
  return "";
}

std::string CollectiveCase::name() const {
  return fmt::format("{} {} {} x{}", gpusim::name(collective.kind), format_quantity(collective.bytes),
                     gpusim::name(collective.dtype), collective.ranks);
}

bool holds_collectives(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#' && line[0] != '\r')
      return line.rfind(std::string(first_column) + ",", 0) == 0;
  return false;
}

CollectiveTable read_collectives(const std::filesystem::path& file) {
  return read_collectives_text(text_of(file), file.string());
}

CollectiveTable read_collectives_text(const std::string& text, const std::string& name) {
  return Reader(name).read(text);
}

std::string report_collectives(const CollectiveTable& table,
                               const std::vector<CollectivePrediction>& predictions, bool& failed) {
  std::string out;
  std::string failures;
  for (const CollectiveMeasure measure : measures) {
    const std::vector<Error> errors = errors_of(table, predictions, measure);
    if (errors.empty()) continue;
    std::vector<double> counted;
    for (const Error& error : errors)
      if (error.row->collective.bytes >= counted_from &&
          !(measure == CollectiveMeasure::Eager && error.row->calibrated_on))
        counted.push_back(std::abs(error.share()));
    // Worst first, so the middle one is the median; of an even number the larger of the two.
    const double median = counted.empty() ? 0 : counted[(counted.size() - 1) / 2];
    const double worst = counted.empty() ? 0 : counted.front();
    out += fmt::format("{}: {} cases from 16 KiB on, median error {:.1f} %, worst {:.1f} %\n", name(measure),
                       counted.size(), 100 * median, 100 * worst);
    out += fmt::format("  {:<42}{:>11}{:>12}{:>9}\n", "case", "measured us", "predicted", "error");
    for (const Error& error : errors)
      out += fmt::format("  {:<42}{:>11.2f}{:>12.2f}{:>+8.1f}%\n", error.row->name(), error.measured,
                         error.predicted, 100 * error.share());
    out += '\n';
    for (const CollectiveLimit& limit : table.limits) {
      if (limit.measure != measure) continue;
      if (limit.median && median > *limit.median)
        failures += fmt::format("past the limit: {}: median {:.1f} %, not {:.1f} %\n", name(measure),
                                100 * median, 100 * *limit.median);
      if (limit.worst && worst > *limit.worst)
        failures += fmt::format("past the limit: {}: worst {:.1f} %, not {:.1f} %\n", name(measure),
                                100 * worst, 100 * *limit.worst);
    }
  }
  std::size_t known = 0;
  std::size_t right = 0;
  for (std::size_t i = 0; i < table.cases.size(); ++i) {
    if (!table.cases[i].blocks) continue;
    ++known;
    if (*table.cases[i].blocks == predictions[i].blocks) ++right;
  }
  if (known > 0) out += fmt::format("blocks: {} of {} as measured\n", right, known);
  failed = !failures.empty();
  return out + (failed ? failures : std::string("within all limits\n"));
}

std::string collectives_csv(const CollectiveTable& table,
                            const std::vector<CollectivePrediction>& predictions) {
  std::string out = "measure,case,measured,predicted,error\n";
  for (const CollectiveMeasure measure : measures)
    for (const Error& error : errors_of(table, predictions, measure))
      out += fmt::format("{},{},{:.6g},{:.6g},{:.5f}\n", name(measure), error.row->name(), error.measured,
                         error.predicted, error.share());
  return out;
}

}  // namespace gpusim::validate
