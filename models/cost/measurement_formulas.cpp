// SPDX-License-Identifier: Apache-2.0
#include "models/cost/measurement_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace gpusim {

double percentile(std::vector<double> samples, double percent) {
  if (samples.empty()) throw std::invalid_argument("percentile of no samples");
  if (!(percent > 0 && percent <= 100)) throw std::invalid_argument("percentile outside (0, 100]");
  // Multiplied first: 99 * 100 / 100 is exactly 99, 0.99 * 100 is not.
  const double rank = std::ceil(percent * static_cast<double>(samples.size()) / 100);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(samples.begin(), nth, samples.end());
  return *nth;
}

double median(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("median of no samples");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*std::max_element(samples.begin(), middle) + *middle) / 2;
}

std::span<const double> after_warmup(std::span<const double> samples, std::size_t warmup) {
  return samples.subspan(std::min(warmup, samples.size()));
}

double unit_in_last_place(double value, int significand_bits) {
  return std::ldexp(1.0, std::ilogb(value) + 1 - significand_bits);
}

}  // namespace gpusim
