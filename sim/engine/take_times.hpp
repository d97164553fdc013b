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
/// slides over memory of twice its size: where that ends, it is copied back to the begin.
class TakeTimes {
 public:
  /// The `n`-th latest, 1 to remembered(); before all times if there are not so many.
  std::int64_t latest(std::size_t n) const { return *(end_ - n); }
  [[gnu::always_inline]] void push(std::int64_t time) {
    if (end_ == limit_) [[unlikely]]
      slide();
    *end_++ = time;
  }
  std::size_t remembered() const { return remembered_; }
  /// At least the `n` latest from now on. What had been forgotten counts as before all times.
  void remember(std::size_t n) {
    if (n <= remembered_) return;
    auto larger = std::make_unique_for_overwrite<std::int64_t[]>(2 * n);
    std::fill_n(larger.get(), n - remembered_, -1);
    std::copy_n(end_ - remembered_, remembered_, larger.get() + (n - remembered_));
    memory_ = std::move(larger);
    end_ = memory_.get() + n;
    limit_ = end_ + n;
    remembered_ = n;
  }

 private:
  [[gnu::noinline]] void slide() {
    std::copy_n(end_ - remembered_, remembered_, memory_.get());
    end_ = memory_.get() + remembered_;
  }

  std::int64_t* end_ = nullptr;    ///< Of the window.
  std::int64_t* limit_ = nullptr;  ///< Of the memory.
  std::size_t remembered_ = 0;
  std::unique_ptr<std::int64_t[]> memory_;
};

}  // namespace gpusim::engine
