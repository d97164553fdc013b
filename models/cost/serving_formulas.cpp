// SPDX-License-Identifier: Apache-2.0
#include "models/cost/serving_formulas.hpp"

#include <stdexcept>

namespace gpusim {
namespace {

void want_rate(double tokens_per_second) {
  if (!(tokens_per_second > 0)) throw std::invalid_argument("a rate of tokens must be positive");
}

}  // namespace

double dollars_per_million_tokens(double dollars_per_gpu_hour, double tokens_per_second_per_gpu) {
  want_rate(tokens_per_second_per_gpu);
  return dollars_per_gpu_hour / (3600 * tokens_per_second_per_gpu) * 1e6;
}

double gpus_for_tokens_per_day(double tokens_per_day, double tokens_per_second_per_gpu) {
  want_rate(tokens_per_second_per_gpu);
  return tokens_per_day / (86'400 * tokens_per_second_per_gpu);
}

}  // namespace gpusim
