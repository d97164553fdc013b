// SPDX-License-Identifier: Apache-2.0
// Adds ops to a graph one after the other. Internal to models.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/graph/catalogue.hpp"
#include "models/graph/like_index.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Attributes of a kind with the values given, in the kind's order; the others as they are by default.
Attributes attributes_of(const OpKind& kind,
                         std::initializer_list<std::pair<std::string_view, AttributeValue>> values);
/// The same attributes but for one.
Attributes with_attribute(const Attributes& attributes, std::string_view name, AttributeValue value);

class GraphWriter {
 public:
  OpGraph graph;

  /// What the ops added from now on belong to.
  struct Where {
    Phase phase = Phase::Forward;
    CallIndex call = 0;
    bool in_repeat = false;
    bool recomputed = false;
    bool accumulates = false;
    TextPlace place;
    OpIndex gradient_of = graph_none;
  } where;
  /// Where an op stands; whose gradient it helps to work out is left out, as ops are counted anew.
  static Where where_of(const Op& op);
  std::int32_t module_calls = 0;  ///< Goes to the next op, as `nodes` does.
  std::int32_t nodes = 0;

  /// Adds an op and the tensors that it makes. Throws GraphError where shapes do not go together.
  std::vector<TensorIndex> add(const OpKind& kind, std::string name, std::vector<TensorIndex> inputs,
                               Attributes attributes);
  /// The same, by name, of an op with one result.
  TensorIndex add(std::string_view kind, std::string name, std::vector<TensorIndex> inputs,
                  std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes = {});

  /// A tensor that no op makes.
  TensorIndex add_tensor(std::string name, const TensorType& type, Role role);
  const TensorType& type(TensorIndex t) const { return graph.tensors[t].type; }

  // To write another graph anew, op by op.

  /// Copies the tensors of `from` that no op makes, in their order, with their memory. Returns the copies by
  /// tensor of `from`; none for those that an op makes.
  std::vector<TensorIndex> copy_given(const OpGraph& from);
  /// Copies the calls of `from`, and how long variables of its text live. `begin`: by op of `from`, and for
  /// its end, how many ops stood here before what became of it; `now`: by tensor of `from`.
  void copy_frames(const OpGraph& from, const std::vector<OpIndex>& begin,
                   const std::vector<TensorIndex>& now);

 private:
  LikeIndex likes_;
  std::unordered_map<OpIndex, std::vector<MadeTensor>> made_;  ///< By Op::like: what all such ops make.
};

}  // namespace gpusim
