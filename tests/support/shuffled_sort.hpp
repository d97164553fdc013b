// SPDX-License-Identifier: Apache-2.0
// For a build whose sorts put equal elements in another order: compile with -include of this file. Outputs
// that change with it depend on what the library leaves open. tests/determinism.sh compares them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <forward_list>
#include <functional>
#include <iterator>
#include <list>
#include <ranges>
#include <utility>

namespace gpusim::test {

/// The same order each time, but not the one that was there.
template <class Iterator>
void shuffle(Iterator first, Iterator last) {
  std::uint64_t state = 88172645463325252ULL;
  for (auto count = last - first; count > 1; --count) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    const auto other = static_cast<decltype(count)>(state % static_cast<std::uint64_t>(count));
    std::iter_swap(first + (count - 1), first + other);
  }
}

struct ShuffledRangesSort {
  template <class Range, class Compare = std::ranges::less, class Projection = std::identity>
  void operator()(Range&& range, Compare compare = {}, Projection projection = {}) const {
    shuffle(std::ranges::begin(range), std::ranges::end(range));
    std::ranges::sort(range, std::move(compare), std::move(projection));
  }
};

}  // namespace gpusim::test

namespace std {

template <class Iterator, class... Compare>
void gpusim_shuffled_sort(Iterator first, Iterator last, Compare... compare) {
  ::gpusim::test::shuffle(first, last);
  std::sort(first, last, compare...);
}

namespace ranges {
inline constexpr ::gpusim::test::ShuffledRangesSort gpusim_shuffled_sort;
}

}  // namespace std

// From here on; stable_sort keeps its name and its promise.
#define sort gpusim_shuffled_sort
