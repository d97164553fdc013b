// SPDX-License-Identifier: Apache-2.0
// `gpusim trace calibrate`: host and hardware files from traces.
#pragma once

#include <string>
#include <vector>

#include "sim/app/command_line.hpp"
#include "sim/config/names.hpp"

namespace gpusim {

struct TraceCalibrateArguments {
  std::vector<std::string> traces;
  std::string host_out;
  std::string hardware_out;
  std::string host = "xeon-h200-cloud";  ///< Whose costs fill what the traces do not show.
  std::string hardware;                  ///< Name; empty: that of the traces.
};

/// Prints what it found and how far off it is. Throws ConfigError, TraceError.
ExitCode run_trace_calibrate(const TraceCalibrateArguments& arguments, const Surroundings& surroundings,
                             const config::SearchPath& search);

}  // namespace gpusim
