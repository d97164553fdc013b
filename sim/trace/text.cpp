// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "sim/trace/gzip.hpp"

namespace gpusim::trace_text {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

/// Length of the JSON escape at `pos`, where a backslash stands; 0: none.
std::size_t escape_length(std::string_view text, std::size_t pos) {
  if (pos + 1 >= text.size()) return 0;
  switch (text[pos + 1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return 2;
    case 'u':
      if (pos + 6 > text.size()) return 0;
      for (std::size_t i = pos + 2; i < pos + 6; ++i) {
        if (!is_hex(text[i])) return 0;
      }
      return 6;
    default:
      return 0;
  }
}

/// Length of the UTF-8 sequence at `pos` and whether it is whole; of a broken one, its maximal piece.
std::pair<std::size_t, bool> utf8_sequence(std::string_view text, std::size_t pos) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(pos);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {1, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (pos + i >= text.size() || at(pos + i) < low || at(pos + i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

class Scanner {
 public:
  Scanner(std::string_view text, int depth) : text_(text), depth_(depth) {}

  Scan value(std::size_t pos, int depth = 0) {
    if (pos >= text_.size()) return {pos, "a value was expected"};
    switch (text_[pos]) {
      case '{':
        return object(pos, depth);
      case '[':
        return array(pos, depth);
      case '"':
        return string(pos);
      default:
        break;
    }
    for (std::string_view word : {"null", "true", "false", "NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(pos, word.size()) == word) return {pos + word.size()};
    }
    return number(pos);
  }

  std::size_t skip_space(std::size_t pos) const {
    while (pos < text_.size() && is_json_space(text_[pos])) ++pos;
    return pos;
  }

 private:
  Scan object(std::size_t pos, int depth) {
    if (depth >= depth_) return {pos, "values are nested deeper than the limit trace_depth", true};
    pos = skip_space(pos + 1);
    if (at(pos) == '}') return {pos + 1};
    while (true) {
      if (at(pos) != '"') return {pos, "a key in double quotes was expected"};
      Scan part = string(pos);
      if (!part.ok()) return part;
      pos = skip_space(part.end);
      if (at(pos) != ':') return {pos, "':' was expected"};
      part = value(skip_space(pos + 1), depth + 1);
      if (!part.ok()) return part;
      pos = skip_space(part.end);
      if (at(pos) == '}') return {pos + 1};
      if (at(pos) != ',') return {pos, "',' or '}' was expected"};
      pos = skip_space(pos + 1);
    }
  }

  Scan array(std::size_t pos, int depth) {
    if (depth >= depth_) return {pos, "values are nested deeper than the limit trace_depth", true};
    pos = skip_space(pos + 1);
    if (at(pos) == ']') return {pos + 1};
    while (true) {
      const Scan part = value(pos, depth + 1);
      if (!part.ok()) return part;
      pos = skip_space(part.end);
      if (at(pos) == ']') return {pos + 1};
      if (at(pos) != ',') return {pos, "',' or ']' was expected"};
      pos = skip_space(pos + 1);
    }
  }

  Scan string(std::size_t pos) const {
    const std::size_t start = pos++;
    while (pos < text_.size()) {
      if (text_[pos] == '"') return {pos + 1};
      if (text_[pos] == '\\') {
        const std::size_t length = escape_length(text_, pos);
        if (length == 0) return {pos, "this backslash starts no escape"};
        pos += length;
      } else {
        ++pos;
      }
    }
    return {start, "this string has no end"};
  }

  Scan number(std::size_t pos) const {
    const std::size_t start = pos;
    if (at(pos) == '-') ++pos;
    if (!is_digit(at(pos))) return {start, "a value was expected"};
    if (at(pos) == '0') {
      ++pos;
    } else {
      while (is_digit(at(pos))) ++pos;
    }
    if (at(pos) == '.' && is_digit(at(pos + 1))) {
      ++pos;
      while (is_digit(at(pos))) ++pos;
    }
    if (at(pos) == 'e' || at(pos) == 'E') {
      std::size_t digits = pos + 1;
      if (at(digits) == '-' || at(digits) == '+') ++digits;
      if (is_digit(at(digits))) {
        pos = digits;
        while (is_digit(at(pos))) ++pos;
      }
    }
    return {pos};
  }

  char at(std::size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }

  std::string_view text_;
  int depth_;
};

/// Behind the '[' that opens the events; npos: there is none.
std::size_t find_events(std::string_view text) {
  constexpr std::string_view key = "\"traceEvents\"";
  const auto skip = [&](std::size_t pos) {
    while (pos < text.size() && is_space(text[pos])) ++pos;
    return pos;
  };
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    std::size_t pos = skip(at + key.size());
    if (pos >= text.size() || text[pos] != ':') continue;
    pos = skip(pos + 1);
    if (pos < text.size() && text[pos] == '[') return pos + 1;
  }
  const std::size_t first = skip(0);
  if (first < text.size() && text[first] == '[') return first + 1;
  return std::string_view::npos;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Padded with_capacity(std::uint64_t size) {
  Padded result;
  result.capacity = static_cast<std::size_t>(size) + padding;
  result.bytes = std::make_unique_for_overwrite<char[]>(result.capacity);
  return result;
}

std::size_t room_of(const Padded& text) {
  return text.capacity - padding - text.size;
}

/// Makes room for more input, at most to `limit` plus one byte (which tells that the limit is passed).
void grow(Padded& text, std::uint64_t limit) {
  const std::uint64_t wanted = std::max<std::uint64_t>(std::uint64_t{text.size} * 2, std::uint64_t{1} << 16);
  Padded larger = with_capacity(std::min(wanted, limit + 1));
  std::memcpy(larger.bytes.get(), text.bytes.get(), text.size);
  larger.size = text.size;
  text = std::move(larger);
}

void clear_padding(Padded& text) {
  std::memset(text.bytes.get() + text.offset + text.size, 0, padding);
}

}  // namespace

Padded pad(std::string_view text) {
  Padded result = with_capacity(text.size());
  std::copy(text.begin(), text.end(), result.bytes.get());
  result.size = text.size();
  clear_padding(result);
  return result;
}

Padded read_file(const std::string& path, const TraceLimits& limits) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw TraceError(path, {}, "is a directory, not a trace");
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file)
    throw TraceError(path, {}, fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  const auto too_large = [&] {
    return TraceError(path, {},
                      fmt::format("is larger than the limit trace_file_bytes = {}", limits.file_bytes));
  };
  const std::uintmax_t stated = std::filesystem::file_size(path, error);
  if (!error && stated > limits.file_bytes) throw too_large();
  // Pipes state no size; one byte more than stated lets the end of the file be seen without growing.
  Padded result = with_capacity(error ? std::uint64_t{1} << 16 : std::uint64_t{stated} + 1);
  while (true) {
    const std::size_t room = room_of(result);
    const std::size_t got = std::fread(result.bytes.get() + result.size, 1, room, file.get());
    result.size += got;
    if (result.size > limits.file_bytes) throw too_large();
    if (got < room) break;
    grow(result, limits.file_bytes);
  }
  if (std::ferror(file.get())) throw TraceError(path, {}, "cannot be read to its end");
  clear_padding(result);
  return result;
}

Padded expand(Padded bytes, const std::string& path, const TraceLimits& limits) {
  const bool whole_is_less = limits.whole_bytes < limits.expanded_bytes;
  const TextLimit text_limit = whole_is_less ? TextLimit{"trace_whole_bytes", limits.whole_bytes}
                                             : TextLimit{"trace_text_bytes", limits.expanded_bytes};
  const std::string_view packed = bytes.view();
  if (packed.starts_with("\x1f\x8b")) {
    // The last four bytes of a gzip file tell its text's size; a guess that saves copying, no more.
    std::uint64_t guess = std::uint64_t{packed.size()} * 8;
    if (packed.size() >= 18) {
      std::uint64_t stated = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        stated |= std::uint64_t{static_cast<unsigned char>(packed[packed.size() - 4 + i])} << (8 * i);
      }
      if (stated < std::uint64_t{packed.size()} * 64) guess = stated;
    }
    Padded text = with_capacity(std::min(guess, text_limit.bytes) + 1);

    Unpacker unpacker(path, limits, text_limit);
    for (std::size_t used = 0; used < packed.size();) {
      if (room_of(text) == 0) grow(text, text_limit.bytes);
      const Unpacker::Step step =
          unpacker.unpack(packed.substr(used), text.bytes.get() + text.size, room_of(text));
      used += step.used;
      text.size += step.made;
    }
    // The last of the text may not have fitted when the last of the data was taken.
    while (true) {
      if (room_of(text) == 0) grow(text, text_limit.bytes);
      const std::size_t made = unpacker.unpack({}, text.bytes.get() + text.size, room_of(text)).made;
      if (made == 0) break;
      text.size += made;
    }
    unpacker.finish();
    clear_padding(text);
    bytes = std::move(text);
  }
  if (bytes.size > text_limit.bytes) throw text_limit.error(path, {});
  if (bytes.view().starts_with(byte_order_mark)) {
    bytes.offset += byte_order_mark.size();
    bytes.size -= byte_order_mark.size();
  }
  return bytes;
}

bool has_bad_backslash(std::string_view text) {
  for (std::size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at)) {
    const std::size_t length = escape_length(text, at);
    if (length == 0) return true;
    at += length;
  }
  return false;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size() + padding);
  for (std::size_t pos = 0; pos < text.size();) {
    const auto [length, whole] = utf8_sequence(text, pos);
    result += whole ? text.substr(pos, length) : replacement;
    pos += length;
  }
  return result;
}

std::string double_backslashes(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 64 + padding);
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = std::min(text.find('\\', pos), text.size());
    result += text.substr(pos, at - pos);
    pos = at;
    if (pos == text.size()) break;
    const std::size_t length = escape_length(text, pos);
    if (length == 0) {
      result += "\\\\";
      ++pos;
    } else {
      result += text.substr(pos, length);
      pos += length;
    }
  }
  return result;
}

