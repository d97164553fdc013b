// SPDX-License-Identifier: Apache-2.0
#include "models/cost/collectives.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "models/cost/collective_terms.hpp"
#include "models/units/time_range.hpp"

namespace gpusim {
namespace {

using cost::CollectiveShape;

constexpr std::array<CollectiveKind, collective_kind_count> all_kinds{
    CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
    CollectiveKind::Broadcast, CollectiveKind::AllToAll,  CollectiveKind::SendReceive};

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

bool rings(CollectiveKind kind) {
  return kind != CollectiveKind::AllToAll && kind != CollectiveKind::SendReceive;
}

/// Everything about the group that no size changes.
CollectiveShape shape_of(const Collective& collective, const Interconnect& interconnect) {
  if (collective.bytes < Bytes{0}) refuse("a collective of a negative number of bytes");
  if (collective.ranks < 1) refuse("a collective of fewer than one rank");
  if (collective.ranks_per_node < 0) refuse("a negative number of ranks per node");
  const std::int32_t per_node = collective.ranks_per_node > 0 ? collective.ranks_per_node : collective.ranks;
  if (collective.ranks % per_node != 0)
    refuse(std::to_string(collective.ranks) + " ranks do not fill nodes of " + std::to_string(per_node));
  const std::int32_t nodes = collective.ranks / per_node;
  if (nodes > 1 && !interconnect.inter)
    refuse("no link between nodes is given, and the ranks are on several");
  if (interconnect.intra.gpus > 0 && per_node > interconnect.intra.gpus)
    refuse(std::to_string(per_node) + " ranks are on a node, and its link joins " +
           std::to_string(interconnect.intra.gpus));
  return {collective.kind, collective.ranks,    per_node,
          nodes,           &interconnect.intra, nodes > 1 ? &*interconnect.inter : nullptr};
}

bool fits(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Tree:
      return kind == CollectiveKind::AllReduce;
    case CollectiveAlgorithm::Nvls:
      return kind == CollectiveKind::AllReduce || kind == CollectiveKind::AllGather ||
             kind == CollectiveKind::ReduceScatter;
    case CollectiveAlgorithm::Automatic:
    case CollectiveAlgorithm::Ring:
      return true;
  }
  return false;
}

bool allowed(const CollectiveShape& shape, LinkProtocol protocol) {
  return shape.intra->under(protocol).allowed && (!shape.inter || shape.inter->under(protocol).allowed);
}

/// Blocks and threads as NCCL gives them to a message: fewer for a small one, by bytes per thread (the
/// thresholds of src/include/comm.h: 8 a rank for LL, 8 for LL128, 64 for Simple; src/enqueue.cc). The kernel
/// has 128 threads at least.
void set_blocks(CollectivePlan& plan, const CollectiveShape& shape, double bytes) {
  int threads = 512;
  double threshold = 64;
  if (plan.protocol == LinkProtocol::Ll)
    threshold = 8.0 * (plan.algorithm == CollectiveAlgorithm::Ring ? shape.ranks : 1);
  if (plan.protocol == LinkProtocol::Ll128) {
    threads = 640;
    threshold = 8;
  }
  std::int32_t channels = shape.channels();
  while (channels > 1 && bytes < channels * threads * threshold) --channels;
  while (channels == 1 && threads > 128 && bytes < threads * threshold) threads /= 2;
  plan.channels = channels;
  // Simple has a warp more, which waits for the peers; a tree has four.
  const int waiting = plan.protocol != LinkProtocol::Simple         ? 0
                      : plan.algorithm == CollectiveAlgorithm::Tree ? 128
                                                                    : 32;
  plan.threads = std::max(threads, 128) + waiting;
}

/// Blocks of sends. NCCL shares 32 channels among the ranks of the group, at least one for each peer, takes
/// twice as many while a channel would get more than 16 MiB (src/enqueue.cc: maxPartSize), and fewer below 8
/// KiB for each; an all-to-all copies its own part with one for each 64 KiB, up to 16 (the last two found on
/// two H200s, validation/h200x2). LL where a block has no more than 16 KiB (NCCL_P2P_LL_THRESHOLD), Simple
/// above.
CollectivePlan point_to_point_plan(const Collective& collective, const CollectiveShape& shape) {
  constexpr std::int64_t channels_most = 32;
  constexpr std::int64_t channel_bytes_most = std::int64_t{16} << 20;
  CollectivePlan plan;
  std::int64_t peers = 1;
  std::int64_t part = collective.bytes.value();
  std::int64_t own = 0;
  if (collective.kind == CollectiveKind::AllToAll) {
    peers = shape.ranks - 1;
    part /= shape.ranks;
    own = std::clamp<std::int64_t>(part / 65536, 1, 16);
  }
  std::int64_t of_peer = 16;
  while (of_peer > 1 && of_peer * shape.ranks > channels_most) of_peer /= 2;
  while (of_peer < channels_most && part > of_peer * channel_bytes_most) of_peer *= 2;
  of_peer = std::clamp<std::int64_t>(part / 8192, 1, of_peer);
  const std::int64_t sending = std::min(peers * of_peer, channels_most);
  plan.channels = static_cast<std::int32_t>(std::min(sending + own, channels_most));
  plan.threads = 640;
  const bool small = part * peers <= 16384 * sending && allowed(shape, LinkProtocol::Ll);
  plan.protocol = collective.protocol.value_or(small ? LinkProtocol::Ll : LinkProtocol::Simple);
  if (!allowed(shape, plan.protocol))
    refuse("the link does not allow the protocol " + std::string(name(plan.protocol)));
  return plan;
}

CollectivePlan plan_of(const Collective& collective, const CollectiveShape& shape) {
  if (!fits(collective.kind, collective.algorithm))
    refuse(std::string(name(collective.kind)) + " has no algorithm " +
           std::string(name(collective.algorithm)));
  if (!rings(collective.kind)) return point_to_point_plan(collective, shape);
  const double bytes = static_cast<double>(collective.bytes.value());
  CollectivePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::Nvls}) {
    const bool automatic = collective.algorithm == CollectiveAlgorithm::Automatic;
    if (automatic ? algorithm == CollectiveAlgorithm::Nvls : algorithm != collective.algorithm) continue;
    if (!fits(collective.kind, algorithm)) continue;
    if (algorithm == CollectiveAlgorithm::Nvls) {
      if (!shape.intra->multicast) refuse(shape.intra->name + " has no multicast, which NVLS needs");
      if (shape.nodes > 1) refuse("NVLS over several nodes is not modelled");
    }
    for (const LinkProtocol protocol : {LinkProtocol::Ll, LinkProtocol::Ll128, LinkProtocol::Simple}) {
      if (collective.protocol && *collective.protocol != protocol) continue;
      if (!allowed(shape, protocol)) continue;
      if (algorithm == CollectiveAlgorithm::Nvls && protocol != LinkProtocol::Simple) continue;
      const double seconds = cost::tuner_seconds(shape, algorithm, protocol, bytes);
      if (!(seconds < least)) continue;
      least = seconds;
      best.algorithm = algorithm;
      best.protocol = protocol;
    }
  }
  if (!std::isfinite(least))
    refuse("the link does not allow the protocol " +
           std::string(collective.protocol ? name(*collective.protocol) : "of any kind"));
  best.estimate = time_in_range(least * 1e12);
  set_blocks(best, shape, bytes);
  return best;
}

