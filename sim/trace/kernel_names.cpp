// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/kernel_names.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace gpusim {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

/// `word` with no letter or digit directly before or after it: "mm" in "triton_tem_fused_mm_3", not in
/// "programming".
bool contains_word(std::string_view text, std::string_view word) {
  const auto part = [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

/// (cuda|cu|hip): what follows it, or nothing.
bool strip_api(std::string_view& name) {
  for (std::string_view api : {"cuda", "cu", "hip"}) {
    if (name.starts_with(api)) {
      name.remove_prefix(api.size());
      return true;
    }
  }
  return false;
}

/// `name` is `word`, or goes on with an underscore.
bool is_form_of(std::string_view name, std::string_view word) {
  return name.starts_with(word) && (name.size() == word.size() || name[word.size()] == '_');
}

}  // namespace

std::string_view kernel_group_name(KernelGroup group) {
  constexpr std::array<std::string_view, kernel_group_count> names = {"matmul", "attention", "communication",
                                                                      "elementwise & other"};
  return names[static_cast<std::size_t>(group)];
}

KernelGroup kernel_group(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), lower);
  const std::string_view view = text;
  if (view.starts_with("triton_poi_") || view.starts_with("triton_red_") || view.starts_with("triton_per_") ||
      view.starts_with("triton_for_")) {
    return KernelGroup::Other;
  }
  if (contains_any(
          view, {"nccl", "rccl", "all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter",
                 "reducescatter", "all_to_all", "alltoall", "cross_device_reduce", "multimem", "nvshmem"})) {
    return KernelGroup::Communication;
  }
  if (contains_any(view, {"flash", "fmha", "sdpa", "attention", "attn"}) || contains_word(view, "mla")) {
    return KernelGroup::Attention;
  }
  if (contains_any(view,
                   {"nvjet", "gemm", "gemv", "cutlass", "cublas", "cijk_", "xmma", "wmma", "matmul", "splitk",
                    "implicit_conv",
                    // As steps of networks name them.
                    ": product", "batched_product", "grouped_product", ": convolution", "split_k_reduce"})) {
    return KernelGroup::Matmul;
  }
  for (std::string_view word : {"mm", "bmm", "addmm", "baddbmm"}) {
    if (contains_word(view, word)) return KernelGroup::Matmul;
  }
  return KernelGroup::Other;
}

TraceCallKind call_kind(std::string_view name) {
  // (cuda|cu|hip)[A-Za-z]*Launch[A-Za-z]*Kernel
  const std::size_t api = name.starts_with("hip") ? 3 : name.starts_with("cu") ? 2 : 0;
  if (api == 0) return TraceCallKind::Other;
  std::size_t letters = api;
  while (letters < name.size() && is_letter(name[letters])) ++letters;
  const std::string_view run = name.substr(0, letters);
  if (const std::size_t at = run.find("Launch", api); at != std::string_view::npos) {
    if (run.find("Kernel", at + 6) != std::string_view::npos) return TraceCallKind::KernelLaunch;
  }
  if (name.starts_with("hipLaunchByPtr") || is_form_of(name, "cudaLaunch") || is_form_of(name, "cuLaunch") ||
      is_form_of(name, "cuLaunchGrid") || is_form_of(name, "cuLaunchGridAsync")) {
    return TraceCallKind::KernelLaunch;
  }

  std::string_view rest = name;
  strip_api(rest);
  if (is_form_of(rest, "GraphLaunch")) return TraceCallKind::GraphLaunch;
  if (is_form_of(rest, "StreamSynchronize")) return TraceCallKind::SynchronizeStream;
  if (is_form_of(rest, "EventSynchronize")) return TraceCallKind::SynchronizeEvent;
  for (std::string_view whole :
       {"DeviceSynchronize", "CtxSynchronize", "ContextSynchronize", "ThreadSynchronize"}) {
    if (is_form_of(rest, whole)) return TraceCallKind::SynchronizeDevice;
  }
  if (rest.starts_with("EventRecord")) return TraceCallKind::EventRecord;
  if (rest.starts_with("StreamWaitEvent")) return TraceCallKind::StreamWaitEvent;
  if (rest.starts_with("Memcpy")) return TraceCallKind::MemcpyCall;
  if (rest.starts_with("Memset")) return TraceCallKind::MemsetCall;
  return TraceCallKind::Other;
}

}  // namespace gpusim
