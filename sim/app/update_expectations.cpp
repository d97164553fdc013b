// SPDX-License-Identifier: Apache-2.0
#include "sim/app/update_expectations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "models/units/text.hpp"
#include "sim/app/expectations.hpp"
#include "sim/config/error.hpp"
#include "sim/config/load.hpp"

namespace gpusim {
namespace {

/// Where a place of the text begins, in bytes. Columns count characters.
std::size_t offset_of(std::string_view text, const Location& where) {
  std::size_t at = 0;
  for (int line = 1; line < where.line; ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    at = end + 1;
  }
  for (int column = 1; column < where.column && at < text.size(); ++column) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  }
  return at;
}

/// A value as it stands in the file.
struct Written {
  std::size_t begin = 0;  ///< Without quotes.
  std::size_t size = 0;
};

/// The value behind the `equals:` of an item, if it stands there as it was read.
std::optional<Written> find_written(std::string_view text, const config::Node& value) {
  const std::size_t key = offset_of(text, value.key_location());
  std::size_t begin = offset_of(text, value.location());
  constexpr std::string_view name = "equals";
  if (key >= begin || text.substr(key, name.size()) != name) return std::nullopt;
  const std::string_view between = text.substr(key + name.size(), begin - key - name.size());
  if (between.find_first_not_of(": ") != std::string_view::npos) return std::nullopt;
  if (value.is_null()) {
    for (const std::string_view word : {"null", "~"})
      if (text.substr(begin, word.size()) == word) return Written{begin, word.size()};
    return std::nullopt;
  }
  if (!value.is_scalar()) return std::nullopt;
  if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) ++begin;
  if (value.text().empty() || text.substr(begin, value.text().size()) != value.text()) return std::nullopt;
  return Written{begin, value.text().size()};
}

/// "43.7 ms": the number, and what follows it with the space between.
struct Parts {
  std::string number;
  std::string unit;
};

Parts parts_of(const std::string& text) {
  std::size_t end = text.find_first_not_of("+-.0123456789");
  // An exponent belongs to the number.
  if (end != std::string::npos && end > 0 && (text[end] == 'e' || text[end] == 'E')) {
    const std::size_t after = text.find_first_not_of("+-0123456789", end + 1);
    if (end + 1 < text.size() && after != end + 1) end = after;
  }
  if (end == std::string::npos) return {text, ""};
  return {text.substr(0, end), text.substr(end)};
}

