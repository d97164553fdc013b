// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions and attention: what may ride on them.
#include <algorithm>
#include <array>
#include <string_view>

#include "models/compiler/fusion_candidate.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {

using Kind = LoopSpace::Kind;

namespace {

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What libraries of products have as epilogues (cuBLASLt, cuDNN).
bool is_activation(const Op& op) {
  constexpr std::array<std::string_view, 5> names{"relu", "gelu", "silu", "sigmoid", "tanh"};
  return among(names, op.kind->name);
}

bool is_norm(const Op& op) {
  return op.kind->name == "layer_norm" || op.kind->name == "rms_norm";
}

}  // namespace

FusionCandidate::Reason FusionCandidate::against_two_products() const {
  const Member* product = nullptr;
  for (const Member& member : members_) {
    if (!is(member, Kind::Product)) continue;
    if (product != nullptr)
      return quoted(*product) + " and " + quoted(member) + " are two matrix products" +
             (dependents(*product)[place(member)] ? ": the second needs whole rows of the first" : "");
    product = &member;
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_product() const {
  const Member* product = first(Kind::Product);
  if (product == nullptr) return std::nullopt;
  if (Reason reason = against_prologue(*product)) return reason;
  return against_epilogue(*product);
}

FusionCandidate::Reason FusionCandidate::against_prologue(const Member& product) const {
  const ProductRules& rules = legality_.mode().products;
  const std::vector<bool> ahead = ancestors(product);
  for (const Member& member : members_) {
    if (!ahead[place(member)] || &member == &product) continue;
    if (is(member, Kind::Reduction)) {
      if (!rules.norm_prologue || !is_norm(op(member)))
        return "the product " + quoted(product) + " needs whole rows of the reduction " + quoted(member);
    } else if (!rules.prologue) {
      return quoted(member) + " feeds the product " + quoted(product) +
             ", and products of this backend take no elementwise operands";
    }
    if (needed_outside(member))
      return quoted(member) + " is needed outside of the group, but inside of it only as the product " +
             quoted(product) + " loads it";
  }
  for (const Edge& edge : edges_)
    if (ahead[place(*edge.from)] && !ahead[place(*edge.to)] && edge.from != &product)
      return quoted(*edge.from) + " feeds " + quoted(*edge.to) + " besides the product " + quoted(product);
  const Edge* operand = nullptr;
  for (const Edge& edge : edges_) {
    if (edge.to != &product) continue;
    if (operand != nullptr && operand->input != edge.input)
      return quoted(*operand->from) + " and " + quoted(*edge.from) + " feed both operands of the product " +
             quoted(product);
    operand = &edge;
  }
  return std::nullopt;
}

FusionCandidate::Reason FusionCandidate::against_epilogue(const Member& product) const {
  const std::vector<bool> ahead = ancestors(product);
  const std::vector<bool> behind = dependents(product);
  std::vector<const Member*> epilogue;
  for (const Member& member : members_) {
    if (!behind[place(member)] || &member == &product) continue;
    if (is(member, Kind::Reduction))
      return "the reduction " + quoted(member) + " needs whole rows of the product " + quoted(product) +
             ", of which a block has but a tile";
    if (is(member, Kind::Store))
      return quoted(member) + " writes the product " + quoted(product) + " to places that data decide";
    epilogue.push_back(&member);
  }
  for (const Member& member : members_) {
    const bool rides_along = member.inlined && legality_.mode().products.epilogue;
    if (ahead[place(member)] || behind[place(member)] || rides_along) continue;
    return quoted(member) + " neither feeds nor follows the product " + quoted(product);
  }
  for (const Member* member : epilogue)
    if (member->space.elements != product.space.elements)
      return "shapes differ: the product " + quoted(product) + " makes " +
             std::to_string(product.space.elements) + " elements, " + quoted(*member) + " " +
             std::to_string(member->space.elements);
  for (const Edge& edge : edges_) {
    if (!behind[place(*edge.from)]) continue;
    const std::int64_t offset = legality_.offset(op(*edge.to).inputs[edge.input]);
    if (!reading(legality_.graph(), edge.to->op, edge.to->space, edge.input, offset).is_straight())
      return quoted(*edge.to) + " reads what " + quoted(*edge.from) + " makes in another order";
  }
  if (legality_.mode().products.epilogue) return std::nullopt;
  return against_library_epilogue(product, epilogue);
}

/// A bias, an activation behind it, and nothing else; the library writes only the last of them.
FusionCandidate::Reason FusionCandidate::against_library_epilogue(
    const Member& product, const std::vector<const Member*>& behind) const {
  const ProductRules& rules = legality_.mode().products;
  bool bias = false;
  bool activation = false;
  const Member* last = &product;
  for (const Member* member : behind) {
    if (is_bias(*member, product)) {
      if (!rules.bias) return quoted(*member) + ": products of this backend take no bias";
      if (bias || activation) return quoted(*member) + ": a product takes one bias, before its activation";
      bias = true;
    } else if (is_activation(op(*member))) {
      if (!rules.activation) return quoted(*member) + ": products of this backend take no activation";
      if (activation) return quoted(*member) + ": a product takes one activation";
      activation = true;
    } else {
      return quoted(*member) + ": products of this backend are the library's, which take " +
             (rules.activation ? "a bias and an activation"
              : rules.bias     ? "a bias"
                               : "nothing") +
             " but no other op";
    }
    if (needed_outside(*last))
      return quoted(*last) + " is needed outside of the group, but the library writes only " +
             quoted(*member);
    last = member;
  }
  return std::nullopt;
}

/// One number for each column of the product, or for each channel of a convolution.
bool FusionCandidate::is_bias(const Member& member, const Member& product) const {
  const Op& add = op(member);
  if (add.kind->name != "add" || add.inputs.size() < 2 || add.inputs[1] == graph_none) return false;
  const TensorType& made = type(op(product).outputs.front());
  if (made.shape.empty()) return false;
  const std::int64_t wanted =
      op(product).kind->name == "conv2d" ? made.shape[1] : made.shape[made.shape.rank() - 1];
  return std::any_of(add.inputs.begin(), add.inputs.end(),
                     [&](TensorIndex t) { return t != graph_none && elements(type(t)) == wanted; });
}

/// softmax(scale * q k^T + mask) v in whatever order people write it, and nothing but that: other functions
/// of the scores are attention that no library has.
bool FusionCandidate::is_attention() const {
  if (!legality_.backend().fused_attention) return false;
  const Member* scores = nullptr;
  const Member* softmax = nullptr;
  const Member* values = nullptr;
  constexpr std::array<std::string_view, 8> between{"mul",   "div", "add",     "masked_fill",
                                                    "where", "to",  "type_as", "dropout"};
  for (const Member& member : members_) {
    const Op& one = op(member);
    if (one.kind->name == "matmul") {
      if (values != nullptr) return false;
      (scores == nullptr ? scores : values) = &member;
    } else if (one.kind->name == "softmax") {
      if (softmax != nullptr) return false;
      softmax = &member;
    } else if (!among(between, one.kind->name)) {
      return false;
    }
  }
  if (scores == nullptr || softmax == nullptr || values == nullptr) return false;
  if (!dependents(*scores)[place(*softmax)] || !dependents(*softmax)[place(*values)]) return false;
  // Along the keys, which are the columns of the scores; the weights are the first operand of the second
  // product, and everything is there for it.
  const int rank = type(op(*softmax).inputs.front()).shape.rank();
  const std::int64_t dim = op(*softmax).attributes.integer("dim");
  if (dim != -1 && dim != rank - 1) return false;
  const std::vector<bool> needed = ancestors(*values);
  for (const Member& member : members_)
    if (!needed[place(member)] || (&member != values && needed_outside(member))) return false;
  return std::all_of(edges_.begin(), edges_.end(),
                     [&](const Edge& edge) { return edge.to != values || edge.input == 0; });
}

}  // namespace gpusim
