// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "sim/trace/kernel_names.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

TEST_CASE("kernel names of the libraries fall into their groups") {
  const std::vector<std::pair<std::string, KernelGroup>> names = {
      {"nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", KernelGroup::Matmul},
      {"ampere_sgemm_32x32_sliced1x4_tn", KernelGroup::Matmul},
      {"sm80_xmma_fprop_implicit_gemm_tf32f32", KernelGroup::Matmul},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu>", KernelGroup::Matmul},
      {"void cublasLt::splitKreduce_kernel<32, 16, int>", KernelGroup::Matmul},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV", KernelGroup::Matmul},
      {"void gemv2T_kernel_val<int, int, __nv_bfloat16>", KernelGroup::Matmul},
      {"_matmul_ogs_NNT_bf16xbf16xmxfp4", KernelGroup::Matmul},
      {"linear: product", KernelGroup::Matmul},
      {"conv2d: convolution", KernelGroup::Matmul},
      {"conv2d: convolution_layout", KernelGroup::Matmul},
      {"linear: split_k_reduce", KernelGroup::Matmul},
      {"triton_tem_fused_addmm_relu_3", KernelGroup::Matmul},
      {"triton_mm", KernelGroup::Matmul},
      {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>", KernelGroup::Attention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80", KernelGroup::Attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", KernelGroup::Attention},
      {"kernel_unified_attention_3d", KernelGroup::Attention},
      {"void vllm::paged_attention_v1_kernel", KernelGroup::Attention},
      {"attn_fwd", KernelGroup::Attention},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", KernelGroup::Communication},
      {"ncclKernel_AllGather_RING_LL_Sum_int8_t", KernelGroup::Communication},
      {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", KernelGroup::Communication},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >",
       KernelGroup::Other},
      {"void at::native::reduce_kernel<512, 1>", KernelGroup::Other},
      {"void multi_tensor_apply_kernel<TensorListMetadata<2> >", KernelGroup::Other},
      {"programmatic_copy", KernelGroup::Other},
      {"", KernelGroup::Other},
  };
  for (const auto& [name, group] : names) {
    INFO(name);
    CHECK(kernel_group_name(kernel_group(name)) == kernel_group_name(group));
  }
}

TEST_CASE("a pointwise Inductor kernel is not what was fused around it") {
  CHECK(kernel_group("triton_poi_fused_addmm_gelu_4") == KernelGroup::Other);
  CHECK(kernel_group("triton_red_fused_mm_native_layer_norm_1") == KernelGroup::Other);
  CHECK(kernel_group("triton_per_fused__scaled_dot_product_flash_attention_2") == KernelGroup::Other);
  CHECK(kernel_group("triton_tem_fused_flex_attention_0") == KernelGroup::Attention);
}

TEST_CASE("a call that launches one kernel is a kernel launch under all its names") {
  for (const char* name : {"cudaLaunchKernel",
                           "cudaLaunchKernelExC",
                           "cudaLaunchKernel_ptsz",
                           "cudaLaunchCooperativeKernel",
                           "cudaLaunchCooperativeKernelMultiDevice",
                           "cuLaunchKernel",
                           "cuLaunchKernelEx",
                           "cuLaunchCooperativeKernel",
                           "hipLaunchKernel",
                           "hipLaunchKernelExC",
                           "hipExtLaunchKernel",
                           "hipModuleLaunchKernel",
                           "hipExtModuleLaunchKernel",
                           "hipExtLaunchMultiKernelMultiDevice",
                           "hipLaunchByPtr",
                           "cudaLaunch",
                           "cudaLaunch_v3020",
                           "cuLaunch",
                           "cuLaunchGrid",
                           "cuLaunchGridAsync"}) {
    INFO(name);
    CHECK(call_kind(name) == TraceCallKind::KernelLaunch);
  }
  for (const char* name :
       {"cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaGraphKernelNodeSetParams", "LaunchKernel",
        "my_cudaLaunchKernel", "cudaGetKernelLaunch", "cuda Launch Kernel", "cuLaunchGridSync"}) {
    INFO(name);
    CHECK(call_kind(name) != TraceCallKind::KernelLaunch);
  }
}

TEST_CASE("a launched CUDA graph is not a kernel launch") {
  for (const char* name : {"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch", "cudaGraphLaunch_v10000",
                           "cudaGraphLaunch_ptsz"}) {
    INFO(name);
    CHECK(call_kind(name) == TraceCallKind::GraphLaunch);
  }
  CHECK(call_kind("cudaGraphLaunchX") == TraceCallKind::Other);
  CHECK(call_kind("cudaGraphInstantiate") == TraceCallKind::Other);
}

TEST_CASE("host waits are told apart by what they wait for, and waits of a stream are none") {
  CHECK(call_kind("cudaDeviceSynchronize") == TraceCallKind::SynchronizeDevice);
  CHECK(call_kind("cuCtxSynchronize") == TraceCallKind::SynchronizeDevice);
  CHECK(call_kind("cudaThreadSynchronize") == TraceCallKind::SynchronizeDevice);
  CHECK(call_kind("cudaStreamSynchronize_ptsz") == TraceCallKind::SynchronizeStream);
  CHECK(call_kind("hipEventSynchronize") == TraceCallKind::SynchronizeEvent);
  CHECK(call_kind("cudaStreamWaitEvent") == TraceCallKind::StreamWaitEvent);
  CHECK(call_kind("cudaEventRecordWithFlags") == TraceCallKind::EventRecord);
  CHECK(call_kind("cudaEventQuery") == TraceCallKind::Other);
  CHECK(call_kind("cudaMemcpyAsync") == TraceCallKind::MemcpyCall);
  CHECK(call_kind("hipMemcpyWithStream") == TraceCallKind::MemcpyCall);
  CHECK(call_kind("cuMemsetD32Async") == TraceCallKind::MemsetCall);
  CHECK(call_kind("cudaMemsetAsync") == TraceCallKind::MemsetCall);
  CHECK(call_kind("cudaMalloc") == TraceCallKind::Other);
}
