// SPDX-License-Identifier: Apache-2.0
// What optimizers compute for each parameter, as a sequence of elementwise functions (torch/optim).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpusim {

/// One function over some of the tensors that belong to a parameter.
struct OptimizerFunction {
  std::string_view name;   ///< "addcmul_".
  std::int32_t lists = 1;  ///< How many of them it takes: the parameter, its gradient, moments, a new tensor.
  std::int32_t moves = 2;  ///< How often it reads or writes an element, all of them together.
  bool scalars = false;    ///< Takes a number that depends on the parameter's step.
};

/// Adam without `capturable`, one after the other; `decay`: AdamW, whose weights decay first.
std::vector<OptimizerFunction> adam_functions(bool decay);
/// All of it at once.
OptimizerFunction fused_adam();

std::vector<OptimizerFunction> sgd_functions(bool momentum);
OptimizerFunction fused_sgd(bool momentum);

}  // namespace gpusim
