// SPDX-License-Identifier: Apache-2.0
#include "models/graph/break_cause.hpp"

#include <array>

namespace gpusim {
namespace {

constexpr std::array causes{BreakCause::Print,
                            BreakCause::Item,
                            BreakCause::DataDependentBranch,
                            BreakCause::UnsupportedLibrary,
                            BreakCause::CustomClass,
                            BreakCause::DynamicShape,
                            BreakCause::Explicit};

}  // namespace

std::string_view name(BreakCause cause) {
  switch (cause) {
    case BreakCause::Print:
      return "print";
    case BreakCause::Item:
      return "item";
    case BreakCause::DataDependentBranch:
      return "branch";
    case BreakCause::UnsupportedLibrary:
      return "library";
    case BreakCause::CustomClass:
      return "class";
    case BreakCause::DynamicShape:
      return "dynamic_shape";
    case BreakCause::Explicit:
      return "explicit";
  }
  return "?";
}

std::optional<BreakCause> find_break_cause(std::string_view wanted) {
  for (const BreakCause cause : causes)
    if (name(cause) == wanted) return cause;
  return std::nullopt;
}

std::vector<std::string> break_cause_names() {
  std::vector<std::string> names;
  for (const BreakCause cause : causes) names.emplace_back(name(cause));
  return names;
}

bool synchronizes(BreakCause cause) {
  return cause == BreakCause::Item || cause == BreakCause::DataDependentBranch ||
         cause == BreakCause::DynamicShape;
}

}  // namespace gpusim
