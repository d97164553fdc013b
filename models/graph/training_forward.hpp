// SPDX-License-Identifier: Apache-2.0
// The forward pass as training runs it. Internal to models/graph.
#pragma once

#include "models/graph/graph_writer.hpp"
#include "models/graph/training.hpp"

namespace gpusim {

/// Writes the ops of `forward` with what training changes of them: casts under autocast, dropout that drops,
/// norms that keep what backward needs, the loss behind the network. Returns the loss.
TensorIndex write_forward(GraphWriter& writer, const OpGraph& forward, const TrainingOptions& options);

}  // namespace gpusim
