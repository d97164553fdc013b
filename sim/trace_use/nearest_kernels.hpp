// SPDX-License-Identifier: Apache-2.0
// For patterns that no kernel has: which kernels the user may have meant.
#pragma once

#include <string>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim {

/// "nearest kernels: a, b, c": those that share the longest run of characters with `pattern`, letters of
/// either case; at equal lengths those that take most of the trace's time.
std::string nearest_kernels_hint(const Trace& trace, std::string_view pattern);

}  // namespace gpusim
