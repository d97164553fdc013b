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
  T& front() { return items_[head_ & mask()]; }
  T& back() { return items_[(tail_ - 1) & mask()]; }
  const T& operator[](std::size_t i) const { return items_[(head_ + i) & mask()]; }
  T& operator[](std::size_t i) { return items_[(head_ + i) & mask()]; }
  void push_back(const T& item) {
    if (size() == items_.size()) grow();
    items_[tail_++ & mask()] = item;
  }
  void pop_front() { ++head_; }
  void clear() { head_ = tail_ = 0; }

 private:
  std::size_t mask() const { return items_.size() - 1; }
  void grow() {
    std::vector<T> larger(items_.empty() ? 8 : 2 * items_.size());
    for (std::size_t i = 0; i < size(); ++i) larger[i] = (*this)[i];
    tail_ = size();
    head_ = 0;
    items_ = std::move(larger);
  }

  std::vector<T> items_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace gpusim::engine
