// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/align.hpp"

#include <algorithm>
#include <map>

namespace gpusim {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct Range {
  std::uint32_t a0, a1, b0, b1;
};

class Aligner {
 public:
  Aligner(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, std::uint64_t exact_cells)
      : a_(a), b_(b), exact_cells_(exact_cells) {}

  Pairs run() {
    // A stack of its own: long sequences with many anchors would exhaust that of the program.
    std::vector<Range> open{
        {0, static_cast<std::uint32_t>(a_.size()), 0, static_cast<std::uint32_t>(b_.size())}};
    while (!open.empty()) {
      Range r = open.back();
      open.pop_back();
      while (r.a0 < r.a1 && r.b0 < r.b1 && a_[r.a0] == b_[r.b0]) pairs_.emplace_back(r.a0++, r.b0++);
      while (r.a0 < r.a1 && r.b0 < r.b1 && a_[r.a1 - 1] == b_[r.b1 - 1]) pairs_.emplace_back(--r.a1, --r.b1);
      if (r.a0 == r.a1 || r.b0 == r.b1) continue;
      if (std::uint64_t{r.a1 - r.a0} * (r.b1 - r.b0) <= exact_cells_) {
        longest(r);
        continue;
      }
      Pairs anchors = rising(unique_in_both(r));
      if (anchors.empty()) {
        const Pairs same = rising(same_appearances(r));
        pairs_.insert(pairs_.end(), same.begin(), same.end());
        continue;
      }
      for (const auto& [a, b] : anchors) {
        open.push_back({r.a0, a, r.b0, b});
        pairs_.emplace_back(a, b);
        r.a0 = a + 1;
        r.b0 = b + 1;
      }
      open.push_back(r);
    }
    std::sort(pairs_.begin(), pairs_.end());
    return std::move(pairs_);
  }

 private:
  /// Longest common subsequence by the table of its lengths.
  void longest(const Range& r) {
    const std::size_t n = r.a1 - r.a0;
    const std::size_t m = r.b1 - r.b0;
    std::vector<std::uint32_t> length((n + 1) * (m + 1), 0);
    const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& { return length[i * (m + 1) + j]; };
    for (std::size_t i = n; i-- > 0;)
      for (std::size_t j = m; j-- > 0;)
        at(i, j) = a_[r.a0 + i] == b_[r.b0 + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    for (std::size_t i = 0, j = 0; i < n && j < m;) {
      if (a_[r.a0 + i] == b_[r.b0 + j]) {
        pairs_.emplace_back(r.a0 + static_cast<std::uint32_t>(i++), r.b0 + static_cast<std::uint32_t>(j++));
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        ++i;
      } else {
        ++j;
      }
    }
  }

  Pairs unique_in_both(const Range& r) const {
    struct Places {
      std::uint32_t in_a = 0, in_b = 0, a = 0, b = 0;
    };
    std::map<std::uint32_t, Places> places;
    for (std::uint32_t i = r.a0; i < r.a1; ++i) {
      ++places[a_[i]].in_a;
      places[a_[i]].a = i;
    }
    for (std::uint32_t j = r.b0; j < r.b1; ++j) {
      ++places[b_[j]].in_b;
      places[b_[j]].b = j;
    }
    Pairs unique;
    for (const auto& [token, p] : places)
      if (p.in_a == 1 && p.in_b == 1) unique.emplace_back(p.a, p.b);
    return unique;
  }

  Pairs same_appearances(const Range& r) const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> in_b;
    for (std::uint32_t j = r.b0; j < r.b1; ++j) in_b[b_[j]].push_back(j);
    std::map<std::uint32_t, std::size_t> seen;
    Pairs same;
    for (std::uint32_t i = r.a0; i < r.a1; ++i) {
      const std::vector<std::uint32_t>& places = in_b[a_[i]];
      const std::size_t n = seen[a_[i]]++;
      if (n < places.size()) same.emplace_back(i, places[n]);
    }
    return same;
  }

  /// The longest part of `pairs` that rises in both places.
  static Pairs rising(Pairs pairs) {
    std::sort(pairs.begin(), pairs.end());
    std::vector<std::size_t> tails;
    std::vector<std::size_t> parent(pairs.size());
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const auto tail =
          std::lower_bound(tails.begin(), tails.end(), pairs[k].second,
                           [&](std::size_t t, std::uint32_t value) { return pairs[t].second < value; });
      parent[k] = tail == tails.begin() ? k : *(tail - 1);
      if (tail == tails.end()) {
        tails.push_back(k);
      } else {
        *tail = k;
      }
    }
    Pairs result;
    if (tails.empty()) return result;
    for (std::size_t k = tails.back();; k = parent[k]) {
      result.push_back(pairs[k]);
      if (parent[k] == k) break;
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  const std::vector<std::uint32_t>& a_;
  const std::vector<std::uint32_t>& b_;
  const std::uint64_t exact_cells_;
  Pairs pairs_;
};

}  // namespace

std::vector<std::pair<std::uint32_t, std::uint32_t>> align(const std::vector<std::uint32_t>& a,
                                                           const std::vector<std::uint32_t>& b,
                                                           std::uint64_t exact_cells) {
  return Aligner(a, b, exact_cells).run();
}

}  // namespace gpusim
