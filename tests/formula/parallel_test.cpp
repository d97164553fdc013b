// SPDX-License-Identifier: Apache-2.0
// Closed forms of parallel plans, by hand.
#include "models/graph/parallel_plan.hpp"
#include "tests/support/catch.hpp"

namespace {

using namespace gpusim;

TEST_CASE("GPipe and 1F1B idle (p - 1) / (m + p - 1) of the time") {
  // 4 stages and 12 micro-batches: 3 of 15.
  CHECK(bubble_share(PipelineSchedule::Gpipe, 4, 12, 1) == 0.2);
  CHECK(bubble_share(PipelineSchedule::OneF1b, 4, 12, 1) == 0.2);
  CHECK(bubble_share(PipelineSchedule::Gpipe, 1, 8, 1) == 0);
}

TEST_CASE("interleaving divides the bubble by the stages of a rank") {
  // Against the work, not the whole: 3 / 12 becomes 3 / 24.
  const double plain = bubble_share(PipelineSchedule::OneF1b, 4, 12, 1);
  const double twice = bubble_share(PipelineSchedule::Interleaved, 4, 12, 2);
  CHECK(twice / (1 - twice) == Approx(plain / (1 - plain) / 2));
}

TEST_CASE("ZeRO over 64 ranks: 120, 31.4, 16.6 and 1.9 GB for 7.5 B parameters") {
  // Rajbhandari et al. 2020, figure 1: 2 B of parameters and gradients, 12 B of states for each parameter.
  constexpr double parameters = 7.5;
  const ShardedBytes whole{
      .parameters = 2 * parameters, .gradients = 2 * parameters, .states = 12 * parameters};
  CHECK(sharded_bytes(DataKind::Ddp, 64, whole).total() == Approx(120));
  CHECK(sharded_bytes(DataKind::Zero1, 64, whole).total() == Approx(31.4).epsilon(0.002));
  CHECK(sharded_bytes(DataKind::Zero2, 64, whole).total() == Approx(16.6).epsilon(0.003));
  CHECK(sharded_bytes(DataKind::Zero3, 64, whole).total() == Approx(1.875));
}

TEST_CASE("tensor-parallel ranks are neighbours, data-parallel ones the next") {
  ParallelPlan plan;
  plan.ranks_per_node = 8;
  plan.tensor = 4;
  plan.data = 16;
  CHECK(plan.tensor_per_node() == 4);
  CHECK(plan.data_per_node() == 2);
  plan.tensor = 8;
  CHECK(plan.data_per_node() == 1);
  plan.tensor = 1;
  CHECK(plan.data_per_node() == 8);
  plan.data = 4;
  CHECK(plan.data_per_node() == 4);
}

TEST_CASE("S4-82: 256 GPUs of which two share each product are 128 replicas") {
  ParallelPlan plan;
  plan.tensor = 2;
  plan.data = 256 / plan.tensor;
  CHECK(plan.data == 128);
  CHECK(plan.ranks() == 256);
}

TEST_CASE("R-104: compiled before wrapping nothing breaks, after it each hook does") {
  // A hook before and one behind each of 32 blocks and the whole.
  CHECK(hook_breaks(true, 33) == 0);
  CHECK(hook_breaks(false, 33) == 66);
}

TEST_CASE("the slowest of two is 0.56 deviations from the mean, of 1024 it is 3.2") {
  // 1 / sqrt(pi) = 0.5642 and, by the integral, 3.249.
  CHECK(expected_maximum(1) == 0);
  CHECK(expected_maximum(2) == Approx(0.5642).epsilon(0.05));
  CHECK(expected_maximum(1024) == Approx(3.249).epsilon(0.02));
}

}  // namespace
