// SPDX-License-Identifier: Apache-2.0
// May these ops be one kernel? For groups that users choose, and to check plans by rules of their own.
//
// The rules are those of TorchInductor's scheduler (can_fuse and what the Triton backend adds), opened or
// closed by what a backend's data say (FusionRules, ProductRules). They say what is possible, not what pays:
// thresholds on the number of reads, on distance in the graph or on memory are the planner's.
//
// Elementwise ops whose results nobody outside of the group needs are computed wherever they are read
// (inlined), so their shapes and orders do not matter. All other ops of a group share one loop: the same
// number of elements, or of rows where the rows are reduced, and what lies in memory is read at the place
// where it is made, or computed again from what is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/traffic.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// A reduction to one number over more elements than this takes two kernels (Inductor splits it), so nothing
/// of the same group can use it.
inline constexpr std::int64_t unsplit_reduction_max = 8192;
/// Kernels that need nothing of each other are joined if they read at least so much in common (Inductor:
/// score_fusion_memory_threshold).
inline constexpr Bytes shared_bytes_min{10};

/// Rules for groups of one graph. Keeps references to what it is made of; the same for many questions.
class FusionLegality {
 public:
  FusionLegality(const OpGraph& graph, const Backend& backend, const BackendMode& mode);

  /// Nothing if these ops can be one kernel; else the first reason why not, in words: "'mm1' and 'mm2' are
  /// two matrix products: ...". One op alone always can, whatever it is, and views count nothing.
  std::optional<std::string> refusal(std::span<const OpIndex> ops) const;

  const OpGraph& graph() const { return graph_; }
  const TrafficGraph& traffic() const { return traffic_; }
  const Backend& backend() const { return backend_; }
  const BackendMode& mode() const { return mode_; }
  /// The ops that have to run before an op, and those that read a tensor (by its root).
  const std::vector<OpIndex>& before(OpIndex op) const { return before_[op]; }
  const std::vector<OpIndex>& readers(TensorIndex root) const { return readers_[root]; }
  /// The op that makes a tensor (by its root); none if it was there before.
  OpIndex maker(TensorIndex root) const { return makers_[root]; }
  bool is_result(TensorIndex root) const { return is_result_[root]; }
  /// How many elements behind the beginning of its storage a tensor of the graph begins.
  std::int64_t offset(TensorIndex tensor) const { return offsets_[tensor]; }

 private:
  const OpGraph& graph_;
  const Backend& backend_;
  const BackendMode& mode_;
  TrafficGraph traffic_;
  std::vector<OpIndex> makers_;
  std::vector<std::vector<OpIndex>> before_;
  std::vector<std::vector<OpIndex>> readers_;
  std::vector<bool> is_result_;
  std::vector<std::int64_t> offsets_;
};

/// One question alone.
std::optional<std::string> kernel_refusal(const OpGraph& graph, std::span<const OpIndex> ops,
                                          const Backend& backend, const BackendMode& mode);

/// Throws CompileError for groups that are no partition, that need each other in a cycle, or of which one
/// cannot be a kernel: the ops, and the reason.
void check_plan(const FusionLegality& legality, const OpGroups& groups);

}  // namespace gpusim
