// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"
#include "sim/trace/ranks.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t ranks_listed = 32;

}  // namespace

std::string rank_text(std::span<const RankTrace> ranks) {
  const RankSkew skew = compare_ranks(ranks);
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ranks[a].rank < ranks[b].rank; });
  const auto cells = [](std::string_view first, const std::vector<std::string>& rest) {
    std::string line = left(first, 8);
    for (const std::string& text : rest) line += right(text, 12);
    return line + "\n";
  };
  std::string out = fmt::format("{} ranks of {}\n", ranks.size(), ranks.front().world_size);
  out += cells("rank", {"wall", "computing", "collectives", "of it alone", "waited", "waited for"});
  out += std::string(page_width, '-') + "\n";
  for (std::size_t i = 0; i < std::min(ranks_listed, order.size()); ++i) {
    const RankTrace& rank = ranks[order[i]];
    const RankWait& wait = skew.ranks[order[i]];
    out += cells(fmt::format("{}", rank.rank),
                 {time_text(rank.wall), time_text(rank.computing, rank.wall),
                  time_text(rank.communicating, rank.wall), time_text(rank.exposed(), rank.wall),
                  time_text(wait.waited, rank.wall), fmt::format("{}x", wait.last)});
  }
  if (ranks_listed < order.size()) out += fmt::format("{} more\n", order.size() - ranks_listed);
  if (skew.matched == 0) return out + "No collective is found in all of the ranks.\n";
  const auto slowest = *std::min_element(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return skew.ranks[a].waited < skew.ranks[b].waited;
  });
  const auto most = *std::max_element(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return skew.ranks[a].waited < skew.ranks[b].waited;
  });
  const std::string text = fmt::format(
      "Of {} collectives that all ranks have, rank {} came last to {}; rank {} waited most, {}. A rank has "
      "waited for "
      "as long as its collective took longer than the shortest of the same.",
      skew.matched, ranks[slowest].rank, skew.ranks[slowest].last, ranks[most].rank,
      time_text(skew.ranks[most].waited));
  for (const std::string& line : wrap(text, page_width)) out += line + "\n";
  return out;
}

}  // namespace gpusim::report
