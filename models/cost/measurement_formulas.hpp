// SPDX-License-Identifier: Apache-2.0
// What a set of timings says, and how closely two results can be expected to agree.
#pragma once

#include <span>
#include <vector>

namespace gpusim {

/// Nearest-rank percentile, `percent` in (0, 100]: the smallest sample that at least that share of the
/// samples does not exceed. Of 100 samples the 99th percentile is the second largest, not the largest. Throws
/// std::invalid_argument for no samples or a percentage out of range.
double percentile(std::vector<double> samples, double percent);

/// Middle sample, or the mean of the two middle ones. Throws std::invalid_argument for no samples.
double median(std::vector<double> samples);

/// The samples after the warm-up; empty if there are no more than that.
std::span<const double> after_warmup(std::span<const double> samples, std::size_t warmup);

/// Distance between neighbouring values of a floating-point type around `value`: 2^(exponent(value) + 1 -
/// `significand_bits`), with the hidden bit counted (bf16 8, fp16 11, fp32 24). Two results that differ by
/// one rounding differ by this, so no tolerance below it makes sense. `value` must not be zero.
double unit_in_last_place(double value, int significand_bits);

}  // namespace gpusim
