// SPDX-License-Identifier: Apache-2.0
// What workloads say about training, and the answer to what they say wrong.
#include <string>
#include <utility>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/scenario/training_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

using test::message_of;

std::optional<TrainingOptions> read(const std::string& workload, StepKind step = StepKind::Training,
                                    ElementType dtype = ElementType::Bf16) {
  config::Fields fields(config::load_text(workload, "w.yaml"));
  const auto options = read_training(fields, step, dtype);
  fields.done();
  return options;
}
TrainingOptions training(const std::string& workload) {
  const auto options = read(workload);
  REQUIRE(options);
  return *options;
}
std::string answer(const std::string& workload, StepKind step = StepKind::Training,
                   ElementType dtype = ElementType::Bf16) {
  return message_of([&] { read(workload, step, dtype); });
}

TEST_CASE("A training step that says no more casts products to 16 bits and runs AdamW in lists") {
  const TrainingOptions options = training("{}");
  CHECK(options.precision == TrainingPrecision::Autocast);
  CHECK(options.dtype == ElementType::Bf16);
  CHECK(options.optimizer.kind == OptimizerKind::AdamW);
  CHECK(options.optimizer.loop == OptimizerLoop::Foreach);
  CHECK(options.optimizer.zero_to_none);
  CHECK_FALSE(options.optimizer.momentum);
  CHECK_FALSE(options.optimizer.clip_norm);
  CHECK(options.loss == LossKind::CrossEntropy);
  CHECK(options.loss_chunks == 1);
  CHECK(options.accumulation == 1);
  CHECK(options.checkpointing == Checkpointing::None);
  // There is nothing to cast to.
  CHECK(read("{}", StepKind::Training, ElementType::Fp32)->precision == TrainingPrecision::Pure);
  CHECK(read("{}", StepKind::Training, ElementType::Fp16)->precision == TrainingPrecision::Autocast);
  CHECK(read("{}", StepKind::Training, ElementType::Fp16)->dtype == ElementType::Fp16);
}

TEST_CASE("Every key about training reaches its field and no other") {
  const auto changed = [](const auto& change) {
    TrainingOptions options;
    change(options);
    return options;
  };
  CHECK(training("{precision: autocast}") == TrainingOptions{});
  CHECK(training("{precision: pure}") == changed([](auto& o) { o.precision = TrainingPrecision::Pure; }));
  CHECK(training("{precision: master}") == changed([](auto& o) { o.precision = TrainingPrecision::Master; }));
  CHECK(training("{loss: mean}") == changed([](auto& o) { o.loss = LossKind::Mean; }));
  CHECK(training("{loss: given}") == changed([](auto& o) { o.loss = LossKind::Given; }));
  CHECK(training("{loss_chunks: 8}") == changed([](auto& o) { o.loss_chunks = 8; }));
  CHECK(training("{accumulation: 4}") == changed([](auto& o) { o.accumulation = 4; }));
  CHECK(training("{checkpointing: none}") == TrainingOptions{});
  CHECK(training("{checkpointing: blocks}") ==
        changed([](auto& o) { o.checkpointing = Checkpointing::Blocks; }));
  CHECK(training("{checkpointing: selective}") ==
        changed([](auto& o) { o.checkpointing = Checkpointing::Selective; }));
  CHECK(training("{optimizer: {zero_to_none: false}}") ==
        changed([](auto& o) { o.optimizer.zero_to_none = false; }));
  CHECK(training("{optimizer: {clip_norm: true}}") == changed([](auto& o) { o.optimizer.clip_norm = true; }));
  CHECK(training("{optimizer: {loop: fused}}") ==
        changed([](auto& o) { o.optimizer.loop = OptimizerLoop::Fused; }));
  CHECK(training("{optimizer: {kind: sgd, momentum: true}}") == changed([](auto& o) {
          o.optimizer.kind = OptimizerKind::Sgd;
          o.optimizer.momentum = true;
        }));
  CHECK(training("{optimizer: null, loss: null, precision: null}") == TrainingOptions{});
}

