// SPDX-License-Identifier: Apache-2.0
#include "sim/report/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gpusim::report {
namespace {

constexpr std::int64_t ps_per_us = 1'000'000;

/// `count` / `unit` with `decimals` decimals, rounded half away from zero in integers.
std::string scaled(std::int64_t count, std::int64_t unit, int decimals) {
  std::int64_t power = 1;
  for (int i = 0; i < decimals; ++i) power *= 10;
  const std::int64_t step = unit / power;  // units are powers of ten with more digits than decimals
  const std::uint64_t magnitude =
      count < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  const std::uint64_t steps =
      (magnitude + static_cast<std::uint64_t>(step) / 2) / static_cast<std::uint64_t>(step);
  const auto whole = steps / static_cast<std::uint64_t>(power);
  const auto fraction = steps % static_cast<std::uint64_t>(power);
  std::string text = count < 0 && steps > 0 ? "-" : "";
  text += decimals ? fmt::format("{}.{:0{}}", whole, fraction, decimals) : fmt::format("{}", whole);
  return text;
}

/// Length of the valid UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, beyond U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

/// Start of each column of `text`, and its end. A byte that is no UTF-8 takes one column.
std::vector<std::size_t> columns(std::string_view text) {
  std::vector<std::size_t> starts;
  std::size_t at = 0;
  while (at < text.size()) {
    starts.push_back(at);
    const std::size_t length = utf8_length(text.substr(at));
    at += length ? length : 1;
  }
  starts.push_back(at);
  return starts;
}

/// Whether `word` is the unit of a number before it: "%", "us,", "GiB.".
bool is_unit(std::string_view word) {
  while (!word.empty() && std::string_view(".,:;)").find(word.back()) != std::string_view::npos)
    word.remove_suffix(1);
  for (const std::string_view unit : {"%", "ps", "ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB"})
    if (word == unit) return true;
  return false;
}

/// Of a text, each number together with its unit.
std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \n", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const bool after_number = !out.empty() && out.back().back() >= '0' && out.back().back() <= '9';
    if (after_number && is_unit(word)) {
      const auto number_begin = static_cast<std::size_t>(out.back().data() - text.data());
      out.back() = text.substr(number_begin, end - number_begin);
    } else {
      out.push_back(word);
    }
    at = end;
  }
  return out;
}

}  // namespace

std::string exact_microseconds(Picoseconds time, int decimals_min) {
  const std::int64_t count = time.count();
  const std::uint64_t magnitude =
      count < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  std::string text =
      fmt::format("{}{}.{:06}", count < 0 ? "-" : "", magnitude / ps_per_us, magnitude % ps_per_us);
  for (int extra = 6 - decimals_min; extra > 0 && text.back() == '0'; --extra) text.pop_back();
  return text;
}

std::string exact_number(double value) {
  if (!std::isfinite(value)) return "null";
  // Whole numbers below 2^53 print in full: shortest text would be "5.41e+08".
  if (value == std::floor(value) && std::abs(value) < 9e15) return fmt::format("{:.1f}", value);
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string time_text(Picoseconds time) {
  const std::int64_t count = time.count();
  const std::int64_t magnitude = std::abs(count);
  if (magnitude == 0) return "0 us";
  if (magnitude < ps_per_us) return scaled(count, 1'000, magnitude < 10'000 ? 2 : 0) + " ns";
  if (magnitude < 10'000 * ps_per_us) return scaled(count, ps_per_us, 2) + " us";
  if (magnitude < 10'000'000 * ps_per_us) return scaled(count, 1'000 * ps_per_us, 3) + " ms";
  return scaled(count, 1'000'000 * ps_per_us, 3) + " s";
}

std::string time_text(Picoseconds time, Picoseconds largest) {
  const std::int64_t magnitude = std::abs(time.count());
  const bool largest_in_ms = std::abs(largest.count()) >= 10'000 * ps_per_us;
  if (largest_in_ms && magnitude >= 100 * ps_per_us && magnitude < 10'000 * ps_per_us)
    return scaled(time.count(), 1'000 * ps_per_us, 3) + " ms";
  return time_text(time);
}

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return bytes == std::floor(bytes) ? fmt::format("{:.0f} {}", bytes, units[unit])
                                    : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string scaled_text(double value, std::string_view unit) {
  static constexpr std::array<const char*, 7> prefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 1000 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const int decimals = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", value, prefix == 0 && value == std::floor(value) ? 0 : decimals,
                     prefixes[prefix], unit);
}

std::string percent_text(double share) {
  const double percent = share * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  if (percent < 100 && percent >= 99.95) return ">99.9 %";
  return fmt::format("{:.1f} %", percent);
}

std::string count_text(double count) {
  return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}", count);
}

std::size_t width_of(std::string_view text) {
  return columns(text).size() - 1;
}

std::string shorten(std::string_view text, std::size_t width) {
  const std::vector<std::size_t> starts = columns(text);
  const std::size_t length = starts.size() - 1;
  if (length <= width) return std::string(text);
  if (width <= 2) return std::string(text.substr(0, starts[width]));
  const std::size_t kept = width - 2;
  const std::size_t head = (kept + 1) / 2;
  const std::size_t tail = kept - head;
  return std::string(text.substr(0, starts[head])) + ".." + std::string(text.substr(starts[length - tail]));
}

std::string kernel_label(std::string_view name) {
  std::string out;
  if (name.starts_with("void ")) name.remove_prefix(5);
  for (std::size_t at = 0; at < name.size();) {
    std::size_t skip = 0;
    for (const std::string_view noise : {"at::native::", "(anonymous namespace)::"})
      if (name.substr(at).starts_with(noise)) skip = noise.size();
    if (skip == 0) out += name[at++];
    at += skip;
  }
  return out.empty() ? std::string(name) : out;
}

std::string left(std::string_view text, std::size_t width) {
  std::string out(text);
  for (std::size_t n = width_of(text); n < width; ++n) out += ' ';
  return out;
}

std::string right(std::string_view text, std::size_t width) {
  const std::size_t used = width_of(text);
  return std::string(used < width ? width - used : 0, ' ').append(text);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const auto lead = static_cast<unsigned char>(text[at]);
    // C0, DEL, and the C1 controls that UTF-8 writes as C2 80 to C2 9F.
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0);
    if (length == 0 || control)
      out += '?';
    else
      out += text.substr(at, length);
    at += length ? length : 1;
  }
  return out;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t line_width = 0;
  const auto finish_line = [&] {
    lines.push_back(std::move(line));
    line.clear();
    line_width = 0;
  };
  for (std::string_view word : words(text)) {
    std::size_t word_width = width_of(word);
    if (!line.empty() && line_width + 1 + word_width > width) finish_line();
    while (word_width > width) {
      const std::size_t cut = columns(word)[width];
      line = word.substr(0, cut);
      finish_line();
      word.remove_prefix(cut);
      word_width -= width;
    }
    if (!line.empty()) {
      line += ' ';
      ++line_width;
    }
    line += word;
    line_width += word_width;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    const char c = text[at];
    if (length > 1)
      out += text.substr(at, length);
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
    at += length;
  }
  out += '"';
  return out;
}

}  // namespace gpusim::report
