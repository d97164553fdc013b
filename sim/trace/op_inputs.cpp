// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/op_inputs.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "sim/trace/json_value.hpp"
#include "sim/trace/text.hpp"

namespace gpusim::trace_json {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr int depth_max = 64;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// The texts of a JSON list's entries; nothing if it is no list.
std::optional<std::vector<std::string_view>> entries(std::string_view list) {
  list = trimmed(list);
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') return std::nullopt;
  std::vector<std::string_view> result;
  std::size_t pos = 1;
  const auto skip = [&] {
    while (pos + 1 < list.size() && (is_space(list[pos]) || list[pos] == ',')) ++pos;
  };
  for (skip(); pos + 1 < list.size(); skip()) {
    const trace_text::Scan scan = trace_text::scan_value(list, pos, depth_max);
    if (!scan.ok() || scan.end <= pos) return std::nullopt;
    result.push_back(list.substr(pos, scan.end - pos));
    pos = scan.end;
  }
  return result;
}

std::optional<Sizes> sizes(const std::vector<std::string_view>& texts) {
  Sizes result;
  for (const std::string_view text : texts) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < 0) return std::nullopt;
    result.push_back(size);
  }
  return result;
}

/// [2, 3] is one list of sizes, [[2, 3], [4]] are two, [] is none.
std::vector<Sizes> lists_of_sizes(std::string_view text) {
  const auto parts = entries(text);
  if (!parts || parts->empty()) return {};
  if (parts->front().front() != '[') {
    const auto one = sizes(*parts);
    return one ? std::vector<Sizes>{*one} : std::vector<Sizes>{};
  }
  std::vector<Sizes> result;
  for (const std::string_view part : *parts) {
    const auto inner = entries(part);
    auto one = inner ? sizes(*inner) : std::nullopt;
    if (!one) return {};
    result.push_back(std::move(*one));
  }
  return result;
}

std::string as_text(std::string_view value) {
  if (value.size() >= 2 && value.front() == '"') return unescape(value.substr(1, value.size() - 2));
  return value == "null" ? std::string() : std::string(value);
}

/// Of a type that has a shape, if an empty one.
bool is_tensor(std::string_view type) {
  return !type.empty() && type != "Scalar" && type != "Device" && type.find("List") == std::string_view::npos;
}

}  // namespace

std::vector<TraceInput> read_inputs(const InputTexts& texts) {
  const auto list = [](std::string_view text) {
    return entries(text).value_or(std::vector<std::string_view>());
  };
  const auto shapes = list(texts.shapes);
  const auto strides = list(texts.strides);
  const auto types = list(texts.types);
  const auto values = list(texts.values);
  std::vector<TraceInput> result(std::max({shapes.size(), types.size(), values.size()}));
  for (std::size_t i = 0; i < result.size(); ++i) {
    TraceInput& input = result[i];
    if (i < types.size()) input.type = as_text(types[i]);
    if (i < values.size()) input.value = as_text(values[i]);
    if (i >= shapes.size()) continue;
    input.shapes = lists_of_sizes(shapes[i]);
    if (input.shapes.empty() && is_tensor(input.type) && trimmed(shapes[i]) == "[]")
      input.shapes.emplace_back();
    if (i < strides.size()) input.strides = lists_of_sizes(strides[i]);
    if (input.strides.size() != input.shapes.size()) input.strides.clear();
  }
  return result;
}

}  // namespace gpusim::trace_json
