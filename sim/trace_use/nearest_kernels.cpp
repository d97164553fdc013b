// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/nearest_kernels.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <vector>

#include "sim/report/format.hpp"

namespace gpusim {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::size_t longest_common_run(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  std::size_t longest = 0;
  for (const char c : a)
    for (std::size_t j = b.size(); j-- > 0;) {
      row[j + 1] = b[j] == c ? row[j] + 1 : 0;
      longest = std::max(longest, row[j + 1]);
    }
  return longest;
}

}  // namespace

std::string nearest_kernels_hint(const Trace& trace, std::string_view pattern) {
  constexpr std::size_t shown = 5;
  constexpr std::size_t compared = 400;  // Of names of thousands of characters.
  std::map<std::uint32_t, Picoseconds> time;
  for (const TraceOp& op : trace.ops) time[op.name] += op.duration();
  const std::string wanted = lower(pattern.substr(0, compared));
  std::vector<std::tuple<std::size_t, Picoseconds, std::string>> ranked;
  for (const auto& [name, total] : time) {
    const std::string& text = trace.name_of(name);
    ranked.emplace_back(longest_common_run(wanted, lower(std::string_view(text).substr(0, compared))), total,
                        report::kernel_label(text));
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tuple(std::get<0>(b), std::get<1>(b), std::get<2>(a)) <
           std::tuple(std::get<0>(a), std::get<1>(a), std::get<2>(b));
  });
  std::string hint = "nearest kernels:";
  for (std::size_t i = 0; i < std::min(shown, ranked.size()); ++i)
    hint += (i == 0 ? " '" : ", '") + report::shorten(std::get<2>(ranked[i]), 60) + "'";
  return hint;
}

}  // namespace gpusim
