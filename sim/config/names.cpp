// SPDX-License-Identifier: Apache-2.0
#include "sim/config/names.hpp"

#include <algorithm>
#include <optional>
#include <system_error>

#include "models/units/text.hpp"
#include "sim/config/input_digest.hpp"

namespace gpusim::config {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<fs::path> folders_of(std::string_view kind, const SearchPath& search) {
  std::vector<fs::path> folders;
  folders.push_back(search.beside / kind);
  for (const fs::path& folder : search.extra) folders.push_back(folder / kind);
  folders.push_back(search.builtin / kind);
  return folders;
}

/// The file of a name, or nothing. A name that is a path ("boards/mine.yaml") is taken from beside the
/// scenario.
std::optional<fs::path> look_up(std::string_view kind, const std::string& name, const SearchPath& search) {
  if (name.ends_with(".yaml")) {
    const fs::path path = search.beside / name;
    return is_file(path) ? std::optional(path) : std::nullopt;
  }
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') return std::nullopt;
  const std::string file = name + ".yaml";
  // Scenarios are often called after the compiler they try: `eager.yaml` is no backend.
  if (kind != "backends" && is_file(search.beside / file)) return search.beside / file;
  for (const fs::path& folder : folders_of(kind, search)) {
    if (is_file(folder / file)) return folder / file;
  }
  return std::nullopt;
}

Diagnostic not_found(std::string_view kind, const std::string& name, const SearchPath& search) {
  Diagnostic diagnostic;
  if (name.ends_with(".yaml")) {
    diagnostic.what = "no such file: " + in_quotes((search.beside / name).string());
    return diagnostic;
  }
  const auto known = known_configs(kind, search);
  diagnostic.what = "unknown " + std::string(kind) + " " + in_quotes(name);
  diagnostic.hint = name_hint(name, known, kind);
  return diagnostic;
}

}  // namespace

fs::path builtin_configs() {
  std::error_code ignored;
  if (fs::is_directory(GPUSIM_SOURCE_CONFIGS, ignored)) return GPUSIM_SOURCE_CONFIGS;
  return GPUSIM_INSTALLED_CONFIGS;
}

std::vector<fs::path> split_search_list(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) folders.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

std::vector<std::string> known_configs(std::string_view kind, const SearchPath& search) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders_of(kind, search)) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() == ".yaml" && is_file(entry->path()))
        names.push_back(entry->path().stem().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path find_config(std::string_view kind, const Node& name, const SearchPath& search) {
  const auto text = name.as<std::string>();
  if (auto path = look_up(kind, text, search)) return *std::move(path);
  Diagnostic diagnostic = not_found(kind, text, search);
  name.fail(std::move(diagnostic.what), std::move(diagnostic.hint));
}

fs::path find_config(std::string_view kind, const std::string& name, const Location& where,
                     const SearchPath& search) {
  if (auto path = look_up(kind, name, search)) return *std::move(path);
  Diagnostic diagnostic = not_found(kind, name, search);
  diagnostic.where = where;
  throw ConfigError(std::move(diagnostic));
}

Node load_config(const fs::path& file, const SearchPath& search) {
  Node tree = search.files ? search.files->load(file) : load_file(file);
  if (search.inputs) search.inputs->add_tree(tree);
  return tree;
}

}  // namespace gpusim::config
