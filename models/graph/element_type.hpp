// SPDX-License-Identifier: Apache-2.0
// What one element of a tensor is, and how much room it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu_spec.hpp"

namespace gpusim {

/// Formats that tensors are stored in. (Dtype, in models/hardware, is what hardware has rates for: tf32 is a
/// way to multiply fp32 tensors, not a way to store them.)
enum class ElementType : std::uint8_t { Fp64, Fp32, Bf16, Fp16, Fp8, Int64, Int32, Int8, UInt8, Bool };

/// "fp64", "fp32", "bf16", "fp16", "fp8", "int64", "int32", "int8", "uint8", "bool".
std::string_view name(ElementType type);
std::optional<ElementType> find_element_type(std::string_view name);
const std::vector<std::string>& element_type_names();

/// Bytes of one element: 8, 4, 2, 2, 1, 8, 4, 1, 1, 1.
std::int64_t size_of(ElementType type);
bool is_floating(ElementType type);

/// The rate that products of such tensors run at; none for those that are not multiplied (int64, bool). fp32
/// products run as tf32 where `tf32` is set, as torch.set_float32_matmul_precision("high") does.
std::optional<Dtype> product_dtype(ElementType type, bool tf32 = false);

/// What an elementwise op over both gives, as PyTorch promotes: the floating one, else the wider; of bf16 and
/// fp16, fp32.
ElementType promote(ElementType a, ElementType b);

}  // namespace gpusim
