// SPDX-License-Identifier: Apache-2.0
// A step that does not fit into the device's memory: which setting would.
#pragma once

#include "sim/app/run_variant.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Tries to keep less for backward (checkpointing; of compiled steps memory budgets of 0.5 and 0), and the
/// batch in parts: micro-batches of the same training step, or a smaller step of inference. Parts get smaller
/// until one fits without making anything again. The answer is the setting with the most tokens per second;
/// each that fits is simulated. `peak`: of the step as it is.
report::OutOfMemory fit_memory(const NetworkWorkload& workload, const Variant& variant, Bytes peak,
                               TraceStore& traces, const RunOptions& options);

}  // namespace gpusim
