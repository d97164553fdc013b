// SPDX-License-Identifier: Apache-2.0
// The JSON text of a trace, piece by piece: a whole one never has to be in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim::trace_text {

class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Puts up to `room` bytes to `into`; 0 only at the end. Throws TraceError.
  virtual std::size_t read(char* into, std::size_t room) = 0;
  /// Bytes of the file taken so far.
  virtual std::uint64_t taken() const = 0;
};

/// A text that is in memory.
std::unique_ptr<TextSource> text_in_memory(std::string_view text);

/// The text of a regular file, unpacked in a thread of its own if it is gzip data. Nothing for what is no
/// regular file: a pipe cannot be read twice. Throws TraceError for what cannot be opened or is too large.
std::unique_ptr<TextSource> text_of_file(const std::string& path, const TraceLimits& limits);

/// The part of a text in which the reader is at the moment.
class TextWindow {
 public:
  TextWindow(TextSource& source, std::size_t size);

  std::string_view text() const { return {begin(), size_}; }
  /// The byte before it and `padding` bytes behind it may be written to.
  char* begin() const { return buffer_.get() + start_; }
  std::uint64_t offset() const { return offset_; }  ///< Of `text()` in the whole.
  bool at_end() const { return at_end_; }           ///< Nothing comes after `text()`.

  void drop(std::size_t bytes);
  /// Takes more text, into more memory where the window is full. False at the end.
  bool more();

 private:
  TextSource& source_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t start_ = 0;
  std::size_t size_ = 0;
  std::uint64_t offset_ = 0;
  bool at_end_ = false;
};

}  // namespace gpusim::trace_text
