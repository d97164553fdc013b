// SPDX-License-Identifier: Apache-2.0
#include "models/units/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

namespace gpusim {
namespace {

__extension__ using Wide = unsigned __int128;

/// One unit is 10^ten * 2^two of the base unit (picosecond, byte, byte per second, ...).
struct Unit {
  std::string_view name;
  int ten = 0;
  int two = 0;
};

constexpr auto duration_units = std::to_array<Unit>({
    {"ps", 0},
    {"ns", 3},
    {"us", 6},
    {"ms", 9},
    {"s", 12},
    {"\u00b5s", 6},  // micro sign
    {"\u03bcs", 6}   // Greek mu
});
constexpr auto size_units = std::to_array<Unit>({{"B", 0},
                                                 {"kB", 3},
                                                 {"MB", 6},
                                                 {"GB", 9},
                                                 {"TB", 12},
                                                 {"KiB", 0, 10},
                                                 {"MiB", 0, 20},
                                                 {"GiB", 0, 30},
                                                 {"TiB", 0, 40}});
constexpr auto rate_units = std::to_array<Unit>({{"B/s", 0},
                                                 {"kB/s", 3},
                                                 {"MB/s", 6},
                                                 {"GB/s", 9},
                                                 {"TB/s", 12},
                                                 {"PB/s", 15},
                                                 {"KiB/s", 0, 10},
                                                 {"MiB/s", 0, 20},
                                                 {"GiB/s", 0, 30},
                                                 {"TiB/s", 0, 40},
                                                 {"bit/s", 0, -3},
                                                 {"kbit/s", 3, -3},
                                                 {"Mbit/s", 6, -3},
                                                 {"Gbit/s", 9, -3},
                                                 {"Tbit/s", 12, -3}});
constexpr auto work_units = std::to_array<Unit>(
    {{"FLOP", 0}, {"kFLOP", 3}, {"MFLOP", 6}, {"GFLOP", 9}, {"TFLOP", 12}, {"PFLOP", 15}});
// Integer peaks are given in OP/s; a multiply-add counts as two of either.
constexpr auto work_rate_units = std::to_array<Unit>({{"FLOP/s", 0},
                                                      {"kFLOP/s", 3},
                                                      {"MFLOP/s", 6},
                                                      {"GFLOP/s", 9},
                                                      {"TFLOP/s", 12},
                                                      {"PFLOP/s", 15},
                                                      {"OP/s", 0},
                                                      {"MOP/s", 6},
                                                      {"GOP/s", 9},
                                                      {"TOP/s", 12},
                                                      {"POP/s", 15}});
constexpr auto frequency_units =
    std::to_array<Unit>({{"Hz", 0}, {"kHz", 3}, {"MHz", 6}, {"GHz", 9}, {"THz", 12}});
constexpr auto power_units = std::to_array<Unit>({{"mW", -3}, {"W", 0}, {"kW", 3}});
constexpr auto flop_energy_units = std::to_array<Unit>({{"pJ/FLOP", -12}});
constexpr auto byte_energy_units = std::to_array<Unit>({{"pJ/B", -12}});
constexpr auto ratio_units = std::to_array<Unit>({{"%", -2}});

/// What a text should be, as messages say it.
struct Dimension {
  std::string_view noun;     ///< "a duration"
  std::string_view example;  ///< "write a duration such as '3 us' (ps, ns, us, ms, s)"
  std::span<const Unit> units;
  bool bare = false;  ///< May stand without a unit.
};

constexpr Dimension duration{"a duration", "write a duration such as '3 us' (ps, ns, us, ms, s)",
                             duration_units};
constexpr Dimension size{"a size", "write a size such as '128 MiB' (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)",
                         size_units};
constexpr Dimension rate{"a rate",
                         "write a rate such as '4.8 TB/s' (B/s ... PB/s, KiB/s ... TiB/s, bit/s ... Tbit/s)",
                         rate_units};
constexpr Dimension work{
    "an amount of work",
    "write an amount of work such as '2 TFLOP' (FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP)", work_units};
constexpr Dimension work_rate{
    "a rate of work", "write a rate of work such as '989.4 TFLOP/s' (FLOP/s ... PFLOP/s, OP/s ... POP/s)",
    work_rate_units};
constexpr Dimension frequency{"a frequency", "write a frequency such as '1.98 GHz' (Hz, kHz, MHz, GHz, THz)",
                              frequency_units};
constexpr Dimension electric_power{"a power", "write a power such as '700 W' (mW, W, kW)", power_units};
constexpr Dimension flop_energy{"an energy per FLOP", "write an energy such as '1.3 pJ/FLOP'",
                                flop_energy_units};
constexpr Dimension byte_energy{"an energy per byte", "write an energy such as '80 pJ/B'", byte_energy_units};
constexpr Dimension ratio{"a ratio", "write a ratio such as '5 %' or '0.05'", ratio_units, true};
constexpr Dimension integer{"a whole number", "write a whole number such as '12', without a unit", {}, true};
constexpr Dimension number{"a number", "write a number such as '0.5', without a unit", {}, true};

constexpr std::array dimensions{&duration,  &size,           &rate,        &work,        &work_rate,
                                &frequency, &electric_power, &flop_energy, &byte_energy, &ratio};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const auto found = std::ranges::find(units, name, &Unit::name);
  return found == units.end() ? nullptr : &*found;
}

/// A number and its unit, still in decimal: value = mantissa * 10^exponent * unit.
struct Measure {
  bool negative = false;
  std::string_view mantissa;  ///< Digits with at most one point.
  int exponent = 0;
  Unit unit;
};

TextError unknown_unit(std::string_view name, const Dimension& wanted) {
  for (const Dimension* other : dimensions) {
    if (find_unit(other->units, name) != nullptr) {
      return {"unit " + in_quotes(name) + " makes " + std::string(other->noun) + ", but " +
                  std::string(wanted.noun) + " is needed",
              std::string(wanted.example)};
    }
  }
  // "Gb/s": somebody's bytes and somebody else's bits.
  const std::string stem(name.substr(0, name.find('/')));
  if ((&wanted == &size || &wanted == &rate) && (stem == "b" || (stem.size() <= 3 && stem.ends_with('b')))) {
    return {"unknown unit " + in_quotes(name),
            std::string("'b' may mean bytes or bits: ") +
                (&wanted == &size ? "write 'B' for bytes, as in 'GB' or 'GiB'"
                                  : "write 'B' or 'bit', as in 'GB/s' or 'Gbit/s'")};
  }
  for (const Unit& unit : wanted.units) {
    if (lower(unit.name) == lower(name)) {
      return {"unknown unit " + in_quotes(name), "did you mean '" + std::string(unit.name) + "'?"};
    }
  }
  return {"unknown unit " + in_quotes(name), std::string(wanted.example)};
}

/// Splits a text into number and unit, and refuses what only looks like a number.
Parsed<Measure> parse_measure(std::string_view text, const Dimension& wanted) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const std::string example(wanted.example);
  if (text.empty()) return TextError{"the value is empty", example};

