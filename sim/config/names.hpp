// SPDX-License-Identifier: Apache-2.0
// Names of configuration files: `hardware: h200` is configs/hardware/h200.yaml.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

class InputDigest;

/// Where configurations of the project itself are: the source tree's while it exists (a build that was not
/// installed), else the installed ones.
std::filesystem::path builtin_configs();

/// The folders to search, in order: beside the scenario, then `extra` (GPUSIM_CONFIGS), then the project's
/// own.
struct SearchPath {
  std::filesystem::path beside;
  std::vector<std::filesystem::path> extra{};
  std::filesystem::path builtin = builtin_configs();
  std::shared_ptr<FileStore> files{};     ///< Keeps what has been read; none: files are read each time.
  std::shared_ptr<InputDigest> inputs{};  ///< Is told what is read; none: nobody asks.
};

/// GPUSIM_CONFIGS as the folders it lists, separated by ':'; empty ones are dropped.
std::vector<std::filesystem::path> split_search_list(std::string_view list);

/// The names of `kind` ("hardware", "hosts", ...) that can be found, sorted, each once.
std::vector<std::string> known_configs(std::string_view kind, const SearchPath& search);

/// The file of `name`: in each folder DIR of the search path DIR/kind/name.yaml, beside the scenario also
/// DIR/name.yaml (not for backends: scenarios bear their names). `name` is the scalar that gives it, so that
/// an unknown name is reported at its place with the known ones.
std::filesystem::path find_config(std::string_view kind, const Node& name, const SearchPath& search);
/// The same for a name from the command line; `where` is its place in messages ("--hardware").
std::filesystem::path find_config(std::string_view kind, const std::string& name, const Location& where,
                                  const SearchPath& search);

/// The tree of a file that find_config() found: from `search.files` if there are any.
Node load_config(const std::filesystem::path& file, const SearchPath& search);

}  // namespace gpusim::config
