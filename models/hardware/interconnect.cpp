// SPDX-License-Identifier: Apache-2.0
#include "models/hardware/interconnect.hpp"

#include <cmath>

namespace gpusim {

std::string_view name(LinkType type) {
  switch (type) {
    case LinkType::Nvlink:
      return "nvlink";
    case LinkType::Pcie:
      return "pcie";
    case LinkType::Network:
      return "network";
  }
  return "";
}

std::string_view name(LinkProtocol protocol) {
  switch (protocol) {
    case LinkProtocol::Ll:
      return "ll";
    case LinkProtocol::Ll128:
      return "ll128";
    case LinkProtocol::Simple:
      return "simple";
  }
  return "";
}

std::vector<SpecProblem> problems(const LinkSpec& link) {
  std::vector<SpecProblem> found;
  const auto positive = [&](const char* path, BytesPerSecond rate) {
    if (!(std::isfinite(rate.value()) && rate.value() > 0)) found.push_back({path, "must be positive"});
  };
  if (link.name.empty()) found.push_back({"name", "must not be empty"});
  positive("bandwidth", link.bandwidth);
  positive("ring", link.ring);
  if (link.ring > link.bandwidth) found.push_back({"ring", "must not be more than the bandwidth"});
  if (link.reached > link.bandwidth) found.push_back({"reached", "must not be more than the bandwidth"});
  if (link.channels < 1) found.push_back({"channels", "must be at least 1"});
  if (link.gpus == 1 || link.gpus < 0) found.push_back({"gpus", "must be at least 2"});
  bool any = false;
  for (int i = 0; i < link_protocol_count; ++i) {
    const auto protocol = static_cast<LinkProtocol>(i);
    const LinkProtocolSpec& spec = link.under(protocol);
    any = any || spec.allowed;
    if (spec.hop < Picoseconds{0} || spec.tree_hop < Picoseconds{0} || spec.most.value() < 0 ||
        spec.most_per_channel.value() < 0)
      found.push_back({"protocols." + std::string(name(protocol)), "must not be negative"});
  }
  if (!any) found.push_back({"protocols", "at least one must be allowed"});
  return found;
}

}  // namespace gpusim
