// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_worker.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "sim/app/compiled_variant.hpp"
#include "sim/app/plan_store.hpp"
#include "sim/config/load.hpp"
#include "sim/engine/engine.hpp"

namespace gpusim {
namespace {

class PointWorker : public sweep::Worker {
 public:
  PointWorker(const SweepPlan& plan, RowErrors& errors)
      : plan_(plan), errors_(errors), options_(plan.options), run_(plan.run), traces_(plan.options.limits) {
    options_.files = std::make_shared<config::FileStore>(options_.limits);
    options_.workloads = std::make_shared<WorkloadStore>();
    run_.plans = std::make_shared<PlanStore>();
    const std::vector<sweep::Axis>& axes = plan.points.axes();
    at_.resize(axes.size());
    cells_.resize(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) cells_[i].resize(axes[i].values.size());
    for (const std::string& variant : plan.variants)
      variant_cells_.push_back(plan.encoder.variant_cell(variant));
    for (const VariantKnobs& known : plan.knobs) {
      settings_.emplace_back();
      if (known.knobs) settings_.back().emplace(*known.knobs);
    }
    settings_.resize(plan.variants.size());
  }

  std::string rows(const sweep::Stretch& points) override {
    std::string out;
    for (std::int64_t point = points.first; point < points.end; ++point) {
      plan_.points.at(point, at_);
      scenario_.reset();
      reading_error_.clear();
      for (std::size_t variant = 0; variant < plan_.variants.size(); ++variant) add_row(out, point, variant);
    }
    return out;
  }

 private:
  void add_row(std::string& out, std::int64_t point, std::size_t variant) {
    plan_.encoder.begin(out, point);
    plan_.encoder.add_encoded(out, variant_cells_[variant]);
    for (std::size_t axis = 0; axis < at_.size(); ++axis) {
      std::string& cell = cells_[axis][at_[axis]];
      if (cell.empty()) cell = plan_.encoder.axis_cell(axis, plan_.points.axes()[axis].values[at_[axis]]);
      plan_.encoder.add_encoded(out, cell);
    }
    const std::size_t results = out.size();
    try {
      if (settings_[variant] && plan_.knobs[variant].knobs->known(at_))
        add_times(out, variant);
      else
        add_figures(out, variant);
      plan_.encoder.end(out);
    } catch (const std::exception& error) {
      constexpr std::size_t longest = 1000;
      const std::string what = error.what();
      out.resize(results);
      plan_.encoder.end_with_error(out, what.substr(0, longest));
      errors_.add(point, what);
    }
  }

  /// The program with its times set, run.
  void add_times(std::string& out, std::size_t variant) {
    const VariantKnobs& known = plan_.knobs[variant];
    const sweep::Built& built = settings_[variant]->set(at_);
    const engine::Run isolated = engine::run(built.program, built.machine, known.steps);
    engine::Steady steady;
    if (known.steady)
      steady = engine::run_steady(built.program, built.machine, steady_options(built.program));
    const report::Metrics metrics = report::time_metrics(isolated, steady, 1);
    for (std::size_t column = 0; column < plan_.time_figures.size(); ++column)
      plan_.encoder.add(out, column, plan_.time_figures[column]->get(metrics));
  }

  /// The scenario read, built and run, as `gpusim run` does.
  void add_figures(std::string& out, std::size_t variant) {
    read();
    const Variant* found = scenario_->find(plan_.variants[variant]);
    if (found == nullptr) throw std::runtime_error("the scenario has no variant of this name here");
    const std::vector<report::Field> fields =
        report::fields(report::metrics(run_variant(*found, traces_, run_)));
    for (std::size_t column = 0; column < plan_.figures.size(); ++column)
      plan_.encoder.add(out, column, fields[plan_.figures[column]].value);
  }

  /// Once for all variants of a point.
  void read() {
    if (scenario_) return;
    if (!reading_error_.empty()) throw std::runtime_error(reading_error_);
    options_.sets = plan_.options.sets;
    for (std::size_t axis = 0; axis < at_.size(); ++axis)
      options_.sets.push_back(plan_.points.axes()[axis].path + '=' +
                              plan_.points.axes()[axis].values[at_[axis]]);
    try {
      scenario_ = read_scenario_tree(plan_.tree, plan_.file, options_);
    } catch (const std::exception& error) {
      reading_error_ = error.what();
      throw;
    }
  }

  const SweepPlan& plan_;
  RowErrors& errors_;
  ScenarioOptions options_;
  RunOptions run_;
  TraceStore traces_;
  // Of the point at hand.
  std::vector<std::uint32_t> at_;
  std::optional<Scenario> scenario_;
  std::string reading_error_;

  std::vector<std::vector<std::string>> cells_;  ///< Of each axis and value, once it has been needed.
  std::vector<std::string> variant_cells_;
  std::vector<std::optional<sweep::Knobs::Setting>> settings_;  ///< By variant.
};

}  // namespace

void RowErrors::add(std::int64_t point, const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (first_point_ >= 0 && first_point_ <= point) return;
  first_point_ = point;
  first_ = what;
}

std::string RowErrors::to_text() const {
  return std::to_string(count_) + '\n' + std::to_string(first_point_) + '\n' + first_;
}

void RowErrors::add(std::string_view text) {
  const std::size_t count_end = text.find('\n');
  const std::size_t point_end = text.find('\n', count_end + 1);
  const std::int64_t count = std::stoll(std::string(text.substr(0, count_end)));
  if (count == 0) return;
  add(std::stoll(std::string(text.substr(count_end + 1, point_end - count_end - 1))),
      std::string(text.substr(point_end + 1)));
  count_ += count - 1;
}

std::unique_ptr<sweep::Worker> make_sweep_worker(const SweepPlan& plan, RowErrors& errors) {
  return std::make_unique<PointWorker>(plan, errors);
}

}  // namespace gpusim
