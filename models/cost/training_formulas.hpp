// SPDX-License-Identifier: Apache-2.0
// Closed forms of training: the FLOPs, utilisations and bytes that papers and training scripts print.
//
// They know nothing of kernels, launches or an allocator; the op graph of a training step does. They are here
// to be compared with: with published figures, and with what the graph of the same step adds up to. Letters
// in the formulas are those of the sources: L layers, a heads, h hidden features, s tokens of a sequence, V
// vocabulary, b sequences of a microbatch, B of a whole step, t and p tensor- and pipeline-parallel ranks.
#pragma once

#include <cstdint>

#include "models/units/quantity.hpp"

namespace gpusim {

/// A decoder of L equal blocks with an MLP of 4 h features and as many heads of keys as of queries, whose
/// features make up `hidden`.
struct TransformerShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;
  std::int64_t sequence = 0;
  std::int64_t vocabulary = 0;
};

/// Whether scores above the diagonal, which a causal model masks, count as work.
enum class AttentionCounting : std::uint8_t {
  Full,    ///< They do: PaLM, nanoGPT, Megatron, torch's FlopCounterMode.
  Causal,  ///< Half of the products of attention is left out: llm.c, the FlashAttention papers.
};

/// What backward computes a second time.
enum class Recomputation : std::uint8_t {
  None,
  Selective,  ///< Scores, softmax, dropout and their product with the values, as Korthikanti et al. choose.
  Full,       ///< Each block, from its input.
};

// --- FLOPs of one token, forward and backward.

/// Model FLOPs: 6 N for the products with N parameters (2 forward, 4 backward) and 12 L h s for attention
/// (PaLM, arXiv 2204.02311, appendix B; nanoGPT's estimate_mfu), 6 L h s with Causal (llm.c's
/// gpt2_estimate_mfu). Sources differ in N: nanoGPT leaves the table of positions out, llm.c keeps it, both
/// count a table that the head shares.
Flops training_flops_per_token(double parameters, const TransformerShape& shape, AttentionCounting counting);

/// The same with every product of the forward pass run twice: 8 N + 16 L h s (or 8 L h s).
Flops recomputing_flops_per_token(double parameters, const TransformerShape& shape,
                                  AttentionCounting counting);

// --- FLOPs of one step of `batch` sequences.

/// Products of L blocks and of the head, forward and backward, with attention counted full: 72 B L s h^2 (1 +
/// s / 6h + V / 12hL) (Korthikanti et al., arXiv 2205.05198, appendix A, equation 7).
Flops transformer_model_flops(const TransformerShape& shape, std::int64_t batch);

/// With what is computed twice, as published. Selective: s / 3h in place of s / 6h (there, equation 8), which
/// is three times what running the forward products of attention again takes: 12 B L s^2 h, not 4. Full: 96 B
/// L s h^2 (1 + s / 6h + V / 16hL) (Narayanan et al., arXiv 2104.04473, equation 3). None: the model FLOPs.
Flops transformer_hardware_flops(const TransformerShape& shape, std::int64_t batch,
                                 Recomputation recomputation);

/// As torch.utils.flop_counter adds up a step of the same decoder: products alone, attention full, and 5
/// products in the backward pass of fused attention against 2 in its forward pass, since it computes the
/// scores again (2.5 times); 4 where attention is written out. So it is neither model nor hardware FLOPs of
/// the formulas above; hold HFU against it.
Flops torch_counted_flops(const TransformerShape& shape, std::int64_t batch, bool fused_attention);

/// What torch.utils.checkpoint (not reentrant) adds to that with one block a segment: the forward products of
/// each block, but for the last one, the MLP's second, whose result nobody saved: recomputation stops before.
Flops torch_checkpointing_flops(const TransformerShape& shape, std::int64_t batch);

/// Share by which computing everything twice lengthens a step whose backward pass costs `backward` times its
/// forward pass: 1 / (1 + backward), a third for 2.
double recompute_all_overhead(double backward = 2);

// --- Activations.

/// How a block is spread, and what of it is kept for backward.
struct ActivationLayout {
  std::int64_t microbatch = 1;       ///< Sequences, b.
  std::int64_t tensor_parallel = 1;  ///< Ranks, t.
  bool sequence_parallel = false;    ///< Norms and dropouts are spread over the t ranks too.
  Recomputation recomputation = Recomputation::None;
};

/// Bytes that one block keeps on one rank, everything in 2 bytes but for dropout masks of 1 (Korthikanti et
/// al., table 2): s b h (34 + 5 a s / h); s b h (10 + 24 / t + 5 a s / ht) with tensor parallelism, all of it
/// divided by t with sequence parallelism too; without the term in a s where recomputation is selective (or
/// attention is fused); 2 s b h, the block's input, where it is full. Statistics of norms are left out.
/// Throws std::invalid_argument for less than one rank.
Bytes block_activation_bytes(const TransformerShape& shape, const ActivationLayout& layout);

/// Stages of a pipeline and parts into which each stage's blocks are cut (interleaved schedule).
struct PipelineLayout {
  std::int64_t stages = 1;
  std::int64_t interleaving = 1;
};

/// Of the first stage, which holds most: p microbatches of L / p blocks each, so L blocks for any p; an
/// interleaved schedule keeps 1 + (p - 1) / pm times as many (there, section 4.2.3). Embedding, head and loss
/// are left out.
Bytes first_stage_activation_bytes(const TransformerShape& shape, const ActivationLayout& layout,
                                   const PipelineLayout& pipeline);

/// Bytes of the logits of `tokens` in the loss, worked out in `chunks` parts of which one is alive at a time:
/// ceil(tokens / chunks) * vocabulary * bytes_per_logit. Eager cross-entropy of bf16 logits peaks in its
/// backward pass at 10 bytes: log-probabilities in bf16, their fp32 copy and an fp32 gradient. Throws
/// std::invalid_argument for less than one chunk.
Bytes loss_bytes(std::int64_t tokens, std::int64_t vocabulary, std::int64_t chunks,
                 std::int64_t bytes_per_logit);

// --- Weights, gradients and what the optimizer keeps.

/// Bytes for each parameter.
struct TrainingStateFormat {
  std::int64_t weight = 0;
  std::int64_t gradient = 0;
  std::int64_t master = 0;   ///< A copy of the weight that the optimizer works on.
  std::int64_t moments = 0;  ///< Both of Adam's.
};
/// Weights in fp32, with autocast or without: 16 N; 12 N while no gradient exists (zero_grad frees them).
inline constexpr TrainingStateFormat fp32_adam{.weight = 4, .gradient = 4, .master = 0, .moments = 8};
inline constexpr TrainingStateFormat fp32_adam_without_gradients{
    .weight = 4, .gradient = 0, .master = 0, .moments = 8};
/// Weights and gradients in 2 bytes, an fp32 copy and moments: 16 N (ZeRO, arXiv 1910.02054, section 3.1).
inline constexpr TrainingStateFormat half_with_master{.weight = 2, .gradient = 2, .master = 4, .moments = 8};
/// The same with gradients added up in fp32: 18 N (Megatron-LM).
inline constexpr TrainingStateFormat half_with_fp32_gradients{
    .weight = 2, .gradient = 4, .master = 4, .moments = 8};

Bytes training_state_bytes(std::int64_t parameters, const TrainingStateFormat& format);

}  // namespace gpusim
