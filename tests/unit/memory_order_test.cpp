// SPDX-License-Identifier: Apache-2.0
// The order in which a region's kernels run.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "models/compiler/memory_order.hpp"
#include "tests/support/catch.hpp"

namespace {

using namespace gpusim;
using Order = std::vector<std::uint32_t>;

MemoryBuffer made(std::int64_t bytes) {
  return {.bytes = bytes};
}

TEST_CASE("the peak is what is alive at once: from the first writer to the last reader") {
  // 0 makes a; 1 makes b of a; 2 makes c, which stays, of b.
  const std::vector<MemoryStep> steps{{{}, {0}}, {{0}, {1}}, {{1}, {2}}};
  const std::vector<MemoryBuffer> buffers{made(10), made(20), {.bytes = 5, .needed = true}};
  CHECK(peak_of(steps, buffers, {0, 1, 2}) == 30);
}

TEST_CASE("a cast of a gradient runs as soon as the gradient is there if that frees memory") {
  // Two large gradients, each cast to something smaller that stays; the casts stand at the end.
  const std::vector<MemoryStep> steps{{{}, {0}}, {{}, {1}}, {{0}, {2}}, {{1}, {3}}};
  const std::vector<MemoryBuffer> buffers{
      made(100), made(100), {.bytes = 10, .needed = true}, {.bytes = 10, .needed = true}};
  // As given: 100 + 100 + 10. One after the other: 10 + 100 + 10.
  CHECK(peak_of(steps, buffers, {0, 1, 2, 3}) == 210);
  const Order order = order_for_memory(steps, buffers);
  CHECK(peak_of(steps, buffers, order) == 120);
}

TEST_CASE("an order that is as good as any stays as it is") {
  const std::vector<MemoryStep> steps{{{}, {0}}, {{}, {1}}, {{0, 1}, {2}}};
  const std::vector<MemoryBuffer> buffers{made(4), made(4), {.bytes = 4, .needed = true}};
  CHECK(order_for_memory(steps, buffers) == Order{0, 1, 2});
}

TEST_CASE("what changes a buffer keeps its place among those that touch it") {
  // 0 makes a, 1 makes a large b of it, 2 changes a, 5 reads both; 3 and 4 have a large buffer of their own,
  // and less is needed at once if they come before b. 2 makes nothing: but for a it could come first.
  const std::vector<MemoryStep> steps{{{}, {0}}, {{0}, {1}}, {{0}, {0}},
                                      {{}, {2}}, {{2}, {3}}, {{0, 1}, {4}}};
  const std::vector<MemoryBuffer> buffers{
      made(10), made(100), made(100), {.bytes = 1, .needed = true}, {.bytes = 1, .needed = true}};
  const Order order = order_for_memory(steps, buffers);
  CHECK(peak_of(steps, buffers, order) < peak_of(steps, buffers, {0, 1, 2, 3, 4, 5}));
  const auto at = [&](std::uint32_t s) { return std::find(order.begin(), order.end(), s) - order.begin(); };
  CHECK(at(0) < at(1));
  CHECK(at(1) < at(2));
  CHECK(at(2) < at(5));
}

TEST_CASE("orders of random graphs run everything once, behind what it needs, and never need more memory") {
  std::mt19937 random(7);  // NOLINT: the same graphs each time
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<std::uint32_t>(2 + random() % 20);
    std::vector<MemoryStep> steps(count);
    std::vector<MemoryBuffer> buffers;
    for (std::uint32_t s = 0; s < count; ++s) {
      for (std::uint32_t b = 0; b < buffers.size(); ++b)
        if (random() % 4 == 0) steps[s].reads.push_back(b);
      steps[s].writes.push_back(static_cast<std::uint32_t>(buffers.size()));
      buffers.push_back(
          {.bytes = static_cast<std::int64_t>(1 + random() % 100), .needed = random() % 3 == 0});
    }
    const Order order = order_for_memory(steps, buffers);
    Order sorted = order;
    std::sort(sorted.begin(), sorted.end());
    Order all(count);
    std::iota(all.begin(), all.end(), 0U);
    REQUIRE(sorted == all);
    std::vector<std::uint8_t> there(buffers.size(), 0);
    for (const std::uint32_t s : order) {
      for (const std::uint32_t b : steps[s].reads) REQUIRE(there[b] != 0);
      for (const std::uint32_t b : steps[s].writes) there[b] = 1;
    }
    CHECK(peak_of(steps, buffers, order) <= peak_of(steps, buffers, all));
  }
}

}  // namespace
