// SPDX-License-Identifier: Apache-2.0
// `gpusim trace diff`: two traces, or a trace and a simulation, kernel by kernel.
#pragma once

#include <cstdint>
#include <string>

#include "sim/app/command_line.hpp"

namespace gpusim {

struct DiffArguments {
  std::string a;  ///< Trace (.json, .json.gz), or scenario (.yaml).
  std::string b;
  std::string variant_a;  ///< Of a scenario; empty: its first.
  std::string variant_b;
  std::string steps = "auto";  ///< "auto", "one" or "all".
  std::int64_t rows = 20;
  std::string format = "text";
};

/// A scenario is simulated for `simulated_steps` steps from an idle machine. Throws ConfigError, TraceError,
/// engine::DeadlockError.
ExitCode run_trace_diff(const DiffArguments& arguments, const Surroundings& surroundings);

inline constexpr std::int64_t simulated_steps = 4;

}  // namespace gpusim
