// SPDX-License-Identifier: Apache-2.0
// Predicted against measured: errors of every case, worst first, and whether they are within the table's
// limits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/validate/validation_table.hpp"

namespace gpusim::validate {

/// What a scenario says about a case.
struct Prediction {
  double step_us = 0;
  double busy_us = 0;
  double gpu_ops = 0;
  std::optional<double> flops{};
  double peak_bytes = 0;
  bool cuda_graph = false;  ///< Whether all GPU work comes from CUDA graphs.
};

/// A case is device-bound if the GPU was measured to work for at least this share of the step; as one CUDA
/// graph it has a group of its own, whatever the share.
inline constexpr double device_bound_share = 0.8;

/// The group of a case's step time: "CUDA graph", "device-bound" or "host-bound"; "step" if the busy time is
/// not known.
std::string step_group(const Case& row, const Prediction& prediction);

/// One measured figure of one case.
struct Score {
  std::string group;  ///< step_group(), "GPU busy", "GPU ops", "FLOPs" or "peak memory".
  std::string name;
  double measured = 0;
  double predicted = 0;
  double error = 0;            ///< predicted / measured - 1.
  double outside = 0;          ///< The same against the nearer end of [low, high]; 0 between them.
  double noise = 0;            ///< Half of the spread, as a share of the value.
  bool calibrated_on = false;  ///< The host's speed was set by this very figure: not counted.
};

struct Group {
  std::string name;
  std::vector<Score> scores;  ///< Worst first: by `outside`, then by `error`.
  // Over the scores that count:
  double mean = 0;        ///< Of |outside|.
  double worst = 0;       ///< Of |outside|.
  double mean_error = 0;  ///< Of |error|.
  double exact = 0;       ///< Share with predicted == measured.
  std::size_t counted = 0;
};

struct Failure {
  std::string group;
  std::string what;
};

struct Result {
  std::vector<Group> groups;  ///< In the order of the table's figures: steps, busy, ops, FLOPs, memory.
  std::vector<Failure> failures;
};

/// `predictions` as `table.cases`.
Result score(const Table& table, const std::vector<Prediction>& predictions);

/// Whether the faster one of two modes of a workload is predicted to be faster.
struct Directions {
  std::size_t pairs = 0;  ///< Whose ranges, widened by `widened`, do not touch.
  std::size_t right = 0;
  std::vector<std::string> wrong;  ///< In words.
};
/// Equal work moves by so much between sessions (docs/accuracy.md).
inline constexpr double widened = 0.15;
/// Cases "WORKLOAD/MODE" of all tables; `predictions` as the tables' cases.
Directions directions(const std::vector<Table>& tables,
                      const std::vector<std::vector<Prediction>>& predictions);
/// Empty without pairs.
std::string to_text(const Directions& directions);

/// At most 80 columns.
std::string to_text(const Result& result);
std::string to_csv(const Result& result);

}  // namespace gpusim::validate