  Measure measure;
  std::string_view rest = text;
  if (rest.front() == '-') {
    measure.negative = true;
    rest.remove_prefix(1);
  }
  const std::string word = lower(rest.substr(0, rest.find_first_of(" \t")));
  for (const std::string_view name : {"nan", ".nan", "inf", ".inf", "infinity"}) {
    if (word == name) return TextError{in_quotes(text) + " is not a finite number", example};
  }
  if (rest.size() > 2 && rest[0] == '0' && std::isalnum(static_cast<unsigned char>(rest[2])) != 0 &&
      (rest[1] == 'x' || rest[1] == 'X' || ((rest[1] == 'b' || rest[1] == 'o') && is_digit(rest[2])))) {
    return TextError{in_quotes(text) + " is not a decimal number", example};
  }

  std::size_t at = 0;
  while (at < rest.size() && is_digit(rest[at])) ++at;
  const std::size_t whole_digits = at;
  std::size_t digits = whole_digits;
  if (at < rest.size() && rest[at] == '.') {
    const std::size_t point = at++;
    while (at < rest.size() && is_digit(rest[at])) ++at;
    digits += at - point - 1;
  }
  if (digits == 0) return TextError{in_quotes(text) + " is not " + std::string(wanted.noun), example};
  if (whole_digits > 1 && rest[0] == '0') {
    return TextError{in_quotes(text) + " has a leading zero",
                     "numbers are decimal, never octal: drop the zero"};
  }
  measure.mantissa = rest.substr(0, at);

