// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_worker.hpp"

#include <exception>
#include <utility>

#include "sim/app/plan_store.hpp"
#include "sim/config/load.hpp"
#include "sim/report/metrics.hpp"

namespace gpusim {
namespace {

class PointWorker : public sweep::Worker {
 public:
  PointWorker(const SweepPlan& plan, RowErrors& errors)
      : plan_(plan), errors_(errors), options_(plan.options) {
    options_.files = std::make_shared<config::FileStore>();
    options_.workloads = std::make_shared<WorkloadStore>();
    run_ = plan.run;
    run_.plans = std::make_shared<PlanStore>();
    at_.resize(plan.points.axes().size());
    const std::vector<sweep::Axis>& axes = plan.points.axes();
    cells_.resize(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) cells_[i].resize(axes[i].values.size());
    for (const std::string& variant : plan.variants)
      variant_cells_.push_back(plan.encoder.variant_cell(variant));
  }

  std::string rows(const sweep::Stretch& points) override {
    std::string out;
    for (std::int64_t point = points.first; point < points.end; ++point) add_point(out, point);
    return out;
  }

 private:
  void add_point(std::string& out, std::int64_t point) {
    plan_.points.at(point, at_);
    Scenario scenario;
    std::string error;
    try {
      options_.sets = plan_.options.sets;
      for (std::string& set : sets_at(plan_.points, point)) options_.sets.push_back(std::move(set));
      scenario = read_scenario_tree(plan_.tree, plan_.file, options_);
    } catch (const std::exception& what) {
      error = what.what();
    }
    for (std::size_t i = 0; i < plan_.variants.size(); ++i) {
      begin_row(out, point, i);
      if (!error.empty()) {
        fail_row(out, point, error);
        continue;
      }
      const Variant* variant = scenario.find(plan_.variants[i]);
      if (variant == nullptr) {
        fail_row(out, point, "the scenario has no variant of this name here");
        continue;
      }
      try {
        const std::vector<report::Field> fields =
            report::fields(report::metrics(run_variant(*variant, traces_, run_)));
        for (std::size_t column = 0; column < plan_.figures.size(); ++column)
          plan_.encoder.add(out, column, fields[plan_.figures[column]].value);
        plan_.encoder.end(out);
      } catch (const std::exception& what) {
        fail_row(out, point, what.what());
      }
    }
  }

  void begin_row(std::string& out, std::int64_t point, std::size_t variant) {
    plan_.encoder.begin(out, point);
    plan_.encoder.add_encoded(out, variant_cells_[variant]);
    for (std::size_t axis = 0; axis < at_.size(); ++axis) {
      std::string& cell = cells_[axis][at_[axis]];
      if (cell.empty()) cell = plan_.encoder.axis_cell(axis, plan_.points.axes()[axis].values[at_[axis]]);
      plan_.encoder.add_encoded(out, cell);
    }
  }

  void fail_row(std::string& out, std::int64_t point, const std::string& what) {
    constexpr std::size_t longest = 1000;
    plan_.encoder.end_with_error(out, what.substr(0, longest));
    errors_.add(point, what);
  }

  const SweepPlan& plan_;
  RowErrors& errors_;
  ScenarioOptions options_;
  RunOptions run_;
  TraceStore traces_;
  std::vector<std::uint32_t> at_;
  std::vector<std::vector<std::string>> cells_;  ///< Of each axis and value, once it has been needed.
  std::vector<std::string> variant_cells_;
};

}  // namespace

void RowErrors::add(std::int64_t point, const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (first_point_ >= 0 && first_point_ <= point) return;
  first_point_ = point;
  first_ = what;
}

std::vector<std::string> sets_at(const sweep::Points& points, std::int64_t point) {
  std::vector<std::uint32_t> at(points.axes().size());
  points.at(point, at);
  std::vector<std::string> sets;
  for (std::size_t i = 0; i < at.size(); ++i)
    sets.push_back(points.axes()[i].path + '=' + points.axes()[i].values[at[i]]);
  return sets;
}

std::unique_ptr<sweep::Worker> make_sweep_worker(const SweepPlan& plan, RowErrors& errors) {
  return std::make_unique<PointWorker>(plan, errors);
}

}  // namespace gpusim
