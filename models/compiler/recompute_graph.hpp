// SPDX-License-Identifier: Apache-2.0
// A forward and a backward pass as a partitioner sees them: values, their bytes, and who reads whom. Internal
// to models/compiler; recompute.hpp makes it from an op graph.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

namespace gpusim {

using JointIndex = std::uint32_t;

enum class JointRole : std::uint8_t {
  Input,      ///< Given to the step.
  Parameter,  ///< Given, and there before and after the step whatever is kept.
  Tangent,    ///< Given to the backward pass: the gradient of what the forward pass gives.
  Op,         ///< What an op makes: a tensor, or several of them as one value.
  Item,       ///< One of several tensors that an op makes.
};

/// A value: of an op, what it makes.
struct JointNode {
  JointRole role = JointRole::Op;
  std::int64_t bytes = 0;  ///< Of all tensors in it.
  double run_time = 1;     ///< What making it again takes, in any unit.
  bool forward = true;     ///< Its op stands in the forward pass.
  // What AOTAutograd's lists say of the op (torch/_functorch/partitioners.py, get_default_op_list).
  bool listed = false;  ///< May be run again: elementwise, reductions, views, casts, indexing.
  bool random = false;
  bool expensive = false;  ///< Products, convolutions, attention.
  bool view = false;       ///< Another look at its first input's memory.
  bool concat = false;     ///< Whatever it joins may be made in its kernel.
  bool several = false;    ///< Several tensors, of which its items are one each.
  bool fixed = false;      ///< Never run again, not even if asked: it changes what it reads.
  // What the caller wants.
  bool given_forward = false;   ///< The forward pass gives it.
  bool given_backward = false;  ///< The backward pass gives it.
  bool must_save = false;       ///< Asked for by the user.
  bool must_recompute = false;  ///< Asked for by the user.
  /// Nodes with the same number live in the same memory.
  std::uint32_t memory = std::numeric_limits<std::uint32_t>::max();
};

/// Nodes in an order in which they can be made; the given ones first, as AOTAutograd has them.
class JointGraph {
 public:
  JointIndex add(const JointNode& node, std::span<const JointIndex> inputs = {}) {
    for (const JointIndex i : inputs) inputs_.push_back(i);
    first_input_.push_back(static_cast<std::uint32_t>(inputs_.size()));
    nodes_.push_back(node);
    return static_cast<JointIndex>(nodes_.size() - 1);
  }
  JointIndex add(const JointNode& node, std::initializer_list<JointIndex> inputs) {
    return add(node, std::span(inputs.begin(), inputs.size()));
  }

  JointIndex size() const { return static_cast<JointIndex>(nodes_.size()); }
  const JointNode& operator[](JointIndex i) const { return nodes_[i]; }
  JointNode& operator[](JointIndex i) { return nodes_[i]; }
  /// As the op takes them: one that it takes twice stands there twice.
  std::span<const JointIndex> inputs(JointIndex i) const {
    return std::span(inputs_).subspan(first_input_[i], first_input_[i + 1] - first_input_[i]);
  }

 private:
  std::vector<JointNode> nodes_;
  std::vector<JointIndex> inputs_;
  std::vector<std::uint32_t> first_input_{0};
};

/// No way from the node to the backward pass.
inline constexpr std::int32_t joint_far_away = 1'000'000'000;

/// What follows from a joint graph's edges alone.
struct JointFacts {
  /// Each reader once, in order. By node: readers[first_reader[i]] up to first_reader[i + 1].
  std::vector<JointIndex> readers;
  std::vector<std::uint32_t> first_reader;
  /// What the forward pass has to make for what it gives; all that is given to it too.
  std::vector<std::uint8_t> forward;
  /// What depends on a tangent, and what the backward pass gives. The rest is made in whichever pass needs
  /// it.
  std::vector<std::uint8_t> backward;
  std::vector<std::int32_t> forward_place;  ///< Which of the forward pass's nodes it is; -1: none.
  /// Edges to the nearest node that the forward pass does not need; joint_far_away: there is none.
  std::vector<std::int32_t> distance;

  std::span<const JointIndex> readers_of(JointIndex i) const {
    return std::span(readers).subspan(first_reader[i], first_reader[i + 1] - first_reader[i]);
  }
};

/// Takes time in proportion to nodes and edges.
JointFacts joint_facts(const JointGraph& graph);

}  // namespace gpusim
