// SPDX-License-Identifier: Apache-2.0
// Collectives by hand: what each rank sends, how many steps there are, who pays for the network.
#include <cmath>
#include <stdexcept>
#include <string>

#include "models/cost/collectives.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using namespace literals;
using test::Approx;

/// A link of round numbers: 100 GB/s for rings, 10 channels, hops of 1, 2 and 4 us.
LinkSpec round_link() {
  LinkSpec link;
  link.key = link.name = "round";
  link.bandwidth = BytesPerSecond(125e9);
  link.ring = BytesPerSecond(100e9);
  link.channels = 10;
  link.protocols = {LinkProtocolSpec{true, 1_us, 1_us, {}, {}}, LinkProtocolSpec{true, 2_us, 2_us, {}, {}},
                    LinkProtocolSpec{true, 4_us, 4_us, {}, {}}};
  return link;
}

/// 10 GB/s between nodes, two channels, hops of 10 us.
LinkSpec round_network() {
  LinkSpec link = round_link();
  link.type = LinkType::Network;
  link.bandwidth = BytesPerSecond(12.5e9);
  link.ring = BytesPerSecond(10e9);
  link.channels = 2;
  for (LinkProtocolSpec& protocol : link.protocols) protocol.hop = protocol.tree_hop = 10_us;
  return link;
}

Collective collective(CollectiveKind kind, Bytes bytes, std::int32_t ranks, std::int32_t per_node = 0) {
  Collective result;
  result.kind = kind;
  result.bytes = bytes;
  result.ranks = ranks;
  result.ranks_per_node = per_node;
  result.algorithm =
      kind == CollectiveKind::AllReduce ? CollectiveAlgorithm::Ring : CollectiveAlgorithm::Automatic;
  result.protocol = LinkProtocol::Simple;
  return result;
}

double us(Picoseconds time) {
  return microseconds(time);
}

/// What twice the bytes take more: latencies, which do not depend on the size, fall out. Few enough bytes
/// that the blocks stay in step.
double slope_us(CollectiveKind kind, std::int32_t ranks, std::int32_t per_node, Bytes bytes) {
  const Interconnect links{round_link(), round_network()};
  const auto at = [&](Bytes size) {
    return us(collective_cost(collective(kind, size, ranks, per_node), links).duration);
  };
  return at(bytes + bytes) - at(bytes);
}

TEST_CASE("A ring all-reduce sends 2 (n - 1) / n of its bytes from every rank") {
  CHECK(collective_wire_bytes(CollectiveKind::AllReduce, 1000_B, 2) == 1000_B);
  CHECK(collective_wire_bytes(CollectiveKind::AllReduce, 1000_B, 4) == 1500_B);
  CHECK(collective_wire_bytes(CollectiveKind::AllReduce, 1000_B, 8) == 1750_B);
  // As many as a reduce-scatter and an all-gather after it.
  for (const std::int32_t ranks : {2, 3, 8, 64}) {
    const Bytes bytes{ranks * std::int64_t{4096}};
    CHECK(collective_wire_bytes(CollectiveKind::AllReduce, bytes, ranks) ==
          collective_wire_bytes(CollectiveKind::ReduceScatter, bytes, ranks) +
              collective_wire_bytes(CollectiveKind::AllGather, bytes, ranks));
  }
}

TEST_CASE("An all-gather sends (n - 1) / n of its output, a reduce-scatter as much of its input") {
  CHECK(collective_wire_bytes(CollectiveKind::AllGather, 1000_B, 4) == 750_B);
  CHECK(collective_wire_bytes(CollectiveKind::ReduceScatter, 1000_B, 4) == 750_B);
  CHECK(collective_wire_bytes(CollectiveKind::AllToAll, 1000_B, 4) == 750_B);
  CHECK(collective_wire_bytes(CollectiveKind::Broadcast, 1000_B, 4) == 1000_B);
  CHECK(collective_wire_bytes(CollectiveKind::SendReceive, 1000_B, 2) == 1000_B);
  // Thirds do not come out even: a rank sends whole bytes.
  CHECK(collective_wire_bytes(CollectiveKind::AllGather, 100_B, 3) == 67_B);
}

