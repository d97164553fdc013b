// SPDX-License-Identifier: Apache-2.0
// Whether results are as a scenario expects them.
#pragma once

#include <string>
#include <vector>

#include "sim/report/metrics.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// JSON paths of all figures that `expect` may name.
std::vector<std::string> metric_paths();

/// One result per expectation, in their order. `metrics` holds those of the variants that the expectations
/// name.
std::vector<report::ExpectationResult> check_expectations(const std::vector<Expectation>& expectations,
                                                          const std::vector<report::Metrics>& metrics);

/// Whether `actual` (with `relative_to`: the quotient) is as `expectation` wants it.
bool is_as_expected(const Expectation& expectation, const report::Value& actual);

/// "eager.step_time: expected at most 1.5 ms, but it is 1.8 ms". Without the place in the file.
std::string describe(const report::ExpectationResult& result);

}  // namespace gpusim
