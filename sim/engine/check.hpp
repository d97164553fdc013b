// SPDX-License-Identifier: Apache-2.0
// Parts of check(), for paths that look at the rest as they go. All throw ProgramError.
#pragma once

#include "sim/engine/program.hpp"

namespace gpusim::engine {

/// Machine, threads, streams, distributions, the shape of CUDA graphs: all but instructions and ops.
void check_tables(const Program& program, const Machine& machine);
/// The ops that CUDA graph `graph` names.
void check_graph(const Program& program, Index graph);

}  // namespace gpusim::engine
