// SPDX-License-Identifier: Apache-2.0
#include "sim/config/interconnect_reader.hpp"

#include <cstdint>
#include <string>

#include "sim/config/load.hpp"
#include "sim/config/resolve.hpp"

namespace gpusim::config {
namespace {

LinkProtocolSpec read_protocol(const Node& node) {
  LinkProtocolSpec spec;
  Fields fields(node);
  fields.required("hop", spec.hop, non_negative);
  spec.tree_hop = spec.hop;
  fields.optional("tree_hop", spec.tree_hop, non_negative);
  fields.optional("most", spec.most, positive);
  fields.optional("most_per_channel", spec.most_per_channel, positive);
  fields.done();
  return spec;
}

/// A protocol that is not there, or null, is one that the link does not allow.
void read_protocols(const Node& node, LinkSpec& link) {
  for (LinkProtocolSpec& spec : link.protocols) spec.allowed = false;
  Fields fields(node);
  for (int i = 0; i < link_protocol_count; ++i) {
    fields.optional_with(name(static_cast<LinkProtocol>(i)), [&](const Node& protocol) {
      if (!protocol.is_null()) link.protocols[static_cast<std::size_t>(i)] = read_protocol(protocol);
    });
  }
  fields.done();
  for (const LinkProtocolSpec& spec : link.protocols)
    if (spec.allowed) return;
  node.fail("at least one protocol must be allowed", "known: ll, ll128, simple");
}

std::int32_t read_count(const Node& node, std::int64_t least) {
  return static_cast<std::int32_t>(node.as<std::int64_t>(at_least(least), at_most(std::int64_t{1'000'000})));
}

}  // namespace

LinkSpec read_link(const Node& node, const SearchPath& search) {
  const Resolved resolved = resolve("interconnects", "nvlink4", node, search);
  LinkSpec link;
  link.key = resolved.key;
  link.name = resolved.key;
  Fields fields(resolved.map);
  fields.optional("name", link.name);
  fields.required_with("type", [&](const Node& type) {
    link.type = type.one_of<LinkType>(
        {{"nvlink", LinkType::Nvlink}, {"pcie", LinkType::Pcie}, {"network", LinkType::Network}});
  });
  fields.required("bandwidth", link.bandwidth, positive);
  link.ring = link.bandwidth;
  fields.optional_with("ring", [&](const Node& ring) {
    link.ring = ring.as<BytesPerSecond>(positive);
    if (link.bandwidth.value() > 0 && link.ring > link.bandwidth)
      ring.fail("rings carry no more than the bandwidth, " + format_quantity(link.bandwidth));
  });
  fields.optional_with("reached", [&](const Node& reached) {
    link.reached = reached.as<BytesPerSecond>(positive);
    if (link.bandwidth.value() > 0 && link.reached > link.bandwidth)
      reached.fail("nothing reaches more than the bandwidth, " + format_quantity(link.bandwidth));
  });
  fields.optional("tree_per_channel", link.tree_per_channel, positive);
  fields.optional_with("gpus", [&](const Node& gpus) { link.gpus = read_count(gpus, 2); });
  fields.optional("multicast", link.multicast);
  fields.optional("multicast_rate", link.multicast_rate, positive);
  fields.required_with("channels", [&](const Node& channels) { link.channels = read_count(channels, 1); });
  fields.required_with("protocols", [&](const Node& protocols) { read_protocols(protocols, link); });
  fields.done();
  return link;
}

Interconnect read_interconnect(const Node& node, const GpuSpec& gpu, const SearchPath& search) {
  Interconnect result;
  std::optional<LinkSpec> intra;
  const auto set_inter = [&](const Node& link) {
    result.inter = read_link(link, search);
    if (result.inter->type != LinkType::Network)
      link.fail(result.inter->name + " does not leave a node", "write for example inter: infiniband_ndr");
  };
  const auto set_intra = [&](const Node& link) {
    intra = read_link(link, search);
    if (intra->type == LinkType::Network)
      link.fail(intra->name + " joins nodes, not the GPUs of one", "write for example intra: nvlink4");
  };
  if (node.is_map() && (node.has("intra") || node.has("inter"))) {
    Fields fields(node);
    fields.optional_with("intra", set_intra);
    fields.optional_with("inter", set_inter);
    fields.done();
  } else if (const LinkSpec link = read_link(node, search); link.type == LinkType::Network) {
    result.inter = link;
  } else {
    intra = link;
  }
  if (!intra) {
    const auto own = interconnect_of(gpu, node, search);
    if (!own)
      node.fail("how the GPUs of a node are joined is not known of " + gpu.name,
                "write {intra: nvlink4, inter: ...}");
    intra = own->intra;
  }
  result.intra = *intra;
  return result;
}

std::optional<Interconnect> interconnect_of(const GpuSpec& gpu, const Node& where, const SearchPath& search) {
  if (gpu.interconnect.empty()) return std::nullopt;
  const auto file = find_config("interconnects", gpu.interconnect, where.location(), search);
  Interconnect result;
  result.intra = read_link(load_config(file, search), search);
  return result;
}

std::vector<LinkSpec> known_links(const SearchPath& search) {
  std::vector<LinkSpec> links;
  for (const std::string& name : known_configs("interconnects", search))
    links.push_back(read_link(load_text(name, name), search));
  return links;
}

}  // namespace gpusim::config
