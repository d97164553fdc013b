// SPDX-License-Identifier: Apache-2.0
// The `expect:` list of a scenario.
#pragma once

#include <string>
#include <vector>

#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// A figure's JSON path without the units in it: "idle_us.dispatch" -> "idle.dispatch". Its value then
/// carries one.
std::string without_units(const std::string& metric);

/// `variants`: all names that the scenario has; `metrics`: JSON paths of all figures.
/// Throws ConfigError with every mistake found.
std::vector<Expectation> read_expectations(const config::Node& list, const std::vector<std::string>& variants,
                                           const std::vector<std::string>& metrics);

}  // namespace gpusim
