// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/access.hpp"

#include <algorithm>
#include <numeric>

#include "models/graph/sort_few.hpp"

namespace gpusim {

Access Access::straight(std::int64_t elements) {
  Access access;
  access.add({elements, 1});
  return access;
}

Access Access::irregular(std::int64_t elements, std::int64_t id) {
  Access access;
  access.irregular_ = true;
  access.irregular_size_ = elements;
  access.offset_ = id;
  return access;
}

Access Access::made_irregular(std::int64_t elements, std::int64_t nth) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  const auto mix = [&](std::int64_t value) {
    hash ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdU;
  };
  mix(nth);
  mix(irregular_ ? 1 : 0);
  mix(offset_);
  mix(irregular_size_);
  for (std::size_t i = 0; i < count_; ++i) {
    mix(digits_[i].size);
    mix(digits_[i].stride);
  }
  return irregular(elements, static_cast<std::int64_t>(hash >> 1));
}

Access Access::over(const Dims& shape, const Dims& order, const Dims& strides, std::int64_t offset) {
  std::array<int, Dims::rank_max> dims{};
  std::iota(dims.begin(), dims.begin() + shape.rank(), 0);
  // Dimensions of one element have any stride: they add no digit, wherever they stand.
  sort_few(dims.begin(), dims.begin() + shape.rank(), [&](int a, int b) { return order[a] > order[b]; });
  Access access;
  access.offset_ = offset;
  for (int i = 0; i < shape.rank(); ++i) {
    const int d = dims[static_cast<std::size_t>(i)];
    access.add({shape[d], strides[d]});
  }
  return access;
}

void Access::add(Digit digit) {
  if (irregular_ || digit.size == 1) return;
  if (count_ > 0) {
    Digit& last = digits_[count_ - 1];
    if (last.stride == digit.size * digit.stride) {  // broadcasts too: 0 == n * 0
      last = {last.size * digit.size, digit.stride};
      return;
    }
  }
  if (count_ == digits_max) {
    *this = made_irregular(size() * digit.size, digit.stride);
    return;
  }
  digits_[count_++] = digit;
}

std::int64_t Access::size() const {
  if (irregular_) return irregular_size_;
  std::int64_t product = 1;
  for (std::size_t i = 0; i < count_; ++i) product *= digits_[i].size;
  return product;
}

std::int64_t Access::touched() const {
  if (irregular_) return irregular_size_;
  std::int64_t product = 1;
  for (std::size_t i = 0; i < count_; ++i)
    if (digits_[i].stride != 0) product *= digits_[i].size;
  return product;
}

Access Access::then(const Access& inner) const {
  if (irregular_) return irregular(irregular_size_, offset_);
  if (inner.irregular_)
    return is_straight() && offset_ == 0 && size() == inner.irregular_size_
               ? inner
               : made_irregular(size(), inner.offset_);
  if (inner.is_straight()) {
    Access moved = *this;
    moved.offset_ += inner.offset_;
    return moved;
  }
  // Weight of a digit of the inner map: places of its loop between two values of the digit.
  std::array<std::int64_t, digits_max + 1> weight{};
  weight[inner.count_] = 1;
  for (std::size_t i = inner.count_; i-- > 0;) weight[i] = weight[i + 1] * inner.digits_[i].size;
  // `weight[i + 1]` is that of digit i, `weight[i]` that of the next digit outside.
  Access composed;
  composed.offset_ = inner.offset_;
  // The largest value that each inner digit takes; past its end the next one outside would move.
  std::array<std::int64_t, digits_max> largest{};
  std::int64_t rest = offset_;
  for (std::size_t i = 0; i < inner.count_; ++i) {
    largest[i] = rest / weight[i + 1];
    composed.offset_ += largest[i] * inner.digits_[i].stride;
    rest %= weight[i + 1];
  }
  for (std::size_t d = 0; d < count_; ++d) {
    Digit digit = digits_[d];
    if (digit.stride == 0) {
      composed.add(digit);
      continue;
    }
    // Cut the digit where it runs over a boundary of the inner digits, from the outside in.
    std::array<Digit, digits_max> parts{};
    std::size_t count = 0;
    bool fits = true;
    for (std::size_t i = inner.count_; i-- > 0 && digit.size > 1 && fits;) {
      if (digit.stride >= weight[i] && i > 0) continue;
      if (digit.stride % weight[i + 1] != 0) {
        fits = false;
        break;
      }
      const std::int64_t room = weight[i] / digit.stride;  // values until the next digit outside moves
      const std::int64_t step = digit.stride / weight[i + 1];
      largest[i] += (std::min(digit.size, i == 0 ? digit.size : room) - 1) * step;
      if (i == 0 || digit.size <= room) {
        parts[count++] = {digit.size, step * inner.digits_[i].stride};
        digit.size = 1;
      } else {
        if (weight[i] % digit.stride != 0 || digit.size % room != 0) {
          fits = false;
          break;
        }
        parts[count++] = {room, step * inner.digits_[i].stride};
        digit = {digit.size / room, weight[i]};
      }
    }
    if (!fits || digit.size > 1) return made_irregular(size(), inner.made_irregular(1, 0).offset_);
    while (count > 0) composed.add(parts[--count]);
  }
  for (std::size_t i = 0; i < inner.count_; ++i)
    if (largest[i] >= inner.digits_[i].size)
      return made_irregular(size(), inner.made_irregular(1, 0).offset_);
  return composed;
}

Access Access::without_inner_broadcast() const {
  Access trimmed = *this;
  while (trimmed.count_ > 0 && trimmed.digits_[trimmed.count_ - 1].stride == 0) --trimmed.count_;
  for (std::size_t i = trimmed.count_; i < count_; ++i) trimmed.digits_[i] = {};
  return trimmed;
}

bool Access::is_permutation_of(const Access& other) const {
  if (irregular_ || other.irregular_ || offset_ != other.offset_) return false;
  // Cut both into single strides: the places touched are the same if the sorted digits, merged again, are.
  const auto sorted = [](const Access& access) {
    Access merged;
    merged.offset_ = access.offset_;
    std::array<Digit, digits_max> digits = access.digits_;
    sort_few(digits.begin(), digits.begin() + access.count_,
             [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
    for (std::size_t i = 0; i < access.count_; ++i) merged.add(digits[i]);
    return merged;
  };
  return sorted(*this) == sorted(other);
}

bool operator==(const Access& a, const Access& b) {
  if (a.irregular_ != b.irregular_ || a.offset_ != b.offset_ || a.count_ != b.count_ ||
      a.irregular_size_ != b.irregular_size_)
    return false;
  return std::equal(a.digits_.begin(), a.digits_.begin() + a.count_, b.digits_.begin());
}

}  // namespace gpusim
