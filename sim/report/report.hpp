// SPDX-License-Identifier: Apache-2.0
// Reports of simulated scenarios. Pure functions: same results, same bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/result.hpp"

namespace gpusim::report {

/// One JSON object for all scenarios. Keys are never renamed, later versions add some. Microseconds carry six
/// decimals, so that sums of picoseconds can be checked; what is unknown is null. docs/reading-a-report.md
/// lists them.
std::string to_json(const std::vector<ScenarioReport>& reports, std::string_view version);

/// A header and one row per variant; columns bear the JSON names ("idle_us.dispatch"), the last two are the
/// version ("gpusim") and the digest of the input ("input"). Unknown is empty.
std::string to_csv(const std::vector<ScenarioReport>& reports, std::string_view version);

/// For people: at most 80 columns, ASCII but for the names in it.
std::string to_text(const ScenarioReport& report);

/// One paragraph on the first variant, after the five steps of finding a bottleneck: measure, idle time,
/// ranking, roofs, change one thing. Says only what the figures bear out.
std::string advice(const ScenarioReport& report);

/// The same, sentence by sentence where they can stand alone, for a variant by its place.
std::vector<std::string> advice_sentences(const ScenarioReport& report, std::size_t variant = 0);

}  // namespace gpusim::report
