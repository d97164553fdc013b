// SPDX-License-Identifier: Apache-2.0
// `gpusim trace what-if`: a traced step with something changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/app/command_line.hpp"
#include "sim/config/names.hpp"
#include "sim/trace_use/what_if.hpp"

namespace gpusim {

struct WhatIfArguments {
  std::string trace;
  std::vector<std::string> changes;
  std::string hardware;                  ///< Name; empty: that of the trace.
  std::string host = "xeon-h200-cloud";  ///< Prices compiled code.
  std::string host_time = "auto";        ///< "auto", "traced" or a factor.
  std::string format = "text";
};

/// Throws ConfigError, TraceError.
ExitCode run_trace_what_if(const WhatIfArguments& arguments, const Surroundings& surroundings,
                           const config::SearchPath& search);

/// The GPU a trace was taken on by the name that its file gives, or `name` if one is given.
std::optional<GpuSpec> gpu_of_trace(const Trace& trace, const std::string& name,
                                    const config::SearchPath& search);
/// A GPU or host by name; `where` is the option in messages.
GpuSpec gpu_by_name(const std::string& name, const std::string& where, const config::SearchPath& search);
HostSpec host_by_name(const std::string& name, const std::string& where, const config::SearchPath& search);

}  // namespace gpusim