  // An exponent, if digits follow the 'e'.
  if (at < rest.size() && (rest[at] == 'e' || rest[at] == 'E')) {
    std::size_t power = at + 1;
    const bool sign = power < rest.size() && (rest[power] == '-' || rest[power] == '+');
    const bool negative = sign && rest[power] == '-';
    if (sign) ++power;
    if (power < rest.size() && is_digit(rest[power])) {
      // Beyond a million the result is out of range (or nothing) whatever the mantissa of a sane length is.
      for (; power < rest.size() && is_digit(rest[power]); ++power) {
        measure.exponent = std::min(measure.exponent * 10 + (rest[power] - '0'), 1'000'000);
      }
      if (negative) measure.exponent = -measure.exponent;
      at = power;
    }
  }

  std::string_view name = rest.substr(at);
  while (!name.empty() && is_space(name.front())) name.remove_prefix(1);
  if (name.empty()) {
    if (wanted.bare) return measure;
    return TextError{in_quotes(text) + " has no unit", example};
  }
  if ((name.front() == ',' || name.front() == '_' || name.front() == '\'') &&
      name.data() == rest.data() + at) {
    return TextError{in_quotes(text) + " is not " + std::string(wanted.noun),
                     "write a point before decimals and nothing between thousands"};
  }
  const Unit* unit = find_unit(wanted.units, name);
  if (unit == nullptr) return unknown_unit(name, wanted);
  measure.unit = *unit;
  return measure;
}

TextError out_of_range(std::string_view text, std::string limit) {
  return {in_quotes(text) + " is out of range", std::move(limit)};
}

/// The measure as a whole number of base units, rounded once, halves away from zero.
Parsed<std::int64_t> to_whole(const Measure& measure, std::string_view text, bool must_be_whole,
                              std::string limit) {
  // Collect the digits; zeros at the end only move the exponent.
  std::uint64_t mantissa = 0;
  int count = 0;
  int exponent = measure.exponent + measure.unit.ten;
  int zeros = 0;
  bool fraction = false;
  for (const char c : measure.mantissa) {
    if (c == '.') {
      fraction = true;
      continue;
    }
    if (fraction) --exponent;
    if (c == '0') {
      if (mantissa != 0) ++zeros;
      continue;
    }
    count += zeros + 1;
    // 19 digits fit into 64 bits; with a unit of 2^40 the product fits into 128.
    if (count > 19)
      return TextError{in_quotes(text) + " has more than 19 significant digits", std::move(limit)};
    for (; zeros > 0; --zeros) mantissa *= 10;
    mantissa = mantissa * 10 + static_cast<std::uint64_t>(c - '0');
  }
  exponent += zeros;
  if (mantissa == 0) return std::int64_t{0};

  Wide value = static_cast<Wide>(mantissa) << measure.unit.two;
  constexpr auto most = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());
  for (; exponent > 0 && value <= most; --exponent) value *= 10;
  if (exponent < -38) {
    // Less than 2^64 * 2^40 / 10^39: nothing that would round to one.
    if (must_be_whole)
      return TextError{in_quotes(text) + " is not a whole number", std::string(integer.example)};
    return std::int64_t{0};
  }
  if (exponent < 0) {
    Wide divisor = 1;
    for (; exponent < 0; ++exponent) divisor *= 10;
    const Wide remainder = value % divisor;
    if (must_be_whole && remainder != 0) {
      return TextError{in_quotes(text) + " is not a whole number", std::string(integer.example)};
    }
    value = value / divisor + (remainder >= divisor - remainder ? 1 : 0);
  }
  if (value > most) return out_of_range(text, std::move(limit));
  const auto whole = static_cast<std::int64_t>(value);
  return measure.negative ? -whole : whole;
}

