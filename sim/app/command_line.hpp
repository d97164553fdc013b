// SPDX-License-Identifier: Apache-2.0
// The `gpusim` command: run, test, list and trace summary. docs/cli.md is its manual.
#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/limits.hpp"

namespace gpusim {

/// What the command reaches of the world outside: results go to `out`, diagnostics to `err`.
struct Surroundings {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  std::vector<std::filesystem::path> config_folders;  ///< GPUSIM_CONFIGS.
  config::Limits limits{};
  bool err_is_terminal = false;  ///< Somebody watches `err`: a line may be rewritten.
};

/// A result could not be written: full disk, closed pipe.
class OutputError : public std::runtime_error {
 public:
  explicit OutputError(int error_number);
  bool closed_pipe() const { return closed_pipe_; }

 private:
  bool closed_pipe_;
};

enum class ExitCode : int {
  Done = 0,
  ExpectationFailed = 1,
  BadInput = 2,
  InternalError = 3,
  Interrupted = 130,  ///< By SIGINT, as shells count: 128 + the signal.
  Terminated = 143,   ///< By SIGTERM.
};

/// Runs one command and returns its exit code; arguments are those after the program's name. Throws nothing
/// but what `out` throws.
ExitCode run_command_line(std::vector<std::string> arguments, const Surroundings& surroundings);

}  // namespace gpusim
