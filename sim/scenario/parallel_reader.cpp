// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/parallel_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/interconnect_reader.hpp"

namespace gpusim {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;

namespace {

ElementType read_element(const Node& node) {
  const auto element = find_element_type(node.text());
  if (!element || !is_floating(*element)) {
    const std::vector<std::string> known{"fp32", "bf16", "fp16"};
    node.fail_unknown(known);
  }
  return *element;
}

/// `size` into `parts`; `key` is what asks for it.
void divide(std::int64_t& size, std::int64_t parts, const Node& node, const char* key) {
  if (size % parts != 0)
    node.fail(fmt::format("a batch of {} does not divide among {}", size, parts),
              fmt::format("{} must divide the batch", key));
  size /= parts;
}

}  // namespace

ParallelPlan read_parallel(const Node& node, NetworkSizes& sizes, bool training) {
  ParallelPlan plan;
  Fields fields(node);
  fields.optional("data", plan.data, at_least(std::int64_t{1}), at_most(ranks_max));
  const auto of_training = [&](const char* key, const auto& read) {
    fields.optional_with(key, [&](const Node& value) {
      if (value.is_null()) return;
      if (!training)
        value.fail("is of training, and the step is another", "write 'step: training' in the workload");
      read(value);
    });
  };
  of_training("kind", [&](const Node& kind) {
    plan.kind = kind.one_of<DataKind>({{"ddp", DataKind::Ddp},
                                       {"fsdp", DataKind::Fsdp},
                                       {"zero1", DataKind::Zero1},
                                       {"zero2", DataKind::Zero2},
                                       {"zero3", DataKind::Zero3}});
  });
  fields.optional("tensor", plan.tensor, at_least(std::int64_t{1}), at_most(ranks_max));
  fields.optional_with("sequence", [&](const Node& sequence) {
    plan.sequence = sequence.as<bool>();
    if (plan.sequence && plan.tensor == 1)
      sequence.fail("shares rows among tensor-parallel ranks, and there is one", "write 'tensor: 2' or more");
  });
  of_training("pipeline", [&](const Node& stages) {
    plan.pipeline = stages.as<std::int64_t>(at_least(std::int64_t{1}), at_most(std::int64_t{1024}));
  });
  of_training("microbatches", [&](const Node& parts) {
    plan.microbatches = parts.as<std::int64_t>(at_least(std::int64_t{1}), at_most(std::int64_t{4096}));
    if (plan.microbatches > 1 && plan.pipeline == 1)
      parts.fail("go through a pipeline, and there is none",
                 "write 'pipeline: 2' or more; 'accumulation' adds gradients up without one");
  });
  of_training("schedule", [&](const Node& schedule) {
    plan.schedule = schedule.one_of<PipelineSchedule>({{"gpipe", PipelineSchedule::Gpipe},
                                                       {"1f1b", PipelineSchedule::OneF1b},
                                                       {"interleaved", PipelineSchedule::Interleaved}});
  });
  of_training("chunks", [&](const Node& chunks) {
    plan.chunks = chunks.as<std::int64_t>(at_least(std::int64_t{1}), at_most(std::int64_t{64}));
    if (plan.chunks > 1 && plan.schedule != PipelineSchedule::Interleaved)
      chunks.fail("are of an interleaved schedule", "write 'schedule: interleaved'");
  });
  fields.optional_with("expert", [&](const Node& expert) {
    plan.expert = expert.as<std::int64_t>(at_least(std::int64_t{1}), at_most(ranks_max));
    if (plan.data % plan.expert != 0)
      expert.fail(
          fmt::format("{} expert-parallel ranks do not divide {} data-parallel ones", plan.expert, plan.data),
          "experts are shared among ranks with batches of their own: expert must divide data");
  });
  fields.optional("ranks_per_node", plan.ranks_per_node, at_least(std::int64_t{1}),
                  at_most(std::int64_t{1024}));
  of_training("bucket", [&](const Node& bucket) { plan.bucket = bucket.as<Bytes>(config::positive); });
  of_training("first_bucket",
              [&](const Node& bucket) { plan.first_bucket = bucket.as<Bytes>(config::positive); });
  of_training("compile_wrapped", [&](const Node& wrapped) {
    plan.compile_wrapped = wrapped.as<bool>();
    if (plan.compile_wrapped && plan.kind != DataKind::Ddp)
      wrapped.fail(fmt::format("cuts the compiled graph at DDP's buckets, and kind is {}", name(plan.kind)),
                   "write 'kind: ddp'");
  });
  const auto of_parts = [&](const Node& value) {
    if (!plan.shards_parameters())
      value.fail(fmt::format("is of parameters that ranks share, and kind is {}", name(plan.kind)),
                 "write 'kind: fsdp'");
  };
  of_training("reshard", [&](const Node& reshard) {
    of_parts(reshard);
    plan.reshard = reshard.as<bool>();
  });
  of_training("shard_dtype", [&](const Node& element) {
    of_parts(element);
    plan.shard_dtype = read_element(element);
  });
  of_training("reduce_dtype", [&](const Node& element) {
    of_parts(element);
    plan.reduce_dtype = read_element(element);
  });
  fields.optional_with("scaling", [&](const Node& scaling) {
    // strong: the batch is that of all ranks together.
    if (scaling.one_of<bool>({{"weak", false}, {"strong", true}}))
      divide(sizes.batch, plan.data, scaling, "the number of data-parallel ranks");
  });
  fields.optional_with("stragglers", [&](const Node& stragglers) {
    if (!stragglers.is_null())
      plan.stragglers = stragglers.as<Ratio>(at_most(Ratio(0.5)), config::non_negative).value();
  });
  // Read with the hardware, see read_links().
  (void)node.find("interconnect");
  fields.errors().collect([&] {
    if (plan.microbatches > 1)
      divide(sizes.batch, plan.microbatches, node.at("microbatches"), "microbatches");
  });
  fields.done();
  if (plan.ranks() > ranks_max)
    node.fail(fmt::format("{} x {} x {} ranks are more than {} (ranks_max)", plan.data, plan.tensor,
                          plan.pipeline, ranks_max));
  if (plan.tensor > plan.ranks_per_node && plan.tensor % plan.ranks_per_node != 0)
    node.at("tensor").fail(
        fmt::format("{} ranks do not fill whole nodes of {}", plan.tensor, plan.ranks_per_node),
        "write a multiple of ranks_per_node");
  if (plan.data % plan.data_per_node() != 0)
    node.at("data").fail(fmt::format("{} ranks do not fill whole nodes, which take {} of them", plan.data,
                                     plan.data_per_node()),
                         "write a multiple of that, or another 'ranks_per_node'");
  return plan;
}

std::optional<Interconnect> read_links(const Node& node, const ParallelPlan& plan, const GpuSpec& gpu,
                                       const config::SearchPath& search) {
  const auto given = node.find("interconnect");
  std::optional<Interconnect> links;
  if (given && !given->is_null())
    links = config::read_interconnect(*given, gpu, search);
  else
    links = config::interconnect_of(gpu, node, search);
  if (plan.ranks() == 1) return links;
  if (!links)
    node.fail(
        fmt::format("nothing is known about how {} ranks with {} reach each other", plan.ranks(), gpu.name),
        "name a link: 'interconnect: nvlink4' ('gpusim list interconnects')");
  if (plan.ranks() > plan.ranks_per_node && !links->inter)
    node.fail(fmt::format("{} ranks take several nodes of {}, and no link between nodes is named",
                          plan.ranks(), plan.ranks_per_node),
              "write 'interconnect: {inter: infiniband_ndr}', or 'ranks_per_node'");
  return links;
}

}  // namespace gpusim
