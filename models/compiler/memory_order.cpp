// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/memory_order.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

namespace gpusim {
namespace {

using Order = std::vector<std::uint32_t>;
using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// By step: the other ends of its edges.
class Neighbours {
 public:
  Neighbours() = default;
  /// `edges`: sorted.
  Neighbours(std::size_t steps, const Edges& edges) : begin_(steps + 1, 0) {
    for (const auto& [from, to] : edges) {
      ++begin_[from + 1];
      ends_.push_back(to);
    }
    for (std::size_t s = 0; s < steps; ++s) begin_[s + 1] += begin_[s];
  }
  std::span<const std::uint32_t> operator[](std::uint32_t step) const {
    return std::span(ends_).subspan(begin_[step], begin_[step + 1] - begin_[step]);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> ends_;
};

class Orders {
 public:
  Orders(const std::vector<MemoryStep>& steps, const std::vector<MemoryBuffer>& buffers)
      : steps_(steps), buffers_(buffers) {
    find_makers();
    find_edges();
  }

  Order greedy() const;
  Order first_come() const;
  Order depth_first() const;

 private:
  bool frees(std::uint32_t buffer) const { return !buffers_[buffer].given || buffers_[buffer].freeable; }
  std::int64_t made_by(std::uint32_t step) const {
    std::int64_t bytes = 0;
    for (const std::uint32_t b : made_[step]) bytes += buffers_[b].bytes;
    return bytes;
  }

  void find_makers() {
    made_.resize(steps_.size());
    readers_.resize(buffers_.size());
    std::vector<std::uint8_t> there(buffers_.size(), 0);
    for (std::size_t b = 0; b < buffers_.size(); ++b) there[b] = buffers_[b].given ? 1 : 0;
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      for (const std::uint32_t b : steps_[s].reads)
        if (readers_[b].empty() || readers_[b].back() != s) readers_[b].push_back(s);
      for (const std::uint32_t b : steps_[s].writes)
        if (std::exchange(there[b], 1) == 0) made_[s].push_back(b);
    }
  }

  void find_edges() {
    std::vector<std::int64_t> writers(buffers_.size(), 0);
    for (const MemoryStep& step : steps_)
      for (const std::uint32_t b : step.writes) ++writers[b];
    constexpr auto none = static_cast<std::uint32_t>(-1);
    std::vector<std::uint32_t> first(buffers_.size(), none);   // By buffer: the first step that touches it,
    std::vector<std::uint32_t> latest(buffers_.size(), none);  // and the latest one so far.
    Edges edges;
    const auto touch = [&](std::uint32_t b, std::uint32_t s) {
      const std::uint32_t before = std::exchange(latest[b], s);
      if (before == none) first[b] = s;
      if (before == none || before == s) return;
      if (writers[b] + (buffers_[b].given ? 1 : 0) > 1)
        edges.emplace_back(before, s);
      else if (writers[b] == 1)
        edges.emplace_back(first[b], s);
    };
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      for (const std::uint32_t b : steps_[s].reads) touch(b, s);
      for (const std::uint32_t b : steps_[s].writes) touch(b, s);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    behind_ = Neighbours(steps_.size(), edges);
    for (auto& [from, to] : edges) std::swap(from, to);
    std::sort(edges.begin(), edges.end());
    before_ = Neighbours(steps_.size(), edges);
  }

  const std::vector<MemoryStep>& steps_;
  const std::vector<MemoryBuffer>& buffers_;
  std::vector<std::vector<std::uint32_t>> made_;     ///< By step: buffers that it is the first to write.
  std::vector<std::vector<std::uint32_t>> readers_;  ///< By buffer.
  Neighbours before_;                                ///< By step: those that it needs.
  Neighbours behind_;                                ///< By step: those that need it.
};

Order Orders::greedy() const {
  std::vector<std::size_t> open(steps_.size());
  std::vector<std::int64_t> left(buffers_.size());  // Readers to come, and one more for what stays.
  std::vector<std::int64_t> frees_now(steps_.size(), 0);
  std::int64_t live = 0;
  std::int64_t stays = 0;
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    left[b] = static_cast<std::int64_t>(readers_[b].size()) + (buffers_[b].needed ? 1 : 0);
    if (buffers_[b].given && buffers_[b].freeable) live += buffers_[b].bytes;
    if (buffers_[b].needed && frees(static_cast<std::uint32_t>(b))) stays += buffers_[b].bytes;
  }
  std::int64_t most = std::max(live, stays);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    open[s] = before_[s].size();
    if (open[s] == 0) ready.push_back(s);
    for (const std::uint32_t b : steps_[s].reads)
      if (left[b] == 1 && frees(b)) frees_now[s] += buffers_[b].bytes;
    for (const std::uint32_t b : made_[s])
      if (left[b] == 0) frees_now[s] += buffers_[b].bytes;
  }
  std::vector<std::int64_t> made(steps_.size());
  for (std::uint32_t s = 0; s < steps_.size(); ++s) made[s] = made_by(s);
  Order order;
  while (!ready.empty()) {
    const std::int64_t gap = most - live;
    const auto cost = [&](std::uint32_t s) {
      return std::tuple(made[s] > gap ? made[s] : 0, made[s] - frees_now[s], s);
    };
    const auto next = std::min_element(ready.begin(), ready.end(),
                                       [&](std::uint32_t a, std::uint32_t b) { return cost(a) < cost(b); });
    const std::uint32_t step = *next;
    ready.erase(next);
    order.push_back(step);
    live += made[step];
    most = std::max(most, live);
    live -= frees_now[step];
    for (const std::uint32_t s : behind_[step])
      if (--open[s] == 0) ready.push_back(s);
    for (const std::uint32_t b : steps_[step].reads)
      if (--left[b] == 1 && frees(b))
        for (const std::uint32_t s : readers_[b]) frees_now[s] += buffers_[b].bytes;
  }
  return order;
}

