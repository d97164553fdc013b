// SPDX-License-Identifier: Apache-2.0
// Reads traces window by window. What stands around the events is scanned, so that the pieces handed to the
// JSON reader begin and end where values do.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/trace/event_reader.hpp"
#include "sim/trace/event_tables.hpp"
#include "sim/trace/text.hpp"
#include "sim/trace/text_source.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {
namespace {

using trace_text::Padded;
using trace_text::TextSource;
using trace_text::TextWindow;

/// Of the text read at a time: it and what is made of it stay in the processor's caches.
constexpr std::size_t window_size = std::size_t{1} << 18;

bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// One attempt to read a text as a trace.
class Reader {
 public:
  /// `whole`: the text that `source` gives, if it is known as a whole. Only then errors have a place in it.
  Reader(TextSource& source, std::string_view whole, const std::string& path, const TraceLimits& limits)
      : window_(source, window_size),
        source_(source),
        whole_(whole),
        path_(path),
        limits_(limits),
        events_(tables_, limits.depth) {}

  void tell(const TraceProgress& progress, std::uint64_t size) {
    progress_ = progress;
    size_ = size;
  }

  /// Nothing where the text is not valid JSON.
  std::optional<Trace> read() {
    if (!read_document()) {
      const std::optional<std::uint64_t> too_deep = too_deep_ ? too_deep_ : events_.too_deep();
      if (too_deep && !whole_.empty()) {
        throw error(*too_deep,
                    fmt::format("values are nested deeper than the limit trace_depth = {}", limits_.depth));
      }
      return std::nullopt;
    }
    try {
      Trace trace = tables_.finish();
      if (!found_events_) trace.repairs.emplace_back("no traceEvents");
      return trace;
    } catch (const TimesTooFarApart& times) {
      if (whole_.empty()) return std::nullopt;
      throw error(times.offset,
                  "GPU ops and calls start more than 53 days apart; this time cannot be right, or another is "
                  "wrong");
    }
  }

 private:
  TraceError error(std::uint64_t offset, const std::string& message) const {
    return TraceError(path_, trace_text::place_of(whole_, static_cast<std::size_t>(offset)), message);
  }

  bool read_document() {
    if (window_.more() && window_.text().starts_with("\xef\xbb\xbf")) window_.drop(3);
    if (!next()) return false;
    if (window_.text()[0] == '[') {
      window_.drop(1);
      found_events_ = true;
      if (!read_events()) return false;
    } else if (window_.text()[0] == '{') {
      window_.drop(1);
      if (!read_members()) return false;
    } else {
      return false;
    }
    return !next();  // Whatever follows the value makes the text invalid.
  }

  /// Goes to the next character that is no white space; false if there is none.
  bool next() {
    while (true) {
      const std::string_view text = window_.text();
      std::size_t spaces = 0;
      while (spaces < text.size() && is_json_space(text[spaces])) ++spaces;
      window_.drop(spaces);
      if (spaces < text.size()) return true;
      if (!take_more()) return false;
    }
  }

  bool take_more() {
    const bool more = window_.more();
    if (progress_) progress_(source_.taken(), size_);
    return more;
  }

  /// The list of events behind its opening bracket, up to behind the closing one.
  bool read_events() {
    if (!next()) return false;
    if (window_.text()[0] == ']') {
      window_.drop(1);
      return true;
    }
    while (true) {  // The window begins with an event.
      const EventReader::Piece piece = read_piece();
      window_.drop(piece.end);
      if (piece.closed) return true;
      if (piece.end == 0) {
        const bool hopeless = whole_.empty() && window_.text().size() > event_size_max;
        if (events_.too_deep() || hopeless || !take_more()) return false;
        continue;
      }
      make_room();
      if (!next()) return false;
      const char behind = window_.text()[0];
      window_.drop(1);
      if (behind == ']') return true;
      if (behind != ',' || !next() || window_.text()[0] == ']') return false;
      // What the window still has is less than the next piece, or not whole.
      if (!piece_may_be_whole()) take_more();
    }
  }

