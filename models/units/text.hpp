// SPDX-License-Identifier: Apache-2.0
// Quantities as people write and read them: "4.8 TB/s", "700 ns", "128 MiB", "5 %". Independent of the
// locale.
//
// Reading is exact: the decimal text is rounded once, to the picosecond, the byte or the nearest double. A
// unit is part of a quantity and never optional, and a bare number has none. Prefixes: k, M, G, T, P are
// powers of 1000; Ki, Mi, Gi, Ti of 1024. 'b' is refused, for it may mean bytes or bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "models/units/quantity.hpp"

namespace gpusim {

/// Why a text is not the quantity it should be, and what to write instead.
struct TextError {
  std::string what;  ///< "unknown unit 'GBs'"
  std::string hint;  ///< "write a rate such as '4.8 TB/s'", or empty

  bool operator==(const TextError&) const = default;
};

/// A value, or why there is none.
template <class T>
class Parsed {
 public:
  Parsed(T value) : result_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Parsed(TextError error) : result_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return std::holds_alternative<T>(result_); }
  const T& value() const { return std::get<T>(result_); }
  const TextError& error() const { return std::get<TextError>(result_); }

 private:
  std::variant<T, TextError> result_;
};

/// Reads a whole text as a quantity. Q is Picoseconds (ps ns us µs ms s), Bytes (B kB MB GB TB KiB MiB GiB
/// TiB), BytesPerSecond (B/s ... PB/s, KiB/s ... TiB/s, bit/s ... Tbit/s), Flops (FLOP ... PFLOP),
/// FlopsPerSecond (FLOP/s ... PFLOP/s, OP/s ... POP/s), Hertz (Hz ... THz), Watts (mW, W, kW), JoulesPerFlop
/// (pJ/FLOP), JoulesPerByte (pJ/B), Ratio (a bare number or %), std::int64_t or double (no unit). Fractions
/// of a picosecond or a byte round to the nearest; of a bare integer they are refused.
template <class Q>
Parsed<Q> parse_quantity(std::string_view text);
template <>
Parsed<Picoseconds> parse_quantity(std::string_view text);
template <>
Parsed<Bytes> parse_quantity(std::string_view text);
template <>
Parsed<BytesPerSecond> parse_quantity(std::string_view text);
template <>
Parsed<Flops> parse_quantity(std::string_view text);
template <>
Parsed<FlopsPerSecond> parse_quantity(std::string_view text);
template <>
Parsed<Hertz> parse_quantity(std::string_view text);
template <>
Parsed<Watts> parse_quantity(std::string_view text);
template <>
Parsed<JoulesPerFlop> parse_quantity(std::string_view text);
template <>
Parsed<JoulesPerByte> parse_quantity(std::string_view text);
template <>
Parsed<Ratio> parse_quantity(std::string_view text);
template <>
Parsed<std::int64_t> parse_quantity(std::string_view text);
template <>
Parsed<double> parse_quantity(std::string_view text);

/// A text as messages quote it: in single quotes, control characters escaped, a long one shortened.
std::string in_quotes(std::string_view text);

/// Short text for people. Times have three digits that count ("1.80 ms", "999 ns"), so that columns line up;
/// the rest drops trailing zeros ("4.8 TB/s"). Bytes are binary where that is exact ("128 MiB"), else decimal
/// ("141 GB").
std::string format_quantity(Picoseconds t);
std::string format_quantity(Bytes bytes);
std::string format_quantity(BytesPerSecond rate);
std::string format_quantity(Flops flops);
std::string format_quantity(FlopsPerSecond rate);
std::string format_quantity(Hertz frequency);
std::string format_quantity(Watts power);
std::string format_quantity(JoulesPerFlop energy);
std::string format_quantity(JoulesPerByte energy);
std::string format_quantity(Ratio ratio);  ///< As per cent: "5 %".
std::string format_quantity(std::int64_t number);
std::string format_quantity(double number);

}  // namespace gpusim
