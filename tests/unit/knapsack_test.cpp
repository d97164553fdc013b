// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/knapsack.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using Taken = std::vector<std::uint8_t>;

}  // namespace

TEST_CASE("A greedy choice takes what is worth most for its memory, and may miss the best") {
  const std::vector<KnapsackItem> items{
      {.memory = 0.6, .value = 7}, {.memory = 0.5, .value = 5}, {.memory = 0.5, .value = 5}};
  CHECK(greedy_knapsack(items, 1).taken == Taken{1, 0, 0});
  CHECK(exact_knapsack(items, 1).taken == Taken{0, 1, 1});
  CHECK(dp_knapsack(items, 1).taken == Taken{0, 1, 1});
  CHECK(exact_knapsack(items, 1).optimal);
}

TEST_CASE("Of equal items the first are taken") {
  const std::vector<KnapsackItem> items(4, {.memory = 0.25, .value = 1});
  CHECK(greedy_knapsack(items, 0.5).taken == Taken{1, 1, 0, 0});
  CHECK(exact_knapsack(items, 0.5).taken == Taken{1, 1, 0, 0});
  // Going back from the last item, the table with it is no better for as long as enough others are there.
  CHECK(dp_knapsack(items, 0.5).taken == Taken{1, 1, 0, 0});
}

TEST_CASE("dp rounds memory to a ten-thousandth, half to even") {
  // 0.00005 is half a step: rounded to 0, so that all of them fit in nothing.
  const std::vector<KnapsackItem> free(3, {.memory = 0.00005, .value = 1});
  CHECK(dp_knapsack(free, 0).taken == Taken{1, 1, 1});
  CHECK(exact_knapsack(free, 0).taken == Taken{0, 0, 0});
  // 2.5 steps are 2, and 7.5 steps are 8.
  const std::vector<KnapsackItem> down(1, {.memory = 0.00025, .value = 1});
  CHECK(dp_knapsack(down, 0.0002).taken == Taken{1});
  CHECK(exact_knapsack(down, 0.0002).taken == Taken{0});
  const std::vector<KnapsackItem> up(1, {.memory = 0.00075, .value = 1});
  CHECK(dp_knapsack(up, 0.00078).taken == Taken{1});
  CHECK(dp_knapsack(up, 0.0007).taken == Taken{0});
}

TEST_CASE("Beside items worth 10^12, dp does not see one that is worth 1") {
  const std::vector<KnapsackItem> items{{.memory = 0.1, .value = 1e12}, {.memory = 0.1, .value = 1}};
  CHECK(dp_knapsack(items, 1).taken == Taken{1, 0});
  CHECK(exact_knapsack(items, 1).taken == Taken{1, 1});
}

TEST_CASE("Nothing fits a capacity of zero, everything one of its sum") {
  const std::vector<KnapsackItem> items{
      {.memory = 0.25, .value = 3}, {.memory = 0.5, .value = 1}, {.memory = 0.25, .value = 2}};
  for (const KnapsackSolver solver : {KnapsackSolver::Dp, KnapsackSolver::Greedy, KnapsackSolver::Exact}) {
    CHECK(knapsack(solver, items, 0).taken == Taken{0, 0, 0});
    CHECK(knapsack(solver, items, 1).taken == Taken{1, 1, 1});
    CHECK(knapsack(solver, items, 1).value == 6);
    CHECK(knapsack(solver, {}, 1).taken.empty());
  }
}

TEST_CASE("A search that grows too large says so, and is no worse than greedy") {
  std::vector<KnapsackItem> items;
  for (int i = 0; i < 30; ++i) {
    const double memory = 100 + (i * 37) % 101;
    items.push_back({.memory = memory, .value = memory + (i * 53) % 7});
  }
  const KnapsackChoice cut_short = exact_knapsack(items, 2000, 10);
  CHECK_FALSE(cut_short.optimal);
  CHECK(cut_short.value >= greedy_knapsack(items, 2000).value);
  CHECK(cut_short.memory <= 2000);
  const KnapsackChoice best = exact_knapsack(items, 2000);
  CHECK(best.optimal);
  CHECK(best.value >= cut_short.value);
}

}  // namespace gpusim
