// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/config/error.hpp"

namespace gpusim {

/// A file, flag or argument as a whole, as the place of a mistake.
Location whole(std::string name);

}  // namespace gpusim
