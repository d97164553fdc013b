// SPDX-License-Identifier: Apache-2.0
// What in a model's Python code keeps it from being one graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusim {

/// Why Dynamo stops tracing.
enum class BreakCause : std::uint8_t {
  Print,                ///< print(), logging.
  Item,                 ///< .item(), .tolist(): also waits for the device.
  DataDependentBranch,  ///< `if` on a tensor's value: reads it, so it waits too.
  UnsupportedLibrary,   ///< A call that Dynamo cannot follow.
  CustomClass,          ///< Attribute access of a class with __getattr__ of its own, and the like.
  DynamicShape,         ///< A shape that depends on data (nonzero, boolean index): waits for it.
  Explicit,             ///< torch._dynamo.graph_break().
};
/// "print", "item", "branch", "library", "class", "dynamic_shape", "explicit".
std::string_view name(BreakCause cause);
std::optional<BreakCause> find_break_cause(std::string_view name);
/// All names, for hints.
std::vector<std::string> break_cause_names();
/// Whether the host waits there for the device, with or without a compiler.
bool synchronizes(BreakCause cause);

}  // namespace gpusim
