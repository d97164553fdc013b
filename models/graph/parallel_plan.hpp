// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job share a network's step. Plain data: what one rank does, its peers being alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/graph/element_type.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// What data-parallel ranks share beside the work.
enum class DataKind : std::uint8_t {
  Ddp,    ///< Nothing: gradients are averaged in buckets (torch DistributedDataParallel).
  Fsdp,   ///< Parameters, gradients and states, block by block (torch fully_shard).
  Zero1,  ///< The optimizer's states: gradients are averaged, updated parameters are gathered.
  Zero2,  ///< Gradients too: each rank gets the sum of its part.
  Zero3,  ///< As Fsdp.
};
std::string_view name(DataKind kind);

enum class PipelineSchedule : std::uint8_t {
  Gpipe,        ///< All forward passes, then all backward passes.
  OneF1b,       ///< One forward, one backward in turn: no more passes in flight than stages.
  Interleaved,  ///< The same, each rank with several stages.
};
std::string_view name(PipelineSchedule schedule);

/// What hands over its gradients together, at the end of its backward pass, because it is compiled together.
enum class CompiledPieces : std::uint8_t {
  None,     ///< Nothing is compiled.
  Whole,    ///< The network.
  Buckets,  ///< Each piece between two cuts of DDPOptimizer.
  Blocks,   ///< Each block in a repeat.
};

struct ParallelPlan {
  std::int64_t data = 1;  ///< Ranks with batches of their own.
  DataKind kind = DataKind::Ddp;
  std::int64_t tensor = 1;  ///< Ranks that share the products of each layer.
  bool sequence = false;    ///< What tensor-parallel ranks would all do alike is shared by rows.
  std::int64_t pipeline = 1;
  std::int64_t microbatches = 1;  ///< Of a step, through the pipeline.
  PipelineSchedule schedule = PipelineSchedule::OneF1b;
  std::int64_t chunks = 1;  ///< Stages of each rank, of an interleaved schedule.
  std::int64_t stage = -1;  ///< Which of the pipeline's ranks is meant; -1: the slowest.
  std::int64_t expert = 1;  ///< Ranks that share the experts: some of the data-parallel ones.
  std::int64_t ranks_per_node = 8;
  Bytes bucket{25 << 20};       ///< DDP, ZeRO-1 and 2: gradients that are sent together.
  Bytes first_bucket{1 << 20};  ///< DDP: the first one, so that sending begins early.
  bool reshard = true;          ///< FSDP: blocks' parameters are freed after forward and gathered again.
  /// FSDP: what ranks keep of parameters and states; absent: as the network has its parameters. What is
  /// gathered has the network's dtype.
  std::optional<ElementType> shard_dtype{};
  std::optional<ElementType> reduce_dtype{};  ///< In which FSDP adds gradients up; absent: as they are.

  /// DDP: the wrapped network is compiled, so that Dynamo's graph is cut at buckets (DDPOptimizer). Else what
  /// is compiled is compiled first and wrapped then.
  bool compile_wrapped = false;
  CompiledPieces compiled = CompiledPieces::None;
  /// Standard deviation of the ranks' speeds, as a share of their mean.
  double stragglers = 0;

  std::int64_t ranks() const { return data * tensor * pipeline; }
  bool shards_parameters() const { return kind == DataKind::Fsdp || kind == DataKind::Zero3; }
  /// Ranks of a data-parallel group on one node: tensor-parallel ranks are neighbours.
  std::int64_t data_per_node() const;
  std::int64_t tensor_per_node() const;
  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// Share of a pipeline's time in which a rank has nothing to do, all stages being alike: (p - 1) / (m + p -
/// 1) for GPipe and 1F1B (Huang et al. 2019; Narayanan et al. 2021), (p - 1) / (v m + p - 1) with v stages a
/// rank (Narayanan et al. 2021, section 2.2).
double bubble_share(PipelineSchedule schedule, std::int64_t stages, std::int64_t microbatches,
                    std::int64_t chunks);

/// Graph breaks of a forward pass whose `units` FSDP hooks on both sides: hooks of modules are calls that
/// Dynamo does not follow, unless what they surround was compiled first, by itself.
constexpr std::int64_t hook_breaks(bool compiled_first, std::int64_t units) {
  return compiled_first ? 0 : 2 * units;
}

/// How far the slowest of `count` equal normal variables lies from their mean, in standard deviations, as
/// expected: the quantile at (n - 0.375) / (n + 0.25) (Blom 1958), within 5 % of the integral. 0 for one.
double expected_maximum(std::int64_t count);

/// Bytes of parameters, gradients and optimizer states on a rank (Rajbhandari et al. 2020, figure 1): what is
/// shared is divided by `ranks`.
struct ShardedBytes {
  double parameters = 0;
  double gradients = 0;
  double states = 0;
  double total() const { return parameters + gradients + states; }
};
ShardedBytes sharded_bytes(DataKind kind, std::int64_t ranks, const ShardedBytes& whole);

}  // namespace gpusim
