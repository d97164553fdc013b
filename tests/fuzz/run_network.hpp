// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/graph/network.hpp"

namespace gpusim::fuzz {

/// Steps of the network, eager, compiled and training. `sizes`: other than the usual small ones.
void run_network(std::shared_ptr<const Network> network, const NetworkSizes* sizes);

}  // namespace gpusim::fuzz
