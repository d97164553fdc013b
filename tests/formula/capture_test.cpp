// SPDX-License-Identifier: Apache-2.0
// The seeds' rules on what can be recorded as a CUDA graph, and on batches that vary.
#include <string>
#include <vector>

#include "models/compiler/buckets.hpp"
#include "models/compiler/cuda_graph_rules.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

const GraphBuckets powers{{1, 2, 4, 8, 16, 32}};

CaptureFacts facts_of(const OpGraph& graph) {
  return capture_facts(graph, 0, static_cast<OpIndex>(graph.ops.size()));
}

TEST_CASE(
    "S1-17: recorded for 32, a call with 16 cannot be replayed, and padded it wastes half of the rows") {
  CHECK(replay_refusal({.recorded_batch = 32, .batch = 16}) == "recorded for a batch of 32, called with 16");
  CHECK_FALSE(replay_refusal({.recorded_batch = 32, .batch = 32}));
  CHECK(padding_share({{32}}, 16) == 0.5);
}

TEST_CASE(
    "R-37: what has not run once is not recorded: its first call would set things up in the recording") {
  CHECK(capture_refusal({.warmed_up = false}) ==
        "the region has not run yet: what is set up at first use cannot be set up while it records");
  CHECK_FALSE(capture_refusal({.warmed_up = true}));
}

TEST_CASE("R-38: addresses are fixed: inputs are copied to where they were, results kept only by a clone") {
  CHECK(
      replay_refusal({.moved_inputs = {"x"}}) ==
      "the input 'x' is at another address and was not copied: the replay would read what was there before");
  CHECK(replay_refusal({.wanted_results = {"y"}}) ==
        "the result 'y' of the replay before is still wanted, and this one overwrites it: clone it");
  const OpGraph graph = build_graph(shipped_network("llama3_8b"), sizes(2, 512, StepKind::Decode));
  const std::vector<TensorIndex> copied = copied_inputs(graph, CudaGraphPolicy::Trees);
  REQUIRE_FALSE(copied.empty());
  for (const TensorIndex t : copied)
    CHECK(graph.tensors[t].role == Role::Input);  // neither weights nor caches
  CHECK(copied_inputs(graph, CudaGraphPolicy::Whole).empty());
  CHECK(copied_inputs(graph, CudaGraphPolicy::Piecewise).empty());
}

TEST_CASE(
    "R-39: shapes are fixed: another size needs another recording, and dynamic ones a choice of sizes") {
  CHECK(replay_refusal({.recorded_batch = 32, .batch = 16}));
  CHECK(capture_refusal({.dynamic_shapes = true}) ==
        "shapes are dynamic, and no sizes are chosen for which it is recorded (buckets)");
  CHECK_FALSE(capture_refusal({.dynamic_shapes = true, .buckets = true}));
  const OpGraph counted = fusion_graph("x: {shape: [64, 64]}", "  - n = nonzero(x, count=10)\n", "n");
  CHECK(capture_refusal(facts_of(counted)) ==
        "'n' makes a tensor whose size data decide, and sizes are recorded");
}

TEST_CASE(
    "R-40: nothing is recorded that waits for the device or reads a value on the host, and the op is named") {
  const OpGraph item =
      fusion_graph("x: {shape: [64, 64]}", "  - m = mean(x)\n  - i = item(m)\n  - y = x * m\n", "y");
  CHECK(capture_refusal(facts_of(item)) ==
        "the host reads the value of '" + item.ops[1].name + "', which a recording does not have yet");
  CHECK_FALSE(capture_refusal(capture_facts(item, 0, 1)));  // up to it
  CHECK_FALSE(capture_refusal(capture_facts(item, 2, 3)));  // behind it
  CHECK(capture_refusal({.synchronizations = {"print"}}) ==
        "'print' waits for the device, which is not running while it records");
  const OpGraph copy = fusion_graph("x: {shape: [64, 64]}", "  - h = to_host(x)\n", "h");
  CHECK_THAT(*capture_refusal(facts_of(copy)), ContainsSubstring("'h' waits for the device"));
}

