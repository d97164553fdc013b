// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/clock.hpp"

#include <algorithm>
#include <cstddef>

namespace gpusim {
namespace {

constexpr std::int64_t ps_per_us = 1'000'000;
constexpr std::int64_t us_max = 1'000'000'000'000'000'000;
constexpr std::int64_t difference_max = std::int64_t{1} << 62;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

TraceClock make_clock(bool negative, std::int64_t us, std::int64_t ps) {
  if (ps == ps_per_us) {
    ++us;
    ps = 0;
  }
  if (negative) {
    us = -us;
    if (ps > 0) {
      --us;
      ps = ps_per_us - ps;
    }
  }
  return {us, static_cast<std::int32_t>(ps)};
}

/// [-+]?(digits[.digits] | .digits)([eE][-+]?digits)?, as far as it goes.
struct Decimal {
  bool negative = false;
  std::string_view whole;
  std::string_view fraction;
  std::int64_t exponent = 0;
  std::size_t length = 0;  ///< Characters taken; 0: no number.
};

Decimal scan_decimal(std::string_view text) {
  Decimal d;
  std::size_t i = 0;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) d.negative = text[i++] == '-';
  const std::size_t whole = i;
  while (i < text.size() && is_digit(text[i])) ++i;
  d.whole = text.substr(whole, i - whole);
  if (i < text.size() && text[i] == '.') {
    const std::size_t fraction = ++i;
    while (i < text.size() && is_digit(text[i])) ++i;
    d.fraction = text.substr(fraction, i - fraction);
  }
  if (d.whole.empty() && d.fraction.empty()) return {};
  d.length = i;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    bool negative = false;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
    const std::size_t digits = i;
    for (; i < text.size() && is_digit(text[i]); ++i) {
      // Far beyond any text length: more digits would change nothing but could overflow.
      d.exponent = std::min<std::int64_t>(d.exponent * 10 + (text[i] - '0'), std::int64_t{1} << 40);
    }
    if (negative) d.exponent = -d.exponent;
    if (i > digits) {
      d.length = i;
    } else {
      d.exponent = 0;
    }
  }
  return d;
}

/// `unit`: picoseconds of one unit, as a power of ten.
std::optional<TraceClock> to_clock(const Decimal& d, int unit) {
  const std::size_t size = d.whole.size() + d.fraction.size();
  const auto digit = [&](std::size_t i) {
    return static_cast<int>((i < d.whole.size() ? d.whole[i] : d.fraction[i - d.whole.size()]) - '0');
  };
  std::size_t first = 0;
  while (first < size && digit(first) == 0) ++first;
  if (first == size) return TraceClock{};
  // Number of the picosecond count's digits before its own point.
  const std::int64_t count =
      static_cast<std::int64_t>(d.whole.size()) - static_cast<std::int64_t>(first) + unit + d.exponent;
  if (count > 24) return std::nullopt;
  if (count < 0) return TraceClock{};
  std::int64_t us = 0;
  std::int64_t ps = 0;
  std::size_t at = first;
  for (std::int64_t i = 0; i < count; ++i, ++at) {
    const int value = at < size ? digit(at) : 0;
    if (i < count - 6) {
      us = us * 10 + value;
    } else {
      ps = ps * 10 + value;
    }
  }
  if (at < size && digit(at) >= 5) {
    bool up = digit(at) > 5 || ps % 2 != 0;
    for (std::size_t i = at + 1; i < size && !up; ++i) up = digit(i) != 0;
    if (up) ++ps;
  }
  if (us >= us_max) return std::nullopt;
  return make_clock(d.negative, us, ps);
}

}  // namespace

std::optional<TraceClock> clock_from_number(std::string_view text) {
  // What nearly every ts looks like: at most 18 digits, a point, at most 6 more.
  std::size_t i = 0;
  std::int64_t us = 0;
  while (i < text.size() && i < 18 && is_digit(text[i])) us = us * 10 + (text[i++] - '0');
  if (i > 0 && i == text.size()) return TraceClock{us, 0};
  if (i > 0 && text[i] == '.' && text.size() - i <= 7) {
    std::int64_t ps = 0;
    int digits = 0;
    std::size_t k = i + 1;
    for (; k < text.size() && is_digit(text[k]); ++k, ++digits) ps = ps * 10 + (text[k] - '0');
    for (; digits < 6; ++digits) ps *= 10;
    if (k == text.size()) return TraceClock{us, static_cast<std::int32_t>(ps)};
  }
  const Decimal d = scan_decimal(text);
  if (d.length == 0 || d.length != text.size()) return std::nullopt;
  return to_clock(d, 6);
}

std::optional<TraceClock> clock_from_text(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const Decimal d = scan_decimal(text);
  if (d.length == 0) return std::nullopt;
  text.remove_prefix(d.length);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  // Both the micro sign and the Greek letter are met in the wild.
  if (text.empty() || text == "us" || text == "\xc2\xb5s" || text == "\xce\xbcs") return to_clock(d, 6);
  if (text == "ns") return to_clock(d, 3);
  if (text == "ps") return to_clock(d, 0);
  if (text == "ms") return to_clock(d, 9);
  if (text == "s") return to_clock(d, 12);
  return std::nullopt;
}

std::optional<Picoseconds> clock_difference(TraceClock later, TraceClock earlier) {
  const std::int64_t us = later.microseconds - earlier.microseconds;  // both below 10^18
  if (us > difference_max / ps_per_us - 1 || us < -(difference_max / ps_per_us) + 1) return std::nullopt;
  return Picoseconds(us * ps_per_us + later.picoseconds - earlier.picoseconds);
}

}  // namespace gpusim
