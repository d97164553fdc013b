// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/expectation_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace gpusim {
namespace {

using config::Node;

/// What the number of a figure is in.
enum class Unit { None, Microseconds, Seconds, Bytes, Flops };

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

/// Figures that keep their unit in every spelling, for without it they would say nothing.
bool keeps_unit(std::string_view part) {
  return part == "hbm_bytes";
}

template <class Visit>
void for_each_part(const std::string& path, Visit visit) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = path.find('.', begin);
    visit(std::string_view(path).substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return;
    begin = end + 1;
  }
}

Unit unit_of(const std::string& metric) {
  Unit unit = Unit::None;
  for_each_part(metric, [&](std::string_view part) {
    if (ends_with(part, "_us")) unit = Unit::Microseconds;
    if (ends_with(part, "_s")) unit = Unit::Seconds;
    if (ends_with(part, "_bytes")) unit = Unit::Bytes;
    if (ends_with(part, "_flops")) unit = Unit::Flops;
  });
  return unit;
}

class ExpectationReader {
 public:
  ExpectationReader(const std::vector<std::string>& variants, const std::vector<std::string>& metrics)
      : variants_(variants), metrics_(metrics) {}

  void read(const Node& node, std::vector<Expectation>& into) {
    if (!node.is_map())
      node.fail("an expectation is a map", "write {path: step_time, equals: 1.8 ms, within: 5 %}");
    Expectation expectation;
    expectation.where = node.location();
    config::Fields fields(node);
    fields.required_with("path", [&](const Node& path) { read_path(path, expectation); });
    fields.optional_with("relative_to", [&](const Node& other) {
      expectation.relative_to = other.as<std::string>();
      if (!is_variant(expectation.relative_to)) unknown_variant(other, expectation.relative_to);
    });
    std::vector<std::pair<Expectation::Relation, Node>> relations;
    using Relation = Expectation::Relation;
    for (const auto& [key, relation] : {std::pair<std::string_view, Relation>{"equals", Relation::Equals},
                                        {"min", Relation::Min},
                                        {"max", Relation::Max},
                                        {"not", Relation::Not}})
      if (const auto value = node.find(key)) relations.emplace_back(relation, *value);
    const bool range =
        relations.size() == 2 && relations[0].first == Relation::Min && relations[1].first == Relation::Max;
    if (relations.empty())
      fields.errors().add(
          node.diagnostic("says nothing about the value", "give 'equals', 'min', 'max' or 'not'"));
    else if (relations.size() > 1 && !range)
      fields.errors().add(
          node.diagnostic("gives several conditions",
                          "keep one of 'equals', 'min', 'max' and 'not', or 'min' and 'max' together"));
    // Values are read in the unit of the figure: without a figure there is nothing to read them as.
    if (expectation.metric.empty()) {
      fields.optional_with("within", [](const Node&) {});
      fields.done();
      return;
    }
    fields.optional_with("within",
                         [&](const Node& within) { expectation.within = read_within(within, expectation); });
    std::vector<Expectation> read;
    for (const auto& [relation, value] : relations) {
      Expectation one = expectation;
      one.relation = relation;
      fields.errors().collect([&, &node_of_value = value] { one.value = read_value(node_of_value, one); });
      if (one.within && !std::holds_alternative<double>(one.value) &&
          !std::holds_alternative<Picoseconds>(one.value))
        fields.errors().add(node.at("within").diagnostic("only numbers and times can be within something"));
      if (relation == Relation::Min || relation == Relation::Max) {
        if (!std::holds_alternative<double>(one.value) && !std::holds_alternative<Picoseconds>(one.value))
          fields.errors().add(value.diagnostic("only numbers and times have a least or greatest value"));
      }
      read.push_back(std::move(one));
    }
    fields.done();
    into.insert(into.end(), read.begin(), read.end());
  }

 private:
  bool is_variant(std::string_view name) const {
    return std::find(variants_.begin(), variants_.end(), name) != variants_.end();
  }

  [[noreturn]] void unknown_variant(const Node& node, const std::string& name) const {
    node.fail(fmt::format("unknown variant '{}'", name), name_hint(name, variants_, "variants"));
  }

  /// The JSON path that `text` names, with or without units; empty if none.
  std::string find_metric(const std::string& text) const {
    for (const std::string& metric : metrics_)
      if (metric == text || without_units(metric) == text) return metric;
    return {};
  }

