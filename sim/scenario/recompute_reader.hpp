// SPDX-License-Identifier: Apache-2.0
// `recompute: {...}` of a variant: what a compiled training step keeps for backward. The one place that knows
// these keys.
#pragma once

#include "models/compiler/options.hpp"
#include "sim/config/node.hpp"

namespace gpusim {

/// Reads a policy's name, or a map. Gathers every mistake and throws ConfigError.
void read_recompute(const config::Node& node, CompileOptions& options);

}  // namespace gpusim
