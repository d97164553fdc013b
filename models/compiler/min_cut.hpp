// SPDX-License-Identifier: Apache-2.0
// Which values a training step keeps for its backward pass, as AOTAutograd's partitioner decides it
// (torch/_functorch/partitioners.py, solve_min_cut). Internal to models/compiler.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/compiler/min_cut_flow.hpp"
#include "models/compiler/recompute_graph.hpp"

namespace gpusim {

/// Which values are never made again: torch._functorch.config's ban_recompute_* and their defaults.
struct BanRules {
  bool used_far_apart = true;
  bool long_chains = true;            ///< Of what could be one kernel.
  bool materialized_backward = true;  ///< An op of the backward pass that nothing joins reads it.
  bool not_listed = true;             ///< false: only random and expensive ops.
  bool reductions = true;             ///< Less than a quarter of what was read.
  friend bool operator==(const BanRules&, const BanRules&) = default;
};

/// Why a value is not made again. In the order in which the rules are asked.
enum class Ban : std::uint8_t {
  None,
  Input,         ///< It is given.
  Asked,         ///< The user wants it kept.
  NotListed,     ///< Its op is not among those that may be run again.
  Random,        ///< Its op draws random numbers.
  Expensive,     ///< Its op is a product, a convolution or attention.
  Materialized,  ///< The backward pass reads it where nothing joins, so that it has to be written anyway.
  Reduction,     ///< It has less than a quarter of the bytes that its op reads.
  FarApart,      ///< Its op reads something that was used long before.
  LongChain,     ///< 100 nodes of the forward pass could be one kernel with it.
};
std::string_view name(Ban ban);

/// Whether the partitioner expects a value and its reader in one kernel: both are in its lists of what may be
/// joined, or the reader is a concatenation.
bool may_be_one_kernel(const JointGraph& graph, JointIndex node, JointIndex reader);

/// What the partitioner thinks that keeping a value costs: its bytes, times 1.1 for each edge to the backward
/// pass (1 to 100), times 2 where the forward pass would not have written it. Parameters cost nothing
/// (treat_parameters_as_free_to_save).
std::int64_t save_weight(const JointGraph& graph, const JointFacts& facts, JointIndex node);

/// By node, which rule bans it. `released` (by node; empty: none) are banned by none. Views never are.
std::vector<Ban> find_bans(const JointGraph& graph, const JointFacts& facts, const BanRules& rules,
                           std::span<const std::uint8_t> released = {});

struct Cut {
  std::vector<std::uint8_t> saved;  ///< By node.
  std::int64_t weight = 0;          ///< Of all that is saved.
  std::size_t parts = 0;           ///< Independent parts of the graph in which there was something to decide,
  std::size_t distinct_parts = 0;  ///< and how many different ones.
};

/// The values to keep, with the least weight, so that no banned one is made again; of several such sets the
/// one whose values are nearest to the backward pass. The same whichever algorithm is used.
///
/// Exact in steps that cost less than one flow through the whole graph: what has to be on one side is one
/// vertex, what no flow can pass goes, and the rest falls into independent parts, equal ones of which are
/// solved once. Throws std::invalid_argument where nothing that may be kept separates a banned value from
/// the backward pass, and where the weights do not fit an int64.
Cut min_cut(const JointGraph& graph, const JointFacts& facts, std::span<const Ban> bans,
            MaxFlow algorithm = MaxFlow::BoykovKolmogorov);

}  // namespace gpusim