  bool piece_may_be_whole() const { return window_.text().size() > window_size / 2; }

  EventReader::Piece read_piece() {
    const std::string_view text = window_.text();
    if (window_.at_end()) return events_.read_events(window_.begin(), text.size(), window_.offset());
    // Cut where an event may end. A brace inside a string leaves that string open: then an earlier one.
    std::size_t cut = text.rfind('}');
    for (int tries = 0; cut != std::string_view::npos && tries < 8; ++tries) {
      const EventReader::Piece piece = events_.read_events(window_.begin(), cut + 1, window_.offset());
      if (piece.end > 0 || events_.too_deep()) return piece;
      if (cut == 0) break;
      cut = text.rfind('}', cut - 1);
    }
    return {};
  }

  /// As many entries as are to be expected by the end, from those of the first part of the file.
  void make_room() {
    if (size_ == 0 || source_.taken() < next_estimate_ || source_.taken() == 0) return;
    next_estimate_ = source_.taken() * 4;
    tables_.expect(1.05 * static_cast<double>(size_) / static_cast<double>(source_.taken()));
  }

  /// The members of the trace's object behind its opening brace, up to behind the closing one.
  bool read_members() {
    if (!next()) return false;
    if (window_.text()[0] == '}') {
      window_.drop(1);
      return true;
    }
    while (true) {  // The window begins with a key.
      if (!read_member() || !next()) return false;
      const char behind = window_.text()[0];
      window_.drop(1);
      if (behind == '}') return true;
      if (behind != ',' || !next()) return false;
    }
  }

  bool read_member() {
    while (true) {
      const std::string_view text = window_.text();
      const trace_text::Scan key = trace_text::scan_value(text, 0, limits_.depth);
      std::size_t at = key.end;
      const auto skip = [&] {
        while (at < text.size() && is_json_space(text[at])) ++at;
      };
      if (text[0] != '"') return false;
      if (key.ok()) {
        skip();
        if (at < text.size() && text[at] != ':') return false;
        ++at;
        skip();
        if (at < text.size()) {
          const std::string name = trace_json::unescape(text.substr(1, key.end - 2));
          if (name == "traceEvents") {
            found_events_ = true;
            tables_.clear();  // Of two keys of one name, the last one counts.
            if (text[at] == '[') {
              window_.drop(at + 1);
              return read_events();
            }
          }
          const trace_text::Scan value = trace_text::scan_value(text, at, limits_.depth);
          if (value.ok() && (value.end < text.size() || window_.at_end())) {
            const Padded object = trace_text::pad(fmt::format("{{{}}}", text.substr(0, value.end)));
            const std::uint64_t offset = window_.offset() - 1;
            window_.drop(value.end);
            return events_.read_member(object.view().data(), object.size, offset);
          }
          if (value.too_deep) {
            too_deep_ = window_.offset() + value.end;
            return false;
          }
        }
      }
      if (!take_more()) return false;
    }
  }

  /// No event is that large. A text of which more cannot be read is damaged.
  static constexpr std::size_t event_size_max = std::size_t{64} << 20;

