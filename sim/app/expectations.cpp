// SPDX-License-Identifier: Apache-2.0
#include "sim/app/expectations.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <variant>

namespace gpusim {
namespace {

/// In the unit of the JSON figure; nothing for words, truth values and what is unknown.
std::optional<double> number(const report::Value& value) {
  if (const auto* time = std::get_if<Picoseconds>(&value)) return microseconds(*time);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

report::Value to_value(const Expectation::Value& value) {
  return std::visit([](const auto& v) { return report::Value(v); }, value);
}

report::Value find_value(const Expectation& expectation, const std::string& variant,
                         const std::vector<report::Metrics>& metrics) {
  for (const report::Metrics& m : metrics)
    if (m.variant == variant)
      if (auto found = report::find_field(m, expectation.metric)) return *found;
  return {};
}

bool same(const report::Value& expected, const report::Value& actual) {
  const auto a = number(expected);
  const auto b = number(actual);
  if (a && b) return *a == *b;
  return expected == actual;
}

bool holds(const Expectation& expectation, const report::Value& expected, const report::Value& actual) {
  using Relation = Expectation::Relation;
  const auto want = number(expected);
  const auto have = number(actual);
  double slack = 0;
  if (expectation.within && want)
    slack = expectation.within->relative ? std::fabs(*want) * expectation.within->value
                                         : expectation.within->value;
  switch (expectation.relation) {
    case Relation::Equals:
      if (want && have && expectation.within) return std::fabs(*have - *want) <= slack;
      return same(expected, actual);
    case Relation::Not:
      // An unknown figure differs from every number, but that is not what the author of the line had in mind.
      if (want && !have) return false;
      if (want && have && expectation.within) return std::fabs(*have - *want) > slack;
      return !same(expected, actual);
    case Relation::Min:
      return want && have && *have >= *want - slack;
    case Relation::Max:
      return want && have && *have <= *want + slack;
  }
  return false;
}

const char* relation_name(Expectation::Relation relation) {
  switch (relation) {
    case Expectation::Relation::Equals:
      return "equals";
    case Expectation::Relation::Min:
      return "min";
    case Expectation::Relation::Max:
      return "max";
    case Expectation::Relation::Not:
      return "not";
  }
  return "equals";
}

std::string text(const report::Value& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "unknown"; }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(std::int64_t whole) const { return fmt::format("{}", whole); }
    std::string operator()(double real) const { return fmt::format("{}", real); }
    std::string operator()(const std::string& word) const { return word; }
    // Exact: a failing comparison may be about one picosecond.
    std::string operator()(Picoseconds time) const {
      std::string us =
          fmt::format("{}.{:06d}", time.count() / 1'000'000, std::llabs(time.count() % 1'000'000));
      if (time.count() < 0 && time.count() > -1'000'000) us.insert(0, "-");
      while (us.back() == '0') us.pop_back();
      if (us.back() == '.') us.pop_back();
      return us + " us";
    }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace

std::vector<std::string> metric_paths() {
  std::vector<std::string> paths;
  for (const report::Field& field : report::fields(report::Metrics{}))
    if (field.path != "variant") paths.push_back(field.path);
  return paths;
}

std::vector<report::ExpectationResult> check_expectations(const std::vector<Expectation>& expectations,
                                                          const std::vector<report::Metrics>& metrics) {
  std::vector<report::ExpectationResult> results;
  results.reserve(expectations.size());
  for (const Expectation& expectation : expectations) {
    report::ExpectationResult result;
    result.path = expectation.path;
    result.relation = relation_name(expectation.relation);
    result.expected = to_value(expectation.value);
    result.actual = find_value(expectation, expectation.variant, metrics);
    result.relative_to = expectation.relative_to;
    result.where = to_string(expectation.where);
    if (expectation.within) result.within = expectation.within->text;
    if (!expectation.relative_to.empty()) {
      const auto part = number(result.actual);
      const auto whole = number(find_value(expectation, expectation.relative_to, metrics));
      result.actual = report::Value{};
      if (part && whole && *whole != 0) result.actual = *part / *whole;
    }
    result.pass = holds(expectation, result.expected, result.actual);
    results.push_back(std::move(result));
  }
  return results;
}

bool is_as_expected(const Expectation& expectation, const report::Value& actual) {
  return holds(expectation, to_value(expectation.value), actual);
}

std::string describe(const report::ExpectationResult& result) {
  std::string what;
  if (result.relation == "min") what = "at least ";
  if (result.relation == "max") what = "at most ";
  if (result.relation == "not") what = "anything but ";
  what += text(result.expected);
  if (!result.within.empty()) what += fmt::format(" within {}", result.within);
  std::string of;
  if (!result.relative_to.empty()) of = fmt::format(" (relative to {})", result.relative_to);
  return fmt::format("{}{}: expected {}, {} {}", result.path, of, what,
                     result.pass ? "and it is" : "but it is", text(result.actual));
}

}  // namespace gpusim
