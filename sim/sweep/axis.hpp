// SPDX-License-Identifier: Apache-2.0
// One `--vary PATH=VALUES`: a value of the scenario and what it takes in turn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/limits.hpp"

namespace gpusim::sweep {

struct Axis {
  std::string path;                 ///< As `--set` takes it: "hardware.memory.bandwidth".
  std::vector<std::string> values;  ///< As `--set` takes them: "4.8 TB/s", "h200". Never empty.
};

/// Reads "PATH=ITEM,ITEM,...". An item is a value (YAML: commas and colons inside brackets and quotes belong
/// to it), or a range of numbers, each with its unit:
///   lo:hi:step    lo, lo + step, ... and hi where the steps meet it
///   lo:hi:log:n   n values at equal ratios, both ends included; of whole numbers the nearest, each once
/// A range's values are in the unit of `lo`. Throws ConfigError, located at "--vary PATH=...": more than
/// `values_max` values too (the limit axis_values_max).
Axis parse_axis(std::string_view argument, std::int64_t values_max = config::Limits{}.axis_values_max);

}  // namespace gpusim::sweep
