// SPDX-License-Identifier: Apache-2.0
// A model's config.json from Hugging Face, as a network of ours with its parameters. docs/networks.md lists
// the families. A field that changes the cost is mapped or refused; nothing is ignored because nobody knows
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "models/graph/network.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

struct HfNetwork {
  std::string network;  ///< A name of configs/networks.
  std::map<std::string, NetworkValue, std::less<>> parameters;
  std::optional<ElementType> dtype;  ///< What the weights are stored as, if the file says so.
};

/// What the config is wanted for; some fields matter only then (a window of attention shorter than the
/// sequence, dropout in training).
struct HfUse {
  std::int64_t sequence = 1;
  StepKind step = StepKind::Inference;
};

/// `file` is a config.json, loaded by load_file(): JSON is YAML. Throws ConfigError with every mistake:
/// unknown model_type, missing sizes, fields that change the cost in a way that is not modelled, fields that
/// nobody knows.
HfNetwork read_hf_config(const Node& file, const HfUse& use);

}  // namespace gpusim::config