  TextWindow window_;
  TextSource& source_;
  const std::string_view whole_;
  const std::string& path_;
  const TraceLimits& limits_;
  EventTables tables_;
  EventReader events_;
  std::optional<std::uint64_t> too_deep_;
  bool found_events_ = false;
  TraceProgress progress_;
  std::uint64_t size_ = 0;  ///< Of the file; 0: unknown.
  std::uint64_t next_estimate_ = std::uint64_t{4} << 20;
};

Trace read_text(Padded text, const std::string& path, const TraceLimits& limits) {
  std::vector<std::string> repairs;
  const auto attempt = [&](const Padded& candidate) {
    const std::unique_ptr<TextSource> source = trace_text::text_in_memory(candidate.view());
    std::optional<Trace> trace = Reader(*source, candidate.view(), path, limits).read();
    if (trace) {
      trace->file = path;
      trace->repairs.insert(trace->repairs.begin(), repairs.begin(), repairs.end());
    }
    return trace;
  };
  if (std::optional<Trace> trace = attempt(text)) return *std::move(trace);

  if (!simdjson::validate_utf8(text.view().data(), text.size)) {
    repairs.emplace_back("invalid utf-8");
    text = trace_text::pad(trace_text::replace_invalid_utf8(text.view()));
    if (std::optional<Trace> trace = attempt(text)) return *std::move(trace);
  }
  std::vector<std::string> before = repairs;
  if (trace_text::has_bad_backslash(text.view())) {
    repairs.emplace_back("unescaped backslash");
    text = trace_text::pad(trace_text::double_backslashes(text.view()));
  } else {
    repairs.emplace_back("control character");
  }
  if (std::optional<Trace> trace = attempt(trace_text::pad(trace_text::escape_controls(text.view())))) {
    return *std::move(trace);
  }
  if (repairs.back() == "control character") repairs = std::move(before);

  const trace_text::Salvage salvage = trace_text::salvage_events(text.view(), limits.depth);
  if (!salvage.found) {
    const trace_text::Scan scan = trace_text::first_error(text.view(), limits.depth);
    const bool whole = scan.ok();
    throw TraceError(
        path, trace_text::place_of(text.view(), whole ? 0 : scan.end),
        whole ? "not a trace: an object or a list of events was expected"
              : fmt::format("not a trace, neither valid JSON nor a list of events: {}", scan.error));
  }
  if (salvage.resumed) repairs.emplace_back("damaged events left out");
  if (!salvage.resumed || !salvage.closed) repairs.emplace_back("truncated");
  for (const std::string* candidate : {&salvage.complete, &salvage.without_tail, &salvage.events_alone}) {
    if (std::optional<Trace> trace = attempt(trace_text::pad(*candidate))) {
      trace->text_bytes = text.size;
      trace->lost_bytes = salvage.lost;
      trace->lost_at = salvage.lost_at;
      return *std::move(trace);
    }
  }
  const trace_text::Scan scan = trace_text::first_error(text.view(), limits.depth);
  throw TraceError(path, trace_text::place_of(text.view(), scan.end),
                   fmt::format("not a trace: {}", scan.ok() ? "it cannot be read" : scan.error));
}

std::string compose(const std::string& path, const TraceError::Place& place, const std::string& message) {
  if (place.line > 0) {
    return fmt::format("{}:{}:{}: error: {} (byte {})", path, place.line, place.column, message, place.byte);
  }
  if (place.byte != TraceError::nowhere)
    return fmt::format("{}: error: {} (byte {})", path, message, place.byte);
  return fmt::format("{}: error: {}", path, message);
}

}  // namespace

TraceError::TraceError(std::string path, Place place, const std::string& message)
    : std::runtime_error(compose(path, place, message)),
      path_(std::move(path)),
      place_(place),
      message_(message) {}

Trace read_trace(const std::string& path, const TraceLimits& limits, const TraceProgress& progress) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw TraceError(path, {}, "is a directory, not a trace");
  if (const std::unique_ptr<TextSource> source = trace_text::text_of_file(path, limits)) {
    Reader reader(*source, {}, path, limits);
    reader.tell(progress, std::filesystem::file_size(path, ignored));
    if (std::optional<Trace> trace = reader.read()) {
      trace->file = path;
      return *std::move(trace);
    }
  }
  return read_text(trace_text::expand(trace_text::read_file(path, limits), path, limits), path, limits);
}

Trace read_trace_bytes(std::string_view bytes, const std::string& name, const TraceLimits& limits) {
  if (bytes.size() > limits.file_bytes) {
    throw TraceError(name, {},
                     fmt::format("is larger than the limit trace_file_bytes = {}", limits.file_bytes));
  }
  return read_text(trace_text::expand(trace_text::pad(bytes), name, limits), name, limits);
}

}  // namespace gpusim
