// SPDX-License-Identifier: Apache-2.0
// JSON values as they stand in a text, and what a trace means by them. Writers of traces are careless: a
// number may stand in quotes, an id in a truth value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/trace/clock.hpp"

namespace gpusim::trace_json {

/// A JSON value as it stands in the text.
struct Raw {
  enum class Kind : std::uint8_t { Absent, String, Number, Word, Array, Object };
  Kind kind = Kind::Absent;
  std::string_view text;  ///< Of a string: between the quotes, escapes not resolved.

  bool present() const { return kind != Kind::Absent; }
  bool is_string(std::string_view value) const { return kind == Kind::String && text == value; }
};

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
/// Whether `text` is a number as JSON writes it.
bool is_json_number(std::string_view text);
/// A whole number from a number, text or truth value. Fractions are cut off. Ids above 2^63 wrap: they stay
/// distinct.
std::optional<std::int64_t> whole(const Raw& raw);
/// A time stamp or duration; nothing if it is neither a number nor one in quotes.
std::optional<TraceClock> clock(const Raw& raw);
/// The text between the quotes of a JSON string, its escapes resolved.
std::string unescape(std::string_view text);

}  // namespace gpusim::trace_json
