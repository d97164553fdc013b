// SPDX-License-Identifier: Apache-2.0
// What `gpusim test` found, for the machines that show test results.
#pragma once

#include <string>
#include <vector>

namespace gpusim {

struct JunitCase {
  std::string suite;    ///< The scenario's file.
  std::string name;     ///< The expectation, or "runs".
  std::string failure;  ///< Empty: it holds.
  std::string error;    ///< Empty: it could be checked.
};

/// JUnit XML, a test suite for each file, in the order of the cases. No times: same results, same bytes.
std::string to_junit(const std::vector<JunitCase>& cases);

}  // namespace gpusim
