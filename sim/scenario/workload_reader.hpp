// SPDX-License-Identifier: Apache-2.0
// The `workload:` of a scenario.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sim/config/names.hpp"
#include "sim/config/node.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/workload_store.hpp"

namespace gpusim {

struct WorkloadLimits {
  std::int64_t instructions_max =
      10'000'000;                     ///< Of one step, with repeats laid out and CUDA-graph nodes counted.
  std::int64_t steps = 1;             ///< How many steps are asked for.
  bool has_hardware = false;          ///< Whether copies can be priced.
  const GpuSpec* hardware = nullptr;  ///< The hardware, if it could be read.
  bool one_device = false;            ///< Whether all streams have to be on one device.
  bool has_host = false;              ///< Whether a network's ops can be priced on the host.
  config::SearchPath search{};        ///< For networks by name.
  config::Limits limits{};
  WorkloadStore* known = nullptr;  ///< Networks' workloads read before; null: each is read anew.
};

/// No step may hold more streams, or host threads, than this.
inline constexpr std::size_t streams_max = 1024;
inline constexpr std::size_t threads_max = 1024;
/// Devices are numbered from 0 to one less than this.
inline constexpr std::int64_t devices_max = 256;
/// The longest duration that an item may have.
inline constexpr Picoseconds duration_max = std::chrono::hours(24);

/// Throws ConfigError with every mistake found. Relative paths are taken from `folder`.
Workload read_workload(const config::Node& node, const std::filesystem::path& folder,
                       const WorkloadLimits& limits);

}  // namespace gpusim
