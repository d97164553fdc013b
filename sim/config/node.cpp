// SPDX-License-Identifier: Apache-2.0
#include "sim/config/node.hpp"

#include <algorithm>
#include <cctype>
#include <type_traits>

#include "sim/config/tree.hpp"

namespace gpusim::config {

struct Frame {
  ItemPtr item;
  std::shared_ptr<const Frame> parent;  ///< Null for the root.
  std::size_t index = 0;                ///< Of the item in its parent.

  // What the reader asked for: the names, also those that are not there, and which entries were found.
  mutable std::vector<std::string> asked{};
  mutable std::vector<bool> found{};
};

namespace {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::Null:
      return "nothing";
    case Kind::Scalar:
      return "a single value";
    case Kind::List:
      return "a list";
    case Kind::Map:
      return "a map";
  }
  return "";
}

template <class T>
std::string_view noun() {
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return "a whole number";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, Picoseconds>) return "a duration";
  if constexpr (std::is_same_v<T, Bytes>) return "a size";
  if constexpr (std::is_same_v<T, BytesPerSecond>) return "a rate";
  if constexpr (std::is_same_v<T, Flops>) return "an amount of work";
  if constexpr (std::is_same_v<T, FlopsPerSecond>) return "a rate of work";
  if constexpr (std::is_same_v<T, Hertz>) return "a frequency";
  if constexpr (std::is_same_v<T, Watts>) return "a power";
  if constexpr (std::is_same_v<T, JoulesPerFlop>) return "an energy per FLOP";
  if constexpr (std::is_same_v<T, JoulesPerByte>) return "an energy per byte";
  if constexpr (std::is_same_v<T, Ratio>) return "a ratio";
}

/// A key as paths show it: bare if that is unambiguous.
std::string path_key(const std::string& key) {
  const bool bare = !key.empty() && std::ranges::all_of(key, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == ' ' || c == '/' ||
           c == ':' || (static_cast<unsigned char>(c) & 0x80U) != 0;
  });
  return bare ? key : in_quotes(key);
}

std::string path_of(const Frame& frame) {
  if (!frame.parent) return {};
  if (frame.parent->item->kind() == Kind::List) {
    return path_of(*frame.parent) + '[' + std::to_string(frame.index) + ']';
  }
  return joined_path(path_of(*frame.parent), frame.parent->item->map()[frame.index].key);
}

std::string no_value_hint(bool has_key) {
  return has_key ? "write a value after the colon, or remove the key" : std::string();
}

}  // namespace

std::string joined_path(std::string path, const std::string& key) {
  if (!path.empty()) path += '.';
  return path + path_key(key);
}

Node::Node(std::shared_ptr<const Item> root)
    : frame_(std::make_shared<const Frame>(Frame{.item = std::move(root), .parent = nullptr})) {}

Node Node::empty_map(Location where) {
  return Node(make_item(
      Map{}, Place{std::make_shared<const std::string>(std::move(where.file)), where.line, where.column}));
}

const ItemPtr& Node::item() const {
  return frame_->item;
}
Kind Node::kind() const {
  return frame_->item->kind();
}
Location Node::location() const {
  return frame_->item->place.location();
}
Location Node::key_location() const {
  if (!frame_->parent || frame_->parent->item->kind() != Kind::Map) return location();
  return frame_->parent->item->map()[frame_->index].place.location();
}
std::string Node::path() const {
  return path_of(*frame_);
}

const std::string& Node::text() const {
  expect(Kind::Scalar);
  return std::get<Scalar>(frame_->item->content);
}

Node Node::child(std::size_t index) const {
  const ItemPtr& item =
      frame_->item->kind() == Kind::List ? frame_->item->list()[index] : frame_->item->map()[index].value;
  return Node(std::make_shared<const Frame>(Frame{.item = item, .parent = frame_, .index = index}));
}

void Node::expect(Kind wanted) const {
  if (kind() == wanted) return;
  if (kind() == Kind::Null) {
    fail("has no value; " + std::string(name_of(wanted)) + " is needed",
         no_value_hint(frame_->parent && frame_->parent->item->kind() == Kind::Map));
  }
  fail("must be " + std::string(name_of(wanted)) + ", not " + std::string(name_of(kind())));
}

Node Node::at(std::string_view key) const {
  if (auto value = find(key)) return *std::move(value);
  std::string hint;
  for (const Entry& entry : frame_->item->map())
    hint += (hint.empty() ? "keys given here: " : ", ") + path_key(entry.key);
  fail("missing key " + in_quotes(key), hint.empty() ? "the map is empty" : hint);
}

std::optional<Node> Node::find(std::string_view key) const {
  expect(Kind::Map);
  frame_->asked.emplace_back(key);
  const Map& map = frame_->item->map();
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i].key != key) continue;
    frame_->found.resize(map.size());
    frame_->found[i] = true;
    return child(i);
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, Node>> Node::entries() const {
  expect(Kind::Map);
  const Map& map = frame_->item->map();
  frame_->found.assign(map.size(), true);
  std::vector<std::pair<std::string, Node>> result;
  result.reserve(map.size());
  for (std::size_t i = 0; i < map.size(); ++i) result.emplace_back(map[i].key, child(i));
  return result;
}

