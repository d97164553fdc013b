// SPDX-License-Identifier: Apache-2.0
// A piece of a trace's JSON text into tables. Every value is visited, also those that nobody needs: only then
// is a text known to be JSON, and a broken one gets the same repairs as in any other reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "sim/trace/event_tables.hpp"

namespace gpusim {

class EventReader {
 public:
  EventReader(EventTables& tables, int depth_max);
  ~EventReader();

  /// What became of a piece of the list of events.
  struct Piece {
    std::size_t end = 0;  ///< Behind the last event that was whole, or behind the list's bracket.
    bool closed = false;  ///< The list ends within the piece.
  };

  /// Reads events from a text that begins with one. It is written to: the byte before it and the one behind
  /// it must be there, and are as before afterwards; trace_text::padding bytes more may be read. `offset`: of
  /// the text in the whole. Stops at the first event that is not whole.
  Piece read_events(char* text, std::size_t size, std::uint64_t offset);

  /// Reads an object with a member of the trace other than its events. False where it is not valid JSON.
  /// trace_text::padding bytes behind the text may be read.
  bool read_member(const char* text, std::size_t size, std::uint64_t offset);

  /// Where values are nested too deep; reading has stopped there.
  std::optional<std::uint64_t> too_deep() const { return too_deep_; }

 private:
  class Parser;
  EventTables& tables_;
  const int depth_max_;
  std::optional<std::uint64_t> too_deep_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace gpusim
