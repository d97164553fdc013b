// SPDX-License-Identifier: Apache-2.0
// std::stable_sort() for a handful of items: it takes memory from the heap even for three numbers. Internal
// to models.
#pragma once

#include <utility>

namespace gpusim {

/// Insertion sort: items of which neither is `before` the other keep their order.
template <class Iterator, class Before>
void sort_few(Iterator first, Iterator last, Before before) {
  for (Iterator next = first; next != last; ++next)
    for (Iterator at = next; at != first && before(*at, *(at - 1)); --at) std::swap(*at, *(at - 1));
}

}  // namespace gpusim
