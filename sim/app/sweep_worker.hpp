// SPDX-License-Identifier: Apache-2.0
// One point of a sweep: the scenario with its values set, simulated, as rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/app/run_variant.hpp"
#include "sim/config/node.hpp"
#include "sim/report/metrics.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/sweep/in_order.hpp"
#include "sim/sweep/knobs.hpp"
#include "sim/sweep/points.hpp"
#include "sim/sweep/rows.hpp"

namespace gpusim {

/// Errors of all threads, counted; the one of the first point is kept.
class RowErrors {
 public:
  void add(std::int64_t point, const std::string& what);
  /// All of it, for another process to add().
  std::string to_text() const;
  void add(std::string_view text);
  std::int64_t count() const { return count_; }
  std::int64_t first_point() const { return first_point_; }
  const std::string& first() const { return first_; }

 private:
  std::mutex mutex_;
  std::int64_t count_ = 0;
  std::int64_t first_point_ = -1;
  std::string first_;
};

/// A variant whose points are one program with other times; see find_knobs().
struct VariantKnobs {
  std::shared_ptr<const sweep::Knobs> knobs{};  ///< Null: the scenario is read at each point.
  std::int64_t steps = 1;                       ///< Of the isolated run.
  bool steady = false;                          ///< Whether a column needs the steady step.
};

/// What all points have in common. Nothing of it changes while they are evaluated.
struct SweepPlan {
  config::Node tree = config::Node::empty_map();  ///< Of the scenario.
  std::string file;
  ScenarioOptions options;  ///< `sets` and the rest of the command line; without a store of files.
  RunOptions run;
  sweep::Points points;
  std::vector<std::string> variants;  ///< The rows of each point.
  sweep::RowEncoder encoder;
  std::vector<std::size_t> figures;  ///< Of each result column, its place in report::fields().
  std::vector<const report::TimeFigure*> time_figures{};  ///< Of each column, if all are such; for `knobs`.
  std::vector<VariantKnobs> knobs{};                      ///< By variant; empty: none.
  /// Digest of the scenario, of the files that it names as far as the first points do, and of the options
  /// that change a point's rows.
  std::string input{};
};

/// A worker that counts what goes wrong.
std::unique_ptr<sweep::Worker> make_sweep_worker(const SweepPlan& plan, RowErrors& errors);

}  // namespace gpusim
