// SPDX-License-Identifier: Apache-2.0
// The tree behind the handles. Items never change once built, so that trees share what they have in common.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/config/node.hpp"

namespace gpusim::config {

/// A Location that shares the file's name with all others of the file.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;

  Location location() const { return {file ? *file : std::string(), line, column}; }
};

struct Entry {
  std::string key;
  Place place;  ///< Of the key.
  std::shared_ptr<const Item> value;
};

struct Null {};
using Scalar = std::string;
using List = std::vector<std::shared_ptr<const Item>>;
using Map = std::vector<Entry>;  ///< In the order of the file, keys unique.

struct Item {
  std::variant<Null, Scalar, List, Map> content;  // In the order of Kind.
  Place place;

  Kind kind() const { return static_cast<Kind>(content.index()); }
  const Map& map() const { return std::get<Map>(content); }
  const List& list() const { return std::get<List>(content); }
};

using ItemPtr = std::shared_ptr<const Item>;

/// The path of `key` in the map at `path`: "a.b"; a key that a path would not show clearly is in quotes.
std::string joined_path(std::string path, const std::string& key);

template <class Content>
ItemPtr make_item(Content content, Place place) {
  return std::make_shared<const Item>(Item{std::move(content), std::move(place)});
}

}  // namespace gpusim::config
