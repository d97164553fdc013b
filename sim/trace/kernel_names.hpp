// SPDX-License-Identifier: Apache-2.0
// What a kernel does and what a runtime call is, told from their names.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/trace/trace.hpp"

namespace gpusim {

/// What a kernel spends its time on. `Other` is elementwise work, reductions, norms, copies and the
/// optimizer.
enum class KernelGroup : std::uint8_t { Matmul, Attention, Communication, Other };
inline constexpr int kernel_group_count = 4;

/// "matmul", "attention", "communication", "elementwise & other".
std::string_view kernel_group_name(KernelGroup group);

/// By the naming habits of cuBLAS (nvjet, xmma, cutlass, gemm, gemv), hipBLASLt and Tensile (Cijk_), flash
/// and memory-efficient attention, cuDNN, NCCL and RCCL, Triton and Inductor. An Inductor kernel is named
/// after all ops fused into it; only its template kernels (triton_tem) are matrix products or attention.
KernelGroup kernel_group(std::string_view name);

/// Of a call of the CUDA or HIP runtime or driver. Versioned names ("cuGraphLaunch_ptsz") count as the plain
/// ones.
TraceCallKind call_kind(std::string_view name);

inline bool is_synchronization(TraceCallKind kind) {
  return kind == TraceCallKind::SynchronizeDevice || kind == TraceCallKind::SynchronizeStream ||
         kind == TraceCallKind::SynchronizeEvent;
}

}  // namespace gpusim
