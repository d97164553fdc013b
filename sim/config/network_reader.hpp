// SPDX-License-Identifier: Apache-2.0
// Networks from YAML: configs/networks/*.yaml, or a file beside the scenario. docs/networks.md explains the
// format.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "models/graph/network.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// The network that `node` names, found beside the scenario and in the `networks` folders. Throws ConfigError
/// with every mistake of the file, located in it.
Network read_network(const Node& node, const SearchPath& search);

/// A network's file, already loaded; `key` is what scenarios call it. A file with `base:` is that network,
/// looked for in `search`, with other values for its parameters.
Network read_network_file(const Node& file, const std::string& key, const SearchPath& search = {});

/// Runs something that may throw a GraphError of `network`, which becomes a ConfigError at its place in the
/// network's file; one without a place is reported at `asked` (what in the scenario asked for it).
template <class Run>
auto located(const Network& network, const Node& asked, Run&& run) -> std::invoke_result_t<Run> {
  try {
    return std::forward<Run>(run)();
  } catch (const GraphError& error) {
    if (error.place().line == 0) asked.fail(error.what(), error.hint());
    throw ConfigError(Diagnostic{.where = {network.file, error.place().line, error.place().column},
                                 .path = {},
                                 .what = error.what(),
                                 .hint = error.hint()});
  }
}

/// A scalar of a scenario or network file as the value of a network's parameter: true, false, an integer, a
/// number or a word.
NetworkValue read_network_value(const Node& node);

}  // namespace gpusim::config
