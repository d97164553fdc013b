// SPDX-License-Identifier: Apache-2.0
// `gpusim validate`: what scenarios predict against what was measured.
#pragma once

#include <string>
#include <vector>

#include "sim/app/command_line.hpp"

namespace gpusim {

struct ValidateArguments {
  std::vector<std::string> tables;
  std::vector<std::string> sets;  ///< Laid over every case, after its own.
  std::string format = "text";    ///< "text" or "csv".
};

/// Prints every case, worst first, and returns ExpectationFailed if a limit of a table is passed. Throws
/// ConfigError for bad tables and scenarios.
ExitCode run_validate(const ValidateArguments& arguments, const Surroundings& surroundings);

}  // namespace gpusim
