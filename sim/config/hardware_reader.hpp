// SPDX-License-Identifier: Apache-2.0
// Hardware and hosts from YAML. The one place that knows the keys of docs/hardware.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// A GPU: a name (`h200`), a map, or a map over a named one (`{base: h200, memory: {bandwidth: 6 TB/s}}`).
/// Throws ConfigError with every mistake found, located where it was written.
GpuSpec read_hardware(const Node& hardware, const SearchPath& search);

/// A host, in the same three ways.
HostSpec read_host(const Node& host, const SearchPath& search);

/// All GPUs that can be found by name, sorted by it.
std::vector<GpuSpec> known_hardware(const SearchPath& search);

/// The known GPU that calls itself `device_name` in a profiler's trace ("NVIDIA A100-SXM4-80GB"): the one
/// with the longest alias in it, or none.
std::optional<GpuSpec> hardware_of_device(std::string_view device_name, const SearchPath& search);

}  // namespace gpusim::config
