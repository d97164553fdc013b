// SPDX-License-Identifier: Apache-2.0
// `workload.parallel`: what it says, and the answer to what is wrong in it.
#include <string>

#include "sim/config/load.hpp"
#include "sim/scenario/parallel_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

using Catch::Matchers::Contains;

struct Answer {
  ParallelPlan plan;
  std::int64_t batch = 0;
};
Answer read(const std::string& text, bool training = true) {
  NetworkSizes sizes{
      .batch = 24, .sequence = 8, .step = training ? StepKind::Training : StepKind::Decode, .parameters = {}};
  Answer answer;
  answer.plan = read_parallel(config::load_text(text, "p.yaml"), sizes, training);
  answer.batch = sizes.batch;
  return answer;
}
std::string refusal(const std::string& text, bool training = true) {
  return test::message_of([&] { read(text, training); });
}

TEST_CASE("one rank is the default, and every key reaches its field") {
  CHECK(read("{}").plan == ParallelPlan{});
  const ParallelPlan plan = read(
                                "{data: 8, kind: fsdp, tensor: 2, sequence: true, pipeline: 4, microbatches: "
                                "6, schedule: interleaved, chunks: 2, "
                                "expert: 4, ranks_per_node: 4, bucket: 50 MiB, first_bucket: 2 MiB, reshard: "
                                "false, shard_dtype: fp32, "
                                "reduce_dtype: bf16, stragglers: 3 %}")
                                .plan;
  CHECK(plan.data == 8);
  CHECK(plan.kind == DataKind::Fsdp);
  CHECK(plan.tensor == 2);
  CHECK(plan.sequence);
  CHECK(plan.pipeline == 4);
  CHECK(plan.microbatches == 6);
  CHECK(plan.schedule == PipelineSchedule::Interleaved);
  CHECK(plan.chunks == 2);
  CHECK(plan.expert == 4);
  CHECK(plan.ranks_per_node == 4);
  CHECK(plan.bucket == Bytes(50 << 20));
  CHECK(plan.first_bucket == Bytes(2 << 20));
  CHECK_FALSE(plan.reshard);
  CHECK(plan.shard_dtype == ElementType::Fp32);
  CHECK(plan.reduce_dtype == ElementType::Bf16);
  CHECK(plan.stragglers == 0.03);
}

TEST_CASE("the batch is each rank's, or under strong scaling that of all, and micro-batches divide it") {
  CHECK(read("{data: 4}").batch == 24);
  CHECK(read("{data: 4, scaling: strong}").batch == 6);
  CHECK(read("{data: 4, scaling: strong, pipeline: 2, microbatches: 3}").batch == 2);
}

TEST_CASE("what is wrong is told at its place, with a way out") {
  CHECK_THAT(refusal("{data: 0}"), Contains("p.yaml:1:8: error: data: must be at least 1"));
  CHECK_THAT(refusal("{kind: ddpp}"),
             Contains("kind: unknown name 'ddpp'") && Contains("did you mean 'ddp'"));
  CHECK_THAT(refusal("{kind: ddp}", false), Contains("is of training"));
  CHECK_THAT(refusal("{sequence: true}"), Contains("write 'tensor: 2' or more"));
  CHECK_THAT(refusal("{microbatches: 4}"), Contains("go through a pipeline, and there is none"));
  CHECK_THAT(refusal("{pipeline: 2, chunks: 2}"), Contains("write 'schedule: interleaved'"));
  CHECK_THAT(refusal("{data: 6, expert: 4}"), Contains("expert must divide data"));
  CHECK_THAT(refusal("{data: 5, scaling: strong}"), Contains("a batch of 24 does not divide among 5"));
  CHECK_THAT(refusal("{pipeline: 2, microbatches: 5}"), Contains("a batch of 24 does not divide among 5"));
  CHECK_THAT(refusal("{data: 2, reshard: false}"), Contains("write 'kind: fsdp'"));
  CHECK(read("{data: 2, compile_wrapped: true}").plan.compile_wrapped);
  CHECK_THAT(refusal("{data: 2, kind: fsdp, compile_wrapped: true}"), Contains("write 'kind: ddp'"));
  CHECK_THAT(refusal("{tensor: 12}"), Contains("12 ranks do not fill whole nodes of 8"));
  CHECK_THAT(refusal("{data: 12}"), Contains("12 ranks do not fill whole nodes"));
  CHECK_THAT(refusal("{data: 1000000, tensor: 8}"), Contains("ranks_max"));
  CHECK_THAT(refusal("{dta: 2}"), Contains("unknown key") && Contains("did you mean 'data'"));
  // Several at once.
  CHECK_THAT(refusal("{data: 0, tensor: 0}"), Contains("data:") && Contains("tensor:"));
}

TEST_CASE("ranks need links: those of the GPU within a node, named ones between nodes") {
  config::SearchPath search;
  search.builtin = std::string(GPUSIM_SOURCE_DIR) + "/configs";
  GpuSpec gpu;
  gpu.key = "h200";
  gpu.name = "H200";
  gpu.interconnect = "nvlink4";
  const auto links = [&](const std::string& text) {
    const config::Node node = config::load_text(text, "p.yaml");
    NetworkSizes sizes{.batch = 1, .sequence = 8, .parameters = {}};
    return read_links(node, read_parallel(node, sizes, true), gpu, search);
  };
  CHECK(links("{data: 8}")->intra.key == "nvlink4");
  CHECK(links("{data: 16, interconnect: {inter: infiniband_ndr}}")->inter->key == "infiniband_ndr");
  CHECK_THAT(test::message_of([&] { links("{data: 16}"); }),
             Contains("no link between nodes is named") && Contains("infiniband_ndr"));
  gpu.interconnect.clear();
  CHECK_THAT(test::message_of([&] { links("{data: 2}"); }), Contains("nothing is known about how 2 ranks"));
  CHECK(links("{data: 2, interconnect: nvlink4}")->intra.key == "nvlink4");
}

}  // namespace
}  // namespace gpusim
