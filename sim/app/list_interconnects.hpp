// SPDX-License-Identifier: Apache-2.0
// `gpusim list interconnects`.
#pragma once

#include <string>

#include "sim/config/names.hpp"

namespace gpusim {

/// A line for each link that can be named: key, name, what a GPU can send, and what NCCL's rings carry of it.
std::string list_interconnects(const config::SearchPath& search);

}  // namespace gpusim
