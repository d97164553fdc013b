// SPDX-License-Identifier: Apache-2.0
// From the bytes of a file to JSON text, and what can be done about text that is not quite JSON.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim::trace_text {

/// Zero bytes that the JSON reader may touch after the end of a text.
inline constexpr std::size_t padding = 128;

/// A text with `padding` zero bytes behind it. Not a std::string: that would fill its memory before it is
/// read into.
struct Padded {
  std::unique_ptr<char[]> bytes;
  std::size_t capacity = 0;
  std::size_t offset = 0;  ///< Of the text in `bytes`; a byte order mark lies before it.
  std::size_t size = 0;    ///< Of the text.
  std::string_view view() const { return {bytes.get() + offset, size}; }
};

Padded pad(std::string_view text);

/// The file's bytes. Throws TraceError for what cannot be read or exceeds the limit.
Padded read_file(const std::string& path, const TraceLimits& limits);

/// `bytes` itself, or what it expands to if it is gzip data (several members and zero bytes behind them are
/// fine); a byte order mark is skipped.
Padded expand(Padded bytes, const std::string& path, const TraceLimits& limits);

/// Whether some backslash starts no JSON escape. Such text is no JSON even where nobody looks at the string.
bool has_bad_backslash(std::string_view text);

/// Bytes that are no UTF-8 replaced by U+FFFD, one for each maximal piece, as Python's decoder does.
std::string replace_invalid_utf8(std::string_view text);

/// Each backslash that starts no JSON escape, doubled. A valid pair is taken whole.
std::string double_backslashes(std::string_view text);

/// Control characters inside strings written as escapes.
std::string escape_controls(std::string_view text);

/// What a strict JSON scanner, lenient only towards control characters, NaN and Infinity, finds at `pos`.
struct Scan {
  std::size_t end = 0;          ///< Behind the value; or where it went wrong.
  const char* error = nullptr;  ///< What was expected there.
  bool too_deep = false;        ///< The error is that of the limit.
  bool ok() const { return error == nullptr; }
};
Scan scan_value(std::string_view text, std::size_t pos, int depth);

/// The first thing wrong with the text as one JSON value.
Scan first_error(std::string_view text, int depth);

/// The whole events of a list of events that is cut off or broken in places.
struct Salvage {
  bool found = false;         ///< There is a list of events at all.
  bool closed = false;        ///< The list has an end, and what follows it looks like the end of a trace.
  std::string complete;       ///< What stands before the list, the whole events, and what follows.
  std::string without_tail;   ///< The same with closing brackets instead of what follows.
  std::string events_alone;   ///< {"traceEvents": [...]}
  std::uint64_t lost = 0;     ///< Bytes that belong to no whole event.
  std::uint64_t lost_at = 0;  ///< The first of them.
  bool resumed = false;       ///< Whole events follow some of them.
};
Salvage salvage_events(std::string_view text, int depth);

/// Line and column of a byte.
TraceError::Place place_of(std::string_view text, std::size_t byte);

}  // namespace gpusim::trace_text
