// SPDX-License-Identifier: Apache-2.0
// The YAML tree as readers see it: every value knows its file, line, column and key path.
//
// Readers look like the struct they fill, and name what they understand; done() reports the rest:
//
//   MemorySpec read_memory(const config::Node& node) {
//     MemorySpec spec{.capacity = node.at("capacity").as<Bytes>(config::positive),
//                     .latency = node.value_or("latency", Picoseconds(0), config::non_negative)};
//     node.done();
//     return spec;
//   }
//
// With config::Fields instead, all mistakes of a map are reported at once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/units/quantity.hpp"
#include "models/units/text.hpp"
#include "sim/config/error.hpp"

namespace gpusim::config {

enum class Kind { Null, Scalar, List, Map };

struct Item;   // One value of the tree; immutable, shared between trees (tree.hpp).
struct Frame;  // A handle's way down from the root, and the keys asked for.

// Demands on a value: node.as<Bytes>(positive), node.value_or("steps", 1, at_least(1), at_most(1000)).
struct Positive {};
struct NonNegative {};
template <class T>
struct AtLeast {
  T limit;
};
template <class T>
struct AtMost {
  T limit;
};
inline constexpr Positive positive{};
inline constexpr NonNegative non_negative{};
template <class T>
constexpr AtLeast<T> at_least(T limit) {
  return {limit};
}
template <class T>
constexpr AtMost<T> at_most(T limit) {
  return {limit};
}

/// The types a scalar can be read as. Quantities need their unit, bare numbers must have none.
template <class T>
concept Readable = std::same_as<T, std::string> || std::same_as<T, bool> || std::same_as<T, std::int64_t> ||
    std::same_as<T, double> || std::same_as<T, Picoseconds> || std::same_as<T, Bytes> ||
    std::same_as<T, BytesPerSecond> || std::same_as<T, Flops> || std::same_as<T, FlopsPerSecond> ||
    std::same_as<T, Hertz> || std::same_as<T, Watts> || std::same_as<T, JoulesPerFlop> ||
    std::same_as<T, JoulesPerByte> || std::same_as<T, Ratio>;

/// A value of the tree: a cheap handle, always valid, that keeps its tree alive. The tree itself never
/// changes; deep_merge and with() make new trees that share the unchanged parts.
///
/// Which keys were asked for (see done()) is remembered by the handle and its copies, not by the tree: take a
/// child once and keep it (`const Node memory = node.at("memory");`). A child taken again starts afresh.
class Node {
 public:
  /// An empty map that was written nowhere: `where` stands in for its place.
  static Node empty_map(Location where = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::Null; }
  bool is_scalar() const { return kind() == Kind::Scalar; }
  bool is_list() const { return kind() == Kind::List; }
  bool is_map() const { return kind() == Kind::Map; }

  /// Where the value begins.
  Location location() const;
  /// Where the key begins that this value belongs to; location() if it belongs to none.
  Location key_location() const;
  /// "workload.kernels[2].duration"; empty for the root.
  std::string path() const;
  /// The scalar as written, without quotes; throws for anything else.
  const std::string& text() const;

  // --- Maps. Each of these throws for anything but a map.

  /// The value of a key that must be there; throws and names the keys that are there.
  Node at(std::string_view key) const;
  /// The value of a key, or nothing. A key without a value (`key:` or `key: null`) counts as given.
  std::optional<Node> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  /// The key's value read as T, or `fallback` if the key is absent.
  template <Readable T, class... Demands>
  T value_or(std::string_view key, T fallback, Demands... demands) const {
    const auto child = find(key);
    return child ? child->template as<T>(demands...) : fallback;
  }
  /// The key's value read as T, or nothing if the key is absent.
  template <Readable T, class... Demands>
  std::optional<T> get(std::string_view key, Demands... demands) const {
    const auto child = find(key);
    return child ? std::optional<T>(child->template as<T>(demands...)) : std::nullopt;
  }
  /// All keys with their values, in the order of the file. Counts as having asked for all of them.
  std::vector<std::pair<std::string, Node>> entries() const;
  /// The keys that are there, in the order of the file; asks for none.
  std::vector<std::string> keys() const;
  /// Throws one ConfigError that names every key nobody asked for, with the nearest of the keys that were
  /// asked for.
  void done() const;

  // --- Lists. Each throws for anything but a list.

  std::vector<Node> items() const;
  /// The items of a list or the entries of a map; 0 for a scalar or null.
  std::size_t size() const;

