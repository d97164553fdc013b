// SPDX-License-Identifier: Apache-2.0
// Measured kernels of training steps (validation/measure/training_kernels.py): gradients of products and
// convolutions, attention with its backward, sums over rows, batch norm in training.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sim/calibrate/kernel_cases.hpp"

namespace gpusim::calibrate {

/// As understand(), for a name cut at its slashes and the numbers of its last part.
bool understand_training(KernelCase& kernel_case, std::span<const std::string> name,
                         std::span<const std::int64_t> shape);

}  // namespace gpusim::calibrate
