// SPDX-License-Identifier: Apache-2.0
// `gpusim explain`: what the compilers of a scenario's variants do, and why.
#pragma once

#include <string>
#include <vector>

#include "sim/report/explain_report.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// What the compiler did, of each variant that is a compiled network. `curve`: as below.
std::vector<report::ExplainedVariant> explained_variants(const Scenario& scenario, bool curve);

/// `format`: "text" or "json". `curve`: also what a training step takes with less and with more kept for its
/// backward pass, each compiled and simulated. Throws ConfigError where no variant is a compiled network.
std::string explain(const Scenario& scenario, const std::string& format, bool curve,
                    const std::string& input);

}  // namespace gpusim
