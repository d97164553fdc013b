// SPDX-License-Identifier: Apache-2.0
#include "models/cost/instruction_cache.hpp"

#include <array>
#include <utility>

namespace gpusim {

double instruction_cache_share(std::string_view kind) {
  // sin reduces its argument with the same code as cos.
  constexpr std::array<std::pair<std::string_view, double>, 4> known = {
      {{"cos", 1.0 / 20}, {"sin", 1.0 / 20}, {"tanh", 1.0 / 45}, {"gelu", 1.0 / 60}}};
  for (const auto& [name, share] : known)
    if (name == kind) return share;
  return 0;
}

double instruction_stall(double functions, double share) {
  constexpr double cycles = 8.1;
  return share > 1 ? cycles * functions * (1 - 1 / share) : 0;
}

double code_bytes(std::string_view kernel) {
  constexpr double kib = 1024;
  constexpr std::array<std::string_view, 5> of_libraries = {"product", "batched_product", "grouped_product",
                                                            "convolution", "attention"};
  for (const std::string_view large : of_libraries)
    if (kernel.starts_with(large)) return 48 * kib;
  for (const std::string_view small : {"elementwise", "fill", "tiny"})
    if (kernel == small) return 4 * kib;
  return 12 * kib;
}

}  // namespace gpusim
