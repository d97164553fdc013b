// SPDX-License-Identifier: Apache-2.0
// Collectives as they were measured, and how far predictions are off. docs/communication.md explains the
// columns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/cost/collectives.hpp"
#include "sim/config/error.hpp"

namespace gpusim::validate {

/// How a collective was measured.
enum class CollectiveMeasure : std::uint8_t {
  Kernel,  ///< The kernel's duration in a profiler, of the rank that came last.
  Graph,   ///< A call's share of a CUDA graph of nothing else.
  Eager,   ///< A call's share of a few calls in a row, without a CUDA graph: the host's time where that is
           ///< longer.
};
inline constexpr int collective_measure_count = 3;
/// "kernel", "CUDA graph", "eager".
std::string_view name(CollectiveMeasure measure);

/// A row of the table. What was not measured is absent.
struct CollectiveCase {
  Collective collective;
  std::string intra;  ///< Name of the link within a node.
  std::string inter;  ///< Of that between nodes; empty: one node.
  std::optional<double> us[collective_measure_count];
  std::optional<double> blocks;
  std::string machine;         ///< Rows of one machine share its host's speed.
  bool calibrated_on = false;  ///< Its eager time set that speed: not counted.
  std::string note;
  Location where;

  std::string name() const;  ///< "all_reduce 16 MiB bf16 x2".
};

/// `# limit: MEASURE median=10% worst=25%`: what the errors may be, as shares, from 16 KiB on.
struct CollectiveLimit {
  CollectiveMeasure measure = CollectiveMeasure::Kernel;
  std::optional<double> median;
  std::optional<double> worst;
};

struct CollectiveTable {
  std::vector<CollectiveCase> cases;
  std::vector<CollectiveLimit> limits;
  /// `# calibrate: MACHINE on CASE`: the host's speed is what makes the eager time of this row of the machine
  /// right. By machine the row's index.
  std::map<std::string, std::size_t> calibrations;
};

/// Whether a table's first line that is no comment begins with "collective,". Unreadable files are not: the
/// reader of other tables says what is wrong.
bool holds_collectives(const std::filesystem::path& file);

/// Throws ConfigError with every mistake found.
CollectiveTable read_collectives(const std::filesystem::path& file);
CollectiveTable read_collectives_text(const std::string& text, const std::string& name);

/// What the models say about a case.
struct CollectivePrediction {
  double us[collective_measure_count] = {};
  std::int32_t blocks = 0;
};

/// Errors of each measure, worst first; limits count sizes from 16 KiB on. `failed` is set if a limit is
/// passed.
std::string report_collectives(const CollectiveTable& table,
                               const std::vector<CollectivePrediction>& predictions, bool& failed);
/// The same as lines of CSV: measure,case,measured,predicted,error.
std::string collectives_csv(const CollectiveTable& table,
                            const std::vector<CollectivePrediction>& predictions);

}  // namespace gpusim::validate