TEST_CASE("The word for an optimizer is a kind, and how it goes over its tensors") {
  using Words = std::vector<std::pair<std::string, std::pair<OptimizerKind, OptimizerLoop>>>;
  for (const auto& [word, expected] : Words{
           {"sgd", {OptimizerKind::Sgd, OptimizerLoop::Foreach}},
           {"sgd_for", {OptimizerKind::Sgd, OptimizerLoop::ForLoop}},
           {"sgd_fused", {OptimizerKind::Sgd, OptimizerLoop::Fused}},
           {"adam", {OptimizerKind::Adam, OptimizerLoop::Foreach}},
           {"adam_foreach", {OptimizerKind::Adam, OptimizerLoop::Foreach}},
           {"adamw", {OptimizerKind::AdamW, OptimizerLoop::Foreach}},
           {"adamw_fused", {OptimizerKind::AdamW, OptimizerLoop::Fused}},
           {"adamw_foreach", {OptimizerKind::AdamW, OptimizerLoop::Foreach}},
           {"adamw_for", {OptimizerKind::AdamW, OptimizerLoop::ForLoop}},
       }) {
    INFO(word);
    const OptimizerOptions options = training("{optimizer: " + word + "}").optimizer;
    CHECK(options.kind == expected.first);
    CHECK(options.loop == expected.second);
    CHECK(training("{optimizer: {kind: " + word + "}}").optimizer == options);
  }
  CHECK(training("{optimizer: none}").optimizer.kind == OptimizerKind::None);
  CHECK(training("{optimizer: {kind: adam, loop: for}}").optimizer.loop == OptimizerLoop::ForLoop);
}

TEST_CASE("Keys about training are refused in steps of another kind", "[bad_input]") {
  for (const std::string_view key : training_keys) {
    const std::string name(key);
    INFO(name);
    CHECK(answer("{" + name + ": x}", StepKind::Inference) ==
          "w.yaml:1:2: error: " + name + ": is for training, and the step is inference\n" +
              "  hint: write 'step: training' beside it, or leave '" + name + "' away");
    CHECK(answer("{" + name + ": null}", StepKind::Decode) == "no error");
    CHECK_FALSE(read("{" + name + ": null}", StepKind::Decode));
  }
}

TEST_CASE("Mistakes about training are located and explained, all at once", "[bad_input]") {
  CHECK(answer("{optimizer: adamww}") ==
        "w.yaml:1:13: error: optimizer: unknown name 'adamww'\n  hint: did you mean 'adamw'?");
  CHECK(answer("{optimizer: lion}").find("known names: none, sgd, sgd_for, sgd_foreach, sgd_fused, adam") !=
        std::string::npos);
  CHECK(answer("{optimizer: none_fused}").find("unknown name 'none_fused'") != std::string::npos);
  CHECK(answer("{optimizer: {momentum: true}}") ==
        "w.yaml:1:24: error: optimizer.momentum: is SGD's: Adam and AdamW keep moments in any case\n"
        "  hint: write 'kind: sgd', or leave it away");
  CHECK(answer("{optimizer: {lr: 1}}") ==
        "w.yaml:1:14: error: optimizer.lr: unknown key\n"
        "  hint: known keys: kind, loop, momentum, zero_to_none, clip_norm");
  CHECK(answer("{precision: master}", StepKind::Training, ElementType::Fp32) ==
        "w.yaml:1:13: error: precision: 'master' is for products in bf16 or fp16, and dtype is fp32\n"
        "  hint: write 'pure', or another dtype");
  CHECK(answer("{loss_chunks: 2, loss: mean}") ==
        "w.yaml:1:15: error: loss_chunks: only cross-entropy is worked out in parts\n"
        "  hint: write 'loss: cross_entropy', or leave it away");
  CHECK(answer("{accumulation: 0}") == "w.yaml:1:16: error: accumulation: must be at least 1, not 0");
  CHECK(answer("{accumulation: 1025}") == "w.yaml:1:16: error: accumulation: must be at most 1024, not 1025");
  CHECK(answer("{optimizer: {kind: adamw_fused, loop: for}}") ==
        "w.yaml:1:39: error: optimizer.loop: the kind says it already\n"
        "  hint: write one of both, such as 'kind: adamw' and 'loop: fused'");
  CHECK(answer("{optimizer: {kind: none, clip_norm: true}}") ==
        "w.yaml:1:37: error: optimizer.clip_norm: is of an optimizer, and the kind is none\n"
        "  hint: name a kind: sgd, adam or adamw");
  CHECK(answer("{checkpointing: block}") ==
        "w.yaml:1:17: error: checkpointing: unknown name 'block'\n  hint: did you mean 'blocks'?");
  CHECK(answer("{optimizer: x, loss: y, checkpointing: z}").find("checkpointing") != std::string::npos);
}

}  // namespace
}  // namespace gpusim
