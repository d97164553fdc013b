// SPDX-License-Identifier: Apache-2.0
// Assertions that stay on in release: a failed one is a bug of ours, never a user's mistake.
#pragma once

#include <stdexcept>
#include <string>

namespace gpusim {

/// Thrown by GPUSIM_ASSERT; main turns it into exit code 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": internal error: " + expression);
}

}  // namespace gpusim

#define GPUSIM_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::gpusim::assertion_failed(#expression, __FILE__, __LINE__))
