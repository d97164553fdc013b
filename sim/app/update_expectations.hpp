// SPDX-License-Identifier: Apache-2.0
// `gpusim test --update`: the figures of a scenario's `equals:` rewritten as they have become, and nothing
// else of the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

struct ExpectationUpdate {
  std::string where;   ///< "file:line:column" of the value.
  std::string path;    ///< "eager.step_time".
  std::string before;  ///< As written.
  std::string after;
};

struct UpdatedExpectations {
  std::string text;  ///< Of the file, with the updates.
  std::vector<ExpectationUpdate> updates;
  /// Expectations that fail and stay as they are, and why: "file:line:column: path: reason".
  std::vector<std::string> left;
};

/// `text` is that of the scenario's file; `results` are of its expectations, in their order. Of those that
/// fail, `equals` gets the actual value, in the unit in which it is written: exact, or with `within` to as
/// many decimals as before, more where they are needed. `min`, `max` and `not` state an intent, and are left.
/// So is what does not stand as a plain value behind `equals:` (an alias, a value set from outside).
UpdatedExpectations update_expectations(std::string_view text, const Scenario& scenario,
                                        const std::vector<report::ExpectationResult>& results);

}  // namespace gpusim