std::string escape_controls(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 64 + padding);
  bool in_string = false;
  for (std::size_t pos = 0; pos < text.size(); ++pos) {
    const char c = text[pos];
    if (!in_string) {
      in_string = c == '"';
    } else if (c == '"') {
      in_string = false;
    } else if (c == '\\' && pos + 1 < text.size()) {
      result += c;
      ++pos;
      result += text[pos];
      continue;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      continue;
    }
    result += c;
  }
  return result;
}

Scan scan_value(std::string_view text, std::size_t pos, int depth) {
  return Scanner(text, depth).value(pos);
}

Scan first_error(std::string_view text, int depth) {
  Scanner scanner(text, depth);
  const Scan scan = scanner.value(scanner.skip_space(0));
  if (!scan.ok()) return scan;
  const std::size_t end = scanner.skip_space(scan.end);
  if (end < text.size()) return {end, "there is more text after the JSON value"};
  return scan;
}

namespace {

/// Whether the list of events ends at `pos`, where a closing bracket stands.
bool ends_list(std::string_view text, std::size_t pos) {
  const auto skip = [&](std::size_t at) {
    while (at < text.size() && is_space(text[at])) ++at;
    return at;
  };
  const std::size_t next = skip(pos + 1);
  if (next == text.size() || text[next] == '}') return true;
  if (text[next] != ',') return false;
  const std::size_t key = skip(next + 1);
  return key < text.size() && text[key] == '"';
}

/// Looks for events behind damage.
class Resumption {
 public:
  Resumption(std::string_view text, int depth)
      : text_(text), depth_(depth), budget_(16 * text.size() + reach) {}

