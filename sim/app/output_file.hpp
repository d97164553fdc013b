// SPDX-License-Identifier: Apache-2.0
// Files that commands write: complete, or as they were before.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string_view>

namespace gpusim {

/// Has `write` fill `file`. What is written lies beside it as FILE.part until it is complete; a file that is
/// none (a pipe, /dev/stdout) is written as it is, and so is one in a folder where nothing can be created.
/// Throws ConfigError, located at the file, if it cannot be written to its end.
void write_output(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);
void write_output(const std::filesystem::path& file, std::string_view text);

}  // namespace gpusim
