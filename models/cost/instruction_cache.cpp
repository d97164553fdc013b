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

}  // namespace gpusim
