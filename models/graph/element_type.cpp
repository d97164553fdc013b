// SPDX-License-Identifier: Apache-2.0
#include "models/graph/element_type.hpp"

#include <algorithm>
#include <array>

namespace gpusim {
namespace {

struct Row {
  std::string_view name;
  std::int64_t size;
  bool floating;
};

constexpr std::array<Row, 10> rows{{{"fp64", 8, true},
                                    {"fp32", 4, true},
                                    {"bf16", 2, true},
                                    {"fp16", 2, true},
                                    {"fp8", 1, true},
                                    {"int64", 8, false},
                                    {"int32", 4, false},
                                    {"int8", 1, false},
                                    {"uint8", 1, false},
                                    {"bool", 1, false}}};

const Row& row(ElementType type) {
  return rows[static_cast<std::size_t>(type)];
}

}  // namespace

std::string_view name(ElementType type) {
  return row(type).name;
}

std::optional<ElementType> find_element_type(std::string_view wanted) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == wanted) return static_cast<ElementType>(i);
  return std::nullopt;
}

const std::vector<std::string>& element_type_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Row& r : rows) list.emplace_back(r.name);
    return list;
  }();
  return names;
}

std::int64_t size_of(ElementType type) {
  return row(type).size;
}

bool is_floating(ElementType type) {
  return row(type).floating;
}

std::optional<Dtype> product_dtype(ElementType type, bool tf32) {
  switch (type) {
    case ElementType::Fp64:
      return Dtype::Fp64;
    case ElementType::Fp32:
      return tf32 ? Dtype::Tf32 : Dtype::Fp32;
    case ElementType::Bf16:
      return Dtype::Bf16;
    case ElementType::Fp16:
      return Dtype::Fp16;
    case ElementType::Fp8:
      return Dtype::Fp8;
    case ElementType::Int8:
      return Dtype::Int8;
    case ElementType::Int64:
    case ElementType::Int32:
    case ElementType::UInt8:
    case ElementType::Bool:
      return std::nullopt;
  }
  return std::nullopt;
}

ElementType promote(ElementType a, ElementType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a) && size_of(a) == size_of(b)) return ElementType::Fp32;
  // Of equally wide integers (int8, uint8, bool) the first in the list above holds more.
  if (size_of(a) == size_of(b)) return std::min(a, b);
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace gpusim