TEST_CASE("With NVLS an all-reduce sends each byte once, to the switch") {
  CHECK(collective_wire_bytes(CollectiveKind::AllReduce, 1000_B, 8, CollectiveAlgorithm::Nvls) == 1000_B);
}

TEST_CASE("A ring has 2 (n - 1) steps for an all-reduce and n - 1 for its halves") {
  CHECK(collective_ring_steps(CollectiveKind::AllReduce, 8) == 14);
  CHECK(collective_ring_steps(CollectiveKind::AllGather, 8) == 7);
  CHECK(collective_ring_steps(CollectiveKind::ReduceScatter, 8) == 7);
  CHECK(collective_ring_steps(CollectiveKind::AllReduce, 1) == 0);
}

TEST_CASE("One rank, or no bytes, runs no kernel") {
  const Interconnect links{round_link(), std::nullopt};
  for (const Collective& none :
       {collective(CollectiveKind::AllReduce, 1_MiB, 1), collective(CollectiveKind::AllReduce, 0_B, 8)}) {
    const CollectiveCost cost = collective_cost(none, links);
    CHECK(cost.duration == 0_us);
    CHECK(cost.blocks == 0);
    CHECK(cost.sent == 0_B);
    CHECK(cost.kernel.empty());
  }
}

TEST_CASE("Bus bandwidth is what nccl-tests print: 2 (n - 1) / n of the bytes by the time") {
  // 1 GB over 8 ranks in 5 ms: 200 GB/s of the algorithm, 350 GB/s of the bus.
  CHECK(collective_bus_bandwidth(collective(CollectiveKind::AllReduce, Bytes(1'000'000'000), 8), 5_ms)
            .value() == Approx(350e9));
}

TEST_CASE("A ring on one node takes its wire bytes at the link's rate, and a copy of the last part") {
  const Bytes bytes{10'000'000};
  // 4 ranks: 15 MB on the wire at 100 GB/s, 150 us; 2.5 MB copied by 10 blocks at 29 GB/s each, 8.62 us.
  CHECK(slope_us(CollectiveKind::AllReduce, 4, 0, bytes) == Approx(158.62).epsilon(1e-4));
  CHECK(slope_us(CollectiveKind::AllGather, 4, 0, bytes) == Approx(83.62).epsilon(1e-4));
  CHECK(slope_us(CollectiveKind::ReduceScatter, 4, 0, bytes) == Approx(83.62).epsilon(1e-4));
  // All goes through, nothing is left to copy.
  CHECK(slope_us(CollectiveKind::Broadcast, 4, 0, bytes) == Approx(100).epsilon(1e-4));
  CHECK(slope_us(CollectiveKind::SendReceive, 2, 0, bytes) == Approx(100).epsilon(1e-4));
}

TEST_CASE("The more bytes a block has, the less of the last copy shows") {
  const Interconnect links{round_link(), std::nullopt};
  // 10 blocks: 16 times 16 / 3 MiB each. The copy shows at 1 / 2 of its time: 16^(1/4).
  const Bytes bytes{std::int64_t{10} * 16 * (std::int64_t{16} << 20) / 3};
  const double wire_us = static_cast<double>(bytes.value()) / 100e9 * 1e6;
  const double copy_us = static_cast<double>(bytes.value()) / 2 / 10 / 29e9 * 1e6;
  const CollectiveCost cost = collective_cost(collective(CollectiveKind::AllReduce, bytes, 2), links);
  CHECK(us(cost.duration) * (1 - cost.latency_share) == Approx(wire_us + copy_us / 2).epsilon(1e-5));
}

TEST_CASE("Rings over nodes go as fast as the network cards of a node together, or as its links") {
  const Bytes bytes{5'000'000};
  // 16 ranks, 1 a node: 2 x 15 / 16 x 5 MB = 9.375 MB through one card of 10 GB/s.
  CHECK(slope_us(CollectiveKind::AllReduce, 16, 1, bytes) == Approx(937.5).epsilon(0.01));
  // 4 a node: four cards, 40 GB/s.
  CHECK(slope_us(CollectiveKind::AllReduce, 16, 4, bytes) == Approx(234.4).epsilon(0.01));
  // 16 a node, 9.69 MB: cards would give 160 GB/s, the links within the node give 100.
  CHECK(slope_us(CollectiveKind::AllReduce, 32, 16, bytes) == Approx(96.9).epsilon(0.01));
}

TEST_CASE("Of a ring over nodes every fourth edge leaves the node where four ranks are on each") {
  const Interconnect links{round_link(), round_network()};
  const CollectiveCost cost = collective_cost(collective(CollectiveKind::AllReduce, 16_MiB, 16, 4), links);
  CHECK(cost.sent == Bytes(std::int64_t{30} << 20));  // 2 x 15 / 16 x 16 MiB
  CHECK(cost.sent_off_node == Bytes((std::int64_t{30} << 20) / 4));
  CHECK(collective_cost(collective(CollectiveKind::AllReduce, 16_MiB, 4), links).sent_off_node == 0_B);
}

TEST_CASE("An all-to-all takes the longer of what stays on the node and what leaves it") {
  // 16 ranks, 4 a node, 160 MB: 10 MB for each rank. 30 MB stay (100 GB/s: 300 us), 120 MB leave (10 GB/s: 12
  // ms).
  CHECK(slope_us(CollectiveKind::AllToAll, 16, 4, Bytes(16'000'000)) == Approx(1'200).epsilon(0.01));
  // All on one node: 12 MB at 100 GB/s, and half of what copying 4 MB with 10 blocks takes, 6.9 us.
  CHECK(slope_us(CollectiveKind::AllToAll, 4, 0, Bytes(16'000'000)) == Approx(126.9).epsilon(1e-3));
  const Interconnect links{round_link(), round_network()};
  CHECK(
      collective_cost(collective(CollectiveKind::AllToAll, Bytes(160'000'000), 16, 4), links).sent_off_node ==
      Bytes(120'000'000));
}

TEST_CASE("A collective takes no less time with more bytes, with more ranks or over more nodes") {
  const Interconnect links{round_link(), round_network()};
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter}) {
    Picoseconds before{0};
    for (std::int64_t bytes = 1024; bytes <= std::int64_t{1} << 32; bytes *= 2) {
      Collective any = collective(kind, Bytes(bytes), 8);
      const Picoseconds now = collective_cost(any, links).duration;
      CHECK(now >= before);
      before = now;
      any.ranks = 64;
      any.ranks_per_node = 8;
      CHECK(collective_cost(any, links).duration > now);
    }
  }
}

TEST_CASE("The tuner takes LL for small messages and Simple for large ones") {
  const Interconnect links{round_link(), std::nullopt};
  Collective any = collective(CollectiveKind::AllReduce, 1_KiB, 8);
  any.algorithm = CollectiveAlgorithm::Automatic;
  any.protocol.reset();
  CHECK(collective_plan(any, links).protocol == LinkProtocol::Ll);
  any.bytes = 1_GiB;
  CHECK(collective_plan(any, links).protocol == LinkProtocol::Simple);
  CHECK(collective_plan(any, links).algorithm == CollectiveAlgorithm::Ring);
  CHECK(collective_plan(any, links).channels == 10);
}

TEST_CASE("Over many nodes a tree all-reduce of a small message has fewer steps than a ring") {
  const Interconnect links{round_link(), round_network()};
  Collective any = collective(CollectiveKind::AllReduce, 64_KiB, 1024, 8);
  any.algorithm = CollectiveAlgorithm::Automatic;
  any.protocol.reset();
  CHECK(collective_plan(any, links).algorithm == CollectiveAlgorithm::Tree);
  CHECK(collective_cost(any, links).kernel == "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL");
}

TEST_CASE("Small messages take fewer blocks") {
  const Interconnect links{round_link(), std::nullopt};
  // Simple: 64 bytes for each of 512 threads, 32 KiB a block.
  CHECK(collective_plan(collective(CollectiveKind::AllReduce, 96_KiB, 2), links).channels == 3);
  CHECK(collective_plan(collective(CollectiveKind::AllReduce, 8_KiB, 2), links).channels == 1);
  CHECK(collective_plan(collective(CollectiveKind::AllReduce, 64_MiB, 2), links).threads == 544);
}

TEST_CASE("Sends of a large group have fewer channels each, and large ones more") {
  const Interconnect links{round_link(), std::nullopt};
  const auto blocks = [&](Bytes bytes, std::int32_t ranks) {
    return collective_plan(collective(CollectiveKind::SendReceive, bytes, ranks), links).channels;
  };
  CHECK(blocks(64_MiB, 2) == 16);  // 32 channels among two ranks
  CHECK(blocks(64_MiB, 8) == 4);   // among eight; 16 MiB for each of them
  CHECK(blocks(65_MiB, 8) == 8);   // more than that: twice as many
  CHECK(blocks(512_MiB, 8) == 32);
  CHECK(blocks(4_GiB, 8) == 32);  // there are no more
  CHECK(blocks(16_KiB, 8) == 2);  // 8 KiB at least for each
  // 4 blocks of 23.5 GB/s carry 94 of the link's 100 GB/s: 32 MiB more take 357 us.
  const auto at = [&](Bytes bytes) {
    return us(collective_cost(collective(CollectiveKind::SendReceive, bytes, 8), links).duration);
  };
  CHECK(at(64_MiB) - at(32_MiB) == Approx(32 * 1.048576e6 / 94e9 * 1e6).epsilon(1e-4));
}

TEST_CASE("Kernels have NCCL's names") {
  const auto ring = CollectiveAlgorithm::Ring;
  CHECK(collective_kernel_name(CollectiveKind::AllReduce, Dtype::Bf16, ring) ==
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  CHECK(collective_kernel_name(CollectiveKind::ReduceScatter, Dtype::Fp32, ring) ==
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL");
  CHECK(collective_kernel_name(CollectiveKind::AllGather, Dtype::Bf16, ring) ==
        "ncclDevKernel_AllGather_RING_LL");
  CHECK(collective_kernel_name(CollectiveKind::AllToAll, Dtype::Bf16, ring) == "ncclDevKernel_SendRecv");
}

TEST_CASE("Memory traffic is input, output and what peers send, written and read") {
  const Interconnect links{round_link(), std::nullopt};
  // 4 ranks, 1 MiB: reads 1, writes 1, receives 1.5, which is written and read.
  CHECK(collective_cost(collective(CollectiveKind::AllReduce, 1_MiB, 4), links).hbm_bytes == 5_MiB);
  // Reads its quarter, writes 1, receives 0.75.
  CHECK(collective_cost(collective(CollectiveKind::AllGather, 1_MiB, 4), links).hbm_bytes ==
        Bytes((11 << 20) / 4));
  const CollectiveCost cost = collective_cost(collective(CollectiveKind::AllReduce, 1_GiB, 4), links);
  CHECK(cost.hbm_draw.value() * seconds(cost.duration) == Approx(5.0 * (1 << 30)));
}

TEST_CASE("What cannot be is refused by name") {
  const Interconnect one{round_link(), std::nullopt};
  const auto message = [&](Collective wrong) -> std::string {
    try {
      collective_cost(wrong, one);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const Collective good = collective(CollectiveKind::AllReduce, 1_MiB, 8);
  Collective wrong = good;
  wrong.bytes = Bytes{-1};
  CHECK(message(wrong) == "a collective of a negative number of bytes");
  wrong = good;
  wrong.ranks = 0;
  CHECK(message(wrong) == "a collective of fewer than one rank");
  wrong = good;
  wrong.ranks_per_node = 3;
  CHECK(message(wrong) == "8 ranks do not fill nodes of 3");
  wrong.ranks_per_node = 4;
  CHECK(message(wrong) == "no link between nodes is given, and the ranks are on several");
  wrong = good;
  wrong.algorithm = CollectiveAlgorithm::Nvls;
  CHECK(message(wrong) == "round has no multicast, which NVLS needs");
  wrong = collective(CollectiveKind::AllGather, 1_MiB, 8);
  wrong.algorithm = CollectiveAlgorithm::Tree;
  CHECK(message(wrong) == "all_gather has no algorithm tree");
  CHECK(message(good) == "accepted");
}

}  // namespace
}  // namespace gpusim
