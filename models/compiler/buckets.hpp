// SPDX-License-Identifier: Apache-2.0
// Batch sizes for which CUDA graphs are recorded: which one a batch runs as, and when they are recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/compiler/options.hpp"

namespace gpusim {

/// What a serving engine is set up for.
struct ServingLimits {
  std::int64_t sequences_max = 256;      ///< In flight at a time (max_num_seqs).
  std::int64_t tokens_max = 8192;        ///< Of one step (max_num_batched_tokens).
  std::int64_t tokens_per_sequence = 1;  ///< In a decode step: 1, and those that speculation adds.
};

/// The sizes, in tokens of a step, that vLLM records unless it is told others: 1, 2, 4, by 8 from 8 to 248,
/// by 16 from 256 to the largest, which is twice the tokens that can be decoded at once, at most 512 and at
/// most `tokens_max`; `tokens_max` itself where it is below that. Source: vllm/config/vllm.py,
/// _set_cudagraph_sizes, and the help of max_cudagraph_capture_size (vllm/config/compilation.py). Throws
/// CompileError for limits below 1.
GraphBuckets default_buckets(const ServingLimits& limits);

/// Throws CompileError for sizes below 1 or not ascending.
void check_buckets(const GraphBuckets& buckets);

/// The size that a batch runs as: the next one up. None above the largest: such a batch cannot be replayed
/// and runs as it would without CUDA graphs. Throws CompileError for a batch below 1.
std::optional<std::int64_t> padded_batch(const GraphBuckets& buckets, std::int64_t batch);

/// Share of the rows of a replay that are padding, 0 to 1; 0 where the batch is not replayed.
double padding_share(const GraphBuckets& buckets, std::int64_t batch);

/// When CUDA graphs are recorded.
enum class CaptureTime : std::uint8_t {
  Startup,   ///< All sizes before the first step (TensorRT-LLM, vLLM).
  FirstUse,  ///< Each when it first comes along (torch.compile).
};

/// How many recordings steps wait for.
struct CaptureWaits {
  std::int64_t at_startup = 0;
  std::vector<std::int64_t> before_step;  ///< For each batch: 0 or 1.
  friend bool operator==(const CaptureWaits&, const CaptureWaits&) = default;
};
CaptureWaits capture_waits(const GraphBuckets& buckets, CaptureTime when,
                           std::span<const std::int64_t> batches);

}  // namespace gpusim
