// SPDX-License-Identifier: Apache-2.0
// The backward pass of a graph that is being written. Internal to models/graph.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/graph_writer.hpp"
#include "models/graph/training.hpp"

namespace gpusim {

class Backward;
/// Works out the gradients of an op's inputs from those of its outputs.
using GradientRule = void (*)(Backward& b, const Op& op);
/// Null: nothing goes through an op of this kind. Throws GraphError if nobody has said how to.
struct GradientEntry {
  std::string_view kind;
  GradientRule rule = nullptr;
};
std::vector<GradientEntry> view_gradients();
std::vector<GradientEntry> pointwise_gradients();
std::vector<GradientEntry> reduction_gradients();
std::vector<GradientEntry> library_gradients();
std::vector<GradientEntry> communication_gradients();

class Backward {
 public:
  /// `functional`: what reaches a tensor on several ways is added up in new memory, as AOTAutograd traces it.
  Backward(GraphWriter& writer, Checkpointing checkpointing, bool functional);

  /// Adds what leads from `loss`, made by one of the ops [first, last), to the gradients of all parameters.
  void run(TensorIndex loss, OpIndex first, OpIndex last);

  struct ParameterGradient {
    TensorIndex parameter = graph_none;
    TensorIndex gradient = graph_none;
  };
  /// In the order of the parameters' first use.
  std::vector<ParameterGradient> parameters() const;

  // For the rules.

  /// The gradient of an output; none if nothing depends on it.
  TensorIndex grad(std::size_t output = 0) const;
  bool needs(std::size_t input) const;
  /// The gradient of an input: brought to its shape and dtype, and added to what is there.
  void give(std::size_t input, TensorIndex gradient);
  /// What the op was given or made, as backward has it: kept, or made again.
  TensorIndex in(std::size_t input = 0) const;
  TensorIndex out(std::size_t output = 0) const;
  const TensorType& type(TensorIndex t) const { return writer_.type(t); }
  bool has(std::size_t input) const;
  bool functional() const { return functional_; }
  /// The op is several for autograd: this many nodes more.
  void add_nodes(std::int32_t more) { writer_.nodes += more; }

  TensorIndex add(std::string_view kind, std::vector<TensorIndex> inputs,
                  std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes = {});
  std::vector<TensorIndex> add_all(
      std::string_view kind, std::vector<TensorIndex> inputs,
      std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes = {});
  TensorIndex transposed(TensorIndex t) {
    return add("transpose", {t}, {{"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}});
  }
  TensorIndex viewed(TensorIndex t, const Dims& shape);

 private:
  std::string name();
  TensorIndex saved(TensorIndex t) const;
  TensorIndex reduced_to(TensorIndex gradient, const TensorType& type);
  void mark_needs(OpIndex first, OpIndex last);
  [[noreturn]] void refuse(OpIndex first, OpIndex last) const;
  void through(OpIndex op);
  void recompute(CallIndex call);
  std::vector<CallIndex> checkpoints(OpIndex first, OpIndex last) const;
  void find_kept(TensorIndex loss, OpIndex first, OpIndex last);

  GraphWriter& writer_;
  const Checkpointing checkpointing_;
  const bool functional_;
  bool plain_ = false;                   ///< Nothing is made again.
  std::vector<std::uint8_t> needs_;      ///< By tensor of the forward pass.
  std::vector<TensorIndex> gradient_;    ///< By tensor of the forward pass.
  std::vector<TensorIndex> again_;       ///< By tensor of the forward pass: made again in backward.
  std::vector<std::int32_t> holders_;    ///< By tensor: how many gradients it stands for.
  std::vector<OpIndex> stop_;            ///< By call: where making it again may end.
  const Op* op_ = nullptr;               ///< The one whose rule runs: a copy.
  std::int32_t made_ = 0;                ///< Ops added by the rule that runs.
  std::vector<TensorIndex> parameters_;  ///< That have a gradient.
};

}  // namespace gpusim
