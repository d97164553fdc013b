// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/workload_store.hpp"

#include <utility>

namespace gpusim {

const Workload* WorkloadStore::find(const std::string& key) {
  for (auto known = known_.begin(); known != known_.end(); ++known) {
    if (known->key != key) continue;
    known_.splice(known_.begin(), known_, known);
    return &known_.front().workload;
  }
  return nullptr;
}

void WorkloadStore::keep(std::string key, const Workload& workload) {
  known_.push_front({std::move(key), workload});
  if (known_.size() > known_max) known_.pop_back();
}

}  // namespace gpusim
