// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/kernel_traits.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string>
#include <utility>

#include "sim/report/format.hpp"
#include "sim/trace/kernel_names.hpp"

namespace gpusim {
namespace {

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}
bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return has(text, word); });
}

/// The number that follows `before` in `text`; 0 where there is none.
std::int64_t number_after(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return 0;
  std::int64_t value = 0;
  for (std::size_t i = at + before.size(); i < text.size() && value < 1'000'000; ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) break;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

std::int64_t grid_blocks(const TraceOp& op) {
  // Grids of files that lie are cut off well before they overflow.
  double blocks = 1;
  for (const std::int64_t size : op.grid) blocks *= static_cast<double>(std::max<std::int64_t>(size, 0));
  return static_cast<std::int64_t>(std::min(blocks, 1e12));
}

/// Elements that a thread of an elementwise kernel handles; 0: not such a kernel.
std::int64_t elements_per_thread(std::string_view name) {
  if (has(name, "vectorized_elementwise_kernel<")) return 8;
  if (has(name, "unrolled_elementwise_kernel<")) return 4;
  if (has(name, "elementwise_kernel_with_index<")) return 1;
  if (has(name, "index_elementwise_kernel")) return 0;
  if (const std::int64_t n = number_after(name, "elementwise_kernel<128, "); n > 0) return n;
  return 0;
}

AluFunction function_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, AluFunction>, 13> functions{
      {{"Gelu", AluFunction::Gelu},
       {"silu", AluFunction::Silu},
       {"sigmoid", AluFunction::Sigmoid},
       {"tanh", AluFunction::Tanh},
       {"rsqrt", AluFunction::Rsqrt},
       {"exp_kernel", AluFunction::Exp},
       {"log_kernel", AluFunction::Log},
       {"sin_kernel", AluFunction::Sin},
       {"cos_kernel", AluFunction::Cos},
       {"erf_kernel", AluFunction::Erf},
       {"DivFunctor", AluFunction::Divide},
       {"div_true", AluFunction::Divide},
       {"MulFunctor", AluFunction::Mul}}};
  for (const auto& [word, function] : functions)
    if (has(name, word)) return function;
  return AluFunction::Add;
}

std::int32_t width_of(std::string_view name) {
  if (has_any(name, {"BFloat16", "c10::Half", "__half", "bfloat16"})) return 2;
  if (has_any(name, {"double", "long>"})) return 8;
  if (has_any(name, {"Float8", "bool>", "unsigned char", "signed char"})) return 1;
  return 4;
}

void read_formats(std::string_view name, KernelTraits& traits) {
  traits.read_bytes = traits.written_bytes = width_of(name);
  if (has(name, "bfloat16_copy_kernel") || has(name, "float16_copy_kernel")) {
    traits.read_bytes = 4;
    traits.written_bytes = 2;
  } else if (has(name, "LoadWithCast") && has(name, "(float)")) {
    traits.read_bytes = 2;
    traits.written_bytes = 4;
  }
}

}  // namespace

