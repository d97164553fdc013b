// SPDX-License-Identifier: Apache-2.0
// Networks' workloads that have been read, for a process that reads scenarios again and again: building the
// op graph of a network is most of the work.
#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Keeps the latest few. Two workloads that are written alike share one op graph. Files that they name are
/// taken not to change meanwhile. Not for several threads at once.
class WorkloadStore {
 public:
  /// Null if it is not known. `key`: all that the workload depends on.
  const Workload* find(const std::string& key);
  void keep(std::string key, const Workload& workload);

 private:
  struct Known {
    std::string key;
    Workload workload;
  };
  static constexpr std::size_t known_max = 16;
  std::list<Known> known_;  ///< Latest used first.
};

}  // namespace gpusim