  void read_path(const Node& node, Expectation& into) {
    into.path = node.as<std::string>();
    std::string metric = into.path;
    const std::size_t dot = metric.find('.');
    if (dot != std::string::npos && is_variant(metric.substr(0, dot))) {
      into.variant = metric.substr(0, dot);
      metric.erase(0, dot + 1);
    }
    const std::string known = find_metric(metric);
    if (known.empty()) {
      std::vector<std::string> names;
      for (const std::string& name : metrics_) names.push_back(without_units(name));
      // A misspelt variant leaves a good figure behind its dot.
      if (into.variant.empty() && dot != std::string::npos && !find_metric(metric.substr(dot + 1)).empty())
        unknown_variant(node, metric.substr(0, dot));
      if (is_variant(metric) && into.variant.empty())
        node.fail(fmt::format("'{}' names a variant but no figure of it", metric),
                  fmt::format("write for example {}.step_time", metric));
      node.fail(fmt::format("unknown figure '{}'", metric), name_hint(metric, names, "figures"));
    }
    if (into.variant.empty()) {
      if (variants_.size() > 1)
        node.fail("does not say which variant", fmt::format("write for example {}.{}", variants_[0], metric));
      into.variant = variants_[0];
    }
    into.metric = known;
    with_unit_ = metric != known || unit_of(known) == Unit::None;
  }

  Expectation::Value read_value(const Node& node, const Expectation& expectation) const {
    if (node.is_null()) return std::monostate{};
    if (!expectation.relative_to.empty()) return node.as<Ratio>().value();
    const std::string& metric = expectation.metric;
    if (metric == "steady") return node.as<bool>();
    if (metric == "regime") {
      return std::string(node.one_of<std::string_view>({{"overhead", "overhead"},
                                                        {"memory", "memory"},
                                                        {"compute", "compute"},
                                                        {"communication", "communication"},
                                                        {"mixed", "mixed"}}));
    }
    if (metric == "variant") return node.as<std::string>();
    switch (unit_of(metric)) {
      case Unit::Microseconds:
        if (with_unit_) return node.as<Picoseconds>();
        return node.as<double>();
      case Unit::Seconds:
        if (with_unit_) return seconds(node.as<Picoseconds>());
        return node.as<double>();
      case Unit::Bytes:
        if (with_unit_ || !bare(node)) return static_cast<double>(node.as<Bytes>().value());
        return node.as<double>();
      case Unit::Flops:
        if (!bare(node)) return node.as<Flops>().value();
        return node.as<double>();
      case Unit::None:
        return node.as<Ratio>().value();
    }
    return std::monostate{};
  }

  static bool bare(const Node& node) { return static_cast<bool>(parse_quantity<double>(node.text())); }

  Expectation::Tolerance read_within(const Node& node, const Expectation& expectation) const {
    Expectation::Tolerance tolerance;
    tolerance.text = node.text();
    if (tolerance.text.find('%') != std::string::npos) {
      tolerance.relative = true;
      tolerance.value = node.as<Ratio>(config::non_negative).value();
      return tolerance;
    }
    const Expectation::Value value = read_value(node, expectation);
    if (const auto* time = std::get_if<Picoseconds>(&value))
      tolerance.value = microseconds(*time);
    else if (const auto* number = std::get_if<double>(&value))
      tolerance.value = *number;
    else
      node.fail("only numbers and times can be within something");
    if (tolerance.value < 0) node.fail("must not be negative, but is " + tolerance.text);
    return tolerance;
  }

  const std::vector<std::string>& variants_;
  const std::vector<std::string>& metrics_;
  bool with_unit_ = false;  ///< The path leaves the unit away, so the value has to carry it.
};

}  // namespace

std::string without_units(const std::string& metric) {
  std::string result;
  for_each_part(metric, [&](std::string_view part) {
    if (!keeps_unit(part))
      for (const std::string_view unit : {"_us", "_s", "_bytes"})
        if (ends_with(part, unit)) {
          part.remove_suffix(unit.size());
          break;
        }
    if (!result.empty()) result += '.';
    result += part;
  });
  return result;
}

std::vector<Expectation> read_expectations(const config::Node& list, const std::vector<std::string>& variants,
                                           const std::vector<std::string>& metrics) {
  std::vector<Expectation> expectations;
  Errors errors;
  for (const Node& node : list.items())
    errors.collect([&] { ExpectationReader(variants, metrics).read(node, expectations); });
  errors.throw_if_any();
  return expectations;
}

}  // namespace gpusim
