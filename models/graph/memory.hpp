// SPDX-License-Identifier: Apache-2.0
// What a step needs of device memory when its ops run one after the other, as eager PyTorch runs them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// Room that cuBLAS takes once per stream on Hopper (32 MiB).
inline constexpr Bytes product_workspace{32 << 20};

struct MemoryUse {
  Bytes parameters{0};
  Bytes buffers{0};
  Bytes states{0};
  Bytes inputs{0};
  Bytes workspace{0};                   ///< product_workspace, if there is a matrix product.
  Bytes peak{0};                        ///< All of them and the activations, at the worst moment.
  Bytes activations{0};                 ///< Alive at that moment.
  OpIndex peak_op = graph_none;         ///< While it runs.
  std::vector<std::int64_t> addresses;  ///< By storage; a freed one's may be another's later.
  Bytes reserved{0};                    ///< Segments that the allocator has asked the driver for.
};

/// Activations live from the op that makes them until their last reader is done and no name stands for them
/// any more (GraphTensor::named_until). Every storage is rounded up to the allocator's granularity.
MemoryUse eager_memory(const OpGraph& graph, const GpuSpec& gpu);

}  // namespace gpusim
