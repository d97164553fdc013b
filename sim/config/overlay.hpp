// SPDX-License-Identifier: Apache-2.0
// Trees laid over trees: variants, `base:` files and `--set`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/config/node.hpp"

namespace gpusim::config {

/// Says what stands behind a name: called with the scalar where a map goes below it (`hardware: h200` and
/// `--set hardware.sms=64`). Returns the map that the name stands for, or nothing if the key takes no names.
using Expand = std::function<std::optional<Node>(const Node& name)>;

/// `overlay` laid over `base`: maps merge key by key, scalars and lists replace, and null replaces too. A map
/// laid over a scalar replaces it unless `expand` knows the map behind it. Each value keeps the place it came
/// from, each key that of the overlay. The result is a root.
Node deep_merge(const Node& base, const Node& overlay, const Expand& expand = {});

/// `root` with one value changed: `assignment` is "a.b.0.c=value". List items go by index (a.b[0].c as well),
/// keys with a point in them in quotes; missing keys of maps are created, missing list items are not; the
/// value is YAML
/// (`{uniform: {min: 1 us, max: 2 us}}` too). Mistakes are located as "--set a.b=value: error: ...", now and
/// when a reader later refuses the value.
Node apply_set(const Node& root, std::string_view assignment, const Expand& expand = {});

}  // namespace gpusim::config
