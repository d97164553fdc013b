// SPDX-License-Identifier: Apache-2.0
// Phrases that the text report and its advice share.
#pragma once

#include <string>

#include "sim/report/metrics.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

/// "its peak of 160 GiB exceeds the device's 131.3 GiB"; empty if it fits or the capacity is not known.
std::string out_of_memory_text(const VariantResult& result, const Metrics& metrics);

}  // namespace gpusim::report
