// SPDX-License-Identifier: Apache-2.0
// What kernels read and write when ops are grouped into them.
//
// A group moves each tensor that its ops read and none of them makes, once, and each tensor that it makes and
// somebody outside needs (another group, or whoever gets the step's results). What is made and used within a
// group moves nothing. So sharing never costs: the sum falls when groups are joined, from every op for itself
// (eager) to all ops as one (the bound). Source: the group rule that docs/seed-coverage.md names, R-14.
//
// It counts bytes, not time: a matrix product that reads an operand several times, or a row that does not fit
// into registers, moves more. models/cost knows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/compiler/options.hpp"
#include "models/graph/op_graph.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// A tensor as traffic sees it.
struct MovedTensor {
  Bytes read{0};     ///< Moved by a group that reads it and does not make it.
  Bytes written{0};  ///< Moved by the group that makes it, if it is needed outside.
  /// The tensor whose memory this is another look at (a part, or the same in another shape); none: its own.
  /// A group that reads several looks moves no more than the whole.
  TensorIndex whole = graph_none;
  friend bool operator==(const MovedTensor&, const MovedTensor&) = default;
};

/// An op as traffic sees it. One without inputs and outputs moves nothing: a view.
struct MovingOp {
  std::string name;                   ///< For messages.
  std::vector<TensorIndex> inputs{};  ///< Named twice, a tensor is read once.
  std::vector<TensorIndex> outputs{};
  std::vector<OpIndex> after{};  ///< Ops before it by no tensor of theirs: they use what it overwrites.
  friend bool operator==(const MovingOp&, const MovingOp&) = default;
};

/// Ops and tensors by index, and what the step gives. Each tensor is made by at most one op; those that none
/// makes are there before.
struct TrafficGraph {
  std::vector<MovingOp> ops;
  std::vector<MovedTensor> tensors;
  std::vector<TensorIndex> outputs;
  friend bool operator==(const TrafficGraph&, const TrafficGraph&) = default;

  /// The tensor whose memory `tensor` is.
  TensorIndex root(TensorIndex tensor) const {
    const TensorIndex whole = tensors[tensor].whole;
    return whole == graph_none ? tensor : whole;
  }
  bool moves(OpIndex op) const { return !ops[op].inputs.empty() || !ops[op].outputs.empty(); }
};

/// Which ops are one kernel: a partition of all ops.
using OpGroups = std::vector<std::vector<OpIndex>>;

struct GroupTraffic {
  Bytes read{0};
  Bytes written{0};
  Bytes total() const { return read + written; }
  friend bool operator==(const GroupTraffic&, const GroupTraffic&) = default;
};

struct Traffic {
  std::vector<GroupTraffic> groups;  ///< In the order in which they were given.
  GroupTraffic sum;
  Bytes total() const { return sum.total(); }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// The op that makes each tensor; none for those that are there before and for looks at another.
std::vector<OpIndex> producers(const TrafficGraph& graph);

/// The bytes of a grouping. Throws CompileError for groups that check_groups() refuses.
Traffic plan_traffic(const TrafficGraph& graph, const OpGroups& groups);

/// Each op a group of its own: what eager execution moves, the most that any grouping moves.
OpGroups single_groups(const TrafficGraph& graph);
Traffic eager_traffic(const TrafficGraph& graph);
/// All ops as one group: inputs and results once each, the least that any grouping moves. Whether such a
/// kernel can exist is another matter (legality.hpp).
Traffic traffic_bound(const TrafficGraph& graph);

/// An order in which the groups can run, by their places in `groups`: each behind those that it needs, and as
/// they are given where that leaves a choice. Throws CompileError where an op is in no group or in several,
/// where a group is empty, and where groups need each other in a cycle, which is named op by op.
std::vector<std::size_t> group_order(const TrafficGraph& graph, const OpGroups& groups);

/// Throws as group_order() does.
void check_groups(const TrafficGraph& graph, const OpGroups& groups);

/// The ops of a network with their indices, and its tensors with theirs; looks at memory that changed its
/// contents come behind them. By storages:
///  - views make nothing; whoever reads one reads that part of the memory, in its own kernel;
///  - ops that look up rows read at most as much of the table as they give;
///  - ops in place read what is there (copies and stores do not) and make what is there from then on; those
///    that change a part write that part, and later readers read memory as before;
///  - memory that was there before the step is a result if it is written.
/// Optimizers count as reading their tensors only.
TrafficGraph traffic_graph(const OpGraph& graph);

/// Groups given by names of ops, and all other ops alone behind them. Throws CompileError for a name that no
/// op has and for one given twice.
OpGroups named_groups(const OpGraph& graph, std::span<const std::vector<std::string>> names);

}  // namespace gpusim
