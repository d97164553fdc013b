// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/axis.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "models/units/quantity.hpp"
#include "models/units/text.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim::sweep {
namespace {

/// Splits at `separator` outside of quotes and brackets.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == separator && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A number as written: its value without the unit, and the unit.
struct Number {
  double value = 0;
  std::string unit;
  bool whole = false;  ///< No point, no exponent.
};

std::optional<Number> read_number(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error != std::errc() || !std::isfinite(number.value)) return std::nullopt;
  const auto length = static_cast<std::size_t>(end - text.data());
  number.whole = text.substr(0, length).find_first_of(".eE") == std::string_view::npos;
  number.unit = trimmed(text.substr(length));
  return number;
}

/// What a unit measures, and how much of its base unit one of it is.
struct Scale {
  std::size_t dimension = 0;
  double factor = 1;
};

template <class Q>
std::optional<double> base_value(const std::string& text) {
  const Parsed<Q> parsed = parse_quantity<Q>(text);
  if (!parsed) return std::nullopt;
  if constexpr (std::is_same_v<Q, Picoseconds>)
    return static_cast<double>(parsed.value().count());
  else
    return static_cast<double>(parsed.value().value());
}

std::optional<Scale> scale_of(const std::string& unit) {
  if (unit.empty()) return Scale{};
  // Thousands, for a unit may be smaller than the base unit, which is a whole number.
  const std::string text = "1000 " + unit;
  const std::array<std::optional<double>, 8> known{base_value<Picoseconds>(text),    base_value<Bytes>(text),
                                                   base_value<BytesPerSecond>(text), base_value<Flops>(text),
                                                   base_value<FlopsPerSecond>(text), base_value<Hertz>(text),
                                                   base_value<Watts>(text),          base_value<Ratio>(text)};
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i]) return Scale{i + 1, *known[i] / 1000};
  return std::nullopt;
}

/// `value` with at most `digits` that count.
std::string number_text(double value, int digits, const std::string& unit) {
  std::array<char, 40> buffer{};
  const bool plain = std::abs(value) < 1e15 && std::abs(value) >= 1e-4;
  // Rounded to the digits first; then the shortest text of what is left.
  const auto rounded = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific, digits - 1);
  double shorter = 0;
  std::from_chars(buffer.data(), rounded.ptr, shorter);
  const auto written =
      value == 0 ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), 0)
      : plain ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), shorter, std::chars_format::fixed)
              : std::to_chars(buffer.data(), buffer.data() + buffer.size(), shorter);
  std::string text(buffer.data(), written.ptr);
  if (!unit.empty()) text += ' ' + unit;
  return text;
}

class AxisReader {
 public:
  AxisReader(std::string_view argument, std::int64_t values_max)
      : argument_(argument), values_max_(values_max) {}

  Axis read() {
    const std::vector<std::string_view> sides = split_path();
    axis_.path = trimmed(sides[0]);
    if (axis_.path.empty()) fail("no path before '='", example);
    if (trimmed(sides[1]).empty()) fail("no value after '='", example);
    for (const char c : argument_)
      if (static_cast<unsigned char>(c) < 0x20) fail("holds a control character", "write it on one line");
    for (const std::string_view item : split(sides[1], ',')) read_item(trimmed(item));
    return std::move(axis_);
  }

 private:
  static constexpr const char* example = "write --vary PATH=VALUE,VALUE or --vary 'PATH=2 us:8 us:500 ns'";

  /// At the first '=' outside of quotes.
  std::vector<std::string_view> split_path() {
    const std::vector<std::string_view> parts = split(argument_, '=');
    if (parts.size() < 2) fail("is not an assignment", example);
    return {parts[0], argument_.substr(parts[0].size() + 1)};
  }

