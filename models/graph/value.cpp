// SPDX-License-Identifier: Apache-2.0
#include "models/graph/value.hpp"

#include <algorithm>

namespace gpusim {
namespace {

/// Edit distance, for "did you mean".
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

Value to_value(const NetworkValue& value) {
  return std::visit([](const auto& held) { return Value{held}; }, value);
}

std::string_view type_name(const Value& value) {
  struct Name {
    std::string_view operator()(std::monostate) const { return "none"; }
    std::string_view operator()(bool) const { return "a truth value"; }
    std::string_view operator()(std::int64_t) const { return "an integer"; }
    std::string_view operator()(double) const { return "a number"; }
    std::string_view operator()(const std::string&) const { return "a word"; }
    std::string_view operator()(TensorRef) const { return "a tensor"; }
    std::string_view operator()(const Value::List&) const { return "a list"; }
  };
  return std::visit(Name{}, value.is);
}

std::string known_names(std::vector<std::string> names, std::string_view plural) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text = "known " + std::string(plural) + ": ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
  return text;
}

std::string hint_for(std::string_view wanted, const std::vector<std::string>& known,
                     std::string_view plural) {
  const std::string* best = nullptr;
  std::size_t best_distance = 1 + wanted.size() / 3;
  for (const std::string& candidate : known)
    if (const std::size_t d = distance(wanted, candidate);
        d < best_distance || (d == best_distance && best == nullptr)) {
      best_distance = d;
      best = &candidate;
    }
  return best != nullptr ? "did you mean '" + *best + "'?" : known_names(known, plural);
}

}  // namespace gpusim
