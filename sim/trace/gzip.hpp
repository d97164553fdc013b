// SPDX-License-Identifier: Apache-2.0
// gzip data, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim::trace_text {

/// Bytes of text that are too many with one more, and the name of that limit.
struct TextLimit {
  const char* name = "";
  std::uint64_t bytes = 0;
  TraceError error(const std::string& path, TraceError::Place place) const;
};

/// Unpacks a file of gzip data: several members, and zero bytes behind them, are fine. Throws TraceError with
/// the byte of the packed data for what is damaged or beyond a limit.
class Unpacker {
 public:
  Unpacker(std::string path, const TraceLimits& limits, TextLimit text_limit);
  ~Unpacker();

  struct Step {
    std::size_t used = 0;
    std::size_t made = 0;
  };
  /// Unpacks as much as there is, or room for, which may not be 0. Without data: what there was no room for
  /// before.
  Step unpack(std::string_view packed, char* into, std::size_t room);
  /// There is no more: throws if that is too early.
  void finish() const;

 private:
  struct Stream;
  TraceError error(const std::string& what) const;

  const std::string path_;
  const TraceLimits& limits_;
  const TextLimit text_limit_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t used_ = 0;
  std::uint64_t made_ = 0;
  bool between_members_ = false;
};

}  // namespace gpusim::trace_text
