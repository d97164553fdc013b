// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/network_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "models/graph/data_parallel.hpp"
#include "models/graph/pipeline.hpp"
#include "models/graph/tensor_parallel.hpp"
#include "models/graph/value.hpp"
#include "sim/config/hf_config.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"
#include "sim/scenario/parallel_reader.hpp"
#include "sim/scenario/training_reader.hpp"

namespace gpusim {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;

namespace {

StepKind read_step(const Node& node) {
  return node.one_of<StepKind>({{"inference", StepKind::Inference},
                                {"prefill", StepKind::Prefill},
                                {"decode", StepKind::Decode},
                                {"training", StepKind::Training}});
}

ElementType read_element(const Node& node) {
  const auto element = find_element_type(node.text());
  if (!element) node.fail_unknown(element_type_names());
  if (!is_floating(*element)) node.fail("the dtype of a network must be a floating one, not " + node.text());
  return *element;
}

}  // namespace

bool is_network_workload(const Node& node) {
  return node.is_map() && (node.has("network") || node.has("hf_config"));
}

Workload read_network_workload(const Node& node, const std::filesystem::path& folder,
                               const WorkloadLimits& limits) {
  Workload workload;
  NetworkWorkload& source = workload.source.emplace<NetworkWorkload>();
  source.ops_max = limits.limits.graph_ops_max;
  Fields fields(node);
  Network network;
  const auto hf_config = node.find("hf_config");
  if (!hf_config)
    fields.required_with("network", [&](const Node& name) {
      source.where = name.location();
      network = config::read_network(name, limits.search);
    });
  fields.optional_with("parameters", [&](const Node& parameters) {
    for (const auto& [key, value] : parameters.entries())
      // A variant takes a parameter back to the network's own by setting it to null.
      if (!value.is_null()) source.sizes.parameters.insert_or_assign(key, config::read_network_value(value));
  });
  fields.optional_with("step", [&](const Node& step) { source.sizes.step = read_step(step); });
  constexpr std::int64_t size_max = std::int64_t{1} << 40;
  fields.optional("batch", source.sizes.batch, at_least(std::int64_t{1}), at_most(size_max));
  fields.optional("sequence", source.sizes.sequence, at_least(std::int64_t{1}), at_most(size_max));
  fields.optional_with("dtype", [&](const Node& dtype) { source.sizes.dtype = read_element(dtype); });
  if (hf_config)
    fields.errors().collect([&] {
      source.where = hf_config->location();
      const config::HfUse use{.sequence = source.sizes.sequence, .step = source.sizes.step};
      const std::filesystem::path given(hf_config->as<std::string>());
      const std::filesystem::path path = given.is_absolute() || folder.empty() ? given : folder / given;
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored))
        hf_config->fail(fmt::format("no such file: '{}'", path.string()),
                        "paths are relative to the scenario file");
      config::HfNetwork hf = config::read_hf_config(config::load_config(path, limits.search), use);
      network =
          config::read_network(config::load_text(hf.network, hf_config->location().file), limits.search);
      // What the scenario says goes over what the config says.
      for (auto& [key, value] : source.sizes.parameters) hf.parameters.insert_or_assign(key, value);
      source.sizes.parameters = std::move(hf.parameters);
      if (hf.dtype && !node.has("dtype")) source.sizes.dtype = *hf.dtype;
    });
  const ElementType dtype = source.sizes.dtype;
  source.training = read_training(fields, source.sizes.step, dtype);
  if (source.training && (source.training->precision == TrainingPrecision::Autocast ||
                          source.training->precision == TrainingPrecision::Fp8))
    source.sizes.dtype = ElementType::Fp32;
  fields.optional_with("parallel", [&](const Node& parallel) {
    if (parallel.is_null()) return;
    source.parallel = read_parallel(parallel, source.sizes, source.training.has_value());
    if (source.parallel->pipeline == 1) return;
    if (source.training->accumulation > 1)
      parallel.fail("a pipeline's micro-batches are accumulated already", "leave 'accumulation' away");
    source.training->accumulation = source.parallel->microbatches;
  });
  fields.optional_with("attention_flops", [&](const Node& count) {
    if (count.is_null()) return;
    source.attention_flops =
        count.one_of<AttentionFlops>({{"full", AttentionFlops::Full}, {"causal", AttentionFlops::Causal}});
  });
  fields.optional_with("float32_matmul", [&](const Node& precision) {
    if (precision.is_null()) return;
    source.float32_matmul =
        precision.one_of<Float32Matmul>({{"high", Float32Matmul::High}, {"highest", Float32Matmul::Highest}});
  });
  for (const char* other : {"kernels", "trace"})
    if (const auto extra = node.find(other))
      fields.errors().add(extra->diagnostic("a workload is one of a network, a list of kernels and a trace",
                                            fmt::format("remove 'network' or '{}'", other)));
  if (hf_config && node.has("network"))
    fields.errors().add(
        hf_config->diagnostic("names a network, and so does 'network'", "remove one of them"));
  if (!limits.has_hardware)
    fields.errors().add(node.diagnostic("a network needs 'hardware': its kernels are priced for a GPU",
                                        "write for example 'hardware: h200' at the top"));
  if (!limits.has_host)
    fields.errors().add(node.diagnostic("a network needs 'host': its ops are priced on a CPU",
                                        "write for example 'host: xeon-h200-cloud' at the top"));
  fields.done();
  // What runs in 8 bits is held against the rate of 8 bits.
  const bool fp8 = source.training && source.training->precision == TrainingPrecision::Fp8;
  workload.dtype = fp8 ? "fp8" : std::string(name(dtype));
  if (source.training && dtype != ElementType::Fp32 && dtype != ElementType::Bf16 &&
      dtype != ElementType::Fp16)
    fields.errors().add((node.has("dtype") ? node.at("dtype") : node)
                            .diagnostic(fmt::format("training is modelled in fp32, bf16 and fp16, not in {}",
                                                    gpusim::name(dtype)),
                                        "for products of 8 bits write 'dtype: bf16' and 'precision: fp8'"));
  // An unknown parameter is told where it stands, not where the network is named.
  if (const auto parameters = node.find("parameters");
      parameters && parameters->is_map() && !network.key.empty())
    for (const auto& [key, value] : parameters->entries()) {
      const bool known =
          std::any_of(network.parameters.begin(), network.parameters.end(),
                      [&, &name = key](const Network::Parameter& p) { return p.name == name; });
      if (known || value.is_null()) continue;
      std::vector<std::string> names;
      for (const Network::Parameter& p : network.parameters) names.push_back(p.name);
      fields.errors().add(
          value.diagnostic(fmt::format("the network {} has no parameter '{}'", network.key, key),
                           hint_for(key, names, "parameters")));
    }
  fields.errors().throw_if_any();
  const Node where = hf_config ? *hf_config : node.at("network");
  source.network = std::make_shared<const Network>(std::move(network));
  const auto check_size = [&](std::size_t ops, std::int64_t times) {
    const auto count = static_cast<std::int64_t>(ops) * times;
    if (count > limits.instructions_max)
      where.fail(fmt::format("a step of {} ops is more than {} instructions (instructions_max)", count,
                             limits.instructions_max),
                 "raise instructions_max at the top");
  };
  config::located(*source.network, where, [&] {
    source.forward =
        rank_forward(build_graph(*source.network, source.sizes, {.ops = source.ops_max}), source.parallel);
    check_size(source.forward->ops.size(), source.training ? source.training->accumulation : 1);
    source.graph = step_graph(source.forward, source.training, source.parallel);
  });
  check_size(source.graph->ops.size(), 1);
  return workload;
}

std::shared_ptr<const OpGraph> rank_forward(OpGraph forward, const std::optional<ParallelPlan>& parallel) {
  if (parallel) forward = tensor_parallel_forward(forward, *parallel);
  return std::make_shared<const OpGraph>(std::move(forward));
}

std::shared_ptr<const OpGraph> step_graph(const std::shared_ptr<const OpGraph>& forward,
                                          const std::optional<TrainingOptions>& training,
                                          const std::optional<ParallelPlan>& parallel) {
  if (!training) return forward;
  OpGraph step = training_graph(*forward, *training);
  if (!parallel) return std::make_shared<const OpGraph>(std::move(step));
  if (parallel->pipeline > 1)
    step = pipeline_stage(step, *parallel, std::max<std::int64_t>(parallel->stage, 0));
  step = data_parallel_step(std::move(step), *parallel);
  return std::make_shared<const OpGraph>(std::move(step));
}

}  // namespace gpusim