/// The measure in base units as the nearest double.
Parsed<double> to_double(const Measure& measure, std::string_view text) {
  // from_chars sees the exponent of the number and of the unit as one, so that it rounds once; powers of two
  // are exact.
  const std::string decimal =
      std::string(measure.mantissa) + 'e' + std::to_string(measure.exponent + measure.unit.ten);
  double value = 0;
  const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
  value = std::ldexp(value, measure.unit.two);
  if (error != std::errc() || end != decimal.data() + decimal.size() || !std::isfinite(value)) {
    return out_of_range(text, "numbers between about 1e-307 and 1e308 can be represented");
  }
  return measure.negative && value != 0 ? -value : value;
}

template <class Q>
Parsed<Q> parse_whole(std::string_view text, const Dimension& dimension, bool must_be_whole,
                      std::string limit) {
  const auto measure = parse_measure(text, dimension);
  if (!measure) return measure.error();
  const auto whole = to_whole(measure.value(), text, must_be_whole, std::move(limit));
  if (!whole) return whole.error();
  return Q(whole.value());
}

template <class Q>
Parsed<Q> parse_real(std::string_view text, const Dimension& dimension) {
  const auto measure = parse_measure(text, dimension);
  if (!measure) return measure.error();
  const auto real = to_double(measure.value(), text);
  if (!real) return real.error();
  return Q(real.value());
}

/// `value` rounded to `precision` significant digits, written with the SI prefix that leaves one to three
/// digits before the point: "4.8 T" + unit. `keep_zeros` leaves the digits that are zeros at the end.
std::string with_prefix(double value, std::string_view unit, std::span<const std::string_view> prefixes,
                        int precision, bool keep_zeros) {
  if (value == 0) return "0 " + std::string(unit);
  std::array<char, 40> buffer{};
  const char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                        std::chars_format::scientific, precision - 1)
                              .ptr;
  // "d.ddde+XX": rounding is done; what is left is where the point goes.
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* digits_of_exponent = text.data() + e + 1;
  if (*digits_of_exponent == '+') ++digits_of_exponent;
  std::from_chars(digits_of_exponent, end, exponent);
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  const int largest = static_cast<int>(prefixes.size()) - 1;
  const int prefix = std::clamp(exponent >= 0 ? exponent / 3 : 0, 0, largest);
  const int point = exponent - 3 * prefix + 1;  // Digits before the point.
  if (point <= 0) digits.insert(0, static_cast<std::size_t>(1 - point), '0');
  const auto before = static_cast<std::size_t>(std::max(point, 1));
  if (digits.size() < before) digits.append(before - digits.size(), '0');
  std::string result = digits.substr(0, before);
  std::string fraction = digits.substr(before);
  if (!keep_zeros) {
    while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  }
  if (!fraction.empty()) result += "." + fraction;
  result += ' ';
  result += prefixes[static_cast<std::size_t>(prefix)];
  result += unit;
  return value < 0 ? "-" + result : result;
}

constexpr std::array<std::string_view, 6> si_prefixes{"", "k", "M", "G", "T", "P"};

std::string in_si(double value, std::string_view unit) {
  return with_prefix(value, unit, si_prefixes, 4, false);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string result = "'";
  std::size_t shown = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // Stop between characters, not inside the bytes of one.
    if (shown >= longest && (byte & 0xC0U) != 0x80U) {
      result += "...";
      break;
    }
    ++shown;
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view hex = "0123456789abcdef";
      result += {'\\', 'x', hex[byte >> 4U], hex[byte & 15U]};
    } else {
      result += c;
    }
  }
  return result + "'";
}

