// SPDX-License-Identifier: Apache-2.0
// The message a user would see, for comparing word by word.
#pragma once

#include <string>

#include "sim/config/error.hpp"

namespace gpusim::test {

/// What the ConfigError thrown by `action` says; "no error" if it throws none.
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gpusim::test
