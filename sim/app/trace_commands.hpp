// SPDX-License-Identifier: Apache-2.0
// `gpusim trace summary` and `gpusim trace critical-path`: what a profiler trace says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/app/command_line.hpp"

namespace gpusim {

struct TraceArguments {
  std::vector<std::string> files;  ///< Traces, or folders of them.
  std::string format = "text";     ///< text, json, csv.
  std::size_t top = 10;            ///< Lines of each table of the critical path.
};

/// Throws TraceError for what is no trace, and for a folder without any.
ExitCode run_trace_summary(const TraceArguments& arguments, const Surroundings& surroundings);
ExitCode run_trace_critical_path(const TraceArguments& arguments, const Surroundings& surroundings);

}  // namespace gpusim
