// SPDX-License-Identifier: Apache-2.0
// The knapsack solvers against trying everything.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <rapidcheck.h>

#include "models/compiler/knapsack.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

template <class Property>
void holds(const std::string& what, Property&& property) {
  setenv("RC_PARAMS", "seed=20260101 max_success=300", 0);
  CHECK(rc::check(what, std::forward<Property>(property)));
}

struct Case {
  std::vector<KnapsackItem> items;
  double capacity = 0;
};

/// Up to twelve items whose memories are whole 1/10000 (`rounded`) or fractions of them.
Case any_case(bool rounded) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 13);
  const auto sizes = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 2000));
  const auto values = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 100));
  Case result;
  for (std::size_t i = 0; i < count; ++i)
    result.items.push_back({.memory = (sizes[i] + (rounded ? 0 : 0.3)) / 10000, .value = double(values[i])});
  result.capacity = *rc::gen::inRange(0, 10001) / 10000.0;
  return result;
}

/// The largest value of a set that fits, with so much more memory per item.
double best_value(const Case& c, double slack = 0) {
  double best = 0;
  for (unsigned set = 0; set < 1U << c.items.size(); ++set) {
    double memory = 0;
    double value = 0;
    double room = c.capacity + 1e-12;
    for (std::size_t i = 0; i < c.items.size(); ++i)
      if ((set >> i & 1U) != 0) {
        memory += c.items[i].memory;
        value += c.items[i].value;
        room += slack;
      }
    if (memory <= room) best = std::max(best, value);
  }
  return best;
}

}  // namespace

TEST_CASE("The exact knapsack is the best of all sets") {
  holds("exact", [] {
    // Whole numbers, so that sums are the same in any order.
    Case c = any_case(true);
    for (KnapsackItem& item : c.items) item.memory = std::round(item.memory * 10000);
    c.capacity = std::round(c.capacity * 10000);
    const KnapsackChoice choice = exact_knapsack(c.items, c.capacity);
    RC_ASSERT(choice.optimal);
    RC_ASSERT(choice.memory <= c.capacity);
    RC_ASSERT(choice.value == best_value(c));
  });
}

TEST_CASE("dp is the best of all sets of items rounded to 1/10000") {
  holds("dp on whole steps", [] {
    const Case c = any_case(true);
    const KnapsackChoice choice = dp_knapsack(c.items, c.capacity);
    RC_ASSERT(choice.memory <= c.capacity + 1e-9);
    RC_ASSERT(choice.value == best_value(c));
  });
  holds("dp within its rounding", [] {
    const Case c = any_case(false);
    const KnapsackChoice choice = dp_knapsack(c.items, c.capacity);
    // It may take half a step too much with each item, and is at least as good as all that fit as rounded.
    RC_ASSERT(choice.memory <= c.capacity + 0.00005 * double(c.items.size()) + 1e-9);
    RC_ASSERT(choice.value <= best_value(c, 0.00005));
    RC_ASSERT(choice.value >= best_value(c, -0.00005));
  });
}

TEST_CASE("Greedy fits, and is never better than exact") {
  holds("greedy", [] {
    const Case c = any_case(false);
    const KnapsackChoice greedy = greedy_knapsack(c.items, c.capacity);
    RC_ASSERT(greedy.memory <= c.capacity + 1e-9);
    RC_ASSERT(greedy.value <= exact_knapsack(c.items, c.capacity).value);
  });
}

}  // namespace gpusim
