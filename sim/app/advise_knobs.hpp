// SPDX-License-Identifier: Apache-2.0
// What of a scenario `gpusim advise` turns.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/backend.hpp"
#include "sim/advise/search.hpp"
#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// The backends that are searched if nobody says which: those held against measured steps (docs/accuracy.md).
std::vector<std::string> measured_backends();

struct AdviseKnobs {
  std::vector<advise::Knob> knobs;
  /// Of each choice of the first knob, whether a compiler goes over the step.
  std::vector<bool> compiles;
  /// Of each knob, whether its choices are for steps that a compiler goes over, or only for those without.
  enum class For : std::uint8_t { All, Compiled, Eager };
  std::vector<For> knob_for;

  bool makes_sense(const advise::Setting& setting) const;
};

/// `variant` as read from `tree`, with `backends` to choose from. Compilers and CUDA graphs; what a training
/// step keeps for backward; the batch (`batch`), or micro-batches of the same step; how the optimizer goes
/// over its tensors; attention, formats and float32 products where they are not the fastest; graph breaks
/// that are there.
AdviseKnobs advise_knobs(const config::Node& tree, const Variant& variant,
                         const std::vector<Backend>& backends, bool batch);

}  // namespace gpusim
