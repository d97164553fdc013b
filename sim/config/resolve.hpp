// SPDX-License-Identifier: Apache-2.0
// Configurations that stand on others: `h200`, a map, or `{base: h200, memory: {bandwidth: 6 TB/s}}`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// Names that led here, each with its file: `base:` of `base:` of ...
using BaseChain = std::vector<std::string>;

/// The chain with one more name; throws where it would not end.
BaseChain extended(const BaseChain& chain, const Node& name);

/// A map with no `base` left in it, and the name that it goes by: "h200", "custom" for a map without one.
struct Resolved {
  Node map;
  std::string key;
};

/// What `value` stands for: the file of a name, a map, or a map laid over a named one. `kind` is the folder
/// of the names ("hardware"), `example` one of them, for hints. Mistakes keep the path of the place where the
/// value is used.
Resolved resolve(std::string_view kind, std::string_view example, const Node& value, const SearchPath& search,
                 const BaseChain& chain = {});

/// `merged` at the path of the place where it is used, for messages.
Node at_path(const Node& merged, std::string_view path);

}  // namespace gpusim::config
