// SPDX-License-Identifier: Apache-2.0
// Gradients of what goes between ranks: each is undone by its counterpart (Shoeybi et al. 2019, figure 3;
// Korthikanti et al. 2022, figure 5).
#include "models/graph/autograd.hpp"

namespace gpusim {
namespace {

/// The ranks' results were added up; each part gets the whole gradient.
void added_up(Backward& b, const Op&) {
  if (b.needs(0)) b.give(0, b.grad());
}
void between(Backward& b, const Op& op, std::string_view kind) {
  if (!b.needs(0)) return;
  const std::int64_t ranks = op.attributes.integer("ranks");
  const std::int64_t per_node = op.attributes.integer("per_node");
  if (op.attributes.has("dim"))
    b.give(0, b.add(kind, {b.grad()},
                    {{"ranks", ranks}, {"per_node", per_node}, {"dim", op.attributes.integer("dim")}}));
  else
    b.give(0, b.add(kind, {b.grad()}, {{"ranks", ranks}, {"per_node", per_node}}));
}
void used_by_all(Backward& b, const Op& op) {
  between(b, op, "all_reduce");
}
void gathered(Backward& b, const Op& op) {
  between(b, op, "reduce_scatter");
}
void scattered(Backward& b, const Op& op) {
  between(b, op, "all_gather");
}
void exchanged(Backward& b, const Op& op) {
  between(b, op, "all_to_all");
}

}  // namespace

std::vector<GradientEntry> communication_gradients() {
  return {{"all_reduce", added_up},      {"to_ranks", used_by_all}, {"all_gather", gathered},
          {"reduce_scatter", scattered}, {"own_rows", scattered},   {"all_to_all", exchanged}};
}

}  // namespace gpusim
