// SPDX-License-Identifier: Apache-2.0
#include "sim/config/overlay.hpp"

#include <charconv>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/config/tree.hpp"

namespace gpusim::config {
namespace {

/// As deep as a file may be nested.
constexpr std::size_t segments_max = 64;

ItemPtr merge(const Node& base, const Node& overlay, const Expand& expand) {
  if (!overlay.is_map()) return overlay.item();
  if (base.is_scalar() && expand) {
    const auto expanded = expand(base);
    return expanded && expanded->is_map() ? merge(*expanded, overlay, expand) : overlay.item();
  }
  if (!base.is_map()) return overlay.item();

  Map merged = base.item()->map();
  std::map<std::string, std::size_t, std::less<>> where;
  for (std::size_t i = 0; i < merged.size(); ++i) where.emplace(merged[i].key, i);
  const auto base_entries = base.entries();
  const auto overlay_entries = overlay.entries();
  for (std::size_t i = 0; i < overlay_entries.size(); ++i) {
    const Entry& entry = overlay.item()->map()[i];
    const auto found = where.find(entry.key);
    if (found == where.end()) {
      merged.push_back(entry);
    } else {
      merged[found->second] = {entry.key, entry.place,
                               merge(base_entries[found->second].second, overlay_entries[i].second, expand)};
    }
  }
  return make_item(std::move(merged), base.item()->place);
}

/// The same value with every part of it at `place`.
ItemPtr placed(const ItemPtr& item, const Place& place) {
  switch (item->kind()) {
    case Kind::Null:
    case Kind::Scalar:
      break;
    case Kind::List: {
      List list = item->list();
      for (ItemPtr& child : list) child = placed(child, place);
      return make_item(std::move(list), place);
    }
    case Kind::Map: {
      Map map = item->map();
      for (Entry& entry : map) entry = {std::move(entry.key), place, placed(entry.value, place)};
      return make_item(std::move(map), place);
    }
  }
  return std::make_shared<const Item>(Item{item->content, place});
}

/// One `--set`, while it is being applied.
class Assignment {
 public:
  Assignment(std::string_view text, const Expand& expand)
      : place_{std::make_shared<const std::string>("--set " + std::string(text))}, expand_(expand) {
    // A quoted key may contain '=': the first one outside of quotes separates.
    std::size_t at = 0;
    for (char quote = 0; at < text.size(); ++at) {
      if (quote != 0) {
        if (text[at] == quote) quote = 0;
      } else if (text[at] == '\'' || text[at] == '"') {
        quote = text[at];
      } else if (text[at] == '=') {
        break;
      }
    }
    if (at == text.size()) fail({}, "is not an assignment", "write --set key.path=value");
    split(text.substr(0, at));
    const std::string_view value = text.substr(at + 1);
    if (value.find_first_not_of(" \t") == std::string_view::npos)
      fail(shown(segments_.size()), "no value after '='");
    if (value == "null" || value == "~") {  // A document of its own could not say so.
      value_ = make_item(Null{}, place_);
      return;
    }
    try {
      value_ = placed(load_text(value, *place_.file).item(), place_);
    } catch (const ConfigError& error) {
      // Lines and columns within an argument help nobody.
      const Diagnostic& first = error.diagnostics().front();
      fail(shown(segments_.size()), first.what, first.hint);
    }
  }

  ItemPtr apply(const Node& node, std::size_t depth) const {
    if (depth == segments_.size()) return value_;
    const std::string& segment = segments_[depth];
    if (node.is_map()) return apply_to_map(node, depth);
    if (node.is_list()) {
      const auto items = node.items();
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(segment.data(), segment.data() + segment.size(), index);
      if (error != std::errc() || end != segment.data() + segment.size() || index >= items.size()) {
        fail(shown(depth + 1), "no such item in a list of " + std::to_string(items.size()),
             items.empty() ? "" : "items are numbered 0 to " + std::to_string(items.size() - 1));
      }
      List list = node.item()->list();
      list[index] = apply(items[index], depth + 1);
      return make_item(std::move(list), node.item()->place);
    }
    if (node.is_scalar()) {
      const auto expanded = expand_ ? expand_(node) : std::nullopt;
      if (!expanded || !expanded->is_map()) {
        fail(shown(depth + 1), shown(depth) + " is " + in_quotes(node.text()) + " and has no parts",
             "it is given at " + to_string(node.location()));
      }
      return apply_to_map(*expanded, depth);
    }
    // Nothing there yet, as after `workload:`.
    return apply_to_map(Node(make_item(Map{}, place_)), depth);
  }

 private:
  ItemPtr apply_to_map(const Node& node, std::size_t depth) const {
    const std::string& segment = segments_[depth];
    Map map = node.item()->map();
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (map[i].key != segment) continue;
      map[i].value = apply(node.at(segment), depth + 1);
      return make_item(std::move(map), node.item()->place);
    }
    map.push_back({segment, place_, apply(Node(make_item(Null{}, place_)), depth + 1)});
    return make_item(std::move(map), node.item()->place);
  }

  /// "a.b.0", "a.b[0]" and "a.'key with a . inside'".
  void split(std::string_view path) {
    const std::string all(path);
    std::size_t at = 0;
    while (at < path.size() || segments_.empty()) {
      std::string segment;
      if (at < path.size() && (path[at] == '\'' || path[at] == '"')) {
        const std::size_t end = path.find(path[at], at + 1);
        segment = path.substr(at + 1, end - at - 1);  // The quote is closed, or the '=' had not been found.
        at = end + 1;
      } else if (at < path.size() && path[at] == '[') {
        const std::size_t end = path.find(']', at);
        if (end == std::string_view::npos) fail(all, "']' is missing");
        segment = path.substr(at + 1, end - at - 1);
        at = end + 1;
      } else {
        const std::size_t end = std::min(path.find_first_of(".[", at), path.size());
        segment = path.substr(at, end - at);
        at = end;
      }
      if (segment.empty()) fail(all, "a key is missing in the path", "write --set key.path=value");
      segments_.push_back(std::move(segment));
      if (segments_.size() > segments_max) {
        fail({}, "the path has more keys than the limit depth = " + std::to_string(segments_max));
      }
      if (at == path.size()) return;
      if (path[at] == '.') {
        ++at;
        if (at == path.size()) fail(all, "a key is missing in the path", "write --set key.path=value");
      } else if (path[at] != '[') {
        fail(all, "a '.' is missing after a key in quotes or brackets");
      }
    }
  }

  /// The first `count` segments as a path.
  std::string shown(std::size_t count) const {
    std::string path;
    for (std::size_t i = 0; i < count && i < segments_.size(); ++i)
      path += (i == 0 ? "" : ".") + segments_[i];
    return path;
  }

  [[noreturn]] void fail(std::string path, std::string what, std::string hint = {}) const {
    throw ConfigError(Diagnostic{place_.location(), std::move(path), std::move(what), std::move(hint)});
  }

  Place place_;
  const Expand& expand_;
  std::vector<std::string> segments_;
  ItemPtr value_;
};

}  // namespace

Node deep_merge(const Node& base, const Node& overlay, const Expand& expand) {
  return Node(merge(base, overlay, expand));
}

Node apply_set(const Node& root, std::string_view assignment, const Expand& expand) {
  return Node(Assignment(assignment, expand).apply(root, 0));
}

}  // namespace gpusim::config
