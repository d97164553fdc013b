// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/fold.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace gpusim {
namespace {

constexpr std::uint64_t comparisons_max = 400'000'000;

std::string signature(const FoldedItem& item) {
  std::string text =
      item.text + "|" + std::to_string(item.times.size()) + "|" + std::to_string(item.distinct);
  if (!item.body.empty()) {
    text += "|" + std::to_string(item.repeat) + "[";
    for (const FoldedItem& inner : item.body) text += signature(inner) + ";";
    text += "]";
  }
  return text;
}

/// `sum` += `item`, time by time.
void add(FoldedItem& sum, const FoldedItem& item) {
  for (std::size_t k = 0; k < sum.times.size(); ++k) sum.times[k] += item.times[k];
  for (std::size_t k = 0; k < sum.body.size(); ++k) add(sum.body[k], item.body[k]);
}

void divide(FoldedItem& sum, std::int64_t n) {
  for (Picoseconds& time : sum.times) time /= n;
  for (FoldedItem& inner : sum.body) divide(inner, n);
}

class Folder {
 public:
  Folder(std::vector<FoldedItem> items, std::size_t period_max) : items_(std::move(items)) {
    std::map<std::string, std::uint32_t> known;
    for (const FoldedItem& item : items_)
      tokens_.push_back(
          known.emplace(signature(item), static_cast<std::uint32_t>(known.size())).first->second);
    const std::size_t n = items_.size();
    period_max_ = std::min(period_max, n / 2);
    if (n > 0) period_max_ = std::min<std::size_t>(period_max_, comparisons_max / n);
  }

  std::vector<FoldedItem> run() {
    find_periods();
    std::vector<FoldedItem> result;
    // Steps come before the blocks in them, even where a block begins before the first step.
    const auto most = std::max_element(saved_.begin(), saved_.end()) - saved_.begin();
    const std::size_t largest = saved_[static_cast<std::size_t>(most)];
    if (most > 0 && largest >= items_.size() / 3) {
      const auto begin = items_.begin() + most;
      const auto length = static_cast<std::ptrdiff_t>(largest + period_[static_cast<std::size_t>(most)]);
      for (auto [from, to] : {std::pair(items_.begin(), begin), std::pair(begin, begin + length),
                              std::pair(begin + length, items_.end())}) {
        std::vector<FoldedItem> part =
            fold({std::make_move_iterator(from), std::make_move_iterator(to)}, period_max_);
        std::move(part.begin(), part.end(), std::back_inserter(result));
      }
      return result;
    }
    for (std::size_t i = 0; i < items_.size();) {
      if (saved_[i] == 0) {
        result.push_back(std::move(items_[i++]));
        continue;
      }
      const std::size_t period = period_[i];
      const std::size_t count = saved_[i] / period + 1;
      std::vector<FoldedItem> body(items_.begin() + static_cast<std::ptrdiff_t>(i),
                                   items_.begin() + static_cast<std::ptrdiff_t>(i + period));
      for (std::size_t k = 1; k < count; ++k)
        for (std::size_t j = 0; j < period; ++j) add(body[j], items_[i + k * period + j]);
      for (FoldedItem& item : body) divide(item, static_cast<std::int64_t>(count));
      FoldedItem loop;
      loop.repeat = static_cast<std::int64_t>(count);
      loop.body = fold(std::move(body), period_max_);
      result.push_back(std::move(loop));
      i += count * period;
    }
    return result;
  }

 private:
  void find_periods() {
    const std::size_t n = items_.size();
    saved_.assign(n, 0);
    period_.assign(n, 0);
    for (std::size_t p = 1; p <= period_max_; ++p) {
      std::size_t run = 0;  // how far tokens go on as they did p before
      for (std::size_t i = n - p; i-- > 0;) {
        run = tokens_[i] == tokens_[i + p] ? run + 1 : 0;
        const std::size_t saved = run / p * p;
        if (saved > saved_[i]) {
          saved_[i] = saved;
          period_[i] = p;
        }
      }
    }
  }

  std::vector<FoldedItem> items_;
  std::vector<std::uint32_t> tokens_;
  std::size_t period_max_ = 0;
  std::vector<std::size_t> saved_;   ///< Items that a loop beginning here folds away.
  std::vector<std::size_t> period_;  ///< Of that loop.
};

}  // namespace

std::vector<FoldedItem> fold(std::vector<FoldedItem> items, std::size_t period_max) {
  if (items.size() < 2) return items;
  return Folder(std::move(items), period_max).run();
}

}  // namespace gpusim
