// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"

namespace gpusim::report {
namespace {

std::string quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string cell(const Value& value) {
  return std::visit(
      [](const auto& x) -> std::string {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "";
        else if constexpr (std::is_same_v<T, bool>)
          return x ? "true" : "false";
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return std::to_string(x);
        else if constexpr (std::is_same_v<T, double>)
          return exact_number(x);
        else if constexpr (std::is_same_v<T, std::string>)
          return quoted(x);
        else
          return exact_microseconds(x);
      },
      value);
}

}  // namespace

std::string to_csv(const std::vector<ScenarioReport>& reports, std::string_view version) {
  std::string out = "scenario,file";
  for (const Field& field : fields(Metrics{})) out += ',' + field.path;
  out += ",gpusim,input\n";
  for (const ScenarioReport& report : reports)
    for (const VariantResult& variant : report.variants) {
      out += quoted(report.scenario) + ',' + quoted(report.file);
      for (const Field& field : fields(metrics(variant))) out += ',' + cell(field.value);
      out += ',' + quoted(version) + ',' + quoted(report.input) + '\n';
    }
  return out;
}

}  // namespace gpusim::report
