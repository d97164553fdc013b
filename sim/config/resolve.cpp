// SPDX-License-Identifier: Apache-2.0
#include "sim/config/resolve.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "sim/config/overlay.hpp"

namespace gpusim::config {
namespace {

constexpr std::size_t base_depth_max = 8;

std::string joined(const BaseChain& chain) {
  std::string text;
  for (const std::string& name : chain) text += (text.empty() ? "" : " -> ") + name;
  return text;
}

/// "h200" for a map that is the content of .../hardware/h200.yaml.
std::string key_of_place(const Node& map, std::string_view kind) {
  const std::filesystem::path file = map.location().file;
  if (file.parent_path().filename() == kind && file.extension() == ".yaml") return file.stem().string();
  return "custom";
}

}  // namespace

BaseChain extended(const BaseChain& chain, const Node& name) {
  BaseChain longer = chain;
  longer.push_back(name.text());
  if (std::find(chain.begin(), chain.end(), name.text()) != chain.end())
    name.fail("'base' leads back to itself: " + joined(longer));
  if (longer.size() > base_depth_max)
    name.fail("more than " + std::to_string(base_depth_max) +
              " files stand on each other by 'base' (base_depth_max): " + joined(longer));
  return longer;
}

Node at_path(const Node& merged, std::string_view path) {
  std::vector<std::string> keys;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    keys.emplace_back(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  Node node = merged;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key)
    node = Node::empty_map(merged.location()).with(*key, node);
  for (const std::string& key : keys) node = node.at(key);
  return node;
}

Resolved resolve(std::string_view kind, std::string_view example, const Node& value, const SearchPath& search,
                 const BaseChain& chain) {
  if (value.is_scalar()) {
    const BaseChain longer = extended(chain, value);
    const Node file = load_config(find_config(kind, value, search), search);
    if (!file.is_map()) file.fail("this file has to be a map of keys");
    Resolved result = resolve(kind, example, file, search, longer);
    result.key = std::filesystem::path(value.text()).stem().string();
    return result;
  }
  if (!value.is_map()) {
    const std::string name(example);
    value.fail("this has to be a name or a map",
               "write for example '" + name + "' or {base: " + name + ", ...}");
  }
  const auto base = value.find("base");
  if (!base) return {value, key_of_place(value, kind)};
  if (!base->is_scalar()) base->fail("'base' is the name of another file");
  Resolved under = resolve(kind, example, *base, search, chain);
  return {at_path(deep_merge(under.map, value.as_root().without("base")), value.path()), under.key};
}

}  // namespace gpusim::config