  // --- Scalars.

  /// The scalar read as T; throws if it does not read as one or does not meet the demands.
  template <Readable T>
  T as() const;
  template <Readable T, class... Demands>
  requires(sizeof...(Demands) > 0) T as(Demands... demands)
  const {
    const T value = as<T>();
    (demand(value, demands), ...);
    return value;
  }
  /// The scalar as one of a fixed set of words: node.one_of<Mode>({{"none", Mode::None}, {"full",
  /// Mode::Full}}).
  template <class T>
  T one_of(std::initializer_list<std::pair<std::string_view, T>> choices) const {
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) {
      if (text() == name) return value;
      names.emplace_back(name);
    }
    fail_unknown(names);
  }

  // --- Complaints.

  /// Throws a ConfigError that points at this value.
  [[noreturn]] void fail(std::string what, std::string hint = {}) const;
  /// The same as a value, for Errors::add.
  Diagnostic diagnostic(std::string what, std::string hint = {}) const;
  /// Throws "unknown name 'x'" with the nearest of `known` (or all of them) as a hint.
  [[noreturn]] void fail_unknown(std::span<const std::string> known) const;

  // --- New trees from old ones. The receiver stays as it is; the result is a root (its path is empty).

  /// This map with `key` set to `value` (replaced in place or added at the end).
  Node with(std::string_view key, const Node& value) const;
  /// This map without `key`, if it is there.
  Node without(std::string_view key) const;
  /// The same value as a root of its own: paths begin here.
  Node as_root() const;
  /// All of the value in one line, without its places: equal for values that are written alike.
  std::string canonical_text() const;

  // For this folder: the tree behind the handle.
  explicit Node(std::shared_ptr<const Item> root);
  const std::shared_ptr<const Item>& item() const;

 private:
  explicit Node(std::shared_ptr<const Frame> frame) : frame_(std::move(frame)) {}
  Node child(std::size_t index) const;
  void expect(Kind kind) const;

  template <class T>
  void demand(const T& value, Positive) const {
    if (!(value > T{})) fail("must be positive, not " + text());
  }
  template <class T>
  void demand(const T& value, NonNegative) const {
    if (!(value >= T{})) fail("must not be negative, but is " + text());
  }
  template <class T, class L>
  void demand(const T& value, AtLeast<L> least) const {
    if (!(value >= T(least.limit)))
      fail("must be at least " + format_quantity(T(least.limit)) + ", not " + text());
  }
  template <class T, class L>
  void demand(const T& value, AtMost<L> most) const {
    if (!(value <= T(most.limit)))
      fail("must be at most " + format_quantity(T(most.limit)) + ", not " + text());
  }

  std::shared_ptr<const Frame> frame_;
};

/// Reads the fields of one map and gathers all mistakes, unknown keys included.
///
///   config::Fields fields(node);
///   fields.required("capacity", spec.capacity, config::positive);
///   fields.optional("latency", spec.latency, config::non_negative);   // stays as it is if the key is absent
///   fields.required_with("peak", [&](const config::Node& peak) { spec.peak = read_peak(peak); });
///   fields.done();                                                    // throws what was gathered
class Fields {
 public:
  explicit Fields(Node node) : node_(std::move(node)) {}
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  template <Readable T, class... Demands>
  void required(std::string_view key, T& into, Demands... demands) {
    errors_.collect([&] { into = node_.at(key).template as<T>(demands...); });
  }
  template <Readable T, class... Demands>
  void optional(std::string_view key, T& into, Demands... demands) {
    errors_.collect([&] { into = node_.value_or(key, into, demands...); });
  }
  template <Readable T, class... Demands>
  void optional(std::string_view key, std::optional<T>& into, Demands... demands) {
    errors_.collect([&] {
      if (auto value = node_.get<T>(key, demands...)) into = std::move(value);
    });
  }
  template <class Read>
  void required_with(std::string_view key, Read read) {
    errors_.collect([&] { read(node_.at(key)); });
  }
  template <class Read>
  void optional_with(std::string_view key, Read read) {
    errors_.collect([&] {
      if (const auto child = node_.find(key)) read(*child);
    });
  }

  const Node& node() const { return node_; }
  Errors& errors() { return errors_; }
  /// Adds the keys nobody asked for and throws if there was any mistake.
  void done() {
    errors_.collect([&] { node_.done(); });
    errors_.throw_if_any();
  }

 private:
  Node node_;
  Errors errors_;
};

}  // namespace gpusim::config
