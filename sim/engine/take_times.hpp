// SPDX-License-Identifier: Apache-2.0
// When the latest entries of a launch queue are taken by their stream: all that back-pressure asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gpusim::engine {

/// Times in picoseconds, in order. Remembers as many of the latest as remember() was told, in a window that
/// slides over memory of at least twice its size: where that ends, it is copied back to the begin.
class TakeTimes {
 public:
  /// The `n`-th latest, 1 to remembered(); before all times if there are not so many.
  std::int64_t latest(std::size_t n) const { return end_[-static_cast<std::ptrdiff_t>(n)]; }
  void push(std::int64_t time) {
    if (!has_room()) slide();
    push_into_room(time);
  }
  /// For a loop that calls nothing: whether the next one can be put in as it is.
  bool has_room() const { return end_ != limit_; }
  void push_into_room(std::int64_t time) { *end_++ = time; }
  std::size_t remembered() const { return remembered_; }
  /// At least the `n` latest from now on. What had been forgotten counts as before all times.
  void remember(std::size_t n) {
    if (n <= remembered_) return;
    const std::size_t room = std::max<std::size_t>(n, 512);
    auto larger = std::make_unique_for_overwrite<std::int64_t[]>(n + room);
    std::fill_n(larger.get(), n - remembered_, -1);
    std::copy_n(end_ - remembered_, remembered_, larger.get() + (n - remembered_));
    memory_ = std::move(larger);
    end_ = memory_.get() + n;
    limit_ = end_ + room;
    remembered_ = n;
  }

 private:
  void slide() {
    std::copy_n(end_ - remembered_, remembered_, memory_.get());
    end_ = memory_.get() + remembered_;
  }

  std::int64_t* end_ = nullptr;    ///< Of the window.
  std::int64_t* limit_ = nullptr;  ///< Of the memory.
  std::size_t remembered_ = 0;
  std::unique_ptr<std::int64_t[]> memory_;
};

}  // namespace gpusim::engine
