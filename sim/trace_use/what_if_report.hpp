// SPDX-License-Identifier: Apache-2.0
// Predictions for people (80 columns) and for programs (JSON).
#pragma once

#include <string>

#include "sim/trace_use/what_if.hpp"

namespace gpusim {

std::string what_if_text(const WhatIf& result);
std::string what_if_json(const WhatIf& result);

}  // namespace gpusim
