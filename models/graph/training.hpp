// SPDX-License-Identifier: Apache-2.0
// From a network's forward pass to a whole training step: casts, loss, backward, optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace gpusim {

enum class OptimizerKind : std::uint8_t { None, Sgd, Adam, AdamW };
std::string_view name(OptimizerKind kind);

/// How an optimizer goes over its tensors: one by one, in lists of one operation each (torch._foreach), or in
/// one kernel that does it all.
enum class OptimizerLoop : std::uint8_t { ForLoop, Foreach, Fused };
std::string_view name(OptimizerLoop loop);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::AdamW;
  OptimizerLoop loop = OptimizerLoop::Foreach;  ///< The framework's default on a GPU.
  bool momentum = false;                        ///< Of SGD: one state per parameter.
  bool zero_to_none = true;  ///< zero_grad() frees the gradients; false: fills them with zeros.
  bool clip_norm = false;    ///< Gradients are scaled by their global norm before.
  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

/// In which number format training keeps and multiplies.
enum class TrainingPrecision : std::uint8_t {
  Pure,      ///< Everything in the network's dtype.
  Autocast,  ///< Parameters in fp32; products, convolutions and attention run in the network's dtype
             ///< (torch.autocast), each weight being cast once in a forward pass.
  Fp8,     ///< As Autocast, and the products of linear layers and their gradients run in 8 bits: operands are
           ///< scaled by their largest value, per tensor and anew each time (torchao's dynamic scaling).
  Master,  ///< Parameters and gradients in the network's dtype; the optimizer keeps fp32 copies.
};
std::string_view name(TrainingPrecision precision);

enum class LossKind : std::uint8_t {
  CrossEntropy,  ///< Of the first output's rows against one label each.
  Mean,          ///< Of all elements of the first output.
  Given,         ///< The network gives the loss itself.
};
std::string_view name(LossKind loss);

/// What eager execution runs again in backward instead of keeping it (torch.utils.checkpoint, not reentrant).
enum class Checkpointing : std::uint8_t {
  None,
  Blocks,     ///< Each call of a block that stands in a `repeat`.
  Selective,  ///< The same, but what products and attention make is kept.
};
std::string_view name(Checkpointing checkpointing);

struct TrainingOptions {
  TrainingPrecision precision = TrainingPrecision::Autocast;
  ElementType dtype = ElementType::Bf16;  ///< Of products under autocast.
  LossKind loss = LossKind::CrossEntropy;
  /// Head (the linear layer that makes the logits) and loss are worked out in so many parts of the rows, each
  /// of which is checkpointed: the logits of one part are there at a time.
  std::int64_t loss_chunks = 1;
  /// Forward and backward passes (micro-batches) before the optimizer. The graph has one: whoever runs it
  /// runs its ops before Phase::Optimizer so often, those that accumulate from the second time on.
  std::int64_t accumulation = 1;
  Checkpointing checkpointing = Checkpointing::None;
  OptimizerOptions optimizer;
  /// As AOTAutograd traces it: nothing is changed in place, and nothing checkpointed (see CompileOptions).
  bool functional = false;
  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// A training step of a network whose forward pass is `forward` (built in fp32 where the precision is
/// Autocast): ops of Phase::Forward, then Backward, then Optimizer, each depending only on those before it.
/// Gradients of parameters have Role::Gradient; what backward reads of the forward pass is what autograd
/// saves. Ops stand in the order in which eager PyTorch runs them: the engine goes back through the nodes by
/// descending sequence number and adds up what reaches a tensor on several ways.
///
/// Throws GraphError for an op without a gradient, and for a loss that does not fit.
OpGraph training_graph(const OpGraph& forward, const TrainingOptions& options);

}  // namespace gpusim
