// SPDX-License-Identifier: Apache-2.0
// A variant whose network a compiler goes over.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/compiler/compile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/compiled.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Whether a compiler has a say in the step: it captures it, or the scenario marks breaks or better kernels.
bool is_compiled(const Variant& variant);

/// Whether the compiler finds the attention that the network writes out, and if not, why.
std::vector<std::string> attention_notes(const NetworkWorkload& workload, const Variant& variant);

/// Builds the workload's graphs anew, for sizes or training that have changed. Throws ConfigError at the
/// network.
void rebuild(NetworkWorkload& workload, const Variant& variant);

/// What the compiler makes of the step. Throws ConfigError at `compile_where` for what it refuses, at the
/// network for what the hardware file cannot price.
CompiledStep compile_variant(const NetworkWorkload& workload, const Variant& variant);

/// The step as a program. Throws as above. `marks`: also where its pieces begin, if it is no training step.
CompiledProgram compiled_program(const NetworkWorkload& workload, const Variant& variant,
                                 const CompiledStep& step, bool marks = false);

/// In which mode the host runs the ops of the step's forward pass.
HostOpMode host_mode(const NetworkWorkload& workload);
/// Micro-batches in a step.
std::int64_t accumulation_of(const NetworkWorkload& workload);

/// The workload as it is run: traced by the compiler, in the precision asked for where that is a format that
/// tensors are stored in, and with the batch that its CUDA graph was recorded for. `not_recorded` says why
/// there is none where buckets were asked for.
struct SizedWorkload {
  NetworkWorkload workload;
  std::int64_t padded_to = 0;  ///< 0: not padded.
  bool recorded = true;
  bool attention_found = false;  ///< Patterns of attention were looked for when its graphs were built.
};
/// `known`: the same workload as another variant runs it; its graphs are taken where they are the same.
SizedWorkload sized(const NetworkWorkload& workload, const Variant& variant,
                    const SizedWorkload* known = nullptr);

/// The step without this and with what the compiler does switched on one after the other, in the order of
/// report::GainPart. Empty for what does not compile. `whole`: sized() of the two; `built`: its program with
/// all that the variant asks for.
std::vector<report::GainPart> gain_parts(const NetworkWorkload& workload, const Variant& variant,
                                         const SizedWorkload& whole, const BuiltProgram& built);

/// The steps of `variant.shapes`, one after the other, against one cache of compiled code.
std::vector<report::ShapeResult> shape_steps(const NetworkWorkload& workload, const Variant& variant);

/// The time of one step of `built`: its steady step, or the mean of as many as `steps` says.
Picoseconds step_time(const BuiltProgram& built, std::optional<std::int64_t> steps);

/// Looking for a steady step must not take much longer for programs with many ops than for small ones.
engine::SteadyOptions steady_options(const engine::Program& program);

}  // namespace gpusim