Bytes rounded(double bytes) {
  return Bytes(static_cast<std::int64_t>(std::ceil(bytes - 1e-6)));
}

/// Reads and writes of a rank's own memory. Its input is read once, its output written once, and what peers
/// send is written into a buffer and read from it (NCCL's FIFOs; with 24 of 4 MiB they are larger than the
/// L2).
double memory_bytes(CollectiveKind kind, double bytes, double ranks, double received) {
  double input = bytes;
  double output = bytes;
  if (kind == CollectiveKind::AllGather) input = bytes / ranks;
  if (kind == CollectiveKind::ReduceScatter) output = bytes / ranks;
  if (kind == CollectiveKind::Broadcast || kind == CollectiveKind::SendReceive) input = 0;  // as a receiver
  return input + output + 2 * received;
}

std::string_view type_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp64:
      return "f64";
    case Dtype::Fp32:
    case Dtype::Tf32:
      return "f32";
    case Dtype::Bf16:
      return "bf16";
    case Dtype::Fp16:
      return "f16";
    case Dtype::Fp8:
      return "f8e4m3";
    case Dtype::Fp4:
    case Dtype::Int8:
    case Dtype::Int4:
      return "u8";
  }
  return "u8";
}

}  // namespace

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all_reduce";
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::Broadcast:
      return "broadcast";
    case CollectiveKind::AllToAll:
      return "all_to_all";
    case CollectiveKind::SendReceive:
      return "send_receive";
  }
  return "";
}

