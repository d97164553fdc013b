// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/split_reduction.hpp"

#include <algorithm>
#include <cstdlib>

namespace gpusim {
namespace {

constexpr std::int64_t elements_min = 32;   ///< Per thread.
constexpr std::int64_t elements_max = 512;  ///< Per thread.
constexpr std::int64_t threads_per_sm = 2048;
constexpr std::int64_t threads = 256;  ///< Of a block.

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t nearest_divisor(std::int64_t n, std::int64_t wanted) {
  std::int64_t best = 1;
  const auto consider = [&](std::int64_t d) {
    const std::int64_t distance = std::abs(d - wanted);
    const std::int64_t known = std::abs(best - wanted);
    if (distance < known || (distance == known && d < best)) best = d;
  };
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      consider(d);
      consider(n / d);
    }
  return best;
}

/// Elements per thread: few if there is little work, else so that every SM has two blocks (`per_thread`),
/// evenly if a divisor is near.
std::int64_t elements_per_thread(std::int64_t outputs, std::int64_t reduced, std::int64_t sms,
                                 std::int64_t per_thread, std::int64_t near) {
  const std::int64_t all = outputs * reduced;
  if (all <= elements_min * sms * threads_per_sm) return elements_min;
  if (all < elements_max * sms * threads_per_sm) {
    const std::int64_t closest = nearest_divisor(reduced, per_thread);
    return std::abs(closest - per_thread) < near ? std::max(closest, elements_min) : per_thread;
  }
  const std::int64_t closest = nearest_divisor(reduced, elements_max);
  return std::abs(closest - elements_max) < 50 ? closest : elements_max;
}

}  // namespace

std::int64_t reduction_splits(std::int64_t outputs, std::int64_t reduced, bool inner, std::int64_t sms) {
  if (outputs > 1 && (reduced <= elements_min || outputs >= sms * 64)) return 1;
  if (outputs == 1 || inner) {
    if (outputs >= 2 * sms || reduced <= 8192) return 1;
    const std::int64_t blocks = ceil_div(sms * threads_per_sm / (2 * threads), outputs);
    const std::int64_t each =
        elements_per_thread(outputs, reduced, sms, ceil_div(reduced, threads * blocks), 30);
    return ceil_div(reduced, each * threads);
  }
  constexpr std::int64_t rows_per_thread = 4;
  constexpr std::int64_t columns_per_block = 128;
  const std::int64_t blocks = ceil_div(sms * threads_per_sm / threads, ceil_div(outputs, columns_per_block));
  const std::int64_t each =
      elements_per_thread(outputs, reduced, sms, ceil_div(reduced, rows_per_thread * blocks), 20);
  return ceil_div(reduced, rows_per_thread * each);
}

bool is_persistent(std::int64_t reduced, bool inner) {
  return reduced <= (inner ? 1024 : 64);
}

}  // namespace gpusim
