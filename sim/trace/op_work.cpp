// SPDX-License-Identifier: Apache-2.0
// FLOPs and bytes of an op from the shapes of its inputs.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "sim/trace/detail.hpp"

namespace gpusim {
namespace {

using Shape = std::vector<std::int64_t>;

const Shape* shape(const std::vector<TraceInput>& inputs, std::size_t i, std::size_t dims_min) {
  if (i >= inputs.size() || inputs[i].shapes.size() != 1) return nullptr;
  const Shape& result = inputs[i].shapes.front();
  return result.size() >= dims_min ? &result : nullptr;
}

double product_of(const Shape& sizes) {
  double result = 1;
  for (const std::int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

/// [..., m, k] x [..., k, n], or x [k, n] of all.
std::optional<double> product_flops(const Shape* a, const Shape* b) {
  if (a == nullptr || b == nullptr || a->back() != (*b)[b->size() - 2]) return std::nullopt;
  return 2 * product_of(*a) * static_cast<double>(b->back());
}

/// "[1, 2]" or "1".
Shape numbers(const std::vector<TraceInput>& inputs, std::size_t i) {
  Shape result;
  if (i >= inputs.size()) return result;
  const std::string& text = inputs[i].value;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error == std::errc()) result.push_back(value);
    at = error == std::errc() ? static_cast<std::size_t>(end - text.data()) : at + 1;
  }
  return result;
}

/// Input [n, c, h, w...], weight [k, c / groups, r, s...].
std::optional<double> convolution_flops(const std::vector<TraceInput>& inputs, std::size_t stride_at,
                                        std::size_t padding_at, std::size_t dilation_at) {
  const Shape* const x = shape(inputs, 0, 3);
  const Shape* const w = shape(inputs, 1, 3);
  if (x == nullptr || w == nullptr || x->size() != w->size()) return std::nullopt;
  const Shape stride = numbers(inputs, stride_at);
  const Shape padding = numbers(inputs, padding_at);
  const Shape dilation = numbers(inputs, dilation_at);
  const std::size_t dims = x->size() - 2;
  if (stride.size() != dims || padding.size() != dims || dilation.size() != dims) return std::nullopt;
  double outputs = static_cast<double>((*x)[0]);
  for (std::size_t i = 0; i < dims; ++i) {
    if (stride[i] <= 0) return std::nullopt;
    const double reach = static_cast<double>(dilation[i]) * static_cast<double>((*w)[i + 2] - 1);
    const double room = static_cast<double>((*x)[i + 2]) + 2 * static_cast<double>(padding[i]) - reach - 1;
    if (room < 0) return std::nullopt;
    outputs *= static_cast<double>(static_cast<std::int64_t>(room) / stride[i] + 1);
  }
  return 2 * outputs * product_of(*w);
}

/// Queries [b, h, s, d], keys [b, h, t, d], or with h and t in other places.
std::optional<double> attention_flops(const std::vector<TraceInput>& inputs, std::size_t heads,
                                      std::size_t length) {
  const Shape* const q = shape(inputs, 0, 4);
  const Shape* const k = shape(inputs, 1, 4);
  if (q == nullptr || k == nullptr || q->size() != 4 || k->size() != 4) return std::nullopt;
  // Of grouped queries the keys have fewer heads.
  if ((*q)[3] != (*k)[3] || (*k)[heads] == 0 || (*q)[heads] % (*k)[heads] != 0) return std::nullopt;
  return 4 * product_of(*q) * static_cast<double>((*k)[length]);
}

}  // namespace

std::optional<double> op_flops(std::string_view name, const std::vector<TraceInput>& inputs) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::_scaled_mm" || name == "aten::_int_mm")
    return product_flops(shape(inputs, 0, 2), shape(inputs, 1, 2));
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::_addmm_activation")
    return product_flops(shape(inputs, 1, 2), shape(inputs, 2, 2));
  if (name == "aten::convolution" || name == "aten::_convolution" || name == "aten::miopen_convolution")
    return name == "aten::miopen_convolution" ? convolution_flops(inputs, 4, 3, 5)
                                              : convolution_flops(inputs, 3, 4, 5);
  if (name == "aten::cudnn_convolution") return convolution_flops(inputs, 3, 2, 4);
  if (name == "aten::_scaled_dot_product_flash_attention" ||
      name == "aten::_scaled_dot_product_efficient_attention" ||
      name == "aten::_scaled_dot_product_cudnn_attention")
    return attention_flops(inputs, 1, 2);
  if (name == "aten::_flash_attention_forward" || name == "aten::_efficient_attention_forward")
    return attention_flops(inputs, 2, 1);
  return std::nullopt;
}

int element_bytes(std::string_view type) {
  if (type.starts_with("c10::")) type.remove_prefix(5);
  for (const std::string_view one : {"unsigned char", "signed char", "bool", "char"})
    if (type == one) return 1;
  if (type.starts_with("Float8") || type == "qint8" || type == "quint8") return 1;
  if (type == "Half" || type == "BFloat16" || type == "short" || type == "short int") return 2;
  if (type == "float" || type == "int" || type == "complex<Half>") return 4;
  if (type == "double" || type == "long" || type == "long int" || type == "complex<float>") return 8;
  if (type == "complex<double>") return 16;
  return 0;
}

std::optional<double> op_bytes(const std::vector<TraceInput>& inputs) {
  double sum = 0;
  double largest = 0;
  for (const TraceInput& input : inputs) {
    if (input.shapes.empty()) continue;
    const int size = element_bytes(input.type);
    if (size == 0) return std::nullopt;
    for (std::size_t i = 0; i < input.shapes.size(); ++i) {
      double elements = product_of(input.shapes[i]);
      // A broadcast dimension is not read again.
      if (i < input.strides.size() && input.strides[i].size() == input.shapes[i].size()) {
        for (std::size_t d = 0; d < input.shapes[i].size(); ++d) {
          if (input.strides[i][d] == 0 && input.shapes[i][d] > 0)
            elements /= static_cast<double>(input.shapes[i][d]);
        }
      }
      sum += elements * size;
      largest = std::max(largest, product_of(input.shapes[i]) * size);
    }
  }
  if (sum == 0) return std::nullopt;
  return sum + largest;
}

std::optional<double> TraceOpFigures::flops_per_second() const {
  if (!flops || gpu.count() == 0) return std::nullopt;
  return *flops * static_cast<double>(count) / (static_cast<double>(gpu.count()) * 1e-12);
}

std::optional<double> TraceOpFigures::bytes_per_second() const {
  if (!bytes || gpu.count() == 0) return std::nullopt;
  return *bytes * static_cast<double>(count) / (static_cast<double>(gpu.count()) * 1e-12);
}

}  // namespace gpusim