std::optional<CollectiveKind> find_collective_kind(std::string_view text) {
  for (const CollectiveKind kind : all_kinds)
    if (name(kind) == text) return kind;
  return std::nullopt;
}

std::string_view name(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Automatic:
      return "automatic";
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Nvls:
      return "nvls";
  }
  return "";
}

CollectivePlan collective_plan(const Collective& collective, const Interconnect& interconnect) {
  const CollectiveShape shape = shape_of(collective, interconnect);
  if (collective.ranks == 1 || collective.bytes == Bytes{0}) {
    CollectivePlan none;
    none.channels = none.threads = 0;
    return none;
  }
  return plan_of(collective, shape);
}

CollectiveCost collective_cost(const Collective& collective, const Interconnect& interconnect) {
  CollectiveCost result;
  result.plan = collective_plan(collective, interconnect);
  if (result.plan.channels == 0) return result;
  const CollectiveShape shape = shape_of(collective, interconnect);
  const double bytes = static_cast<double>(collective.bytes.value());
  const cost::CollectiveSeconds seconds = cost::kernel_seconds(shape, result.plan, bytes);
  result.duration = time_in_range((seconds.latency + seconds.transfer) * 1e12);
  result.latency_share = seconds.latency / (seconds.latency + seconds.transfer);
  result.sent =
      collective_wire_bytes(collective.kind, collective.bytes, collective.ranks, result.plan.algorithm);
  result.sent_off_node =
      rounded(cost::off_node_bytes(shape, bytes, static_cast<double>(result.sent.value())));
  result.hbm_bytes = rounded(
      memory_bytes(collective.kind, bytes, collective.ranks, static_cast<double>(result.sent.value())));
  result.hbm_draw =
      BytesPerSecond(static_cast<double>(result.hbm_bytes.value()) / gpusim::seconds(result.duration));
  result.blocks = result.plan.channels;
  result.threads = result.plan.threads;
  result.kernel = collective_kernel_name(collective.kind, collective.dtype, result.plan.algorithm);
  return result;
}

std::string collective_kernel_name(CollectiveKind kind, Dtype dtype, CollectiveAlgorithm algorithm) {
  const std::string type(type_name(dtype));
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "ncclDevKernel_AllReduce_Sum_" + type +
             (algorithm == CollectiveAlgorithm::Tree ? "_TREE_LL" : "_RING_LL");
    case CollectiveKind::ReduceScatter:
      return "ncclDevKernel_ReduceScatter_Sum_" + type + "_RING_LL";
    case CollectiveKind::AllGather:
      return "ncclDevKernel_AllGather_RING_LL";
    case CollectiveKind::Broadcast:
      return "ncclDevKernel_Broadcast_RING_LL";
    case CollectiveKind::AllToAll:
    case CollectiveKind::SendReceive:
      return "ncclDevKernel_SendRecv";
  }
  return "";
}

Bytes collective_wire_bytes(CollectiveKind kind, Bytes bytes, std::int32_t ranks,
                            CollectiveAlgorithm algorithm) {
  if (ranks < 1) refuse("a collective of fewer than one rank");
  const double total = static_cast<double>(bytes.value());
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::AllReduce:
      if (algorithm == CollectiveAlgorithm::Nvls) return ranks == 1 ? Bytes{0} : bytes;
      return rounded(2 * others * total);
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      return rounded(others * total);
    case CollectiveKind::Broadcast:
    case CollectiveKind::SendReceive:
      return ranks == 1 ? Bytes{0} : bytes;
  }
  return bytes;
}

std::int32_t collective_ring_steps(CollectiveKind kind, std::int32_t ranks) {
  if (ranks < 2) return 0;
  switch (kind) {
    case CollectiveKind::AllReduce:
      return 2 * (ranks - 1);
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Broadcast:
      return ranks - 1;
    case CollectiveKind::AllToAll:
    case CollectiveKind::SendReceive:
      return 1;
  }
  return 1;
}

BytesPerSecond collective_bus_bandwidth(const Collective& collective, Picoseconds duration) {
  if (duration <= Picoseconds{0}) return BytesPerSecond{0};
  const Bytes wire = collective_wire_bytes(collective.kind, collective.bytes, collective.ranks);
  return BytesPerSecond(static_cast<double>(wire.value()) / seconds(duration));
}

}  // namespace gpusim
