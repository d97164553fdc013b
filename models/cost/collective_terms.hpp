// SPDX-License-Identifier: Apache-2.0
// The terms of a collective's time: rings, trees, protocols. For collectives.cpp.
#pragma once

#include <cstdint>

#include "models/cost/collectives.hpp"
#include "models/hardware/interconnect.hpp"

namespace gpusim::cost {

/// A group of ranks on nodes and links.
struct CollectiveShape {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::int32_t ranks = 2;
  std::int32_t per_node = 2;
  std::int32_t nodes = 1;
  const LinkSpec* intra = nullptr;
  const LinkSpec* inter = nullptr;  ///< Null: one node.

  /// Blocks: as many as keep the slower of the links busy, the network's once for each GPU of the node.
  std::int32_t channels() const;
  /// Bytes per second that each rank can send in a ring over all nodes: within a node at most what its link
  /// gives, between nodes what the network links of all its ranks together give, since each leads a ring of
  /// its own.
  double ring_rate() const;
  /// The same as the links were found to do it.
  double reached_rate() const;
};

struct CollectiveSeconds {
  double latency = 0;
  double transfer = 0;
};

/// NCCL's estimate (ncclTopoTuneModel and ncclTopoGetAlgoTime of src/graph/tuning.cc): latency + bytes /
/// bandwidth, launch included. Only good for choosing.
double tuner_seconds(const CollectiveShape& shape, CollectiveAlgorithm algorithm, LinkProtocol protocol,
                     double bytes);

/// The kernel's duration. Ranks must be two or more, bytes positive.
CollectiveSeconds kernel_seconds(const CollectiveShape& shape, const CollectivePlan& plan, double bytes);

/// Of `sent` bytes, those over the network, as a mean of the ranks of a node. In a ring each node has one
/// edge out for each network link: 1 of per_node edges leaves the node.
double off_node_bytes(const CollectiveShape& shape, double bytes, double sent);

}  // namespace gpusim::cost
