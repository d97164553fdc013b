// SPDX-License-Identifier: Apache-2.0
#include "models/graph/catalogue.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>
#include <variant>

#include "models/graph/ops.hpp"

namespace gpusim {

std::string_view name(FusionClass fusion) {
  switch (fusion) {
    case FusionClass::Pointwise:
      return "pointwise";
    case FusionClass::Reduction:
      return "reduction";
    case FusionClass::View:
      return "view";
    case FusionClass::Gather:
      return "gather";
    case FusionClass::Scatter:
      return "scatter";
    case FusionClass::Random:
      return "random";
    case FusionClass::Product:
      return "product";
    case FusionClass::Library:
      return "library";
  }
  return "?";
}

std::string_view name(RecomputeClass recompute) {
  switch (recompute) {
    case RecomputeClass::Free:
      return "free";
    case RecomputeClass::Cheap:
      return "cheap";
    case RecomputeClass::Random:
      return "random";
    case RecomputeClass::Expensive:
      return "expensive";
    case RecomputeClass::Never:
      return "never";
  }
  return "?";
}

OpTypes::OpTypes(const OpGraph& graph, const Op& op) {
  inputs_.reserve(op.inputs.size());
  for (const TensorIndex t : op.inputs) inputs_.push_back(t == graph_none ? nullptr : &graph.tensors[t].type);
  outputs_.reserve(op.outputs.size());
  for (const TensorIndex t : op.outputs) outputs_.push_back(&graph.tensors[t].type);
}

const std::vector<OpKind>& op_catalogue() {
  // Built once and never changed: the table, not state.
  static const std::vector<OpKind> catalogue = [] {
    std::vector<OpKind> kinds;
    for (auto part : {view_ops(), pointwise_ops(), reduction_ops(), product_ops(), data_ops(), backward_ops(),
                      scatter_backward_ops(), optimizer_ops(), communication_ops()})
      std::move(part.begin(), part.end(), std::back_inserter(kinds));
    std::sort(kinds.begin(), kinds.end(), [](const OpKind& a, const OpKind& b) { return a.name < b.name; });
    return kinds;
  }();
  return catalogue;
}

namespace {

std::string written(const OpAttribute& attribute) {
  struct Text {
    AttributeType type;
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {
      std::array<char, 32> digits{};
      return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
    }
    std::string operator()(const std::string& value) const {
      // The network's dtype has this name in expressions.
      return type == AttributeType::Element && value == "network" ? "dtype" : "'" + value + "'";
    }
    std::string operator()(const Dims& value) const { return to_string(value); }
  };
  if (std::holds_alternative<std::monostate>(attribute.fallback) && !attribute.optional)
    return std::string(attribute.name);
  return std::string(attribute.name) + "=" + std::visit(Text{attribute.type}, attribute.fallback);
}

}  // namespace

std::string op_signature(const OpKind& kind) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const OpInput& input : kind.inputs) {
    const std::string name(input.name);
    if (input.need == InputNeed::Optional || input.need == InputNeed::Own)
      add("[" + name + "]");
    else
      add(input.need == InputNeed::Many ? name + "..." : name);
  }
  for (const OpAttribute& attribute : kind.attributes) add(written(attribute));
  return std::string(kind.name) + "(" + text + ")";
}

const OpKind* find_op(std::string_view name) {
  const std::vector<OpKind>& kinds = op_catalogue();
  const auto found = std::lower_bound(kinds.begin(), kinds.end(), name,
                                      [](const OpKind& kind, std::string_view n) { return kind.name < n; });
  return found != kinds.end() && found->name == name ? &*found : nullptr;
}

}  // namespace gpusim
