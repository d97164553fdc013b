// SPDX-License-Identifier: Apache-2.0
#include "models/cost/collective_terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gpusim::cost {
namespace {

constexpr double us = 1e-6;

std::size_t index(LinkProtocol protocol) {
  return static_cast<std::size_t>(protocol);
}

/// Start of an algorithm under LL, LL128, Simple, launch included (baseLat of tuning.cc).
constexpr std::array<double, 3> tuner_start_ring{6.6 * us, 14.0 * us, 8.4 * us};
constexpr std::array<double, 3> tuner_start_tree{6.8 * us, 14.0 * us, 8.4 * us};
/// One in-switch reduction (hwLat of NVLS).
constexpr double nvls_latency = 25 * us;

/// What posting to the network costs a rank at each step of a ring (getNetOverhead, Intel; three times in
/// Simple).
double post_overhead(LinkProtocol protocol) {
  return protocol == LinkProtocol::Simple ? 3 * us : 1 * us;
}

/// Trees reach less than their bandwidth at medium sizes: by protocol and power of two from 64 B on
/// (treeCorrectionFactor of tuning.cc).
constexpr std::array<std::array<double, 23>, 3> tree_share{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

double tree_share_at(LinkProtocol protocol, double bytes) {
  const double power = std::floor(std::log2(std::max(bytes, 64.0) / 64));
  if (power >= 23) return 1;
  return tree_share[index(protocol)][static_cast<std::size_t>(power)];
}

double limited(double rate, BytesPerSecond limit, double times = 1) {
  return limit.value() > 0 ? std::min(rate, limit.value() * times) : rate;
}

/// Bytes per second on the wire under a protocol, flags paid for.
double ring_rate_under(const CollectiveShape& shape, LinkProtocol protocol) {
  double rate = shape.ring_rate();
  const LinkProtocolSpec& intra = shape.intra->under(protocol);
  if (protocol == LinkProtocol::Ll) {
    rate = limited(rate / 2, shape.inter ? shape.inter->under(protocol).most : intra.most);
  } else if (protocol == LinkProtocol::Ll128) {
    rate = limited(rate * 0.92, intra.most_per_channel, shape.channels());
  }
  return rate;
}

double tree_rate_under(const CollectiveShape& shape, LinkProtocol protocol, double bytes) {
  const double channels = shape.channels();
  double rate = limited(shape.ring_rate() * 0.92, shape.intra->tree_per_channel, channels);
  const LinkProtocolSpec& intra = shape.intra->under(protocol);
  if (protocol == LinkProtocol::Ll)
    rate = limited(rate / 3.8, shape.inter ? shape.inter->under(protocol).most : intra.most);
  if (protocol == LinkProtocol::Ll128)
    rate = limited(rate * (shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128), intra.most_per_channel, channels);
  return rate * tree_share_at(protocol, bytes);
}

/// Time of the steps of a ring, messages of no size.
double ring_latency(const CollectiveShape& shape, LinkProtocol protocol, double bytes) {
  const double steps = collective_ring_steps(shape.kind, shape.ranks);
  double hop = seconds(shape.intra->under(protocol).hop);
  if (!shape.inter) return steps * hop;
  const LinkProtocolSpec& network = shape.inter->under(protocol);
  hop = std::max(hop, post_overhead(protocol));
  const double network_hop = seconds(shape.per_node == 1 ? network.tree_hop : network.hop);
  const double network_steps = collective_ring_steps(shape.kind, shape.nodes);
  double latency = (steps - network_steps) * hop + network_steps * network_hop;
  // Rings of all-reduces over nodes fall behind once every rank has something to send (tuning.cc: "plateau").
  if (protocol == LinkProtocol::Simple && shape.kind == CollectiveKind::AllReduce &&
      bytes / (shape.channels() * static_cast<double>(shape.ranks)) >= 64)
    latency *= 1.4;
  return latency;
}

double tree_latency(const CollectiveShape& shape, LinkProtocol protocol) {
  double latency = 2 * (shape.per_node - 1) * seconds(shape.intra->under(protocol).tree_hop);
  if (shape.inter)
    latency += 2 * std::floor(std::log2(shape.nodes)) * seconds(shape.inter->under(protocol).tree_hop);
  return latency;
}

/// Bytes on a rank's link.
double ring_bytes(const CollectiveShape& shape, double bytes) {
  const double others = static_cast<double>(shape.ranks - 1) / shape.ranks;
  if (shape.kind == CollectiveKind::Broadcast) return bytes;
  return (shape.kind == CollectiveKind::AllReduce ? 2 : 1) * others * bytes;
}

double nvls_transfer(const CollectiveShape& shape, double bytes) {
  const double rate = shape.ring_rate();
  if (shape.kind == CollectiveKind::AllReduce) return bytes / (rate * 5 / 6);
  return bytes / (rate * (shape.per_node - 1) / shape.per_node);
}

/// All to all, and sends: what goes to other nodes takes the network while the rest takes the link of the
/// node.
double point_to_point_transfer(const CollectiveShape& shape, LinkProtocol protocol, double bytes) {
  double own = shape.intra->ring.value();
  if (protocol == LinkProtocol::Ll) own = limited(own / 2, shape.intra->under(protocol).most);
  if (shape.kind == CollectiveKind::SendReceive)
    return bytes / (shape.inter ? shape.inter->ring.value() : own);
  const double part = bytes / shape.ranks;
  const double within = part * (shape.per_node - 1) / own;
  if (!shape.inter) return within;
  return std::max(within, part * (shape.ranks - shape.per_node) / shape.inter->ring.value());
}

}  // namespace

std::int32_t CollectiveShape::channels() const {
  return inter ? std::max(1, std::min(intra->channels, inter->channels * per_node)) : intra->channels;
}

double CollectiveShape::ring_rate() const {
  if (!inter) return intra->ring.value();
  const double network = inter->ring.value() * per_node;
  return per_node == 1 ? network : std::min(intra->ring.value(), network);
}

double tuner_seconds(const CollectiveShape& shape, CollectiveAlgorithm algorithm, LinkProtocol protocol,
                     double bytes) {
  switch (algorithm) {
    case CollectiveAlgorithm::Tree:
      return tuner_start_tree[index(protocol)] + tree_latency(shape, protocol) +
             2 * bytes / tree_rate_under(shape, protocol, bytes);
    case CollectiveAlgorithm::Nvls:
      return nvls_latency + nvls_transfer(shape, bytes);
    case CollectiveAlgorithm::Automatic:
    case CollectiveAlgorithm::Ring:
      break;
  }
  return tuner_start_ring[index(protocol)] + ring_latency(shape, protocol, bytes) +
         ring_bytes(shape, bytes) / ring_rate_under(shape, protocol);
}

CollectiveSeconds kernel_seconds(const CollectiveShape& shape, const CollectivePlan& plan, double bytes) {
  CollectiveSeconds result;
  // First model: NCCL's own terms less what its starts hold of the launch.
  constexpr double launch = 4.0 * us;
  if (shape.kind == CollectiveKind::AllToAll || shape.kind == CollectiveKind::SendReceive) {
    const LinkSpec& link = shape.inter ? *shape.inter : *shape.intra;
    result.latency = tuner_start_ring[index(plan.protocol)] - launch + seconds(link.under(plan.protocol).hop);
    result.transfer = point_to_point_transfer(shape, plan.protocol, bytes);
    return result;
  }
  switch (plan.algorithm) {
    case CollectiveAlgorithm::Tree:
      result.latency = tuner_start_tree[index(plan.protocol)] - launch + tree_latency(shape, plan.protocol);
      result.transfer = 2 * bytes / tree_rate_under(shape, plan.protocol, bytes);
      return result;
    case CollectiveAlgorithm::Nvls:
      result.latency = nvls_latency - launch;
      result.transfer = nvls_transfer(shape, bytes);
      return result;
    case CollectiveAlgorithm::Automatic:
    case CollectiveAlgorithm::Ring:
      break;
  }
  result.latency =
      tuner_start_ring[index(plan.protocol)] - launch + ring_latency(shape, plan.protocol, bytes);
  result.transfer = ring_bytes(shape, bytes) / ring_rate_under(shape, plan.protocol);
  return result;
}

double off_node_bytes(const CollectiveShape& shape, double bytes, double sent) {
  if (!shape.inter) return 0;
  if (shape.kind == CollectiveKind::SendReceive) return sent;
  if (shape.kind == CollectiveKind::AllToAll) return bytes * (shape.ranks - shape.per_node) / shape.ranks;
  return sent / shape.per_node;
}

}  // namespace gpusim::cost