KernelTraits kernel_traits(std::string_view name, const TraceOp& op) {
  KernelTraits traits;
  if (op.kind != TraceOpKind::Kernel || kernel_group(name) != KernelGroup::Other) return traits;
  const std::int64_t blocks = grid_blocks(op);
  read_formats(name, traits);
  traits.function = function_of(name);
  traits.backward = has_any(name, {"Backward", "backward", "grad_input"});
  const std::int64_t each = elements_per_thread(name);
  if (each > 0 && !has_any(name, {"index_kernel", "index_put", "distribution_"})) {
    traits.role = FusionRole::Pointwise;
    traits.elements =
        std::min<std::int64_t>(blocks * std::max<std::int64_t>(op.block[0], 1) * each, std::int64_t{1} << 50);
    traits.fill = has_any(name, {"FillFunctor", "arange"});
    const std::int64_t pointers = number_after(name, "std::array<char*, ");
    if (pointers > 0) {
      traits.inputs = static_cast<std::int32_t>(pointers - 1);
    } else if (has_any(name, {"BinaryFunctor", "CUDAFunctor_add<", "where_kernel"}) &&
               !has_any(name, {"AUnaryFunctor", "BUnaryFunctor"})) {
      traits.inputs = 2;
    }
    if (traits.fill) traits.inputs = 0;
    return traits;
  }
  if (has_any(name, {"GammaBetaBackward", "cuComputePartGradGammaBeta", "cuComputeGradGammaBeta"})) {
    traits.role = FusionRole::NormWeights;
  } else if (has_any(name, {"layer_norm_kernel", "layer_norm_grad_input", "rms_norm_kernel", "RowwiseMoments",
                            "LayerNormForward"})) {
    traits.role = FusionRole::Norm;
    traits.rows = blocks;
    traits.inputs = traits.backward ? 2 : 1;
  } else if (has_any(name, {"SoftMaxForward", "SoftMaxBackward", "softmax_warp_forward",
                            "softmax_warp_backward"})) {
    traits.role = FusionRole::Softmax;
    traits.rows = blocks * std::max<std::int64_t>(op.block[1], 1);
    traits.inputs = traits.backward ? 2 : 1;
    traits.function = AluFunction::Exp;
  } else if (const std::size_t at = name.find("reduce_kernel<"); at != std::string_view::npos) {
    // The second number is how many results a thread makes: several where the reduced axis is not the last.
    const std::string_view rest = name.substr(at);
    const std::size_t comma = rest.find(", ");
    const bool columns = comma != std::string_view::npos && rest.substr(comma, 3) != ", 1";
    traits.role = columns ? FusionRole::ColumnReduction : FusionRole::RowReduction;
    traits.rows = blocks * std::max<std::int64_t>(op.block[1], 1);
    if (!columns && op.block[1] == 1) traits.rows = blocks;
  }
  return traits;
}

std::string telling_name(std::string_view name) {
  std::string text = report::kernel_label(name);
  for (const std::string_view space : {"c10::", "binary_internal::"})
    for (std::size_t at = text.find(space); at != std::string::npos; at = text.find(space, at))
      text.erase(at, space.size());
  constexpr std::string_view loop = "elementwise_kernel<";
  if (const std::size_t at = text.find(loop); at != std::string::npos) {
    std::string_view rest = std::string_view(text).substr(at + loop.size());
    while (!rest.empty() && (std::isdigit(static_cast<unsigned char>(rest.front())) != 0 ||
                             rest.front() == ',' || rest.front() == ' '))
      rest.remove_prefix(1);
    for (const std::string_view wrapper : {"gpu_kernel_impl_nocast<", "gpu_kernel_impl<"})
      if (rest.starts_with(wrapper)) rest.remove_prefix(wrapper.size());
    rest = rest.substr(0, rest.find('('));
    rest = rest.substr(0, rest.find(", std::array"));
    rest = rest.substr(0, rest.find(", at::detail::Array"));
    while (rest.ends_with('>') &&
           std::count(rest.begin(), rest.end(), '>') > std::count(rest.begin(), rest.end(), '<')) {
      rest.remove_suffix(1);
      while (rest.ends_with(' ')) rest.remove_suffix(1);
    }
    if (!rest.empty()) return "elementwise " + std::string(rest);
  }
  if (text.ends_with(')')) {
    const std::size_t arguments = text.rfind(">(");
    if (arguments != std::string::npos) {
      text.resize(arguments + 1);
    } else if (text.find('(') > 0) {
      text.resize(text.find('('));
    }
  }
  return text;
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t from = 0;
  while (!pattern.empty()) {
    const std::size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const std::size_t at = name.find(part, from);
    if (at == std::string_view::npos) return false;
    from = at + part.size();
    if (star == std::string_view::npos) break;
    pattern.remove_prefix(star + 1);
  }
  return true;
}

bool is_thin_product(std::string_view name) {
  if (has_any(name, {"gemv", "splitKreduce", "dot_kernel"})) return true;
  // The first "_MxN" of the name is the tile.
  for (std::size_t at = name.find('_'); at != std::string_view::npos; at = name.find('_', at + 1)) {
    std::size_t i = at + 1;
    std::array<std::int64_t, 2> sides{0, 0};
    for (std::size_t side = 0; side < 2; ++side) {
      while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0 &&
             sides[side] < 100'000)
        sides[side] = sides[side] * 10 + (name[i++] - '0');
      if (side == 0 && (i >= name.size() || name[i++] != 'x')) break;
    }
    if (sides[0] > 0 && sides[1] > 0) return std::min(sides[0], sides[1]) < 32;
  }
  return false;
}

}  // namespace gpusim