Order Orders::first_come() const {
  std::vector<std::size_t> open(steps_.size());
  std::vector<std::uint32_t> turn(steps_.size(), 0);
  using Entry = std::pair<std::vector<std::uint32_t>, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto push = [&](std::uint32_t s) {
    std::vector<std::uint32_t> turns;
    for (const std::uint32_t b : before_[s]) turns.push_back(turn[b]);
    std::sort(turns.begin(), turns.end());
    ready.emplace(std::move(turns), s);
  };
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    open[s] = before_[s].size();
    if (open[s] == 0) push(s);
  }
  Order order;
  while (!ready.empty()) {
    const std::uint32_t step = ready.top().second;
    ready.pop();
    turn[step] = static_cast<std::uint32_t>(order.size());
    order.push_back(step);
    for (const std::uint32_t s : behind_[step])
      if (--open[s] == 0) push(s);
  }
  return order;
}

Order Orders::depth_first() const {
  std::vector<std::int64_t> bytes(steps_.size());
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    bytes[s] = made_by(s);
    for (const std::uint32_t b : steps_[s].reads)
      if (frees(b)) bytes[s] += buffers_[b].bytes;
  }
  const auto smaller = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(bytes[a], a) < std::pair(bytes[b], b);
  };
  Order roots(steps_.size());
  std::iota(roots.begin(), roots.end(), 0U);
  std::sort(roots.begin(), roots.end(), smaller);
  std::vector<std::uint8_t> seen(steps_.size(), 0);
  Order order;
  std::vector<std::pair<std::uint32_t, bool>> stack;
  for (const std::uint32_t root : roots) {
    stack.emplace_back(root, false);
    while (!stack.empty()) {
      const auto [step, done] = stack.back();
      stack.pop_back();
      if (done) {
        order.push_back(step);
        continue;
      }
      if (std::exchange(seen[step], 1) != 0) continue;
      stack.emplace_back(step, true);
      std::vector<std::uint32_t> needed(before_[step].begin(), before_[step].end());
      std::sort(needed.begin(), needed.end(), smaller);
      for (auto it = needed.rbegin(); it != needed.rend(); ++it)
        if (seen[*it] == 0) stack.emplace_back(*it, false);
    }
  }
  return order;
}

}  // namespace

std::int64_t peak_of(const std::vector<MemoryStep>& steps, const std::vector<MemoryBuffer>& buffers,
                     const Order& order) {
  constexpr std::size_t never = static_cast<std::size_t>(-1);
  std::vector<std::size_t> first(buffers.size(), never);
  std::vector<std::size_t> last(buffers.size(), never);
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].given && buffers[b].freeable) first[b] = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const MemoryStep& step = steps[order[i]];
    for (const std::uint32_t b : step.writes) {
      if (first[b] == never && !buffers[b].given) first[b] = i;
      last[b] = i;
    }
    for (const std::uint32_t b : step.reads) last[b] = i;
  }
  std::vector<std::int64_t> change(order.size() + 1, 0);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (first[b] == never || order.empty()) continue;
    change[first[b]] += buffers[b].bytes;
    const std::size_t end = buffers[b].needed || last[b] == never ? order.size() - 1 : last[b];
    change[end + 1] -= buffers[b].bytes;
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t c : change) {
    now += c;
    most = std::max(most, now);
  }
  return most;
}

Order order_for_memory(const std::vector<MemoryStep>& steps, const std::vector<MemoryBuffer>& buffers) {
  Order best(steps.size());
  std::iota(best.begin(), best.end(), 0U);
  std::int64_t least = peak_of(steps, buffers, best);
  const Orders orders(steps, buffers);
  const auto try_order = [&](Order order) {
    const std::int64_t peak = peak_of(steps, buffers, order);
    if (peak >= least) return;
    least = peak;
    best = std::move(order);
  };
  if (steps.size() <= greedy_steps_max) try_order(orders.greedy());
  try_order(orders.first_come());
  try_order(orders.depth_first());
  return best;
}

}  // namespace gpusim
