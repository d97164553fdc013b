// SPDX-License-Identifier: Apache-2.0
// A variant whose network a compiler goes over.
#pragma once

#include "models/compiler/compile.hpp"
#include "sim/program/compiled.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Whether a compiler has a say in the step: it captures it, or the scenario marks breaks or better kernels.
bool is_compiled(const Variant& variant);

/// What the compiler makes of the step. Throws ConfigError at `compile_where` for what it refuses, at the
/// network for what the hardware file cannot price.
CompiledStep compile_variant(const NetworkWorkload& workload, const Variant& variant);

/// The step as a program. Throws as above.
CompiledProgram compiled_program(const NetworkWorkload& workload, const Variant& variant,
                                 const CompiledStep& step);

}  // namespace gpusim
