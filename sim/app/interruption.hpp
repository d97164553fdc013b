// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM asked for politely: a long command finishes what it has begun, writes it, and ends.
#pragma once

#include <signal.h>

namespace gpusim {

/// While one exists, the first SIGINT or SIGTERM is noted instead of ending the process; the second ends it.
/// There is at most one at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The signal that came; 0: none.
  static int signal();

 private:
  struct sigaction before_[2]{};  ///< What SIGINT and SIGTERM did.
};

}  // namespace gpusim
