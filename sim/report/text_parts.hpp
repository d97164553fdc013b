// SPDX-License-Identifier: Apache-2.0
// Phrases that the text report and its advice share.
#pragma once

#include <string>

#include "sim/report/metrics.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

/// "its peak of 160 GiB exceeds the device's 131.3 GiB"; empty if it fits or the capacity is not known.
std::string out_of_memory_text(const VariantResult& result, const Metrics& metrics);

// Sections of the text report, with an empty line behind; empty where there is nothing to say. `variant`:
// whose; empty if there is but one.

/// A training step's time by phase.
std::string phases_text(const Metrics& metrics, const std::string& variant);
/// What the memory at the worst moment is taken for.
std::string memory_text(const Metrics& metrics, const std::string& variant);
/// What goes between ranks, and how much of it nothing hides.
std::string communication_text(const Metrics& metrics, const std::string& variant);
/// Which setting fits.
std::string fit_text(const Metrics& metrics, const std::string& variant);

}  // namespace gpusim::report
