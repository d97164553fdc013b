// SPDX-License-Identifier: Apache-2.0
// What a step needs of device memory when its ops run one after the other, as eager PyTorch runs them.
#pragma once

#include <cstdint>

#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// The framework's allocator gives out multiples of this.
inline constexpr std::int64_t allocation_granularity = 512;
/// Room that the product libraries take once per stream: on Hopper 32 MiB for cuBLAS and 32 MiB for cuBLASLt,
/// and 1 MiB beside them (measured: the difference of resident bytes between two rows, validation/h200).
inline constexpr Bytes product_workspace{65 << 20};

struct MemoryUse {
  Bytes parameters{0};
  Bytes buffers{0};
  Bytes states{0};
  Bytes inputs{0};
  Bytes workspace{0};            ///< product_workspace, if there is a product.
  Bytes peak{0};                 ///< All of them and the activations, at the worst moment.
  Bytes activations{0};          ///< Alive at that moment.
  OpIndex peak_op = graph_none;  ///< While it runs.
};

/// Activations live from the op that makes them until their last reader is done and no name stands for them
/// any more (GraphTensor::named_until). Every storage is rounded up to the allocator's granularity.
MemoryUse eager_memory(const OpGraph& graph, const GpuSpec& gpu);

}  // namespace gpusim
