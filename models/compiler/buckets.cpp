// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/buckets.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace gpusim {
namespace {

void want_batch(std::int64_t batch) {
  if (batch < 1) throw CompileError("a batch has at least one row, not " + std::to_string(batch));
}

}  // namespace

GraphBuckets default_buckets(const ServingLimits& limits) {
  if (limits.sequences_max < 1 || limits.tokens_max < 1 || limits.tokens_per_sequence < 1)
    throw CompileError("sequences, tokens of a step and tokens of a sequence must be at least 1");
  constexpr std::int64_t size_max = 512;  // More would take long to record and gain little.
  // More sequences than that change nothing, and their product could overflow.
  const std::int64_t sequences = std::min(limits.sequences_max, size_max);
  const std::int64_t decoded = sequences * std::min(limits.tokens_per_sequence, size_max);
  const std::int64_t largest = std::min({2 * decoded, size_max, limits.tokens_max});
  GraphBuckets buckets;
  for (const std::int64_t size : {1, 2, 4})
    if (size <= largest) buckets.sizes.push_back(size);
  for (std::int64_t size = 8; size < 256 && size <= largest; size += 8) buckets.sizes.push_back(size);
  for (std::int64_t size = 256; size <= largest; size += 16) buckets.sizes.push_back(size);
  if (limits.tokens_max <= largest && buckets.sizes.back() != limits.tokens_max)
    buckets.sizes.push_back(limits.tokens_max);
  return buckets;
}

void check_buckets(const GraphBuckets& buckets) {
  std::int64_t before = 0;
  for (const std::int64_t size : buckets.sizes) {
    if (size < 1) throw CompileError("a CUDA graph is for at least one row, not " + std::to_string(size));
    if (size <= before)
      throw CompileError("sizes of CUDA graphs must ascend, but " + std::to_string(size) + " follows " +
                         std::to_string(before));
    before = size;
  }
}

std::optional<std::int64_t> padded_batch(const GraphBuckets& buckets, std::int64_t batch) {
  want_batch(batch);
  const auto next = std::lower_bound(buckets.sizes.begin(), buckets.sizes.end(), batch);
  if (next == buckets.sizes.end()) return std::nullopt;
  return *next;
}

double padding_share(const GraphBuckets& buckets, std::int64_t batch) {
  const std::optional<std::int64_t> padded = padded_batch(buckets, batch);
  return padded ? static_cast<double>(*padded - batch) / static_cast<double>(*padded) : 0;
}

CaptureWaits capture_waits(const GraphBuckets& buckets, CaptureTime when,
                           std::span<const std::int64_t> batches) {
  CaptureWaits waits;
  std::set<std::int64_t> recorded;
  if (when == CaptureTime::Startup) {
    waits.at_startup = static_cast<std::int64_t>(buckets.sizes.size());
    recorded.insert(buckets.sizes.begin(), buckets.sizes.end());
  }
  for (const std::int64_t batch : batches) {
    const std::optional<std::int64_t> padded = padded_batch(buckets, batch);
    waits.before_step.push_back(padded && recorded.insert(*padded).second ? 1 : 0);
  }
  return waits;
}

}  // namespace gpusim
