// SPDX-License-Identifier: Apache-2.0
// What was measured on real hardware, and which scenario predicts it. docs/accuracy.md explains the file's
// columns.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/error.hpp"

namespace gpusim::validate {

/// A measured value with its spread (10th and 90th percentile); both the value itself where it is unknown.
struct Measured {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// A row of the table. What is not measured is absent.
struct Case {
  std::string name;
  std::string scenario;           ///< File, relative to the table's folder.
  std::string variant;            ///< Empty: the file's only one.
  std::vector<std::string> sets;  ///< "path=value", as `gpusim run --set` takes them.
  std::string machine;            ///< Rows of one machine share its host's speed.
  std::int64_t steps = 1;         ///< Steps between two synchronisations: how the step time was measured.
  std::optional<Measured> step_us;
  std::optional<double> busy_us;
  std::optional<double> gpu_ops;
  std::optional<double> flops;
  std::optional<double> peak_bytes;
  std::string note;
  Location where;
};

/// `# limit: GROUP mean=5% worst=12%`: what the errors of a group may be, as shares.
struct Limit {
  std::string group;
  std::optional<double> mean;
  std::optional<double> worst;
  std::optional<double> exact;  ///< Least share of rows that must be exact.
  Location where;
};

struct Table {
  std::vector<Case> cases;
  std::vector<Limit> limits;
  /// `# calibrate: MACHINE on CASE`: the host's speed is what makes this row's step time right. By machine.
  std::map<std::string, std::string> calibrations;
};

/// Throws ConfigError with every mistake found: unknown columns, cells that are no numbers, rows that are too
/// short.
Table read_table(const std::filesystem::path& file);
Table read_table_text(const std::string& text, const std::string& name);

}  // namespace gpusim::validate
