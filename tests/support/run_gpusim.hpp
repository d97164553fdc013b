// SPDX-License-Identifier: Apache-2.0
// Runs the `gpusim` program in a folder of its own. For tests that are compiled with GPUSIM_PROGRAM.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/folder.hpp"

namespace gpusim::test {

struct Result {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs `gpusim ARGUMENTS` in a shell; `redirect` comes after its own redirections.
inline Result run_gpusim(const Folder& folder, const std::string& arguments,
                         const std::string& redirect = "") {
  const std::string command = std::string("'") + GPUSIM_PROGRAM + "' " + arguments + " >'" +
                              (folder / "out") + "' 2>'" + (folder / "err") + "' " + redirect;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(folder / "out"), content(folder / "err")};
}

}  // namespace gpusim::test
