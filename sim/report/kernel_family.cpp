// SPDX-License-Identifier: Apache-2.0
#include "sim/report/kernel_family.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "sim/trace/kernel_names.hpp"

namespace gpusim::report {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

}  // namespace

std::string_view name(KernelFamily family) {
  constexpr std::array<std::string_view, kernel_family_count> names = {
      "matrix_product", "attention",     "reduction", "elementwise",
      "optimizer",      "communication", "copy",      "other"};
  return names[static_cast<std::size_t>(family)];
}

KernelFamily kernel_family(std::string_view kernel, engine::OpKind kind) {
  if (kind != engine::OpKind::Kernel) return KernelFamily::Copy;
  switch (kernel_group(kernel)) {
    case KernelGroup::Matmul:
      return KernelFamily::MatrixProduct;
    case KernelGroup::Attention:
      return KernelFamily::Attention;
    case KernelGroup::Communication:
      return KernelFamily::Communication;
    case KernelGroup::Other:
      break;
  }
  const std::string text = lower_case(kernel);
  if (contains_any(text, {"adam", "sgd", "lion", "multi_tensor", "optimizer"}))
    return KernelFamily::Optimizer;
  // Inductor says in the first part of a name what the loop does, behind it every op that is in it.
  if (contains_any(text, {"triton_red_", "triton_per_"})) return KernelFamily::Reduction;
  if (contains_any(text, {"norm", "softmax", "reduc", "column_sum", "pooling", "loss", "cumsum"}))
    return KernelFamily::Reduction;
  if (contains_any(text,
                   {"memcpy", "memset", "transposed_copy", "copy_on_device", "copy of inputs", "catarray"}) ||
      text == "cat" || text.ends_with(": cat"))
    return KernelFamily::Copy;
  if (contains_any(text,
                   {"triton_poi_", "elementwise", "fused", "pointwise", "fill", "convert", "attention_"}))
    return KernelFamily::Elementwise;
  return KernelFamily::Other;
}

}  // namespace gpusim::report
