// SPDX-License-Identifier: Apache-2.0
#include "models/graph/caching_allocator.hpp"

#include <algorithm>

namespace gpusim {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
constexpr std::int64_t granularity = 512;
constexpr std::int64_t small_request = mebibyte;
constexpr std::int64_t small_segment = 2 * mebibyte;
constexpr std::int64_t medium_request = 10 * mebibyte;
constexpr std::int64_t medium_segment = 20 * mebibyte;
constexpr std::int64_t large_rounding = 2 * mebibyte;

std::int64_t rounded(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

CachingAllocator::Block CachingAllocator::new_block(std::int64_t size, bool small, std::int64_t order) {
  Block block = 0;
  if (spare_.empty()) {
    block = static_cast<Block>(blocks_.size());
    blocks_.emplace_back();
  } else {
    block = spare_.back();
    spare_.pop_back();
  }
  blocks_[block] = {.size = size, .small = small, .order = order};
  return block;
}

void CachingAllocator::list(Block block) {
  free_list(blocks_[block].small).insert({blocks_[block].size, blocks_[block].order, block});
}

void CachingAllocator::unlist(Block block) {
  free_list(blocks_[block].small).erase({blocks_[block].size, blocks_[block].order, block});
}

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes) {
  const std::int64_t size = rounded(std::max<std::int64_t>(bytes.value(), 0), granularity);
  const bool small = size <= small_request;
  Block block = none;
  Free& list_of_pool = free_list(small);
  const auto found = list_of_pool.lower_bound({size, 0, 0});
  if (found != list_of_pool.end()) {
    block = std::get<2>(*found);
    unlist(block);
  } else {
    const std::int64_t segment = small                   ? small_segment
                                 : size < medium_request ? medium_segment
                                                         : rounded(size, large_rounding);
    reserved_ += segment;
    block = new_block(segment, small, next_address_);
    next_address_ += segment;
  }
  const std::int64_t left = blocks_[block].size - size;
  if (small ? left >= granularity : left > small_request) {
    const Block rest = new_block(left, small, blocks_[block].order + size);
    blocks_[block].size = size;
    blocks_[rest].before = block;
    blocks_[rest].after = blocks_[block].after;
    if (blocks_[rest].after != none) blocks_[blocks_[rest].after].before = rest;
    blocks_[block].after = rest;
    list(rest);
  }
  blocks_[block].used = true;
  in_use_ += blocks_[block].size;
  return block;
}

void CachingAllocator::free(Block block) {
  blocks_[block].used = false;
  in_use_ -= blocks_[block].size;
  // Joined blocks keep the place of the earlier one.
  const auto join = [&](Block first, Block second) {
    blocks_[first].size += blocks_[second].size;
    blocks_[first].after = blocks_[second].after;
    if (blocks_[first].after != none) blocks_[blocks_[first].after].before = first;
    spare_.push_back(second);
  };
  if (const Block after = blocks_[block].after; after != none && !blocks_[after].used) {
    unlist(after);
    join(block, after);
  }
  if (const Block before = blocks_[block].before; before != none && !blocks_[before].used) {
    unlist(before);
    join(before, block);
    block = before;
  }
  list(block);
}

}  // namespace gpusim