TEST_CASE(
    "What else is not recorded: CPU tensors, several devices, inputs changed in place, saved random states") {
  CHECK(capture_refusal({.cpu_tensors = {"mask"}}) == "'mask' is on the CPU, whose work is not recorded");
  CHECK(capture_refusal({.devices = 2}) == "the region is on 2 devices, a recording on one");
  CHECK(capture_refusal({.random_states = {"dropout"}}) ==
        "'dropout' saves or restores the state of the random numbers");
  CHECK_FALSE(capture_refusal({}));
  const OpGraph changed = fusion_graph("x: {shape: [64, 64]}", "  - y = add_(x, 1.0)\n", "y");
  CHECK(capture_refusal(facts_of(changed)) ==
        "the input 'x' is changed in place, but the recording works on a copy of it");
  // A cache stays where it is, so decode may write into it.
  const OpGraph decode = build_graph(shipped_network("llama3_8b"), sizes(2, 512, StepKind::Decode));
  CHECK_FALSE(capture_refusal(facts_of(decode)));
}

TEST_CASE("R-41: a batch of 5 runs as 8 of the recorded 1, 2, 4, 8, 16, 32, and 3 rows are wasted") {
  CHECK(padded_batch(powers, 5) == 8);
  CHECK(padding_share(powers, 5) == 3.0 / 8);
  for (const std::int64_t size : powers.sizes) {
    CHECK(padded_batch(powers, size) == size);
    CHECK(padding_share(powers, size) == 0);
  }
  CHECK(padded_batch(powers, 17) == 32);
  CHECK(compile_error([] { padded_batch(powers, 0); }) == "a batch has at least one row, not 0");
}

TEST_CASE("R-42: a batch of 33 with sizes to 32 is not replayed at all") {
  CHECK(padded_batch(powers, 32) == 32);
  CHECK(padded_batch(powers, 33) == std::nullopt);
  CHECK(padding_share(powers, 33) == 0);
  CHECK(padded_batch({}, 1) == std::nullopt);
}

TEST_CASE("R-45: recorded at startup no step waits, recorded at first use the first of each size does") {
  const std::vector<std::int64_t> batches{3, 4, 30, 5, 33, 3};
  CHECK(capture_waits(powers, CaptureTime::Startup, batches) ==
        CaptureWaits{.at_startup = 6, .before_step = {0, 0, 0, 0, 0, 0}});
  CHECK(capture_waits(powers, CaptureTime::FirstUse, batches) ==
        CaptureWaits{.at_startup = 0, .before_step = {1, 0, 1, 1, 0, 0}});
}

TEST_CASE("vLLM records 1, 2, 4, then by 8 to 248, by 16 from 256 to at most 512 tokens") {
  const GraphBuckets full = default_buckets({});
  CHECK(full.sizes.size() == 3 + 31 + 17);
  CHECK(std::vector<std::int64_t>(full.sizes.begin(), full.sizes.begin() + 5) ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(full.sizes[33] == 248);
  CHECK(full.sizes[34] == 256);
  CHECK(full.sizes.back() == 512);
  CHECK_NOTHROW(check_buckets(full));
  // Twice the sequences in flight, and what speculation adds to each.
  CHECK(default_buckets({.sequences_max = 8}).sizes == std::vector<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(default_buckets({.sequences_max = 4, .tokens_per_sequence = 4}).sizes ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32});
  CHECK(default_buckets({.sequences_max = 1}).sizes == std::vector<std::int64_t>{1, 2});
  // Fewer tokens to a step than that: its limit is recorded too.
  CHECK(default_buckets({.sequences_max = 256, .tokens_max = 20}).sizes ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16, 20});
  CHECK(default_buckets({.sequences_max = 256, .tokens_max = 16}).sizes ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(default_buckets({.sequences_max = std::int64_t{1} << 62}).sizes.back() == 512);
  CHECK_THAT(compile_error([] { default_buckets({.sequences_max = 0}); }), ContainsSubstring("at least 1"));
}

TEST_CASE("Sizes of CUDA graphs ascend from at least 1") {
  CHECK(compile_error([] {
          check_buckets({{4, 2}});
        }) == "sizes of CUDA graphs must ascend, but 2 follows 4");
  CHECK(compile_error([] {
          check_buckets({{4, 4}});
        }) == "sizes of CUDA graphs must ascend, but 4 follows 4");
  CHECK(compile_error([] { check_buckets({{0, 4}}); }) == "a CUDA graph is for at least one row, not 0");
}

}  // namespace
}  // namespace gpusim::test
