// SPDX-License-Identifier: Apache-2.0
// Tables of measured kernels; validation/h200/README.md has their format.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/kernel_cases.hpp"

namespace gpusim::calibrate {

struct KernelTable {
  std::vector<KernelCase> cases;
  std::vector<std::string> unknown;  ///< Names that are not understood.
};

/// Reads a table with the columns `case`, `us` and, if there, `us_min`, `kernels` and `sets`. Throws
/// ConfigError with the line of a row that is no measurement.
KernelTable read_kernel_table(const std::filesystem::path& file);
/// The same from text; `file` is what messages call it.
KernelTable parse_kernel_table(std::string_view text, const std::string& file);

}  // namespace gpusim::calibrate
