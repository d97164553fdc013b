// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/json_value.hpp"

#include <charconv>

namespace gpusim::trace_json {

namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3f));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  }
}

}  // namespace

bool is_json_number(std::string_view text) {
  std::size_t i = 0;
  const auto at = [&](std::size_t k) { return k < text.size() ? text[k] : '\0'; };
  if (at(i) == '-') ++i;
  if (!is_digit(at(i))) return false;
  if (at(i) == '0') {
    ++i;
  } else {
    while (is_digit(at(i))) ++i;
  }
  if (at(i) == '.') {
    if (!is_digit(at(++i))) return false;
    while (is_digit(at(i))) ++i;
  }
  if (at(i) == 'e' || at(i) == 'E') {
    ++i;
    if (at(i) == '-' || at(i) == '+') ++i;
    if (!is_digit(at(i))) return false;
    while (is_digit(at(i))) ++i;
  }
  return i == text.size();
}

std::optional<std::int64_t> whole(const Raw& raw) {
  std::string_view text = raw.text;
  if (raw.kind == Raw::Kind::Word) {
    if (text == "true") return 1;
    if (text == "false") return 0;
    return std::nullopt;
  }
  if (raw.kind == Raw::Kind::String) {
    const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    if (text.starts_with('+') && text.size() > 1 && is_digit(text[1])) text.remove_prefix(1);
  } else if (raw.kind != Raw::Kind::Number) {
    return std::nullopt;
  }
  const char* const last = text.data() + text.size();
  std::int64_t value = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, value);
      error == std::errc() && end == last) {
    return value;
  }
  std::uint64_t large = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, large);
      error == std::errc() && end == last) {
    return static_cast<std::int64_t>(large);
  }
  double real = 0;
  if (raw.kind == Raw::Kind::Number) {
    const auto [end, error] = std::from_chars(text.data(), last, real);
    if (error == std::errc() && end == last && real > -9e18 && real < 9e18)
      return static_cast<std::int64_t>(real);
  }
  return std::nullopt;
}

std::optional<TraceClock> clock(const Raw& raw) {
  if (raw.kind == Raw::Kind::Number) return clock_from_number(raw.text);
  if (raw.kind == Raw::Kind::String) return clock_from_text(raw.text);
  return std::nullopt;
}

/// Resolves escapes that are known to be well formed. Half a surrogate pair becomes U+FFFD.
std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto hex = [&](std::size_t at) {
    std::uint32_t code = 0;
    std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
    return code;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        std::uint32_t code = hex(i + 1);
        i += 4;
        if (code >= 0xd800 && code < 0xdc00 && text.substr(i + 1, 2) == "\\u") {
          const std::uint32_t low = hex(i + 3);
          if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            i += 6;
          }
        }
        append_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
        break;
      }
      default:
        out += text[i];  // " \ /
    }
  }
  return out;
}

}  // namespace gpusim::trace_json
