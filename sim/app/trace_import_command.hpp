// SPDX-License-Identifier: Apache-2.0
// `gpusim trace import`: a trace becomes a scenario file.
#pragma once

#include <string>

#include "sim/app/command_line.hpp"
#include "sim/config/names.hpp"

namespace gpusim {

struct ImportArguments {
  std::string trace;
  std::string out;                   ///< Where the scenario goes; empty: standard output.
  std::string hardware;              ///< Name; empty: that of the trace.
  std::string host_time = "traced";  ///< "auto", "traced" or a factor.
  bool no_fold = false;
};

/// Throws ConfigError, TraceError.
ExitCode run_trace_import(const ImportArguments& arguments, const Surroundings& surroundings,
                          const config::SearchPath& search);

/// Reads "--host-time": 0 for "auto". Throws ConfigError.
double host_time_factor(const std::string& text);

}  // namespace gpusim
