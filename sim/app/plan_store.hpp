// SPDX-License-Identifier: Apache-2.0
// What compilers made of steps, for variants that differ in nothing that a plan depends on: another launch
// cost or another host is priced anew without being planned anew.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "models/compiler/compile.hpp"
#include "sim/app/compiled_variant.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// `gpu` with all that planning with `options` does not look at left away: two devices that are then equal
/// get the same plan. Launch mechanics, host link and power never matter to a plan; bandwidth and peaks do
/// where products are padded when that pays, and everything that prices a kernel where recomputation is
/// chosen by time.
GpuSpec as_planned_for(const GpuSpec& gpu, const CompileOptions& options);

/// Keeps the latest few. Not for several threads at once.
class PlanStore {
 public:
  using Sizing = std::function<SizedWorkload()>;
  using Planning = std::function<CompiledStep()>;

  /// `make()`, or what it gave for the same workload under the same compiler.
  SizedWorkload sized(const NetworkWorkload& workload, const CompileOptions& options, const Sizing& make);
  /// `make()`, or what it gave for the same graph, options and device as far as it matters.
  std::shared_ptr<const CompiledStep> step(const NetworkWorkload& workload, const CompileOptions& options,
                                           const GpuSpec& gpu, const Planning& make);

 private:
  struct Sized {
    NetworkWorkload from;
    CompileOptions options;
    SizedWorkload result;
  };
  struct Planned {
    std::shared_ptr<const OpGraph> graph;
    std::optional<TrainingOptions> training;
    CompileOptions options;
    GpuSpec gpu;
    std::shared_ptr<const CompiledStep> step;
  };
  static constexpr std::size_t known_max = 16;
  std::list<Sized> sized_;      ///< Latest used first.
  std::list<Planned> planned_;  ///< Latest used first.
};

}  // namespace gpusim
