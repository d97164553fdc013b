// SPDX-License-Identifier: Apache-2.0
// std::vector on large memory pages. A long timeline is written once, and what that costs is not the writing
// but the kernel's first touch of every 4-KiB page; with 2-MiB pages there are 512 times fewer.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gpusim::engine {

template <class T>
struct LargePageAllocator {
  using value_type = T;
  static constexpr std::size_t page = std::size_t{2} << 20;

  LargePageAllocator() = default;
  template <class U>
  LargePageAllocator(const LargePageAllocator<U>&) {}

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T) / 2) throw std::bad_array_new_length();
    const std::size_t bytes = n * sizeof(T);
    if (bytes < page) return static_cast<T*>(::operator new(bytes));
    const std::size_t rounded = (bytes + page - 1) / page * page;
    void* memory = std::aligned_alloc(page, rounded);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    madvise(memory, rounded, MADV_HUGEPAGE);  // A wish: where it is not granted, nothing changes.
#endif
    return static_cast<T*>(memory);
  }
  /// An element that is made without a value gets none: room is made without touching it.
  template <class U>
  void construct(U*) {}
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
  void deallocate(T* memory, std::size_t n) {
    if (n * sizeof(T) < page)
      ::operator delete(memory);
    else
      std::free(memory);
  }
  friend bool operator==(const LargePageAllocator&, const LargePageAllocator&) {
    return true;
  }
};

/// resize() leaves new elements without a value: for what is written at once.
template <class T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace gpusim::engine
