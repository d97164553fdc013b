// SPDX-License-Identifier: Apache-2.0
// `gpusim explain`: what the compilers of a scenario's variants do, and why.
#pragma once

#include <string>

#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// `format`: "text" or "json". `curve`: also what a training step takes with less and with more kept for its
/// backward pass, each compiled and simulated. Throws ConfigError where no variant is a compiled network.
std::string explain(const Scenario& scenario, const std::string& format, bool curve = false);

}  // namespace gpusim