  /// Where the next whole event begins, from `pos` on; npos: nowhere, or not found with reasonable effort.
  std::size_t next_event(std::size_t pos) {
    while (budget_ > 0) {
      pos = text_.find('{', pos);
      if (pos == std::string_view::npos) return pos;
      const std::string_view near = text_.substr(0, pos + reach);
      const Scan scan = scan_value(near, pos, depth_);
      budget_ -= std::min<std::uint64_t>(budget_, std::max(scan.end, pos + 1) - pos);
      // Events have a phase; their args do not. What is inside of an event is not one by itself.
      if (scan.ok()) {
        const std::string_view object = text_.substr(pos, scan.end - pos);
        if (object.find("\"ph\"") != std::string_view::npos && !is_inside(object)) return pos;
      }
      ++pos;
    }
    return std::string_view::npos;
  }

 private:
  /// Whether `object` begins with a list or an object rather than being one event: its "ph" is further
  /// inside.
  static bool is_inside(std::string_view object) {
    const std::size_t inner = object.find_first_of("{[", 1);
    return inner < object.find("\"ph\"");
  }

  static constexpr std::size_t reach = std::size_t{1} << 20;
  std::string_view text_;
  int depth_;
  std::uint64_t budget_;
};

}  // namespace

Salvage salvage_events(std::string_view text, int depth) {
  Salvage result;
  const std::size_t start = find_events(text);
  if (start == std::string_view::npos) return result;
  result.found = true;
  std::string events;
  Resumption resumption(text, depth);
  std::size_t pos = start;
  while (true) {
    while (pos < text.size() && (is_space(text[pos]) || text[pos] == ',')) ++pos;
    if (pos == text.size()) break;
    if (text[pos] == ']' && ends_list(text, pos)) {
      result.closed = true;
      break;
    }
    const Scan scan = scan_value(text, pos, depth);
    if (scan.ok()) {
      if (!events.empty()) events += ',';
      events += text.substr(pos, scan.end - pos);
      pos = scan.end;
      if (result.lost > 0) result.resumed = true;
      continue;
    }
    if (result.lost == 0) result.lost_at = pos;
    const std::size_t next = std::min(resumption.next_event(pos + 1), text.size());
    result.lost += next - pos;
    pos = next;
  }
  events = escape_controls(events);
  const std::string before = escape_controls(text.substr(0, start));
  const bool list = before.find('{') == std::string::npos;
  result.without_tail = before + events + (list ? "]" : "]}");
  result.complete = result.closed ? before + events + escape_controls(text.substr(pos)) : result.without_tail;
  result.events_alone = "{\"traceEvents\":[" + events + "]}";
  return result;
}

TraceError::Place place_of(std::string_view text, std::size_t byte) {
  byte = std::min(byte, text.size());
  const std::string_view before = text.substr(0, byte);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {byte, static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n')) + 1,
          byte - line_start + 1};
}

}  // namespace gpusim::trace_text
