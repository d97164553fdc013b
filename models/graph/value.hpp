// SPDX-License-Identifier: Apache-2.0
// What expressions of a network are worth while its graph is built. Internal to models/graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/graph/network.hpp"

namespace gpusim {

/// A tensor in an expression.
struct TensorRef {
  TensorIndex index = graph_none;
};

/// What an expression is worth.
struct Value {
  using List = std::vector<Value>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, TensorRef, List> is;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&is);
  }
  bool is_none() const { return std::holds_alternative<std::monostate>(is); }
};

/// The values that names stand for.
using Scope = std::map<std::string, Value, std::less<>>;

Value to_value(const NetworkValue& value);
/// "an integer", "a tensor": for messages.
std::string_view type_name(const Value& value);

/// "known names: a, b, c", sorted, each once.
std::string known_names(std::vector<std::string> names, std::string_view plural);
/// "did you mean 'b'?" if one is near, else all that are known.
std::string hint_for(std::string_view wanted, const std::vector<std::string>& known, std::string_view plural);

}  // namespace gpusim
