// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/training_reader.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace gpusim {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;

namespace {

constexpr std::array optimizer_kinds{OptimizerKind::Sgd, OptimizerKind::Adam, OptimizerKind::AdamW};
constexpr std::array optimizer_loops{OptimizerLoop::ForLoop, OptimizerLoop::Foreach, OptimizerLoop::Fused};

/// "adamw", "adamw_fused", "sgd_for": a kind, and how it goes over its tensors.
OptimizerOptions read_optimizer_word(const Node& node) {
  OptimizerOptions options;
  if (node.text() == name(OptimizerKind::None)) {
    options.kind = OptimizerKind::None;
    return options;
  }
  std::vector<std::string> known{std::string(name(OptimizerKind::None))};
  for (const OptimizerKind kind : optimizer_kinds) {
    options.kind = kind;
    const std::string word(name(kind));
    if (node.text() == word) return options;
    known.push_back(word);
    for (const OptimizerLoop loop : optimizer_loops) {
      options.loop = loop;
      known.push_back(fmt::format("{}_{}", word, name(loop)));
      if (node.text() == known.back()) return options;
    }
    options.loop = OptimizerOptions{}.loop;
  }
  node.fail_unknown(known);
}

OptimizerOptions read_optimizer(const Node& node) {
  if (!node.is_map()) return read_optimizer_word(node);
  OptimizerOptions options;
  Fields fields(node);
  bool has_loop = false;
  fields.optional_with("kind", [&](const Node& kind) {
    const OptimizerOptions word = read_optimizer_word(kind);
    options.kind = word.kind;
    options.loop = word.loop;
    has_loop = kind.text().find('_') != std::string::npos;
  });
  const auto needs_kind = [&](const Node& key) {
    if (options.kind == OptimizerKind::None)
      key.fail("is of an optimizer, and the kind is none", "name a kind: sgd, adam or adamw");
  };
  fields.optional_with("loop", [&](const Node& loop) {
    needs_kind(loop);
    if (has_loop)
      loop.fail("the kind says it already", "write one of both, such as 'kind: adamw' and 'loop: fused'");
    options.loop = loop.one_of<OptimizerLoop>({{"for", OptimizerLoop::ForLoop},
                                               {"foreach", OptimizerLoop::Foreach},
                                               {"fused", OptimizerLoop::Fused}});
  });
  fields.optional_with("momentum", [&](const Node& momentum) {
    options.momentum = momentum.as<bool>();
    if (options.momentum && options.kind != OptimizerKind::Sgd)
      momentum.fail("is SGD's: Adam and AdamW keep moments in any case",
                    "write 'kind: sgd', or leave it away");
  });
  fields.optional("zero_to_none", options.zero_to_none);
  fields.optional_with("clip_norm", [&](const Node& clip) {
    options.clip_norm = clip.as<bool>();
    if (options.clip_norm) needs_kind(clip);
  });
  fields.done();
  return options;
}

TrainingPrecision read_precision(const Node& node, ElementType dtype) {
  const auto precision = node.one_of<TrainingPrecision>({{"autocast", TrainingPrecision::Autocast},
                                                         {"pure", TrainingPrecision::Pure},
                                                         {"fp8", TrainingPrecision::Fp8},
                                                         {"master", TrainingPrecision::Master}});
  if (precision != TrainingPrecision::Pure && dtype != ElementType::Bf16 && dtype != ElementType::Fp16)
    node.fail(fmt::format("'{}' is for products in bf16 or fp16, and dtype is {}", node.text(), name(dtype)),
              "write 'pure', or another dtype");
  return precision;
}

}  // namespace

std::optional<TrainingOptions> read_training(Fields& fields, StepKind step, ElementType dtype) {
  const auto optional = [&](std::string_view key, const auto& read) {
    fields.optional_with(key, [&](const Node& node) {
      // A variant takes a key of the top level back by setting it to null.
      if (node.is_null()) return;
      if (step != StepKind::Training)
        throw ConfigError(
            Diagnostic{.where = node.key_location(),
                       .path = node.path(),
                       .what = fmt::format("is for training, and the step is {}", name(step)),
                       .hint = fmt::format("write 'step: training' beside it, or leave '{}' away", key)});
      read(node);
    });
  };
  TrainingOptions options;
  options.dtype = dtype;
  options.precision = dtype == ElementType::Bf16 || dtype == ElementType::Fp16 ? TrainingPrecision::Autocast
                                                                               : TrainingPrecision::Pure;
  optional("precision", [&](const Node& node) { options.precision = read_precision(node, dtype); });
  optional("optimizer", [&](const Node& node) { options.optimizer = read_optimizer(node); });
  optional("loss", [&](const Node& node) {
    options.loss = node.one_of<LossKind>(
        {{"cross_entropy", LossKind::CrossEntropy}, {"mean", LossKind::Mean}, {"given", LossKind::Given}});
  });
  optional("loss_chunks", [&](const Node& node) {
    options.loss_chunks = node.as<std::int64_t>(at_least(std::int64_t{1}), at_most(loss_chunks_max));
    if (options.loss_chunks > 1 && options.loss != LossKind::CrossEntropy)
      node.fail("only cross-entropy is worked out in parts", "write 'loss: cross_entropy', or leave it away");
  });
  optional("accumulation", [&](const Node& node) {
    options.accumulation = node.as<std::int64_t>(at_least(std::int64_t{1}), at_most(accumulation_max));
  });
  optional("checkpointing", [&](const Node& node) {
    options.checkpointing = node.one_of<Checkpointing>({{"none", Checkpointing::None},
                                                        {"blocks", Checkpointing::Blocks},
                                                        {"selective", Checkpointing::Selective}});
  });
  if (step != StepKind::Training) return std::nullopt;
  return options;
}

}  // namespace gpusim
