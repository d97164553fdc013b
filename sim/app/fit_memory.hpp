// SPDX-License-Identifier: Apache-2.0
// A step that does not fit into the device's memory: which setting would.
#pragma once

#include "sim/app/run_variant.hpp"
#include "sim/report/result.hpp"
#include "sim/scenario/scenario.hpp"

namespace gpusim {

/// Tries what changes least first: with the batch as it is, the ways of keeping less for backward; then the
/// same with half the batch, a quarter, and so on down to one. Of the settings that fit at the first of these
/// batches, it is the fastest; each that fits is simulated. `peak`: of the step as it is.
report::OutOfMemory fit_memory(const NetworkWorkload& workload, const Variant& variant, Bytes peak,
                               TraceStore& traces, const RunOptions& options);

}  // namespace gpusim