std::string without_spaces(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

/// What one of the unit is, of times in picoseconds, of other figures in their own unit.
std::optional<double> factor_of(const std::string& unit, bool is_time) {
  const std::string one = "1 " + without_spaces(unit);
  if (is_time) {
    if (const auto time = parse_quantity<Picoseconds>(one)) return static_cast<double>(time.value().count());
    return std::nullopt;
  }
  if (without_spaces(unit).empty()) return 1.0;
  if (without_spaces(unit) == "%") return 0.01;
  if (const auto time = parse_quantity<Picoseconds>(one))
    return static_cast<double>(time.value().count()) / 1e12;
  if (const auto bytes = parse_quantity<Bytes>(one)) return static_cast<double>(bytes.value().value());
  if (const auto flops = parse_quantity<Flops>(one)) return flops.value().value();
  return std::nullopt;
}

std::size_t decimals_of(const std::string& number) {
  const std::size_t point = number.find('.');
  if (point == std::string::npos) return 0;
  const std::size_t end = number.find_first_not_of("0123456789", point + 1);
  return (end == std::string::npos ? number.size() : end) - point - 1;
}

bool is_number(const report::Value& value) {
  return std::holds_alternative<Picoseconds>(value) || std::holds_alternative<double>(value) ||
         std::holds_alternative<std::int64_t>(value);
}

/// `actual` as it is to stand there, written as `before` is; nothing and why not in `reason`.
std::optional<std::string> rewritten(const Expectation& expectation, const report::Value& actual,
                                     const std::string& before, std::string& reason) {
  if (std::holds_alternative<std::monostate>(actual)) {
    if (!expectation.within) return "null";
    reason = "is unknown now, and 'within' goes with numbers";
    return std::nullopt;
  }
  if (std::holds_alternative<std::monostate>(expectation.value)) {
    reason = "was expected to be unknown, and is not: write the figure by hand";
    return std::nullopt;
  }
  if (const auto* word = std::get_if<std::string>(&actual)) return *word;
  if (const auto* truth = std::get_if<bool>(&actual)) return *truth ? "true" : "false";
  const bool is_time = std::holds_alternative<Picoseconds>(expectation.value);
  const Parts parts = parts_of(before);
  const auto factor = factor_of(parts.unit, is_time);
  if (!is_number(actual) || !factor) {
    reason = fmt::format("'{}' is not written as a number with a unit", before);
    return std::nullopt;
  }
  const double amount = std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Picoseconds>)
          return is_time ? static_cast<double>(value.count()) : microseconds(value);
        else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>)
          return static_cast<double>(value);
        else
          return 0.0;
      },
      actual);
  // What comes out has to hold. Without 'within' that takes all decimals there are.
  constexpr std::size_t decimals_most = 17;
  for (std::size_t decimals = decimals_of(parts.number); decimals <= decimals_most; ++decimals) {
    std::string number = fmt::format("{:.{}f}", amount / *factor, decimals);
    Expectation changed = expectation;
    const double value = std::stod(number) * *factor;
    if (is_time)
      changed.value = Picoseconds(std::llround(value));
    else
      changed.value = value;
    if (is_as_expected(changed, actual)) return number + parts.unit;
  }
  const std::string shortest = fmt::format("{}", amount / *factor);
  if (!is_time && std::stod(shortest) * *factor == amount) return shortest + parts.unit;
  reason = fmt::format("{} cannot be written exactly in this unit", fmt::format("{}", amount));
  return std::nullopt;
}

}  // namespace

UpdatedExpectations update_expectations(std::string_view text, const Scenario& scenario,
                                        const std::vector<report::ExpectationResult>& results) {
  UpdatedExpectations updated;
  const config::Node tree = config::load_text(text, scenario.file);
  std::vector<config::Node> items;
  if (const auto expect = tree.find("expect")) items = expect->items();
  std::map<std::size_t, std::pair<Written, std::string>> edits;  // By place in the text.
  for (std::size_t i = 0; i < results.size(); ++i) {
    const report::ExpectationResult& result = results[i];
    if (result.pass) continue;
    const Expectation& expectation = scenario.expectations[i];
    const auto leave = [&](std::string_view reason) {
      updated.left.push_back(fmt::format("{}: {}: {}", result.where, result.path, reason));
    };
    if (expectation.relation != Expectation::Relation::Equals) {
      leave(fmt::format("'{}' says what is wanted, and is left as it is", result.relation));
      continue;
    }
    const auto item = std::find_if(items.begin(), items.end(), [&](const config::Node& node) {
      return node.location() == expectation.where;
    });
    const auto value = item == items.end() ? std::nullopt : item->find("equals");
    const auto written = value ? find_written(text, *value) : std::nullopt;
    if (!written) {
      leave("its value cannot be located: it does not stand behind 'equals:' as a plain value");
      continue;
    }
    const std::string before(text.substr(written->begin, written->size));
    std::string reason;
    const auto after = rewritten(expectation, result.actual, before, reason);
    if (!after) {
      leave(reason);
      continue;
    }
    const auto [edit, is_new] = edits.try_emplace(written->begin, *written, *after);
    if (!is_new && edit->second.second != *after) {
      leave("its value is shared with another expectation that wants something else");
      continue;
    }
    if (is_new) updated.updates.push_back({to_string(value->location()), result.path, before, *after});
  }
  std::size_t copied = 0;
  for (const auto& [begin, edit] : edits) {
    updated.text += text.substr(copied, begin - copied);
    updated.text += edit.second;
    copied = begin + edit.first.size;
  }
  updated.text += text.substr(copied);
  return updated;
}

}  // namespace gpusim
