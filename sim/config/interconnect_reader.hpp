// SPDX-License-Identifier: Apache-2.0
// Links between GPUs from YAML: configs/interconnects/*.yaml, or a file beside the scenario. The one place
// that knows the keys of docs/communication.md.
#pragma once

#include <optional>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/interconnect.hpp"
#include "sim/config/names.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// A link: a name (`nvlink4`), a map, or a map over a named one (`{base: nvlink4, ring: 300 GB/s}`). Throws
/// ConfigError with every mistake found, located where it was written.
LinkSpec read_link(const Node& link, const SearchPath& search);

/// The links of a job: `{intra: nvlink4, inter: infiniband_ndr}`, or one link alone, which by its type is
/// that within a node or that between nodes. What is not given within a node is the GPU's own. Throws
/// ConfigError: a mistake in a link, a network within a node, another link between nodes, a GPU whose link is
/// not known.
Interconnect read_interconnect(const Node& interconnect, const GpuSpec& gpu, const SearchPath& search);

/// What the GPU's hardware file names, one node; `where` is its place in messages. Nothing if it names none.
std::optional<Interconnect> interconnect_of(const GpuSpec& gpu, const Node& where, const SearchPath& search);

/// All links that can be found by name, sorted by it.
std::vector<LinkSpec> known_links(const SearchPath& search);

}  // namespace gpusim::config
