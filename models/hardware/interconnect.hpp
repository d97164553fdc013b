// SPDX-License-Identifier: Apache-2.0
// Links between GPUs as data: those of one node and those between nodes. Files of configs/interconnects hold
// one link each, sim/config/interconnect_reader reads them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/launch_model.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// How a link is reached by a collective's kernel: mapped memory of the peer over NVLink or PCIe, or a
/// network card.
enum class LinkType : std::uint8_t { Nvlink, Pcie, Network };
std::string_view name(LinkType type);

/// NCCL's three ways of handing data over. LL sends a flag with every 4 bytes, LL128 one with every 120
/// bytes, both without a fence; Simple sends chunks and then fences.
enum class LinkProtocol : std::uint8_t { Ll, Ll128, Simple };
inline constexpr int link_protocol_count = 3;
std::string_view name(LinkProtocol protocol);

/// What a link does under one protocol.
struct LinkProtocolSpec {
  bool allowed = true;      ///< LL128 needs stores of 128 bytes that stay in one piece: not over every link.
  Picoseconds hop{0};       ///< Each step of a ring takes so long, however small the message.
  Picoseconds tree_hop{0};  ///< Each level of a tree.
  /// The most that all channels together carry, data without flags; 0: no limit but the link's.
  BytesPerSecond most{0};
  BytesPerSecond most_per_channel{0};  ///< The same for one channel of a ring; 0: no limit.
  bool operator==(const LinkProtocolSpec&) const = default;
};

/// A link as one GPU sees it, in one direction.
struct LinkSpec {
  std::string key;   ///< What scenarios call it: "nvlink4".
  std::string name;  ///< For people: "NVLink 4 with NVSwitch, 18 links".
  LinkType type = LinkType::Nvlink;
  BytesPerSecond bandwidth{0};  ///< Of a GPU in one direction, by its datasheet.
  BytesPerSecond ring{
      0};  ///< Of that what rings carry: headers, and a whole number of channels of one speed.
  BytesPerSecond reached{0};  ///< What large messages were found to reach; 0: not measured, as `ring`.
  BytesPerSecond tree_per_channel{0};  ///< The most of a tree's channel; 0: no limit.
  std::int32_t gpus = 0;               ///< How many GPUs it joins at most; 0: any number.
  bool multicast = false;              ///< The switch adds up and copies out (NVLink SHARP), for NVLS.
  BytesPerSecond multicast_rate{
      0};                     ///< Of that the buffer of an all-reduce; 0: not measured, 5 / 6 of `ring`.
  std::int32_t channels = 1;  ///< Blocks of a collective's kernel that keep it busy.
  std::array<LinkProtocolSpec, link_protocol_count> protocols{};
  bool operator==(const LinkSpec&) const = default;

  double reached_or_ring() const { return reached.value() > 0 ? reached.value() : ring.value(); }
  const LinkProtocolSpec& under(LinkProtocol protocol) const {
    return protocols[static_cast<std::size_t>(protocol)];
  }
};

/// How the ranks of a job reach each other.
struct Interconnect {
  LinkSpec intra;                   ///< Within a node.
  std::optional<LinkSpec> inter{};  ///< Between nodes, of each GPU; absent: there is one node.
  bool operator==(const Interconnect&) const = default;
};

/// Everything that is impossible in `link`.
std::vector<SpecProblem> problems(const LinkSpec& link);

}  // namespace gpusim
