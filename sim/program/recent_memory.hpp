// SPDX-License-Identifier: Apache-2.0
// What of a step's memory is still in the L2. Internal to sim/program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim {

/// The memory touched last, latest first: what an L2 that keeps the latest bytes still holds. Memory counts
/// by its address, for a tensor that takes over what another gave back finds its lines in the cache.
class RecentMemory {
 public:
  /// `addresses`: by memory (a storage or buffer). What lies further back than `horizon` is forgotten.
  RecentMemory(const std::vector<std::int64_t>& addresses, Bytes horizon)
      : addresses_(addresses), horizon_(horizon.value()) {}

  /// Begins an op that goes over `bytes` of memory.
  void begin(Bytes bytes) {
    ++op_;
    op_bytes_ = bytes.value();
  }

  /// Bytes of distinct memory that go by between the last touch of a line of the memory and its reading by
  /// an op that goes over `reader` bytes; more than the horizon if it is forgotten. An op goes over its
  /// tensors side by side, so a line waits for half of the op that touched it last and half of the one that
  /// reads it, and for all between.
  Bytes since(std::uint32_t memory, Bytes reader) const {
    std::int64_t between = 0;
    std::int64_t same_op = 0;
    std::int64_t current = -1;
    for (auto it = recent_.rbegin(); it != recent_.rend(); ++it) {
      if (it->op != current) {
        between += same_op;
        same_op = 0;
        current = it->op;
      }
      if (it->address == addresses_[memory]) return Bytes(between + (it->op_bytes + reader.value()) / 2);
      same_op += it->bytes;
    }
    return Bytes(horizon_ * 4) + reader;
  }
  void touch(std::uint32_t memory, Bytes own) {
    const std::int64_t address = addresses_[memory];
    const auto known = std::find_if(recent_.rbegin(), recent_.rend(),
                                    [&](const Place& place) { return place.address == address; });
    Place place{address, own.value(), op_, op_bytes_};
    if (known != recent_.rend()) {
      place.bytes = std::max(place.bytes, known->bytes);
      total_ -= known->bytes;
      recent_.erase(std::next(known).base());
    }
    recent_.push_back(place);
    total_ += place.bytes;
    std::size_t forgotten = 0;
    while (total_ - recent_[forgotten].bytes > horizon_) total_ -= recent_[forgotten++].bytes;
    recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(forgotten));
  }

 private:
  struct Place {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    std::int64_t op = 0;        ///< That touched it last.
    std::int64_t op_bytes = 0;  ///< All that this op went over.
  };
  const std::vector<std::int64_t>& addresses_;
  const std::int64_t horizon_;
  std::vector<Place> recent_;  ///< Latest at the back.
  std::int64_t total_ = 0;
  std::int64_t op_ = 0;
  std::int64_t op_bytes_ = 0;
};

}  // namespace gpusim