std::vector<std::string> Node::keys() const {
  expect(Kind::Map);
  std::vector<std::string> result;
  for (const Entry& entry : frame_->item->map()) result.push_back(entry.key);
  return result;
}

void Node::done() const {
  expect(Kind::Map);
  const Map& map = frame_->item->map();
  std::vector<std::string> known;
  Errors errors;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (i < frame_->found.size() && frame_->found[i]) continue;
    if (known.empty()) {
      for (const std::string& name : frame_->asked) {
        if (std::ranges::find(known, name) == known.end()) known.push_back(name);
      }
    }
    errors.add(
        {map[i].place.location(), child(i).path(), "unknown key", name_hint(map[i].key, known, "keys")});
  }
  errors.throw_if_any();
}

std::vector<Node> Node::items() const {
  expect(Kind::List);
  std::vector<Node> result;
  const std::size_t count = frame_->item->list().size();
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(child(i));
  return result;
}

std::size_t Node::size() const {
  if (is_list()) return frame_->item->list().size();
  return is_map() ? frame_->item->map().size() : 0;
}

template <Readable T>
T Node::as() const {
  if (!is_scalar()) {
    if (is_null()) {
      fail("has no value; " + std::string(noun<T>()) + " is needed",
           no_value_hint(frame_->parent && frame_->parent->item->kind() == Kind::Map));
    }
    fail("must be " + std::string(noun<T>()) + ", not " + std::string(name_of(kind())));
  }
  const std::string& scalar = text();
  if constexpr (std::is_same_v<T, std::string>) {
    return scalar;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (scalar == "true") return true;
    if (scalar == "false") return false;
    fail(in_quotes(scalar) + " is neither true nor false");
  } else {
    const auto parsed = parse_quantity<T>(scalar);
    if (!parsed) fail(parsed.error().what, parsed.error().hint);
    return parsed.value();
  }
}

template std::string Node::as<std::string>() const;
template bool Node::as<bool>() const;
template std::int64_t Node::as<std::int64_t>() const;
template double Node::as<double>() const;
template Picoseconds Node::as<Picoseconds>() const;
template Bytes Node::as<Bytes>() const;
template BytesPerSecond Node::as<BytesPerSecond>() const;
template Flops Node::as<Flops>() const;
template FlopsPerSecond Node::as<FlopsPerSecond>() const;
template Hertz Node::as<Hertz>() const;
template Watts Node::as<Watts>() const;
template JoulesPerFlop Node::as<JoulesPerFlop>() const;
template JoulesPerByte Node::as<JoulesPerByte>() const;
template Ratio Node::as<Ratio>() const;

Diagnostic Node::diagnostic(std::string what, std::string hint) const {
  return {location(), path(), std::move(what), std::move(hint)};
}

void Node::fail(std::string what, std::string hint) const {
  throw ConfigError(diagnostic(std::move(what), std::move(hint)));
}

void Node::fail_unknown(std::span<const std::string> known) const {
  fail("unknown name " + in_quotes(text()), name_hint(text(), known, "names"));
}

Node Node::with(std::string_view key, const Node& value) const {
  expect(Kind::Map);
  Map map = frame_->item->map();
  const auto entry = std::ranges::find(map, key, &Entry::key);
  if (entry != map.end()) {
    entry->value = value.item();
  } else {
    map.push_back({std::string(key), value.item()->place, value.item()});
  }
  return Node(make_item(std::move(map), frame_->item->place));
}

Node Node::without(std::string_view key) const {
  expect(Kind::Map);
  Map map = frame_->item->map();
  std::erase_if(map, [&](const Entry& entry) { return entry.key == key; });
  return Node(make_item(std::move(map), frame_->item->place));
}

namespace {

void write_canonical(const Item& item, std::string& out) {
  // Texts go with their length, so that no two values have one text.
  const auto write_text = [&](const std::string& text) { out += std::to_string(text.size()) + ':' + text; };
  switch (item.kind()) {
    case Kind::Null:
      out += '~';
      break;
    case Kind::Scalar:
      write_text(std::get<Scalar>(item.content));
      break;
    case Kind::List:
      out += '[';
      for (const ItemPtr& child : item.list()) write_canonical(*child, out);
      out += ']';
      break;
    case Kind::Map:
      out += '{';
      for (const Entry& entry : item.map()) {
        write_text(entry.key);
        write_canonical(*entry.value, out);
      }
      out += '}';
      break;
  }
}

}  // namespace

std::string Node::canonical_text() const {
  std::string text;
  write_canonical(*item(), text);
  return text;
}

Node Node::as_root() const {
  return Node(frame_->item);
}

}  // namespace gpusim::config
