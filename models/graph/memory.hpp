// SPDX-License-Identifier: Apache-2.0
// What a step needs of device memory when its ops run one after the other, as eager PyTorch runs them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// Room that cuBLAS takes once per stream on Hopper (32 MiB), for each host thread that calls it.
inline constexpr Bytes product_workspace{32 << 20};

/// What device memory is taken for.
enum class MemoryKind : std::uint8_t {
  Parameters,
  Buffers,
  States,  ///< Kept from step to step: a KV cache.
  Inputs,
  Gradients,            ///< Of parameters, until the next zero_grad().
  OptimizerStates,      ///< Moments, and fp32 copies of parameters.
  Activations,          ///< What forward makes, the first time or again in backward.
  ActivationGradients,  ///< What else backward makes.
  Workspace,            ///< The products' own, and what an op takes and gives back.
};
inline constexpr std::size_t memory_kind_count = 9;
std::string_view name(MemoryKind kind);  ///< "parameters", "activation_gradients".

/// Bytes by MemoryKind.
class MemoryShares {
 public:
  Bytes& operator[](MemoryKind kind) { return bytes_[static_cast<std::size_t>(kind)]; }
  Bytes operator[](MemoryKind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }
  Bytes total() const;
  friend bool operator==(const MemoryShares&, const MemoryShares&) = default;

 private:
  std::array<Bytes, memory_kind_count> bytes_{};
};

struct MemoryUse {
  Bytes parameters{0};
  Bytes buffers{0};
  Bytes states{0};  ///< An optimizer's too.
  Bytes inputs{0};
  Bytes workspace{0};                   ///< product_workspace, for each thread with a matrix product.
  Bytes peak{0};                        ///< All of them and the activations, at the worst moment.
  Bytes activations{0};                 ///< And gradients, alive at that moment.
  MemoryShares at_peak;                 ///< Their sum is `peak`.
  OpIndex peak_op = graph_none;         ///< While it runs.
  Bytes saved{0};                       ///< Activations alive when the last forward op is done.
  std::vector<std::int64_t> addresses;  ///< By storage; a freed one's may be another's later.
  Bytes reserved{0};                    ///< Segments that the allocator has asked the driver for.
};

/// Memory in use while an op runs.
struct MemoryPoint {
  OpIndex op = 0;
  MemoryShares shares;
};

/// Of a step that follows one of its kind. Activations live from the op that makes them until their last
/// reader is done and no name stands for them any more (GraphTensor::named_until): what backward reads until
/// then. Gradients of parameters live until the next step frees them, before anything else. Every storage is
/// rounded up to the allocator's granularity.
///
/// `accumulation`: forward and backward run so often before the optimizer (TrainingOptions::accumulation).
/// `curve`, unless null, gets a point for every op in the order in which they run; of several micro-batches
/// the first two, for the others are like the second.
MemoryUse eager_memory(const OpGraph& graph, const GpuSpec& gpu, std::int64_t accumulation = 1,
                       std::vector<MemoryPoint>* curve = nullptr);

/// By storage, what its memory is taken for.
std::vector<MemoryKind> memory_kinds(const OpGraph& graph);

/// By storage, whether it is there before the step: all but activations, and but those gradients that the
/// step before has given back.
std::vector<bool> there_before(const OpGraph& graph);

/// Whether an op calls cuBLAS, which keeps a workspace.
bool uses_product_workspace(const Op& op);

}  // namespace gpusim
