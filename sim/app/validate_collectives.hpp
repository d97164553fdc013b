// SPDX-License-Identifier: Apache-2.0
// `gpusim validate` of tables of collectives.
#pragma once

#include <string>

#include "sim/app/command_line.hpp"

namespace gpusim {

/// Prints every case of the table, worst first, as text or CSV; true if a limit of the table is passed. The
/// host is the one that scenarios have by default. Throws ConfigError: a bad table, an unknown link, a
/// collective that cannot be.
bool validate_collectives(const std::string& table, const std::string& format,
                          const Surroundings& surroundings);

}  // namespace gpusim