template <>
Parsed<Picoseconds> parse_quantity(std::string_view text) {
  return parse_whole<Picoseconds>(text, duration, false,
                                  "a duration is at most 106 days, counted in picoseconds");
}
template <>
Parsed<Bytes> parse_quantity(std::string_view text) {
  return parse_whole<Bytes>(text, size, false, "a size is at most 9.2e18 bytes");
}
template <>
Parsed<std::int64_t> parse_quantity(std::string_view text) {
  return parse_whole<std::int64_t>(text, integer, true, "a whole number is at most 9223372036854775807");
}
template <>
Parsed<BytesPerSecond> parse_quantity(std::string_view text) {
  return parse_real<BytesPerSecond>(text, rate);
}
template <>
Parsed<Flops> parse_quantity(std::string_view text) {
  return parse_real<Flops>(text, work);
}
template <>
Parsed<FlopsPerSecond> parse_quantity(std::string_view text) {
  return parse_real<FlopsPerSecond>(text, work_rate);
}
template <>
Parsed<Hertz> parse_quantity(std::string_view text) {
  return parse_real<Hertz>(text, frequency);
}
template <>
Parsed<Watts> parse_quantity(std::string_view text) {
  return parse_real<Watts>(text, electric_power);
}
template <>
Parsed<JoulesPerFlop> parse_quantity(std::string_view text) {
  return parse_real<JoulesPerFlop>(text, flop_energy);
}
template <>
Parsed<JoulesPerByte> parse_quantity(std::string_view text) {
  return parse_real<JoulesPerByte>(text, byte_energy);
}
template <>
Parsed<Ratio> parse_quantity(std::string_view text) {
  return parse_real<Ratio>(text, ratio);
}
template <>
Parsed<double> parse_quantity(std::string_view text) {
  return parse_real<double>(text, number);
}

std::string format_quantity(Picoseconds t) {
  constexpr std::array<std::string_view, 5> prefixes{"p", "n", "u", "m", ""};
  const auto count = t.count();
  if (count == 0) return "0 us";
  // Below a nanosecond there is nothing behind the point, and from 1000 s on there is no larger unit.
  if (count > -1000 && count < 1000) return std::to_string(count) + " ps";
  constexpr std::int64_t second = 1'000'000'000'000;
  if (count >= 1000 * second || count <= -1000 * second) return std::to_string(count / second) + " s";
  return with_prefix(static_cast<double>(count), "s", prefixes, 3, true);
}

std::string format_quantity(Bytes bytes) {
  const std::int64_t count = bytes.value();
  if (count < 0) {
    if (count == std::numeric_limits<std::int64_t>::min()) return in_si(static_cast<double>(count), "B");
    return "-" + format_quantity(-bytes);
  }
  // "141 GB" was surely meant so; "128 MiB" too, though it is 134.2 MB.
  std::int64_t decimal = count;
  while (decimal >= 1000 && decimal % 1000 == 0) decimal /= 1000;
  if (decimal >= 1000) {
    constexpr std::array<std::string_view, 4> names{" KiB", " MiB", " GiB", " TiB"};
    for (std::size_t i = names.size(); i-- > 0;) {
      const std::int64_t unit = std::int64_t{1} << (10 * (i + 1));
      if (count % unit == 0 && count / unit < 10'000)
        return std::to_string(count / unit) + std::string(names[i]);
    }
  }
  return in_si(static_cast<double>(count), "B");
}

std::string format_quantity(BytesPerSecond value) {
  return in_si(value.value(), "B/s");
}
std::string format_quantity(Flops value) {
  return in_si(value.value(), "FLOP");
}
std::string format_quantity(FlopsPerSecond value) {
  return in_si(value.value(), "FLOP/s");
}
std::string format_quantity(Hertz value) {
  return in_si(value.value(), "Hz");
}

std::string format_quantity(Watts value) {
  return format_quantity(value.value()) + " W";
}
std::string format_quantity(JoulesPerFlop value) {
  return format_quantity(value.value() * 1e12) + " pJ/FLOP";
}
std::string format_quantity(JoulesPerByte value) {
  return format_quantity(value.value() * 1e12) + " pJ/B";
}
std::string format_quantity(Ratio value) {
  constexpr std::array<std::string_view, 1> none{""};
  return with_prefix(value.value() * 100, "%", none, 4, false);
}

std::string format_quantity(std::int64_t value) {
  return std::to_string(value);
}

std::string format_quantity(double value) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

}  // namespace gpusim
