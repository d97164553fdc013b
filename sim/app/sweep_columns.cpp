// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_columns.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gpusim {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::size_t SweepColumn::size() const {
  return std::visit([](const auto& values) { return values.size(); }, values_);
}

SweepColumn::Numbers& SweepColumn::numbers() {
  if (const auto* wholes = std::get_if<Wholes>(&values_)) {
    Numbers numbers(wholes->size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>((*wholes)[i]);
    values_ = std::move(numbers);
  }
  return std::get<Numbers>(values_);
}

SweepColumn::Words& SweepColumn::words() {
  const auto widen = [&](const auto& values) {
    Words words;
    words.reserve(values.size());
    for (const auto value : values) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>)
        words.push_back(std::isnan(value) ? std::nullopt : std::optional(fmt::format("{}", value)));
      else
        words.push_back(fmt::format("{}", value));
    }
    values_ = std::move(words);
  };
  if (const auto* wholes = std::get_if<Wholes>(&values_))
    widen(Wholes(*wholes));
  else if (const auto* known = std::get_if<Numbers>(&values_))
    widen(Numbers(*known));
  return std::get<Words>(values_);
}

void SweepColumn::add(const report::Value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) {
    words().push_back(*word);
    return;
  }
  const auto* truth = std::get_if<bool>(&value);
  const auto* whole = std::get_if<std::int64_t>(&value);
  const bool is_unknown = std::holds_alternative<std::monostate>(value);
  const std::int64_t as_whole = truth != nullptr ? (*truth ? 1 : 0) : whole != nullptr ? *whole : 0;
  if (auto* known = std::get_if<Words>(&values_)) {
    if (is_unknown)
      known->emplace_back();
    else if (truth != nullptr || whole != nullptr)
      known->push_back(fmt::format("{}", as_whole));
    else if (const auto* real = std::get_if<double>(&value))
      known->push_back(fmt::format("{}", *real));
    else
      known->push_back(fmt::format("{}", microseconds(std::get<Picoseconds>(value))));
    return;
  }
  if (truth != nullptr || whole != nullptr) {
    if (auto* wholes = std::get_if<Wholes>(&values_))
      wholes->push_back(as_whole);
    else
      numbers().push_back(static_cast<double>(as_whole));
    return;
  }
  const auto* real = std::get_if<double>(&value);
  numbers().push_back(is_unknown        ? unknown
                      : real != nullptr ? *real
                                        : microseconds(std::get<Picoseconds>(value)));
}

std::vector<SweepColumn> sweep_columns(const SweepPlan& plan, const SweepRun& run) {
  std::vector<SweepColumn> columns;
  for (std::string& name : plan.encoder.columns().all()) {
    const bool is_text = name == "variant" || name == "error";
    columns.emplace_back(std::move(name),
                         is_text ? SweepColumn::Values(SweepColumn::Words{}) : SweepColumn::Wholes{});
  }
  RowErrors errors;
  sweep::run_in_order({.points = {0, plan.points.count()},
                       .jobs = run.jobs,
                       .make_worker = [&] { return make_sweep_worker(plan, errors); },
                       .write =
                           [&](const sweep::Stretch& points, std::string_view rows) {
                             while (!rows.empty()) {
                               const auto cells = sweep::read_cells(rows, columns.size());
                               for (std::size_t i = 0; i < cells.size(); ++i) columns[i].add(cells[i]);
                             }
                             if (run.finished) run.finished(points.end);
                           },
                       .stop = run.stop});
  return columns;
}

}  // namespace gpusim
