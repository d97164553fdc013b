// SPDX-License-Identifier: Apache-2.0
// When the latest entries of a launch queue are taken by their stream: all that back-pressure asks for.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpusim::engine {

/// Times in picoseconds, in order. Remembers the last `depth` entries.
class TakeTimes {
 public:
  void set_depth(std::size_t depth) {
    depth_ = depth;
    resize(std::bit_ceil(std::min<std::size_t>(depth, 1024)));
  }
  /// The `n`-th latest, 1 to depth; before all times if there are not so many.
  std::int64_t latest(std::size_t n) const { return items_[(count_ - n) & mask_]; }
  [[gnu::always_inline]] void push(std::int64_t time) {
    if (count_ == grow_at_) [[unlikely]]
      resize(2 * items_.size());
    items_[count_++ & mask_] = time;
  }
  std::size_t count() const { return count_; }

 private:
  [[gnu::noinline]] void resize(std::size_t size) {
    std::vector<std::int64_t> larger(size, -1);
    for (std::size_t i = 0; i < std::min(count_, items_.size()); ++i)
      larger[(count_ - 1 - i) & (size - 1)] = items_[(count_ - 1 - i) & mask_];
    items_ = std::move(larger);
    mask_ = size - 1;
    grow_at_ = size >= depth_ ? std::numeric_limits<std::size_t>::max() : size;
  }

  std::size_t depth_ = 1;
  std::size_t count_ = 0;
  std::size_t mask_ = 0;
  std::size_t grow_at_ = 0;  ///< The count at which more has to be remembered.
  std::vector<std::int64_t> items_{-1};
};

}  // namespace gpusim::engine
