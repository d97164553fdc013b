// SPDX-License-Identifier: Apache-2.0
// What papers and training scripts print of a step: FLOPs of a token, MFU and HFU, activations, states. The
// published figures come out of the formulas, by arithmetic that stands beside each.
#include <array>
#include <stdexcept>

#include "models/cost/launch_formulas.hpp"
#include "models/cost/training_formulas.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

constexpr FlopsPerSecond a100(312e12);

/// GPT-2 as trained: 50257 tokens padded to 50304 in the measured networks.
constexpr TransformerShape gpt2{
    .layers = 12, .heads = 12, .hidden = 768, .sequence = 1024, .vocabulary = 50304};
constexpr TransformerShape gpt2_medium{
    .layers = 24, .heads = 16, .hidden = 1024, .sequence = 1024, .vocabulary = 50304};

// --- FLOPs of a token.

/// PaLM 540B: 118 layers, 48 heads of 256 features (h in the formula is their product, not d_model), 2,048
/// tokens; 238,300 tokens a second on 6,144 TPU v4 of 275 TFLOP/s.
constexpr TransformerShape palm{
    .layers = 118, .heads = 48, .hidden = 48 * 256, .sequence = 2048, .vocabulary = 0};
constexpr double palm_parameters = 540.35e9;

double of_palm(Flops of_token) {
  return flops_utilization(238'300 * of_token, 1000_ms, FlopsPerSecond(6144 * 275e12));
}

TEST_CASE("PaLM 540B reaches 46.2 % MFU, of which attention is half a point") {
  // 6 * 540.35e9 = 3.2421e12; 12 * 118 * 12,288 * 2,048 = 3.5635e10. 238,300 of them a second, of 1.6896e18.
  const Flops of_token = training_flops_per_token(palm_parameters, palm, AttentionCounting::Full);
  CHECK(of_token.value() == Approx(3.2421e12 + 3.5635e10).epsilon(1e-5));
  CHECK(reproduces(of_palm(of_token), {0.462, 0.0005}));
  CHECK(reproduces(of_palm(Flops(6 * palm_parameters)), {0.457, 0.0005}));
}

TEST_CASE("PaLM's 57.8 % HFU is three quarters of a forward pass computed again, not all of it") {
  const double mfu = of_palm(training_flops_per_token(palm_parameters, palm, AttentionCounting::Full));
  const double all = of_palm(recomputing_flops_per_token(palm_parameters, palm, AttentionCounting::Full));
  CHECK(all == Approx(mfu * 4 / 3));
  CHECK(reproduces(all, {0.616, 0.0005}));
  CHECK(reproduces((0.578 - mfu) / (all - mfu), {0.75, 0.005}));
}

TEST_CASE("nanoGPT's estimate counts attention in full and leaves the table of positions out of N") {
  // 124,439,808 parameters with 50,257 tokens, 1,024 * 768 of them positions: 123,653,376. 6 N = 741,920,256;
  // 12 L H Q T = 12 * 12 * 12 * 64 * 1,024 = 113,246,208.
  const TransformerShape shape{
      .layers = 12, .heads = 12, .hidden = 768, .sequence = 1024, .vocabulary = 50257};
  const Flops of_token = training_flops_per_token(124'439'808 - 1024 * 768, shape, AttentionCounting::Full);
  CHECK(of_token.value() == 741'920'256 + 113'246'208);
  // Twelve sequences of 1,024 in 135 ms: 77.8 TFLOP/s of an A100's 312.
  CHECK(reproduces(flops_utilization(12 * 1024 * of_token, 135_ms, a100), {0.2495, 0.00005}));
}

TEST_CASE("llm.c's estimate counts half of attention, 6.6 % less for GPT-2 at 1,024 tokens") {
  const Flops half = training_flops_per_token(124'439'808, gpt2, AttentionCounting::Causal);
  CHECK(half.value() == 6.0 * 124'439'808 + 56'623'104);
  const Flops full = training_flops_per_token(124'439'808, gpt2, AttentionCounting::Full);
  CHECK(reproduces(1 - half / full, {0.066, 0.0005}));
}

TEST_CASE("A recomputing step runs four products for three, whichever way attention is counted") {
  for (const AttentionCounting counting : {AttentionCounting::Full, AttentionCounting::Causal}) {
    const Flops once = training_flops_per_token(7e9, gpt2, counting);
    CHECK(recomputing_flops_per_token(7e9, gpt2, counting).value() == Approx(once.value() * 4 / 3));
  }
  // Without attention: 8 N.
  CHECK(recomputing_flops_per_token(7e9, {}, AttentionCounting::Full).value() == 8 * 7e9);
}

TEST_CASE("R-72: recomputing everything costs a third where backward is twice forward, not 30 %") {
  CHECK(recompute_all_overhead() == Approx(1.0 / 3));
  CHECK(recompute_all_overhead(2.5) == Approx(1 / 3.5));
  // 30 % would need a backward pass of 2.33 times the forward pass.
  CHECK(recompute_all_overhead(7.0 / 3) == Approx(0.30));
}

TEST_CASE("S4-37: recomputing everything, stated at 30 %, is 33.3 %") {
  CHECK(reproduces(recompute_all_overhead(), {0.333, 0.0005}));
  CHECK(reproduces(recompute_all_overhead(), {0.30, 0.04}));
}

// --- torch's counter.

TEST_CASE("torch's counter gives the FLOPs that it gave on the measured GPT-2 steps, to the last one") {
  // 6 * (12 * 7,077,888 + 38,633,472) * 16,384 tokens = 12,147,235,061,760 of products; attention 4 * 16 *
  // 1,024^2 * 768 * 12 = 618,475,290,624 forward and 2.5 times that backward.
  CHECK(torch_counted_flops(gpt2, 16, true).value() == 14'311'904'772'096);
  TransformerShape short_sequences = gpt2;
  short_sequences.sequence = 256;
  CHECK(torch_counted_flops(short_sequences, 2, true).value() == 396'512'722'944);
  CHECK(torch_counted_flops(gpt2_medium, 8, true).value() == 20'261'508'218'880);
}

TEST_CASE("Attention written out counts 3 forward passes where fused attention counts 3.5") {
  TransformerShape shape = gpt2;
  shape.vocabulary = 50257;  // that network was measured with the vocabulary as it is
  CHECK(torch_counted_flops(shape, 16, false).value() == 13'999'118'745'600);
  CHECK((torch_counted_flops(shape, 16, true) - torch_counted_flops(shape, 16, false)).value() ==
        618'475'290'624 / 2);
}

TEST_CASE("Checkpointed blocks count their forward products again but for the MLP's second") {
  // 24 blocks: products 24 * 24 * 1,024^2 * 8,192 = 4,947,802,324,992, attention 824,633,720,832, less a
  // third of the products, 1,649,267,441,664.
  CHECK(torch_checkpointing_flops(gpt2_medium, 8).value() == 4'123'168'604'160);
  CHECK((torch_counted_flops(gpt2_medium, 8, true) + torch_checkpointing_flops(gpt2_medium, 8)).value() ==
        24'384'676'823'040);
}

TEST_CASE("Fused attention's own recomputation makes torch's count larger than the model FLOPs") {
  const Flops model = transformer_model_flops(gpt2, 16);
  CHECK((torch_counted_flops(gpt2, 16, true) - model).value() == 618'475'290'624 / 2);
  CHECK(torch_counted_flops(gpt2, 16, false).value() == Approx(model.value()));
}

// --- Megatron's table.

/// Korthikanti et al., tables 3 and 5: A100s, 2,048 tokens, a vocabulary of 51,200; seconds of a step.
struct Megatron {
  const char* name;
  TransformerShape shape;
  std::int64_t pipeline;  ///< Stages; 8 tensor-parallel ranks in each.
  std::int64_t batch;
  std::int64_t microbatch;
  std::int64_t interleaving;
  double full_s;       ///< Full recomputation.
  double selective_s;  ///< Selective, with sequence parallelism.
  double mfu;
  double hfu;
};
constexpr TransformerShape decoder(std::int64_t layers, std::int64_t heads, std::int64_t hidden) {
  return {.layers = layers, .heads = heads, .hidden = hidden, .sequence = 2048, .vocabulary = 51200};
}
constexpr std::array<Megatron, 4> table{{
    {"22B", decoder(48, 64, 6144), 1, 4, 4, 1, 1.42, 1.10, 0.415, 0.437},
    {"175B", decoder(96, 96, 12288), 8, 64, 1, 3, 18.13, 13.75, 0.514, 0.528},
    {"530B", decoder(105, 128, 20480), 35, 280, 1, 3, 49.05, 37.83, 0.560, 0.570},
    {"1T", decoder(128, 160, 25600), 64, 512, 1, 1, 94.42, 71.49, 0.563, 0.570},
}};

double utilization(const Megatron& row, Flops flops, double step_s) {
  return flops_utilization(flops, from_seconds(step_s),
                           FlopsPerSecond(static_cast<double>(8 * row.pipeline) * a100.value()));
}

TEST_CASE("Megatron's model FLOPs are 72 B L s h^2 (1 + s/6h + V/12hL)") {
  // 22B: 72 * 4 * 48 * 2,048 * 6,144^2 = 1.068725e15, times 1 + 0.055556 + 0.014468.
  CHECK(transformer_model_flops(table[0].shape, 4).value() == Approx(1.068725e15 * 1.070023).epsilon(1e-6));
  CHECK(transformer_model_flops(table[0].shape, 8).value() ==
        2 * transformer_model_flops(table[0].shape, 4).value());
}

TEST_CASE(
    "Megatron's FLOPs recomputed in full are 96 B L s h^2 (1 + s/6h + V/16hL), selectively 72 with s/3h") {
  // 22B: 96 * 4 * 48 * 2,048 * 6,144^2 = 1.424967e15, times 1 + 0.055556 + 0.010851; 1.068725e15 times 1 +
  // 0.111111 + 0.014468.
  const TransformerShape& shape = table[0].shape;
  CHECK(transformer_hardware_flops(shape, 4, Recomputation::Full).value() ==
        Approx(1.424967e15 * 1.066407).epsilon(1e-6));
  CHECK(transformer_hardware_flops(shape, 4, Recomputation::Selective).value() ==
        Approx(1.068725e15 * 1.125579).epsilon(1e-6));
}

TEST_CASE("Megatron's 41.5 to 56.3 % MFU and 43.7 to 57.0 % HFU follow from its seconds") {
  for (const Megatron& row : table) {
    CAPTURE(row.name);
    // Times are printed to 10 ms: 0.5 % of the shortest.
    CHECK(reproduces(utilization(row, transformer_model_flops(row.shape, row.batch), row.selective_s),
                     {row.mfu, 0.002}));
    CHECK(reproduces(
        utilization(row, transformer_hardware_flops(row.shape, row.batch, Recomputation::Selective),
                    row.selective_s),
        {row.hfu, 0.002}));
  }
}

TEST_CASE("With full recomputation Megatron's GPUs work as hard and deliver a quarter less") {
  for (const Megatron& row : table) {
    CAPTURE(row.name);
    const double full =
        utilization(row, transformer_hardware_flops(row.shape, row.batch, Recomputation::Full), row.full_s);
    CHECK(reproduces(full, {row.hfu, 0.01}));
    const double mfu = utilization(row, transformer_model_flops(row.shape, row.batch), row.full_s);
    CHECK(mfu < 0.79 * row.mfu);
    CHECK(mfu > 0.74 * row.mfu);
  }
}

TEST_CASE("Megatron's 2.7 % of FLOPs for selective recomputation count attention's backward pass too") {
  // As published 2.7 % of GPT-3's and 1.6 % of MT-NLG's; scores and their product with the values alone, 4 B
  // L s^2 h, are a third of that, so the published HFU is up to 1.5 points high.
  const auto more = [](const TransformerShape& shape) {
    return transformer_hardware_flops(shape, 1, Recomputation::Selective) - transformer_model_flops(shape, 1);
  };
  const auto forward = [](const TransformerShape& shape) {
    return Flops(4 * static_cast<double>(shape.layers) * 2048 * 2048 * static_cast<double>(shape.hidden));
  };
  for (const Megatron& row : table) {
    CHECK(more(row.shape) / forward(row.shape) == Approx(3));
    const Flops needed =
        transformer_model_flops(row.shape, row.batch) + static_cast<double>(row.batch) * forward(row.shape);
    CHECK(utilization(row, needed, row.selective_s) < row.hfu - 0.003);
  }
  CHECK(reproduces(more(table[1].shape) / transformer_model_flops(table[1].shape, 1), {0.027, 0.0005}));
  CHECK(reproduces(more(table[2].shape) / transformer_model_flops(table[2].shape, 1), {0.016, 0.0005}));
}

// --- Activations.

TEST_CASE("A block keeps s b h (34 + 5 a s / h) bytes: 5 a s / h is 80 for GPT-3 and 64 for MT-NLG") {
  // 2,048 * 12,288 = 25,165,824 times 114.
  CHECK(block_activation_bytes(table[1].shape, {}) == Bytes(25'165'824LL * 114));
  CHECK(block_activation_bytes(table[2].shape, {}) == Bytes(41'943'040LL * 98));
  CHECK(block_activation_bytes(table[2].shape, {.microbatch = 4}) == Bytes(4 * 41'943'040LL * 98));
}

TEST_CASE("Tensor parallelism leaves 10 s b h on every rank, sequence parallelism spreads it") {
  const TransformerShape& gpt3 = table[1].shape;
  // t = 8: 10 + 24 / 8 + 80 / 8 = 23; all of 114 over 8 = 14.25.
  CHECK(block_activation_bytes(gpt3, {.tensor_parallel = 8}) == Bytes(25'165'824LL * 23));
  CHECK(block_activation_bytes(gpt3, {.tensor_parallel = 8, .sequence_parallel = true}) ==
        Bytes(25'165'824LL / 4 * 57));
  // Selective: 13, and 34 / 8 = 4.25.
  const ActivationLayout selective{.tensor_parallel = 8, .recomputation = Recomputation::Selective};
  CHECK(block_activation_bytes(gpt3, selective) == Bytes(25'165'824LL * 13));
  ActivationLayout both = selective;
  both.sequence_parallel = true;
  CHECK(block_activation_bytes(gpt3, both) == Bytes(25'165'824LL / 4 * 17));
  CHECK(block_activation_bytes(gpt3, {.tensor_parallel = 8, .recomputation = Recomputation::Full}) ==
        Bytes(25'165'824LL * 2));
  CHECK_THROWS_AS(block_activation_bytes(gpt3, {.tensor_parallel = 0}), std::invalid_argument);
}

TEST_CASE("Selective recomputation saves 70 % of GPT-3's activations and 65 % of MT-NLG's") {
  const auto saved = [](const TransformerShape& shape) {
    return 1 - block_activation_bytes(shape, {.recomputation = Recomputation::Selective}) /
                   block_activation_bytes(shape, {});
  };
  CHECK(reproduces(saved(table[1].shape), {0.70, 0.005}));
  CHECK(reproduces(saved(table[2].shape), {0.65, 0.005}));
}

TEST_CASE(
    "The first stage keeps L blocks whatever the number of stages, a third more when interleaved in 3") {
  const TransformerShape& mt_nlg = table[2].shape;
  const ActivationLayout layout{
      .tensor_parallel = 8, .sequence_parallel = true, .recomputation = Recomputation::Selective};
  const Bytes block = block_activation_bytes(mt_nlg, layout);
  CHECK(first_stage_activation_bytes(mt_nlg, layout, {.stages = 1}) == 105 * block);
  CHECK(first_stage_activation_bytes(mt_nlg, layout, {.stages = 35}) == 105 * block);
  // 1 + 34 / (35 * 3) = 1.3238.
  CHECK(first_stage_activation_bytes(mt_nlg, layout, {.stages = 35, .interleaving = 3}) / block ==
        Approx(105 * (1 + 34.0 / 105)));
  CHECK_THROWS_AS(first_stage_activation_bytes(mt_nlg, layout, {.stages = 0}), std::invalid_argument);
  CHECK_THROWS_AS(first_stage_activation_bytes(mt_nlg, layout, {.interleaving = 0}), std::invalid_argument);
}

TEST_CASE("Weights and activations of all four Megatron models fit into 80 GB with selective recomputation") {
  // Parameters 12 L h^2 (1 + 13/12h) + V h, spread over all ranks; 18 bytes each.
  for (const Megatron& row : table) {
    CAPTURE(row.name);
    const auto h = static_cast<double>(row.shape.hidden);
    const double parameters = 12.0 * static_cast<double>(row.shape.layers) * h * h + 51200 * h;
    const auto of_rank = static_cast<std::int64_t>(parameters / static_cast<double>(8 * row.pipeline));
    const Bytes state = training_state_bytes(of_rank, half_with_fp32_gradients);
    ActivationLayout layout{.microbatch = row.microbatch,
                            .tensor_parallel = 8,
                            .sequence_parallel = true,
                            .recomputation = Recomputation::Selective};
    const PipelineLayout pipeline{.stages = row.pipeline, .interleaving = row.interleaving};
    CHECK(state + first_stage_activation_bytes(row.shape, layout, pipeline) < 80_GiB);
    layout.sequence_parallel = false;
    layout.recomputation = Recomputation::None;
    CHECK(state + first_stage_activation_bytes(row.shape, layout, pipeline) > 80_GiB);
  }
}

// --- Loss and states.

TEST_CASE("Logits of 16,384 tokens peak at 8.24 GB in eager cross-entropy and at an eighth in 8 chunks") {
  // 16,384 * 50,304 = 824,180,736 logits of 10 bytes.
  CHECK(loss_bytes(16'384, 50'304, 1, 10) == Bytes(8'241'807'360));
  CHECK(loss_bytes(16'384, 50'304, 8, 10) == Bytes(1'030'225'920));
  // The last of 3 chunks of 100 tokens is shorter.
  CHECK(loss_bytes(100, 7, 3, 1) == Bytes(34 * 7));
  CHECK_THROWS_AS(loss_bytes(100, 7, 0, 1), std::invalid_argument);
}

TEST_CASE("Adam in fp32 keeps 16 bytes a parameter, 12 before backward; with a master copy 16 or 18") {
  CHECK(training_state_bytes(10, fp32_adam) == 160_B);
  CHECK(training_state_bytes(10, fp32_adam_without_gradients) == 120_B);
  CHECK(training_state_bytes(10, half_with_master) == 160_B);
  CHECK(training_state_bytes(10, half_with_fp32_gradients) == 180_B);
  // ZeRO's example: 7.5 billion parameters are 120 GB.
  CHECK(training_state_bytes(7'500'000'000, half_with_master) == Bytes(120'000'000'000));
}

}  // namespace
}  // namespace gpusim::test
