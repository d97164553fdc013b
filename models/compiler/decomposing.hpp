// SPDX-License-Identifier: Apache-2.0
// The state of decompose(). Internal to models/compiler.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/graph_writer.hpp"

namespace gpusim {

class Decomposer {
 public:
  explicit Decomposer(const OpGraph& graph) : old_(graph) {}
  OpGraph run() &&;

  // For the rules, about the op that is taken apart.

  bool has(std::size_t input) const;
  TensorIndex in(std::size_t input = 0) const { return now_[op_->inputs[input]]; }
  std::size_t outputs() const { return op_->outputs.size(); }
  ElementType element(TensorIndex t) const { return writer_.type(t).element; }
  Dims shape(TensorIndex t) const { return writer_.type(t).shape; }
  /// `t`, cast to the output's dtype, is the op's output from now on.
  void give(std::size_t output, TensorIndex t);

  using Values = std::initializer_list<std::pair<std::string_view, AttributeValue>>;
  std::vector<TensorIndex> add_all(std::string_view kind, std::vector<TensorIndex> inputs,
                                   Values values = {});
  TensorIndex add(std::string_view kind, std::vector<TensorIndex> inputs, Values values = {}) {
    return add_all(kind, std::move(inputs), values).front();
  }
  /// An op of one tensor and a number.
  TensorIndex number(std::string_view kind, TensorIndex t, double value) {
    return add(kind, {t, graph_none}, {{"scalar", value}});
  }
  TensorIndex mul(TensorIndex a, TensorIndex b) { return add("mul", {a, b}); }
  TensorIndex sub(TensorIndex a, TensorIndex b) { return add("sub", {a, b}); }
  TensorIndex plus(TensorIndex a, TensorIndex b) { return add("add", {a, b}); }
  TensorIndex cast(TensorIndex t, ElementType to);
  /// In the format in which the framework computes with it: 16 bits become fp32.
  TensorIndex wide(TensorIndex t);
  TensorIndex contiguous(TensorIndex t);
  TensorIndex view(TensorIndex t, const Dims& shape);
  TensorIndex sum(TensorIndex t, const Dims& dims, bool keep);
  /// What the ops added from now on are named after; empty: their own kinds.
  void name_after(std::string_view aten) { taken_from_ = aten; }

 private:
  void copy(const Op& op);
  void fold_batches(const Op& op, std::vector<TensorIndex>& inputs);
  void find_wide_sums();
  void join_casts();

  const OpGraph& old_;
  GraphWriter writer_;
  std::vector<TensorIndex> now_;         ///< By tensor of the old graph.
  std::vector<std::uint8_t> wide_sums_;  ///< By op of the old graph: a sum that is fp32 in the end.
  /// An operand of a product of the forward pass that was copied.
  struct FoldedOperand {
    const Op* forward = nullptr;
    TensorIndex given = graph_none;  ///< Of the old graph.
    TensorIndex copy = graph_none;
  };
  std::vector<FoldedOperand> folded_;
  const Op* op_ = nullptr;
  std::int32_t made_ = 0;  ///< Ops made of it so far.
  std::string_view taken_from_;
};

using DecomposeRule = void (*)(Decomposer& d, const Op& op);
struct DecomposeEntry {
  std::string_view kind;
  std::string_view aten;  ///< What torch calls it below its own functions.
  DecomposeRule rule = nullptr;
};
std::span<const DecomposeEntry> pointwise_decompositions();
std::span<const DecomposeEntry> norm_decompositions();
std::span<const DecomposeEntry> loss_decompositions();

}  // namespace gpusim
