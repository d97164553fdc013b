// SPDX-License-Identifier: Apache-2.0
// Which values to keep in so much memory that the least time goes into making the others again. Internal to
// models/compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gpusim {

/// Ways to choose, as torch._functorch.config.activation_memory_budget_solver names them; `exact` stands for
/// its `ilp`.
enum class KnapsackSolver : std::uint8_t { Dp, Greedy, Exact };
std::string_view name(KnapsackSolver solver);

struct KnapsackItem {
  double memory = 0;  ///< Not negative.
  double value = 0;   ///< Not negative.
};

struct KnapsackChoice {
  std::vector<std::uint8_t> taken;  ///< By item.
  double value = 0;                 ///< Of what is taken.
  double memory = 0;                ///< Of what is taken.
  bool optimal = false;             ///< Proven to be the best.
};

/// Memory is rounded to 1/10000 of a unit, half to even, and values are added in single precision, as
/// dp_knapsack of torch/_functorch/_activation_checkpointing/knapsack.py does: beside items worth 10^12, one
/// worth 1 is not worth taking. What is taken may go beyond the capacity by half a unit per item.
/// O(items * capacity) time, one bit of memory for each.
KnapsackChoice dp_knapsack(std::span<const KnapsackItem> items, double capacity);

/// By value per memory, whatever still fits; of equal ones the first (greedy_knapsack in the same file).
KnapsackChoice greedy_knapsack(std::span<const KnapsackItem> items, double capacity);

/// The best choice, by the sets that no other one beats in memory and value (Nemhauser and Ullmann 1969), of
/// which those go that the fractional bound rules out. Equal items are taken in order. `optimal` is false,
/// and the best found is given, where there were more than `states_max` such sets at a time.
KnapsackChoice exact_knapsack(std::span<const KnapsackItem> items, double capacity,
                              std::size_t states_max = 1'000'000);

KnapsackChoice knapsack(KnapsackSolver solver, std::span<const KnapsackItem> items, double capacity);

}  // namespace gpusim
