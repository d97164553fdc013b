// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator, as far as it decides how many bytes are in use: blocks cut from segments.
//
// A request is rounded up to 512 B. Up to 1 MiB it is cut from segments of 2 MiB, up to 10 MiB from segments
// of 20 MiB; larger ones get a segment of their own, rounded up to 2 MiB. The smallest free block that holds
// it is taken, and what is left over is cut off if it is worth it: from 512 B in small segments, above 1 MiB
// in large ones. What is not cut off counts as in use. Freed neighbours join. Source:
// c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.7).
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim {

class CachingAllocator {
 public:
  using Block = std::uint32_t;

  /// A block of at least `bytes`. Zero bytes take nothing and give a block all the same.
  Block allocate(Bytes bytes);
  void free(Block block);
  /// Where the block begins: blocks that share memory at different times may have one address.
  std::int64_t address(Block block) const { return blocks_[block].order; }

  Bytes in_use() const { return Bytes(in_use_); }      ///< What max_memory_allocated() counts.
  Bytes reserved() const { return Bytes(reserved_); }  ///< Segments, whatever is in them.

 private:
  static constexpr Block none = 0xFFFFFFFF;
  struct Place {
    std::int64_t size = 0;
    Block before = none;  ///< Neighbours in the segment.
    Block after = none;
    bool small = false;
    bool used = false;
    std::int64_t order = 0;  ///< Ties among equally large free blocks go to the lower address.
  };
  using Free = std::set<std::tuple<std::int64_t, std::int64_t, Block>>;

  Free& free_list(bool small) { return small ? free_small_ : free_large_; }
  void list(Block block);
  void unlist(Block block);
  Block new_block(std::int64_t size, bool small, std::int64_t order);

  std::vector<Place> blocks_;
  std::vector<Block> spare_;  ///< Places of blocks that were joined to others.
  Free free_small_;
  Free free_large_;
  std::int64_t in_use_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t next_address_ = 0;
};

}  // namespace gpusim
