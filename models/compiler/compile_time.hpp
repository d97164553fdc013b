// SPDX-License-Identifier: Apache-2.0
// What compiling costs, and when it pays.
#pragma once

#include <cstdint>

#include "models/compiler/backend.hpp"
#include "models/compiler/capture_regions.hpp"
#include "models/graph/op_graph.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// What is compiled, everything once that is the same code for the same shapes.
struct CompileCounts {
  std::int64_t regions = 0;
  std::int64_t ops = 0;  ///< Of those regions; in training with those of the backward pass.
  /// Regions of other code whose ops are those of an earlier region, as between two breaks in a loop that is
  /// written out: they are captured, then found in the cache.
  std::int64_t regions_again = 0;
  std::int64_t ops_again = 0;
  std::int64_t kernels = 0;   ///< Distinct generated kernels.
  std::int64_t products = 0;  ///< Distinct matrix products and convolutions.
  friend bool operator==(const CompileCounts&, const CompileCounts&) = default;
};

/// All but the kernels, which only a plan of the regions knows.
CompileCounts compile_counts(const OpGraph& graph, const CapturedStep& step);

/// Time of the first call beyond a step: `process + base regions + per_op ops + per_kernel kernels +
/// per_product products`. Of all but `process` only `warm_share` is left where the cache on disk has it: for
/// everything if `warm_cache`, else for `regions_again` and `ops_again`.
///
/// On an H200 with 16 cores (PyTorch 2.11) TorchInductor's cold times come out within 20 % for half of the
/// networks, and between half and 1.4 times for all: validation/h200/compile_time.csv, fitted there. It is
/// far too short where one kernel takes long by itself (64 cosines in a row: 12 s), and candidates of
/// products take between half and 1.5 times what is said here, by their size.
Picoseconds compile_time(const CompileCost& cost, const CompileCounts& counts, bool warm_cache);

/// Steps after which compiling has paid for itself: `compile / (eager - compiled)`; infinite if the step does
/// not get faster.
double break_even_steps(Picoseconds compile, Picoseconds eager_step, Picoseconds compiled_step);

/// The chapters' rules of thumb (docs/seed-coverage.md, R-62): below `breaks_few` graph breaks compiling
/// pays, above `breaks_many` it does not.
inline constexpr std::int64_t breaks_few = 5;
inline constexpr std::int64_t breaks_many = 10;
/// And what is left of its gain where a share of the ops, 0 to 1, stays eager: `1 - 1.5 eager_share`, at
/// least 0.
double gain_left(double eager_share);
/// The share of a step's ops that no compiled region has.
double eager_share(const CapturedStep& step);

}  // namespace gpusim
