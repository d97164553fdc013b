// SPDX-License-Identifier: Apache-2.0
// A sweep's rows as columns in memory, for callers that go on computing with them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/app/sweep_worker.hpp"

namespace gpusim {

/// Values of one kind: whole numbers while there is nothing else, numbers (unknown: NaN) once one is unknown
/// or broken, words once there is one. Times are microseconds.
class SweepColumn {
 public:
  using Wholes = std::vector<std::int64_t>;
  using Numbers = std::vector<double>;
  using Words = std::vector<std::optional<std::string>>;  ///< Absent: unknown.

  using Values = std::variant<Wholes, Numbers, Words>;

  explicit SweepColumn(std::string name, Values values = Wholes{})
      : name_(std::move(name)), values_(std::move(values)) {}

  void add(const report::Value& value);
  const std::string& name() const { return name_; }
  const Values& values() const { return values_; }
  std::size_t size() const;

 private:
  Numbers& numbers();
  Words& words();

  std::string name_;
  Values values_;
};

struct SweepRun {
  int jobs = 1;
  std::function<bool()> stop;                  ///< Asked now and then; what has begun is finished.
  std::function<void(std::int64_t)> finished;  ///< Told how many points are done.
};

/// The rows of all points of `plan`, whose encoder has Format::Cells, in order: the columns of
/// sweep::Columns::all(). After `stop` those that were finished. A point that fails has its error as text in
/// the last column.
std::vector<SweepColumn> sweep_columns(const SweepPlan& plan, const SweepRun& run);

}  // namespace gpusim
