// SPDX-License-Identifier: Apache-2.0
// Compilers from YAML: configs/backends/*.yaml, or a file in `backends/` beside the scenario. The one place
// that knows the keys of docs/backends.md.
#pragma once

#include <vector>

#include "models/compiler/backend.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// A backend: a name (`inductor`), a map, or a map over a named one (`{base: inductor, capture:
/// whole_graph}`). What stands beside `modes` holds in all of them; without `modes` there is one, called
/// "default". Throws ConfigError with every mistake found, located where it was written.
Backend read_backend(const Node& backend, const SearchPath& search);

/// Changes what the map gives and leaves the rest. Scenarios use them too.
void read_fusion_rules(const Node& node, FusionRules& into);
void read_passes(const Node& node, SimplifyRules& into);

/// A format that products can run in ("fp8"); those that are not multiplied are refused.
ElementType read_precision(const Node& node);

/// All backends that can be found by name, sorted by it.
std::vector<Backend> known_backends(const SearchPath& search);

}  // namespace gpusim::config
