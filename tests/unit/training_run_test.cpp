// SPDX-License-Identifier: Apache-2.0
// Training steps from a scenario's text to its figures: FLOPs, phases, micro-batches, memory that is too
// small.
#include <string>

#include "sim/app/run_variant.hpp"
#include "sim/report/metrics.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

/// A network's training step; `more` goes into the workload, `hardware` is a map or a name.
std::string scenario(const std::string& more, const std::string& hardware = "h200") {
  return "hardware: " + hardware +
         "\nhost: {base: xeon-h200-cloud, default_op: {no_grad: 6 us}}\n"
         "workload: {network: gpt2, step: training, optimizer: adamw_fused, " +
         more + "}\n";
}

report::VariantResult run(const std::string& text, const std::vector<std::string>& sets = {}) {
  ScenarioOptions options;
  options.sets = sets;
  const Scenario read = read_scenario_text(text, "x.yaml", options);
  TraceStore traces;
  RunOptions run_options;
  run_options.one_cuda_graph = false;
  return run_variant(read.variants.front(), traces, run_options);
}

/// Two layers: a step of some hundred ops.
const std::string small = "batch: 4, sequence: 256, parameters: {layers: 2, vocab: 1024}";

TEST_CASE("model FLOPs of GPT-2's training step are three times those of its products and attention") {
  const std::string step = "batch: 16, sequence: 1024";
  // Weights of products: 12 d^2 in each of 12 layers of d = 768, and the head: 123,568,128. Two FLOPs each
  // for 16,384 tokens. Attention: 4 B T^2 d in each layer, in full.
  const double products = 2.0 * 16'384 * 123'568'128;
  const double attention = 12 * 4.0 * 16 * 1024 * 1024 * 768;
  const report::VariantResult full = run(scenario(step));
  CHECK(full.model_flops->value() == 3 * (products + attention));
  const report::VariantResult causal = run(scenario(step + ", attention_flops: causal"));
  CHECK(causal.model_flops->value() == 3 * (products + attention / 2));
  // PaLM, appendix B: 6 N + 12 L H Q T per token, with N the weights of products.
  CHECK(full.model_flops->value() == 16'384 * (6.0 * 123'568'128 + 12.0 * 12 * 768 * 1024));
  // What runs: flash attention makes its scores again in backward, one product of its two.
  CHECK(full.hardware_flops->value() == 3 * (products + attention) + attention / 2);
  CHECK(causal.hardware_flops->value() == 3 * (products + attention / 2) + attention / 4);
}

TEST_CASE("a step in 8 bits says how many linear layers stay in 16") {
  const auto notes = [](const std::string& more) {
    std::string all;
    for (const std::string& note : run(scenario(more + ", precision: fp8")).notes) all += note + "\n";
    return all;
  };
  // 60 features are no multiple of 16, so none of four linear layers a block fits, nor the head.
  CHECK(notes("batch: 4, sequence: 64, parameters: {layers: 2, d_model: 60, heads: 4, vocab: 1024}")
            .find("9 linear layers stay in 16 bits") != std::string::npos);
  CHECK(notes("batch: 4, sequence: 64, parameters: {layers: 2, d_model: 64, heads: 4, vocab: 1024}")
            .find("stay in 16 bits") == std::string::npos);
}

TEST_CASE("checkpointing adds to what runs, not to what the model needs") {
  const report::VariantResult store = run(scenario(small));
  const report::VariantResult blocks = run(scenario(small + ", checkpointing: blocks"));
  CHECK(*blocks.model_flops == *store.model_flops);
  CHECK(*blocks.hardware_flops > *store.hardware_flops);
  CHECK(*blocks.peak_memory < *store.peak_memory);
  CHECK(blocks.memory->saved < store.memory->saved);
}

TEST_CASE("the phases of a step make up the step") {
  const report::VariantResult result = run(scenario(small));
  const report::Metrics m = report::metrics(result);
  REQUIRE(m.phases);
  Picoseconds spans{0};
  Picoseconds busy{0};
  double ops = 0;
  for (const report::PhaseTime& phase : *m.phases) {
    CHECK(phase.gpu_ops > 0);
    CHECK(phase.busy <= phase.span);
    spans += phase.span;
    busy += phase.busy;
    ops += static_cast<double>(phase.gpu_ops);
  }
  CHECK(spans == m.step_time);
  CHECK(busy == m.gpu_busy);
  CHECK(ops == m.gpu_ops);
}

TEST_CASE("float32_matmul: highest takes fp32 products off the tensor cores, and is held against that rate") {
  // 67 instead of 495 TFLOP/s; a small step has other work besides.
  const std::string fp32 = small + ", dtype: fp32";
  const report::VariantResult high = run(scenario(fp32));
  const report::VariantResult highest = run(scenario(fp32 + ", float32_matmul: highest"));
  CHECK(run(scenario(fp32 + ", float32_matmul: high")).device.dtype == high.device.dtype);
  CHECK(high.device.dtype == "tf32");
  CHECK(highest.device.dtype == "fp32");
  const Picoseconds fast = report::metrics(high).gpu_busy;
  CHECK(report::metrics(highest).gpu_busy > fast + fast / 2);
  // Under autocast nothing changes: its products are in 16 bits.
  CHECK(report::metrics(run(scenario(small + ", float32_matmul: highest"))).gpu_busy ==
        report::metrics(run(scenario(small))).gpu_busy);
}

TEST_CASE("micro-batches are tokens of the same step") {
  const report::VariantResult one = run(scenario(small));
  const report::VariantResult four = run(scenario(small + ", accumulation: 4"));
  CHECK(*four.tokens == 4 * *one.tokens);
  CHECK(*four.model_flops == 4.0 * *one.model_flops);
  CHECK(*one.tokens == 4 * 256);
}

TEST_CASE("a step that does not fit names the setting that does, and it holds what is said of it") {
  const std::string tight = "{base: h200, memory: {capacity: 125 MiB}}";
  const std::string step =
      "batch: 8, sequence: 256, parameters: {layers: 2, d_model: 256, heads: 4, vocab: 4096}";
  const report::VariantResult result = run(scenario(step, tight));
  REQUIRE(result.out_of_memory);
  CHECK(result.out_of_memory->over == *result.peak_memory - Bytes(std::int64_t{125} << 20));
  REQUIRE(result.out_of_memory->way);
  const report::OutOfMemory::Way& way = *result.out_of_memory->way;
  REQUIRE_FALSE(way.changes.empty());
  const report::VariantResult again = run(scenario(step, tight), way.changes);
  CHECK_FALSE(again.out_of_memory);
  CHECK(*again.peak_memory == way.peak);
  CHECK(report::metrics(again).step_time == way.step_time);
  // It is the same step: as many tokens before the optimizer.
  CHECK(*again.tokens == *result.tokens);
  CHECK_FALSE(run(scenario(step)).out_of_memory);
}

TEST_CASE("what no setting makes fit is said to be so") {
  const report::VariantResult result = run(scenario("batch: 2, sequence: 64, parameters: {layers: 2}",
                                                    "{base: h200, memory: {capacity: 100 MiB}}"));
  REQUIRE(result.out_of_memory);
  CHECK_FALSE(result.out_of_memory->way);
  // Selective and whole blocks with the batch as it is; all three with half of it.
  CHECK(result.out_of_memory->tried == 5);
}

}  // namespace
}  // namespace gpusim
