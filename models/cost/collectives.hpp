// SPDX-License-Identifier: Apache-2.0
// What a collective of NCCL costs one rank: its kernel's duration, what it sends, and what it takes from
// kernels that run beside it.
//
// All ranks are alike and begin at once: a rank that comes late makes the kernels of the others longer, which
// is the engine's business (its peers are not simulated). Two models stand side by side. collective_plan() is
// NCCL's own choice of algorithm and protocol, by NCCL's own estimate of each (src/graph/tuning.cc of
// NCCL 2.28, whose constants are those of the interconnect files). collective_cost() is what the kernel then
// takes, as a profiler shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/interconnect.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

enum class CollectiveKind : std::uint8_t {
  AllReduce,      ///< Every rank has the sum of all in the end.
  AllGather,      ///< Every rank has the parts of all.
  ReduceScatter,  ///< Every rank has its part of the sum.
  Broadcast,      ///< Every rank has what the root had.
  AllToAll,       ///< Every rank sends a part of its own to each other one.
  SendReceive,    ///< A message from one rank to another; between stages of a pipeline.
};
inline constexpr int collective_kind_count = 6;
/// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_receive".
std::string_view name(CollectiveKind kind);
std::optional<CollectiveKind> find_collective_kind(std::string_view name);

enum class CollectiveAlgorithm : std::uint8_t {
  Automatic,  ///< As NCCL chooses: ring or tree. Never NVLS.
  Ring,
  Tree,  ///< Two binary trees; all-reduce only.
  Nvls,  ///< The switch adds up (NVLink SHARP): all-reduce, all-gather, reduce-scatter, in one node.
};
std::string_view name(CollectiveAlgorithm algorithm);

struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  /// The larger buffer of one rank: of an all-reduce or a broadcast the buffer, of an all-gather the gathered
  /// output, of a reduce-scatter the whole input, of an all-to-all what a rank has for all ranks, its own
  /// part included; of a send-receive the message.
  Bytes bytes{0};
  Dtype dtype = Dtype::Bf16;  ///< Of the elements; only the name of a kernel that adds up depends on it.
  std::int32_t ranks = 2;     ///< Of the group.
  /// Of the group, on each node: 8 for data parallelism over all GPUs of nodes of 8, 1 where tensor
  /// parallelism takes the rest of each node. 0: all ranks are on one node. Send-receive: 1 where the peer is
  /// on another node.
  std::int32_t ranks_per_node = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Automatic;
  std::optional<LinkProtocol> protocol{};  ///< Absent: as NCCL chooses.

  std::int32_t nodes() const { return ranks_per_node > 0 ? ranks / ranks_per_node : 1; }
};

/// How the kernel goes about it.
struct CollectivePlan {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  LinkProtocol protocol = LinkProtocol::Simple;
  std::int32_t channels = 1;   ///< Blocks of the kernel, each of which fills most of an SM.
  std::int32_t threads = 544;  ///< Per block.
  Picoseconds estimate{0};     ///< NCCL's own, by which it chose.
  bool operator==(const CollectivePlan&) const = default;
};

/// What the collective costs one rank. No time and no kernel at all (`channels` 0) for one rank or no bytes.
struct CollectiveCost {
  Picoseconds duration{0};  ///< Of the kernel, as a profiler shows it, if all ranks start at once.
  CollectivePlan plan;
  Bytes sent{0};           ///< By each rank, over any link. As many are received.
  Bytes sent_off_node{0};  ///< Of those, over the network, a mean of the node's ranks.
  Bytes hbm_bytes{
      0};  ///< Read and written in the rank's own memory, the buffers of the peers' stores included.
  BytesPerSecond hbm_draw{0};   ///< hbm_bytes / duration: what other kernels miss.
  double latency_share = 0;     ///< Of the duration, what does not depend on the size.
  std::int32_t blocks = 0;      ///< SMs that it holds, one block each.
  std::int32_t threads = 0;     ///< Per block.
  std::int32_t registers = 96;  ///< Per thread. Measured: DDP trace of two H200s, NCCL 2.28.9.
  Bytes shared_memory{103808};  ///< Per block. Measured: as registers.
  /// Inside a CUDA graph the kernel starts so long after its predecessor has ended, and runs so much longer,
  /// since the ranks are never quite together. Measured: graphs of decoding Llamas over two H200s
  /// (validation/h200x2).
  Picoseconds graph_gap{2'300'000};
  Picoseconds graph_skew{800'000};
  /// From one collective's kernel to the next one's, both: in a CUDA graph of nothing else, and in a stream
  /// where the host is ahead. Measured: validation/h200x2/collectives.csv, periods less durations.
  Picoseconds graph_gap_of_collectives{5'500'000};
  Picoseconds eager_gap{4'000'000};
  std::string kernel;  ///< "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"; the name says nothing of the protocol.
};

/// NCCL's choice. Throws std::invalid_argument: negative bytes, fewer than one rank, ranks that are no
/// multiple of ranks_per_node, an algorithm that the kind has not, a protocol that the link does not allow,
/// several nodes without a link between them, more ranks on a node than its link joins, NVLS without
/// multicast.
CollectivePlan collective_plan(const Collective& collective, const Interconnect& interconnect);

/// Throws as collective_plan().
CollectiveCost collective_cost(const Collective& collective, const Interconnect& interconnect);

/// The kernel's name in a profiler's trace, without its arguments. NCCL builds one kernel for each kind,
/// number format and algorithm and calls it after LL; the other protocols run in it too
/// (src/device/generate.py of NCCL 2.28).
std::string collective_kernel_name(CollectiveKind kind, Dtype dtype, CollectiveAlgorithm algorithm);

// --- Arithmetic that holds for any implementation.

/// What each rank has to send (Patarasuk and Yuan 2009, and the "bus bandwidth" of nccl-tests,
/// doc/PERFORMANCE.md): 2 (n - 1) / n of the bytes for an all-reduce, (n - 1) / n for an all-gather, a
/// reduce-scatter or an all-to-all, all of them for a broadcast (a rank in the middle of the ring) or a send.
/// Rounded up. With NVLS an all-reduce sends each byte once.
Bytes collective_wire_bytes(CollectiveKind kind, Bytes bytes, std::int32_t ranks,
                            CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring);

/// Steps that follow one another in a ring: 2 (n - 1), n - 1, ...; 1 for an all-to-all and a send.
std::int32_t collective_ring_steps(CollectiveKind kind, std::int32_t ranks);

/// Bus bandwidth as nccl-tests print it: wire bytes of a ring over the duration.
BytesPerSecond collective_bus_bandwidth(const Collective& collective, Picoseconds duration);

}  // namespace gpusim
