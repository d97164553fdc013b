// SPDX-License-Identifier: Apache-2.0
// Maximum flow through a network of integer capacities. Internal to models/compiler.
#pragma once

#include <cstdint>
#include <vector>

namespace gpusim {

struct FlowArc {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t capacity = 0;
};

/// The sum of the capacities fits an int64.
struct FlowNetwork {
  static constexpr std::uint32_t source = 0;
  static constexpr std::uint32_t sink = 1;
  std::uint32_t vertices = 2;
  std::vector<FlowArc> arcs;
};

/// Algorithms of the Boost Graph Library.
enum class MaxFlow : std::uint8_t { PushRelabel, BoykovKolmogorov, EdmondsKarp };

/// By vertex, whether the sink can be reached from it when as much flows as can. Of all minimum cuts this is
/// the one nearest to the sink, whichever algorithm finds it, and the one that networkx.minimum_cut gives.
std::vector<std::uint8_t> sink_side(const FlowNetwork& network, MaxFlow algorithm);

}  // namespace gpusim