  void read_item(std::string_view item) {
    if (item.empty()) fail("a value is missing between two commas", example);
    const std::vector<std::string_view> parts = split(item, ':');
    if (parts.size() == 1 || !read_number(trimmed(parts[0]))) {
      add(std::string(item));
      return;
    }
    if (parts.size() == 2)
      fail(fmt::format("{} is a range without a step", in_quotes(item)),
           "write lo:hi:step, or lo:hi:log:n for n values at equal ratios");
    const bool logarithmic = trimmed(parts[2]) == "log";
    if (parts.size() != (logarithmic ? 4U : 3U))
      fail(fmt::format("{} is not a range", in_quotes(item)), "write lo:hi:step or lo:hi:log:n");
    const Number lo = number(trimmed(parts[0]));
    const Number hi = number(trimmed(parts[1]));
    const double to = hi.value * in_unit_of(lo, hi);
    if (lo.value > to)
      fail(fmt::format("the range begins at {}, above its end {}", in_quotes(trimmed(parts[0])),
                       in_quotes(trimmed(parts[1]))),
           "write the smaller number first");
    if (logarithmic) {
      add_log(lo, hi, to, trimmed(parts[3]), {trimmed(parts[0]), trimmed(parts[1])});
    } else {
      const Number step = number(trimmed(parts[2]));
      add_steps(lo, to, step.value * in_unit_of(lo, step));
    }
  }

  Number number(std::string_view text) {
    const auto number = read_number(text);
    if (!number)
      fail(fmt::format("{} is not a number", in_quotes(text)), "write lo:hi:step, each with its unit");
    return *number;
  }

  /// How much of `lo`'s unit one of `other`'s is.
  double in_unit_of(const Number& lo, const Number& other) {
    if (lo.unit == other.unit) return 1;
    for (const Number* each : {&lo, &other})
      if (each->unit.empty())
        fail(fmt::format("{:g} has no unit, and another number of the range has", each->value),
             "write the unit on each number, as in '2 us:8 us:500 ns'");
    const auto from = scale_of(other.unit);
    const auto into = scale_of(lo.unit);
    for (const auto& [scale, unit] : {std::pair(from, &other.unit), std::pair(into, &lo.unit)})
      if (!scale) fail(fmt::format("unknown unit {}", in_quotes(*unit)));
    if (from->dimension != into->dimension)
      fail(fmt::format("{} and {} measure different things", in_quotes(lo.unit), in_quotes(other.unit)));
    return from->factor / into->factor;
  }

  void add_steps(const Number& lo, double to, double step) {
    if (!(step > 0)) fail("the step must be above 0", "write lo:hi:step with a positive step");
    const double count = std::floor((to - lo.value) / step * (1 + 1e-12) + 1e-9) + 1;
    check_count(count);
    // Fifteen digits hide that decimals are no sums of powers of two.
    for (double i = 0; i < count; ++i) add(number_text(lo.value + i * step, 15, lo.unit));
  }

  void add_log(const Number& lo, const Number& hi, double to, std::string_view count_text,
               std::pair<std::string_view, std::string_view> ends) {
    std::int64_t count = 0;
    const auto [end, error] =
        std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
    if (error != std::errc() || end != count_text.data() + count_text.size() || count < 2)
      fail(fmt::format("{} is not a count of values from 2 on", in_quotes(count_text)),
           "write lo:hi:log:n, as in 1:64:log:7");
    if (!(lo.value > 0)) fail("a range with equal ratios begins above 0");
    check_count(static_cast<double>(count));
    const bool whole = lo.whole && hi.whole && lo.unit.empty();
    std::string before;
    for (std::int64_t i = 0; i < count; ++i) {
      double value =
          lo.value * std::pow(to / lo.value, static_cast<double>(i) / static_cast<double>(count - 1));
      if (whole) value = std::round(value);
      std::string text = i == 0           ? std::string(ends.first)
                         : i == count - 1 ? std::string(ends.second)
                                          : number_text(value, whole ? 15 : 6, lo.unit);
      if (text != before) add(text);
      before = std::move(text);
    }
  }

  void check_count(double more) {
    if (static_cast<double>(axis_.values.size()) + more > static_cast<double>(values_max_))
      fail(fmt::format("more than {} values (axis_values_max)", values_max_), "take larger steps");
  }

  void add(std::string value) {
    check_count(1);
    axis_.values.push_back(std::move(value));
  }

  [[noreturn]] void fail(std::string what, std::string hint = {}) const {
    throw ConfigError(Diagnostic{.where = whole("--vary " + std::string(argument_)),
                                 .path = {},
                                 .what = std::move(what),
                                 .hint = std::move(hint)});
  }

  std::string_view argument_;
  std::int64_t values_max_;
  Axis axis_;
};

}  // namespace

Axis parse_axis(std::string_view argument, std::int64_t values_max) {
  return AxisReader(argument, values_max).read();
}

}  // namespace gpusim::sweep
