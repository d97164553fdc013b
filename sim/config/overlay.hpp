// SPDX-License-Identifier: Apache-2.0
// Trees laid over trees: variants, `base:` files and `--set`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/config/node.hpp"

namespace gpusim::config {

/// `overlay` laid over `base`: maps merge key by key, scalars and lists replace, and null replaces too. Each
/// value keeps the place it came from. The result is a root.
Node deep_merge(const Node& base, const Node& overlay);

/// Says what stands behind a name: called with the scalar at the head of a path that goes below it
/// (`hardware: h200` and `--set hardware.sms=64`). Returns the map to edit, or nothing if the key takes no
/// names.
using Expand = std::function<std::optional<Node>(const Node& name)>;

/// `root` with one value changed: `assignment` is "a.b.0.c=value". List items go by index; missing keys of
/// maps are created, missing list items are not; the value is YAML (`{uniform: {min: 1 us, max: 2 us}}` too).
/// Mistakes are located as "--set a.b=value: error: ...", now and when a reader later refuses the value.
Node apply_set(const Node& root, std::string_view assignment, const Expand& expand = {});

}  // namespace gpusim::config
