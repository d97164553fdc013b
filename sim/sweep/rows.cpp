// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/rows.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sim/report/format.hpp"

namespace gpusim::sweep {
namespace {

void append_integer(std::string& out, std::int64_t number) {
  std::array<char, 24> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  out.append(buffer.data(), end.ptr);
}

/// As report::exact_microseconds(time): six decimals.
void append_microseconds(std::string& out, Picoseconds time) {
  std::array<char, 32> buffer{};
  char* at = buffer.data();
  const std::int64_t count = time.count();
  std::uint64_t magnitude =
      count < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  if (count < 0) *at++ = '-';
  at = std::to_chars(at, buffer.data() + buffer.size(), magnitude / 1'000'000).ptr;
  auto fraction = static_cast<std::uint32_t>(magnitude % 1'000'000);
  *at = '.';
  for (int i = 6; i > 0; --i) {
    at[i] = static_cast<char>('0' + fraction % 10);
    fraction /= 10;
  }
  out.append(buffer.data(), at + 7);
}

void append_csv(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

template <class T>
void append_bytes(std::string& out, char kind, const T& value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  out += kind;
  out.append(bytes.data(), bytes.size());
}

void append_cell(std::string& out, std::string_view text) {
  append_bytes(out, 't', static_cast<std::uint64_t>(text.size()));
  out += text;
}

/// A number without a unit, as it stands in JSON.
bool is_json_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  const std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
  return !leading_zero && !digits.empty() && digits.front() >= '0' && digits.front() <= '9' &&
         text.back() != '.' && text.find(".e") == std::string_view::npos &&
         text.find(".E") == std::string_view::npos;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if ((control || c == ' ') && (out.empty() || out.back() == ' ')) continue;
    out += control ? ' ' : c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::vector<std::string> Columns::all() const {
  std::vector<std::string> names{"point", "variant"};
  names.insert(names.end(), axes.begin(), axes.end());
  names.insert(names.end(), results.begin(), results.end());
  names.emplace_back("error");
  return names;
}

RowEncoder::RowEncoder(Format format, Columns columns) : format_(format), columns_(std::move(columns)) {
  const auto key = [&](const std::string& name) -> std::string {
    switch (format_) {
      case Format::Csv:
        return ",";
      case Format::JsonLines:
        return "," + report::json_string(name) + ":";
      case Format::Cells:
        break;
    }
    return "";
  };
  for (const std::string& name : columns_.axes) axis_keys_.push_back(key(name));
  for (const std::string& name : columns_.results) result_keys_.push_back(key(name));
  switch (format_) {
    case Format::Csv:
      no_error_ = ",\n";
      break;
    case Format::JsonLines:
      no_error_ = ",\"error\":null}\n";
      break;
    case Format::Cells:
      no_error_ = "n";
      break;
  }
}

std::string RowEncoder::header() const {
  std::string line;
  if (format_ != Format::Csv) return line;
  for (const std::string& name : columns_.all()) {
    if (!line.empty()) line += ',';
    append_csv(line, name);
  }
  return line + '\n';
}

void RowEncoder::add_value(std::string& out, std::string_view key, const report::Value& value) const {
  out += key;
  std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const bool cells = format_ == Format::Cells;
        if constexpr (std::is_same_v<T, std::monostate>) {
          if (cells) out += 'n';
          if (format_ == Format::JsonLines) out += "null";
        } else if constexpr (std::is_same_v<T, bool>) {
          if (cells)
            append_bytes(out, 'i', static_cast<std::int64_t>(x));
          else
            out += x ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          if (cells)
            append_bytes(out, 'i', x);
          else
            append_integer(out, x);
        } else if constexpr (std::is_same_v<T, double>) {
          if (cells)
            append_bytes(out, 'd', x);
          else
            out += report::exact_number(x);
        } else if constexpr (std::is_same_v<T, std::string>) {
          if (cells)
            append_cell(out, x);
          else if (format_ == Format::JsonLines)
            out += report::json_string(x);
          else
            append_csv(out, one_line(x));
        } else {
          if (cells)
            append_bytes(out, 'd', static_cast<double>(x.count()) / 1e6);
          else
            append_microseconds(out, x);
        }
      },
      value);
}

std::string RowEncoder::axis_cell(std::size_t axis, std::string_view value) const {
  std::string out;
  if (!is_json_number(value)) {
    add_value(out, axis_keys_[axis], std::string(value));
  } else if (format_ != Format::Cells) {
    out += axis_keys_[axis];
    out += value;
  } else {
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), whole);
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size())
      add_value(out, "", whole);
    else
      add_value(out, "", number);
  }
  return out;
}

std::string RowEncoder::variant_cell(std::string_view variant) const {
  std::string out;
  add_value(out,
            format_ == Format::Csv         ? ","
            : format_ == Format::JsonLines ? ",\"variant\":"
                                           : "",
            std::string(variant));
  return out;
}

void RowEncoder::begin(std::string& out, std::int64_t point) const {
  switch (format_) {
    case Format::Csv:
      append_integer(out, point);
      break;
    case Format::JsonLines:
      out += "{\"point\":";
      append_integer(out, point);
      break;
    case Format::Cells:
      append_bytes(out, 'i', point);
      break;
  }
}

void RowEncoder::add(std::string& out, std::size_t column, const report::Value& value) const {
  add_value(out, result_keys_[column], value);
}

void RowEncoder::add(std::string& out, std::size_t column, Picoseconds time) const {
  if (format_ == Format::Cells) {
    add_value(out, "", time);
    return;
  }
  out += result_keys_[column];
  append_microseconds(out, time);
}

void RowEncoder::end(std::string& out) const {
  out += no_error_;
}

void RowEncoder::end_with_error(std::string& out, std::string_view error) const {
  const report::Value unknown;
  for (const std::string& key : result_keys_) add_value(out, key, unknown);
  std::string text = one_line(error);
  if (text.empty()) text = "unknown error";
  add_value(out, format_ == Format::Csv ? "," : format_ == Format::JsonLines ? ",\"error\":" : "", text);
  if (format_ == Format::Csv) out += '\n';
  if (format_ == Format::JsonLines) out += "}\n";
}

std::vector<report::Value> read_cells(std::string_view& bytes, std::size_t count) {
  std::vector<report::Value> cells;
  const auto take = [&]<class T>(T into) {
    std::memcpy(&into, bytes.data(), sizeof into);
    bytes.remove_prefix(sizeof into);
    return into;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const char kind = bytes.front();
    bytes.remove_prefix(1);
    if (kind == 'i') {
      cells.emplace_back(take(std::int64_t{}));
    } else if (kind == 'd') {
      cells.emplace_back(take(double{}));
    } else if (kind == 't') {
      const auto size = take(std::uint64_t{});
      cells.emplace_back(std::string(bytes.substr(0, size)));
      bytes.remove_prefix(size);
    } else {
      cells.emplace_back();
    }
  }
  return cells;
}

}  // namespace gpusim::sweep
