// SPDX-License-Identifier: Apache-2.0
// Finds what repeats in a list of things that differ in their times only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim {

/// Something of a host thread's list, or a loop over several (`body` is not empty).
struct FoldedItem {
  std::string text;                ///< Its kind and names; "{}" stands for each of `times`.
  std::vector<Picoseconds> times;  ///< Of a folded item: means over what it stands for.
  std::string comment;             ///< Of the first of them.
  std::int64_t repeat = 1;
  std::vector<FoldedItem> body;
  int distinct = 0;  ///< Items that differ here are not the same.
};

/// Replaces runs of equal blocks by loops, blocks of blocks too: from the left, at each place the period that
/// folds most items away, of equal ones the shortest. Equal are items of the same text, number of times,
/// repeat and body. Sums of times stay as they were up to a picosecond for each item. Periods are tried up to
/// `period_max` items, fewer in lists that are so long that this would take minutes.
std::vector<FoldedItem> fold(std::vector<FoldedItem> items, std::size_t period_max = 20'000);

}  // namespace gpusim
