// SPDX-License-Identifier: Apache-2.0
// Code that does not fit into an SM's instruction cache has to be fetched again and again.
#pragma once

#include <string_view>

namespace gpusim {

/// The part of the instruction cache that one function called `kind` ("cos") takes in a generated kernel with
/// two elements a thread, as Inductor's chains have them; 0 for short ones. Measured on an H200
/// (validation/h200/alu_chains.csv): the time of a function stays the same up to so many in a kernel: 20 cos,
/// 45 tanh, 60 gelu; more than 128 erf, exp or mul.
double instruction_cache_share(std::string_view kind);

/// Lane-cycles per element that a kernel waits for its code: 8.1 for each of `functions` that it does not
/// find, which are those beyond what fits. `share`: sum of instruction_cache_share() of them. 64 cos
/// take 1.18 times as long as 64 times one (1.17 measured), 128 of them 1.24 times (1.23).
double instruction_stall(double functions, double share);

/// Bytes of the code of a kernel, by what the cost model calls it ("product"). Reasoned: a library's product,
/// convolution or attention unrolls its tiles, an elementwise kernel is a few hundred instructions of 16
/// bytes.
double code_bytes(std::string_view kernel);

/// What the caches before the L2 hold of code, on Hopper.
inline constexpr double instruction_cache_bytes = 128 * 1024;

}  // namespace gpusim
