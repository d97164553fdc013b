// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

namespace gpusim::engine {

/// First in, first out, on one block of memory that grows by doubling and is then reused.
template <class T>
class Ring {
 public:
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }
  T& front() { return items_[head_ & mask_]; }
  const T& front() const { return items_[head_ & mask_]; }
  T& back() { return items_[(tail_ - 1) & mask_]; }
  const T& operator[](std::size_t i) const { return items_[(head_ + i) & mask_]; }
  T& operator[](std::size_t i) { return items_[(head_ + i) & mask_]; }
  [[gnu::always_inline]] void push_back(const T& item) {
    if (size() == items_.size()) [[unlikely]]
      grow();
    items_[tail_++ & mask_] = item;
  }
  /// Room for one more at the end; what is there is whatever was there before.
  [[gnu::always_inline]] T& push_back() {
    if (size() == items_.size()) [[unlikely]]
      grow();
    return items_[tail_++ & mask_];
  }
  void pop_front() { ++head_; }
  void clear() { head_ = tail_ = 0; }

 private:
  [[gnu::noinline]] void grow() { resize(items_.empty() ? 8 : 2 * items_.size()); }
  void resize(std::size_t size_wanted) {
    std::vector<T> larger(size_wanted);
    for (std::size_t i = 0; i < size(); ++i) larger[i] = (*this)[i];
    tail_ = size();
    head_ = 0;
    items_ = std::move(larger);
    mask_ = items_.size() - 1;
  }

  std::vector<T> items_;
  std::size_t mask_ = 0;  ///< Size less one: sizes are powers of two.
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace gpusim::engine
