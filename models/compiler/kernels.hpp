// SPDX-License-Identifier: Apache-2.0
// From fusion groups to kernels: names, traffic, and what models/cost prices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/loops.hpp"
#include "models/cost/kernel_work.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// Memory that a kernel goes over.
struct KernelTouch {
  BufferIndex buffer = loop_none;  ///< Of the region's LoopGraph.
  Bytes bytes{0};
};

enum class KernelClass : std::uint8_t { Generated, Template, Product, Attention, Library };

/// One call of compiled code: a generated kernel, or a library's (which may launch several).
struct CompiledKernel {
  std::string name;  ///< "triton_poi_fused_add_relu_0", "extern_kernels.mm".
  KernelClass what = KernelClass::Generated;
  OpIndex op = graph_none;   ///< One op of it, for its place in the program.
  std::vector<OpIndex> ops;  ///< All whose work is in it; ascending.
  std::vector<KernelWork> work;
  Bytes workspace{0};
  double slower = 1;                ///< Its duration against what models/cost says of `work`.
  std::vector<KernelTouch> reads;   ///< From outside of the kernel, each buffer once.
  std::vector<KernelTouch> writes;  ///< Needed outside of it.
  Bytes read() const;
  Bytes written() const;
};

/// Kernels of a plan, in its order. Names are numbered from `first_number` on; kernels of equal loops share
/// one, as Inductor shares their code.
std::vector<CompiledKernel> kernels_of(const OpGraph& graph, const LoopGraph& loops, const FusionPlan& plan,
                                       const Backend& backend);

/// What a generated kernel does, for models/cost. `loops` of one group.
KernelWork generated_work(const LoopGraph& graph, const FusionGroup& group,
                          const std::vector<KernelTouch>& reads, const std::vector<KernelTouch>& writes);

/// Buffers that a group reads from outside, each as often as its places differ but never more than the whole,
/// and those that others need of what it makes.
struct KernelTraffic {
  std::vector<KernelTouch> reads;
  std::vector<KernelTouch> writes;
};
KernelTraffic kernel_traffic(const LoopGraph& graph, const FusionPlan& plan, std::size_t group);

}  // namespace gpusim
