// SPDX-License-Identifier: Apache-2.0
#include "models/cost/optimizer_functions.hpp"

namespace gpusim {

std::vector<OptimizerFunction> adam_functions(bool decay) {
  std::vector<OptimizerFunction> functions;
  if (decay) functions.push_back({"mul_", 1, 2});  // The parameter, by 1 - rate x decay.
  functions.push_back({"lerp_", 2, 3});            // First moment and gradient.
  functions.push_back({"mul_", 1, 2});             // Second moment,
  functions.push_back({"addcmul_", 3, 3});         // and the gradient's square, which is one tensor read.
  functions.push_back({"sqrt", 2, 2});             // The second moment's root, a new tensor.
  functions.push_back({"div_", 1, 2, true});
  functions.push_back({"add_", 1, 2});
  functions.push_back({"addcdiv_", 3, 4, true});  // Parameter, first moment, root.
  return functions;
}

OptimizerFunction fused_adam() {
  // Reads parameter, gradient and moments; writes all but the gradient.
  return {"fused_adam", 4, 7};
}

std::vector<OptimizerFunction> sgd_functions(bool momentum) {
  if (!momentum) return {{"add_", 2, 3}};
  return {{"mul_", 1, 2}, {"add_", 2, 3}, {"add_", 2, 3}};
}

OptimizerFunction fused_sgd(bool momentum) {
  return momentum ? OptimizerFunction{"fused_sgd", 3, 5} : OptimizerFunction{"fused_sgd", 2, 3};
}

}  // namespace gpusim
