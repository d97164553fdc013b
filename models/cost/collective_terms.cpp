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
/// What the kernel itself takes without a step, under LL, LL128, Simple. Measured on two H200s
/// (validation/h200x2/collectives.csv): LL and Simple; LL128, which two ranks never take, is as far from LL
/// as in tuning.cc.
constexpr std::array<double, 3> kernel_start{2.3 * us, 9.7 * us, 8.4 * us};
/// A step of LL takes at least so long: two H200s, an all-reduce less a reduce-scatter; eight B200s, 14 and 7
/// steps (validation/public/collectives.csv). tuning.cc has 0.6 us over NVLink, and the rest in its start.
constexpr double ll_step = 1.1 * us;
/// What a block needs for its first 8 KiB under LL, in proportion below; an all-gather copies its own part to
/// its place on the way, sends run in a kernel of their own. Two H200s, 1 to 128 KiB.
constexpr double ll_block = 0.5 * us;
constexpr double ll_own_part = 0.5 * us;
constexpr double ll_send = 0.6 * us;
/// A block more (same source: 1 to 24 blocks of LL).
constexpr double block_start = 0.025 * us;
/// A send or an all-to-all under Simple (same source).
constexpr double point_to_point_start = 5 * us;
/// Bytes per second that a block sends at most: two H200s, 372 GB/s by 16; eight B200s, 84 GB/s by 4.
constexpr double send_block_rate = 23.5e9;

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
double ring_latency(const CollectiveShape& shape, LinkProtocol protocol, double bytes, double least_hop = 0) {
  const double steps = collective_ring_steps(shape.kind, shape.ranks);
  double hop = std::max(least_hop, seconds(shape.intra->under(protocol).hop));
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
  if (shape.kind == CollectiveKind::AllReduce) {
    const double switched = shape.intra->multicast_rate.value();
    return bytes / (switched > 0 ? switched : rate * 5 / 6);
  }
  return bytes / (rate * (shape.per_node - 1) / shape.per_node);
}

/// Of a message a rank sends and receives, the share 1 / ranks is only copied from the buffer to its place at
/// last, by blocks that meanwhile send nothing. They all begin in step, so that the link has nothing to do
/// then; the more bytes a block has, the more they fall out of step and hide it. Two H200s
/// (validation/h200x2): 29 GB/s a block up to 5.3 MiB for each, then by the fourth root of that less, up to
/// 43 MiB; all-reduce, all-gather and reduce-scatter alike.
double out_of_step(const CollectiveShape& shape, const CollectivePlan& plan, double bytes) {
  if (plan.protocol != LinkProtocol::Simple || shape.kind == CollectiveKind::SendReceive) return 0;
  constexpr double block_rate = 29e9;
  constexpr double in_step = 16.0 / 3 * 1024 * 1024;
  const double each = bytes / shape.channels();
  const double share = each > in_step ? std::pow(in_step / each, 0.25) : 1;
  return share * each / shape.ranks / block_rate;
}

/// All to all, and sends: what goes to other nodes takes the network while the rest takes the link of the
/// node.
double point_to_point_transfer(const CollectiveShape& shape, const CollectivePlan& plan, double bytes) {
  double own =
      plan.protocol == LinkProtocol::Simple ? shape.intra->reached_or_ring() : shape.intra->ring.value();
  if (plan.protocol == LinkProtocol::Ll) own = limited(own / 2, shape.intra->under(plan.protocol).most);
  own = std::min(own, send_block_rate * plan.channels);
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

double CollectiveShape::reached_rate() const {
  const double own = intra->reached_or_ring();
  if (!inter) return own;
  const double network = inter->reached_or_ring() * per_node;
  return per_node == 1 ? network : std::min(own, network);
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
  double start = kernel_start[index(plan.protocol)] + block_start * plan.channels;
  const bool low_latency = plan.protocol == LinkProtocol::Ll;
  const double least_hop = low_latency ? ll_step : 0;
  if (low_latency) {
    start += ll_block * std::min(1.0, bytes / plan.channels / 8192);
    if (shape.kind == CollectiveKind::AllGather) start += ll_own_part;
  }
  if (shape.kind == CollectiveKind::AllToAll || shape.kind == CollectiveKind::SendReceive) {
    const LinkSpec& link = shape.inter ? *shape.inter : *shape.intra;
    if (plan.protocol == LinkProtocol::Simple) start = point_to_point_start;
    if (low_latency) start += ll_send;
    return {start + std::max(least_hop, seconds(link.under(plan.protocol).hop)),
            point_to_point_transfer(shape, plan, bytes) + out_of_step(shape, plan, bytes) / 2};
  }
  switch (plan.algorithm) {
    case CollectiveAlgorithm::Tree:
      return {start + tree_latency(shape, plan.protocol),
              2 * bytes / tree_rate_under(shape, plan.protocol, bytes)};
    case CollectiveAlgorithm::Nvls:
      return {nvls_latency, nvls_transfer(shape, bytes)};
    case CollectiveAlgorithm::Automatic:
    case CollectiveAlgorithm::Ring:
      break;
  }
  double rate = ring_rate_under(shape, plan.protocol);
  // Large messages go as fast as the links do, where that is known; `ring` is what NCCL counts on.
  if (plan.protocol == LinkProtocol::Simple) rate = shape.reached_rate();
  double transfer = ring_bytes(shape, bytes) / rate;
  if (shape.kind != CollectiveKind::Broadcast) transfer += out_of_step(shape, plan, bytes);
  return {start + ring_latency(shape, plan.protocol, bytes, least_hop), transfer};
}

double off_node_bytes(const CollectiveShape& shape, double bytes, double sent) {
  if (!shape.inter) return 0;
  if (shape.kind == CollectiveKind::SendReceive) return sent;
  if (shape.kind == CollectiveKind::AllToAll) return bytes * (shape.ranks - shape.per_node) / shape.ranks;
  return sent / shape.per_node;
}

}  // namespace gpusim::cost
