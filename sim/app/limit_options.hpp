// SPDX-License-Identifier: Apache-2.0
// `--limit NAME=VALUE`, of all commands that read input.
#pragma once

#include <string>
#include <vector>

#include "sim/config/limits.hpp"
#include "sim/trace/trace.hpp"

namespace CLI {
class App;
}

namespace gpusim {

/// Adds the option; its values go to `assignments`.
void add_limit_option(CLI::App& app, std::vector<std::string>& assignments);

/// The limits that the assignments leave. Throws ConfigError.
config::Limits limits_of(const std::vector<std::string>& assignments);

/// What a trace may ask for, of all limits.
TraceLimits trace_limits(const config::Limits& limits);

/// Holds the process to limits.memory_bytes: what goes beyond it fails as std::bad_alloc. Throws ConfigError
/// if the system refuses.
void limit_memory(const config::Limits& limits);

}  // namespace gpusim
