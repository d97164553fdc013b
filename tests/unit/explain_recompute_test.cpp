// SPDX-License-Identifier: Apache-2.0
// What `gpusim explain` says of what a training step keeps.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/report/explain_recompute.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/training.hpp"

namespace gpusim::report {
namespace {

/// 102,400 rows: h1 and a of 8 numbers, h2 of 2.
RegionRecompute region_with(RecomputePolicy policy, double budget = 1) {
  RegionRecompute region;
  region.region = "forward";
  region.joint = std::make_shared<const OpGraph>(
      test::joint_of("name: n\ninputs: {x: {shape: [102400, 4]}}\nbody:\n"
                     "  - h1 = linear(x, 8, bias=false)\n  - a = gelu(h1)\n"
                     "  - h2 = linear(a, 2, bias=false)\n  - z = gelu(h2)\ngives: [z]\n"));
  RecomputeOptions options;
  options.policy = policy;
  options.memory_budget = budget;
  region.plan = plan_recompute(*region.joint, options);
  return region;
}

TEST_CASE("what is kept is listed by op, size and reason, the largest first") {
  // 102,400 rows of 8 fp32 numbers are 3.125 MiB, of 2 numbers 0.78125 MiB.
  CHECK(recompute_text(region_with(RecomputePolicy::MinCut)) ==
        "  kept for backward by min_cut:\n"
        "    7.0 MiB of 7.0 that backward would read; 0 ops run again, 0 GFLOP\n"
        "      1 gelu           fp32 [102400,8]         3.1  backward's product reads it\n"
        "      1 linear         fp32 [102400,8]         3.1  expensive to run again\n"
        "      1 linear         fp32 [102400,2]         0.8  expensive to run again\n");
}

TEST_CASE("under a budget the report says on which step of the ladder it stopped, and what runs again") {
  // h2 runs again, 2 * 102,400 * 8 * 2 FLOPs, and a.
  const RegionRecompute region = region_with(RecomputePolicy::MemoryBudget, 0.5);
  CHECK(recompute_text(region).find("kept for backward by memory_budget (knapsack, 44.") !=
        std::string::npos);
  CHECK(recompute_text(region).find("2 ops run again, 0.00328 GFLOP\n") != std::string::npos);
  const nlohmann::ordered_json json = recompute_json(region);
  CHECK(json["policy"] == "memory_budget");
  CHECK(json["step"] == "knapsack");
  CHECK(json["saved"].size() == 1);
  CHECK(json["saved"][0]["tensor"] == "h1");
  CHECK(json["saved"][0]["bytes"] == 3'276'800);
  CHECK(json["run_again"] == std::vector<std::string>{"a", "h2"});
  CHECK(json["flops_again"] == 3'276'800);
}

TEST_CASE("the curve marks what nothing beats") {
  std::vector<CurvePoint> points(2);
  points[0].setting.policy = RecomputePolicy::StoreAll;
  points[0].time = Picoseconds(2'000'000'000);
  points[0].peak = Bytes(3'000'000'000);
  points[1].setting = {.policy = RecomputePolicy::MemoryBudget, .budget = 0.05};
  points[1].saved = Bytes(500'000'000);
  points[1].flops_again = Flops(1e12);
  points[1].time = Picoseconds(3'000'000'000);
  points[1].peak = Bytes(3'500'000'000);
  mark_front(points);
  CHECK(curve_text(points) ==
        "  step time and peak memory by what is kept (*: nothing beats it in both):\n"
        "                                 kept        again    step time         peak\n"
        "  * store_all                0.000 GB  0.000 TFLOP      2.00 ms     3.000 GB\n"
        "    memory_budget 0.05       0.500 GB  1.000 TFLOP      3.00 ms     3.500 GB\n");
  CHECK(curve_json(points)[1]["on_front"] == false);
  CHECK(curve_json(points)[1]["step_time_us"] == 3000);
}

}  // namespace
}  // namespace gpusim::report
