// SPDX-License-Identifier: Apache-2.0
// Where a loop finds what it reads: maps from the place in a loop to the place in a buffer.
//
// A place is a flat number. Written with mixed digits, outermost first, it is a sum of digit x stride: views,
// transposes, slices and broadcasts of tensors are all of this form, and so is one of them behind another.
// Two loops that read a buffer by the same map read it in the same order, which is what decides whether they
// can be one kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "models/graph/tensor.hpp"

namespace gpusim {

class Access {
 public:
  /// One digit of a place.
  struct Digit {
    std::int64_t size = 1;
    std::int64_t stride = 0;  ///< In elements of the buffer; 0: broadcast.
    friend bool operator==(const Digit&, const Digit&) = default;
  };
  static constexpr std::size_t digits_max = 12;

  /// The first `elements` of a buffer, one after the other.
  static Access straight(std::int64_t elements);
  /// Places that data decide, or that have no such form: the same as others of this `id`.
  static Access irregular(std::int64_t elements, std::int64_t id);
  /// Places without such a form that follow from this map in the `nth` way: equal maps give equal ones.
  Access made_irregular(std::int64_t elements, std::int64_t nth) const;

  /// A loop over a tensor of the given shape in memory order of `order` (dense strides of that shape), which
  /// reads a tensor of strides `strides` (0 where it is broadcast) at `offset`.
  static Access over(const Dims& shape, const Dims& order, const Dims& strides, std::int64_t offset);

  /// Adds a digit inside of those there are.
  void add(Digit digit);
  /// The map of a loop that reads what `inner` reads, but at the places that this map gives: inner after
  /// this.
  Access then(const Access& inner) const;

  bool is_irregular() const { return irregular_; }
  /// Whether the loop goes over the buffer from the offset on without a jump.
  bool is_straight() const { return !irregular_ && count_ <= 1 && (count_ == 0 || digits_[0].stride == 1); }
  std::int64_t offset() const { return offset_; }
  /// Length of the loop.
  std::int64_t size() const;
  /// How many different elements are read: digits that do not broadcast.
  std::int64_t touched() const;
  /// Stride of the innermost digit; 1 for a single element.
  std::int64_t inner_stride() const { return count_ == 0 ? 1 : digits_[count_ - 1].stride; }
  std::size_t count() const { return count_; }
  const Digit& digit(std::size_t i) const { return digits_[i]; }

  /// Without the broadcast digits at the inner end: what a reduced dimension leaves.
  Access without_inner_broadcast() const;

  /// The same digits in another order, offsets equal: one is the other with its loops exchanged.
  bool is_permutation_of(const Access& other) const;

  friend bool operator==(const Access& a, const Access& b);

 private:
  std::array<Digit, digits_max> digits_{};
  std::uint32_t count_ = 0;
  bool irregular_ = false;
  std::int64_t offset_ = 0;  ///< Of an irregular one: its id.
  std::int64_t irregular_size_ = 0;
};

}  // namespace gpusim
