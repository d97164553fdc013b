// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/knapsack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpusim {
namespace {

KnapsackChoice chosen(std::span<const KnapsackItem> items, std::vector<std::uint8_t> taken) {
  KnapsackChoice choice{.taken = std::move(taken)};
  for (std::size_t i = 0; i < items.size(); ++i)
    if (choice.taken[i] != 0) {
      choice.value += items[i].value;
      choice.memory += items[i].memory;
    }
  return choice;
}

double density(const KnapsackItem& item) {
  return item.memory > 0 ? item.value / item.memory : std::numeric_limits<double>::infinity();
}

/// Items by falling density; of equal ones the first.
std::vector<std::size_t> by_density(std::span<const KnapsackItem> items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return density(items[a]) > density(items[b]); });
  return order;
}

/// A set of the items seen so far that no other one beats.
struct Undominated {
  double memory = 0;
  double value = 0;
  std::uint32_t choices = 0;  ///< Its last entry in the list of choices.
};

/// The item that a set took last, and the entry before it.
struct Taking {
  std::uint32_t item = 0;
  std::uint32_t before = 0;
};

}  // namespace

std::string_view name(KnapsackSolver solver) {
  switch (solver) {
    case KnapsackSolver::Dp:
      return "dp";
    case KnapsackSolver::Greedy:
      return "greedy";
    case KnapsackSolver::Exact:
      return "exact";
  }
  return "dp";
}

KnapsackChoice dp_knapsack(std::span<const KnapsackItem> items, double capacity) {
  constexpr double scale = 10000;
  // nearbyint() rounds half to even, as Python's round() does.
  const auto columns = static_cast<std::size_t>(std::nearbyint(std::max(capacity, 0.0) * scale)) + 1;
  std::vector<std::size_t> memory;
  for (const KnapsackItem& item : items)
    memory.push_back(static_cast<std::size_t>(std::min(std::nearbyint(item.memory * scale), 1e15)));
  const std::size_t words = (columns + 63) / 64;
  std::vector<std::uint64_t> better(items.size() * words, 0);  // By item and capacity: taking it is better.
  std::vector<float> best(columns, 0.0F);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto value = static_cast<float>(items[i].value);
    std::uint64_t* row = better.data() + i * words;
    for (std::size_t j = columns; j-- > memory[i];) {
      const float with = best[j - memory[i]] + value;
      // An item without memory is taken always, and counts where it makes a difference.
      if (with > best[j]) {
        best[j] = with;
        row[j / 64] |= std::uint64_t{1} << (j % 64);
      }
    }
  }
  std::vector<std::uint8_t> taken(items.size(), 0);
  std::size_t j = columns - 1;
  for (std::size_t i = items.size(); i-- > 0;)
    if ((better[i * words + j / 64] >> (j % 64) & 1) != 0) {
      taken[i] = 1;
      j -= memory[i];
    }
  return chosen(items, std::move(taken));
}

KnapsackChoice greedy_knapsack(std::span<const KnapsackItem> items, double capacity) {
  std::vector<std::uint8_t> taken(items.size(), 0);
  double memory = 0;
  for (const std::size_t i : by_density(items))
    if (memory + items[i].memory <= capacity) {
      memory += items[i].memory;
      taken[i] = 1;
    }
  return chosen(items, std::move(taken));
}

KnapsackChoice exact_knapsack(std::span<const KnapsackItem> items, double capacity, std::size_t states_max) {
  const std::vector<std::size_t> order = by_density(items);
  KnapsackChoice best = greedy_knapsack(items, capacity);
  best.optimal = true;
  // Sums in the order of adding differ in their last bits; what is only so much better is not.
  const auto slack = [](double value) { return 1e-12 * std::abs(value); };

  std::vector<Taking> takings{{}};
  std::vector<Undominated> states{{}};
  std::vector<Undominated> with;
  std::vector<Undominated> merged;
  Undominated best_state{.value = -1};
  for (std::size_t k = 0; k < order.size(); ++k) {
    const KnapsackItem& item = items[order[k]];
    if (!(item.value > 0)) continue;
    with.clear();
    for (const Undominated& state : states)
      if (state.memory + item.memory <= capacity) {
        with.push_back({state.memory + item.memory, state.value + item.value,
                        static_cast<std::uint32_t>(takings.size())});
        takings.push_back({static_cast<std::uint32_t>(order[k]), state.choices});
      }
    // Both lists rise in memory and value; so does what is left of them.
    merged.clear();
    const auto add = [&](const Undominated& state) {
      if (merged.empty() || state.value > merged.back().value) merged.push_back(state);
    };
    std::size_t a = 0;
    std::size_t b = 0;
    while (a < states.size() || b < with.size()) {
      const bool first =
          b == with.size() ||
          (a < states.size() && (states[a].memory < with[b].memory ||
                                 (states[a].memory == with[b].memory && states[a].value >= with[b].value)));
      add(first ? states[a++] : with[b++]);
    }
    for (const Undominated& state : merged)
      if (state.value > best.value + slack(best.value)) {
        best.value = state.value;
        best_state = state;
      }
    // What the items behind can add at most, if parts of them could be taken.
    states.clear();
    for (const Undominated& state : merged) {
      double room = capacity - state.memory;
      double most = state.value;
      for (std::size_t rest = k + 1; rest < order.size() && most <= best.value; ++rest) {
        const KnapsackItem& other = items[order[rest]];
        const double part = other.memory <= room ? 1 : room / other.memory;
        most += part * other.value;
        room -= part * other.memory;
        if (part < 1) break;
      }
      if (most > best.value + slack(best.value)) states.push_back(state);
    }
    if (states.size() > states_max || takings.size() > 64 * states_max) {
      best.optimal = false;
      break;
    }
    if (states.empty()) break;
  }
  if (best_state.value < 0) return best;
  std::vector<std::uint8_t> taken(items.size(), 0);
  for (std::uint32_t c = best_state.choices; c != 0; c = takings[c].before) taken[takings[c].item] = 1;
  KnapsackChoice choice = chosen(items, std::move(taken));
  choice.optimal = best.optimal;
  return choice;
}

KnapsackChoice knapsack(KnapsackSolver solver, std::span<const KnapsackItem> items, double capacity) {
  switch (solver) {
    case KnapsackSolver::Dp:
      return dp_knapsack(items, capacity);
    case KnapsackSolver::Greedy:
      return greedy_knapsack(items, capacity);
    case KnapsackSolver::Exact:
      return exact_knapsack(items, capacity);
  }
  return {};
}

}  // namespace gpusim
