// SPDX-License-Identifier: Apache-2.0
// A training step of one of several data-parallel ranks: the communication of gradients, parameters and
// states.
#pragma once

#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/graph/parallel_plan.hpp"

namespace gpusim {

/// Adds to a training step what ranks with batches of their own do together (`plan.kind`); one rank's ops are
/// the same whatever the number of ranks, but for sizes.
///
/// DDP (torch/csrc/distributed/c10d/reducer.cpp): gradients go, in the order in which they are ready, into
/// buckets of `bucket` bytes (the first one of `first_bucket`), divided by the number of ranks on the way; a
/// full bucket is added up over ranks on the stream "nccl" while backward goes on; behind backward all are
/// copied back. Before the step's last micro-batch nothing is sent (no_sync).
///
/// Compiled code hands its gradients over at its end (`plan.compiled`). With CompiledPieces::Buckets the ops
/// "ddp_bucket" say in their attribute `cut`, each one of ddp_cuts().
///
/// FSDP and ZeRO-3 (torch/distributed/fsdp/_fully_shard): each call of a block that stands in a `repeat` is a
/// unit, and so is the rest. A unit's parameters are parts along their first dimension, rounded up. They are
/// gathered when the unit's forward pass begins, freed behind it (the rest: not), gathered again in backward
/// one unit ahead, and its gradients are reduce-scattered behind its backward pass. Streams "gather" and
/// "reduce".
///
/// ZeRO-1 and 2: as DDP (2: with a reduce-scatter of each bucket), the optimizer over parts, and one
/// all-gather of the parameters behind it.
///
/// Throws GraphError for a step without an optimizer, which says what belongs together.
OpGraph data_parallel_step(OpGraph step, const ParallelPlan& plan);

/// Where DDPOptimizer cuts the forward pass of a step: the ops with which pieces begin, ascending, the first
/// piece's not among them. Going back from the loss, a piece ends as soon as the parameters that its ops read
/// come to `bucket` bytes (the last piece, whose gradients come first: `first_bucket`), so that what is left
/// over is the first piece (torch/_dynamo/backends/distributed.py). Each parameter counts once.
std::vector<OpIndex> ddp_cuts(const OpGraph& step, const ParallelPlan& plan);

/// Whether an op runs only in the last of a step's micro-batches.
bool only_in_last_pass(const Op& op);

}  // namespace gpusim
