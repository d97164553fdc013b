// SPDX-License-Identifier: Apache-2.0
#include "models/cost/training_formulas.hpp"

#include <cmath>
#include <stdexcept>

namespace gpusim {
namespace {

/// Counts as the factors of a formula: products of five of them leave 64 bits.
struct Factors {
  explicit Factors(const TransformerShape& shape)
      : L(static_cast<double>(shape.layers)),
        a(static_cast<double>(shape.heads)),
        h(static_cast<double>(shape.hidden)),
        s(static_cast<double>(shape.sequence)),
        V(static_cast<double>(shape.vocabulary)) {}
  double L, a, h, s, V;
};

/// Products with the blocks' weights in a forward pass: 2 FLOPs for each of 12 h^2 weights of a block (3 h^2
/// queries, keys and values, h^2 output, 8 h^2 MLP) and token.
double block_products(const Factors& f, double batch) {
  return 24 * batch * f.L * f.s * f.h * f.h;
}

double head_product(const Factors& f, double batch) {
  return 2 * batch * f.s * f.h * f.V;
}

/// Scores and their product with the values in a forward pass, 2 s^2 h each for a block and sequence.
double attention_products(const Factors& f, double batch) {
  return 4 * batch * f.L * f.s * f.s * f.h;
}

double of_token(double parameters, const TransformerShape& shape, AttentionCounting counting) {
  const Factors f(shape);
  const double attention = 4 * f.L * f.h * f.s;
  return 2 * parameters + (counting == AttentionCounting::Full ? attention : attention / 2);
}

void want_positive(std::int64_t count, const char* what) {
  if (count < 1) throw std::invalid_argument(what);
}

}  // namespace

Flops training_flops_per_token(double parameters, const TransformerShape& shape, AttentionCounting counting) {
  return Flops(3 * of_token(parameters, shape, counting));
}

Flops recomputing_flops_per_token(double parameters, const TransformerShape& shape,
                                  AttentionCounting counting) {
  return Flops(4 * of_token(parameters, shape, counting));
}

Flops transformer_model_flops(const TransformerShape& shape, std::int64_t batch) {
  return transformer_hardware_flops(shape, batch, Recomputation::None);
}

Flops transformer_hardware_flops(const TransformerShape& shape, std::int64_t batch,
                                 Recomputation recomputation) {
  const Factors f(shape);
  const auto B = static_cast<double>(batch);
  const double passes = recomputation == Recomputation::Full ? 4 : 3;
  const double attention_passes = recomputation == Recomputation::Selective ? 6 : passes;
  return Flops(passes * block_products(f, B) + attention_passes * attention_products(f, B) +
               3 * head_product(f, B));
}

Flops torch_counted_flops(const TransformerShape& shape, std::int64_t batch, bool fused_attention) {
  const Factors f(shape);
  const auto B = static_cast<double>(batch);
  return Flops(3 * (block_products(f, B) + head_product(f, B)) +
               (fused_attention ? 3.5 : 3) * attention_products(f, B));
}

Flops torch_checkpointing_flops(const TransformerShape& shape, std::int64_t batch) {
  const Factors f(shape);
  const auto B = static_cast<double>(batch);
  const double last_product = 8 * B * f.L * f.s * f.h * f.h;
  return Flops(block_products(f, B) + attention_products(f, B) - last_product);
}

double recompute_all_overhead(double backward) {
  return 1 / (1 + backward);
}

Bytes block_activation_bytes(const TransformerShape& shape, const ActivationLayout& layout) {
  want_positive(layout.tensor_parallel, "a block needs at least one tensor-parallel rank");
  const Factors f(shape);
  const double sbh = f.s * static_cast<double>(layout.microbatch) * f.h;
  if (layout.recomputation == Recomputation::Full) return Bytes(std::llround(2 * sbh));
  const auto t = static_cast<double>(layout.tensor_parallel);
  // On every rank: inputs of two norms (4) and of the first product behind each (4), masks of two dropouts
  // (2).
  const double around = layout.sequence_parallel ? 10 / t : 10;
  const double scores = layout.recomputation == Recomputation::Selective ? 0 : 5 * f.a * f.s / (f.h * t);
  return Bytes(std::llround(sbh * (around + 24 / t + scores)));
}

Bytes first_stage_activation_bytes(const TransformerShape& shape, const ActivationLayout& layout,
                                   const PipelineLayout& pipeline) {
  want_positive(pipeline.stages, "a pipeline has at least one stage");
  want_positive(pipeline.interleaving, "a stage has at least one part");
  const auto p = static_cast<double>(pipeline.stages);
  const auto m = static_cast<double>(pipeline.interleaving);
  const double more = pipeline.interleaving == 1 ? 1 : 1 + (p - 1) / (p * m);
  const auto block = static_cast<double>(block_activation_bytes(shape, layout).value());
  return Bytes(std::llround(static_cast<double>(shape.layers) * block * more));
}

Bytes loss_bytes(std::int64_t tokens, std::int64_t vocabulary, std::int64_t chunks,
                 std::int64_t bytes_per_logit) {
  want_positive(chunks, "a loss has at least one chunk");
  return Bytes((tokens + chunks - 1) / chunks * vocabulary * bytes_per_logit);
}

Bytes training_state_bytes(std::int64_t parameters, const TrainingStateFormat& format) {
  return Bytes(parameters * (format.weight + format.gradient + format.master + format.moments));
}

}  // namespace gpusim
