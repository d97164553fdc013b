// SPDX-License-Identifier: Apache-2.0
// Files built into the program. Internal to sim/report; the source is written by cmake/embed_files.cmake.
#pragma once

#include <string_view>

namespace gpusim::report {

/// A file's bytes by its name without the folder; empty where it was not there when the program was built.
std::string_view html_asset(std::string_view name);

}  // namespace gpusim::report
