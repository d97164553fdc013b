// SPDX-License-Identifier: Apache-2.0
// Device memory of a step, the framework's allocator, and the clock at the power limit.
#include "models/graph/memory.hpp"
#include "models/cost/power.hpp"
#include "models/graph/caching_allocator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::literals;

// --- The allocator.

TEST_CASE("the allocator rounds every request up to 512 bytes") {
  CachingAllocator allocator;
  allocator.allocate(Bytes(1));
  CHECK(allocator.in_use() == 512_B);
  allocator.allocate(Bytes(513));
  CHECK(allocator.in_use() == Bytes(512 + 1024));
  CHECK(allocator.reserved() == 2_MiB);
}

TEST_CASE("a large block keeps what is left of its segment unless that is more than a mebibyte") {
  CachingAllocator allocator;
  // 20 MiB hold five of 4 MiB less 100 KiB, and 500 KiB are left over: the last one keeps them.
  const Bytes four = 4_MiB - 100_KiB;
  for (int i = 0; i < 4; ++i) allocator.allocate(four);
  CHECK(allocator.in_use() == 4 * four);
  allocator.allocate(four);
  CHECK(allocator.in_use() == 20_MiB);
  CHECK(allocator.reserved() == 20_MiB);
}

TEST_CASE("requests of ten mebibytes get a segment of their own, rounded up to two") {
  CachingAllocator allocator;
  allocator.allocate(11_MiB);
  CHECK(allocator.reserved() == 12_MiB);
  CHECK(allocator.in_use() == 12_MiB);
}

TEST_CASE("freed neighbours join, and the smallest block that fits is taken first") {
  CachingAllocator allocator;
  const auto a = allocator.allocate(512_KiB);
  const auto b = allocator.allocate(512_KiB);
  const auto c = allocator.allocate(512_KiB);
  allocator.allocate(256_KiB);
  allocator.free(a);
  allocator.free(c);
  // Free: 512 KiB (a), 512 KiB (c), 256 KiB (the rest of the segment). 200 KiB go into the rest.
  allocator.allocate(200_KiB);
  allocator.free(b);
  // a, b and c are one hole of 1.5 MiB now: a whole mebibyte fits without a new segment.
  allocator.allocate(1_MiB);
  CHECK(allocator.reserved() == 2_MiB);
}

TEST_CASE("everything freed leaves nothing in use and can be handed out again") {
  CachingAllocator allocator;
  std::vector<CachingAllocator::Block> blocks;
  for (int i = 1; i <= 200; ++i) blocks.push_back(allocator.allocate(Bytes(i * 37'001)));
  const Bytes reserved = allocator.reserved();
  for (const auto block : blocks) allocator.free(block);
  CHECK(allocator.in_use() == 0_B);
  for (int i = 1; i <= 200; ++i) allocator.allocate(Bytes(i * 37'001));
  CHECK(allocator.reserved() == reserved);
}

// --- A step.

TEST_CASE("a chain of elementwise ops needs its input and two tensors at a time") {
  // x is 2 x 3 x 4 in bf16: 48 bytes, a block of 512.
  const OpGraph graph = test::small_graph("  - z = exp(exp(exp(exp(x))))\n");
  const MemoryUse use = eager_memory(graph, test::h200());
  CHECK(use.inputs == Bytes(3 * 512));
  CHECK(use.peak - use.inputs == Bytes(2 * 512));
  CHECK(use.workspace == 0_B);
}

TEST_CASE("a name keeps its tensor until it stands for something else") {
  const OpGraph held = test::small_graph("  - a = exp(x)\n  - b = exp(a)\n  - z = exp(b)\n");
  const OpGraph dropped = test::small_graph("  - a = exp(x)\n  - a = exp(a)\n  - z = exp(a)\n");
  const GpuSpec gpu = test::h200();
  CHECK(eager_memory(held, gpu).activations == Bytes(3 * 512));
  CHECK(eager_memory(dropped, gpu).activations == Bytes(2 * 512));
}

TEST_CASE("a view takes no memory of its own") {
  const OpGraph graph = test::small_graph("  - a = exp(x)\n  - z = transpose(view(a, [6, 4]), 0, 1)\n");
  CHECK(eager_memory(graph, test::h200()).activations == Bytes(512));
}

TEST_CASE("decode of Llama-8B needs its weights, its cache and little else") {
  const OpGraph graph = build_graph(test::shipped_network("llama"), test::sizes(1, 1024, StepKind::Decode));
  const MemoryUse use = eager_memory(graph, test::h200());
  CHECK(use.states == Bytes(2 * 32 * 8 * 1024 * 128 * 2));
  CHECK(use.parameters >= Bytes(2 * 8'030'261'248));
  // Measured: 16,231,716,352 (validation/h200/steps.csv).
  CHECK(static_cast<double>(use.peak.value()) / 16'231'716'352.0 > 0.99);
  CHECK(static_cast<double>(use.peak.value()) / 16'231'716'352.0 < 1.01);
}

// --- Power.

GpuSpec limited() {
  GpuSpec gpu = test::h200();
  gpu.power = PowerSpec{
      .limit = Watts(700), .idle = Watts(100), .flop = JoulesPerFlop(1e-12), .byte = JoulesPerByte(0)};
  return gpu;
}

TEST_CASE("a step within the power limit keeps its clock") {
  // 0.5 TFLOP in 1 ms is 500 W above idle, and 600 are allowed.
  CHECK(clock_slowdown(limited(), {.compute = 1_ms, .flops = Flops(0.5e12)}) == 1);
  CHECK(clock_slowdown(limited(), {.other = 1_ms, .flops = Flops(9e12)}) == 1);
  GpuSpec unlimited = limited();
  unlimited.power.reset();
  CHECK(clock_slowdown(unlimited, {.compute = 1_ms, .flops = Flops(9e12)}) == 1);
}

TEST_CASE("a step of products alone slows down by the cube root of its excess power") {
  // E / s^2 / (s T) = allowed: 4.8 TFLOP in 1 ms are 4800 W, eight times the 600 allowed.
  const double s = clock_slowdown(limited(), {.compute = 1_ms, .flops = Flops(4.8e12)});
  CHECK(s == Approx(2.0).epsilon(1e-6));
}

TEST_CASE("time in which nothing is computed lets the device cool") {
  const StepWork busy{.compute = 1_ms, .flops = Flops(1.2e12)};
  StepWork waiting = busy;
  waiting.other = 1_ms;
  CHECK(clock_slowdown(limited(), busy) > 1.2);
  CHECK(clock_slowdown(limited(), waiting) == 1);
}

}  // namespace
