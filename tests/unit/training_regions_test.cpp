// SPDX-License-Identifier: Apache-2.0
// Training steps as a compiler splits them: forward and backward passes region by region.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/compiler/training_regions.hpp"
#include "models/graph/data_parallel.hpp"
#include "models/graph/graph_parts.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compiled.hpp"
#include "tests/support/graph_checks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

TrainingOptions functional(TrainingPrecision precision = TrainingPrecision::Pure,
                           LossKind loss = LossKind::Mean) {
  TrainingOptions options;
  options.precision = precision;
  options.loss = loss;
  options.optimizer.loop = OptimizerLoop::Fused;
  options.functional = true;
  return options;
}

OpGraph step_of(const std::string& lines, TrainingOptions options = functional()) {
  return training_graph(small_graph(lines, sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)), options);
}

using Names = std::vector<std::string>;
Names names_of(const std::vector<Region>& regions) {
  Names names;
  for (const Region& region : regions) names.push_back(region.name);
  return names;
}

const char* const two_layers = "  - h = gelu(linear(x, 8))\n  - z = linear(layer_norm(h), 6)\n";

TEST_CASE(
    "a step without graph breaks is a forward pass, its gradient's start, a backward pass, an optimizer") {
  const TrainingRegions step = training_regions(step_of(two_layers), options_of("inductor"), h200());
  CHECK(names_of(step.regions) == Names{"step", "autograd", "step.backward", "optimizer"});
  CHECK(step.regions[0].compiled);
  CHECK_FALSE(step.regions[1].compiled);
  CHECK(step.regions[1].last - step.regions[1].first == 1);
  CHECK(step.regions[2].compiled);
  CHECK_FALSE(step.regions[3].compiled);
  // Together they hold every op once, in order.
  OpIndex at = 0;
  for (const Region& region : step.regions) {
    CHECK(region.first == at);
    at = region.last;
  }
  CHECK(at == step.graph.ops.size());
}

TEST_CASE("backward goes through the regions of a split step from the last to the first") {
  const OpGraph graph = step_of(
      "  - h = linear(x, 8)\n  - graph_break()\n  - g = linear(h, 8)\n  - graph_break()\n  - z = "
      "linear(g, 6)\n");
  const TrainingRegions step = training_regions(graph, options_of("inductor"), h200());
  // The breaks are regions of their own, and nothing comes back through them.
  const Names want{"step/0",          "step/2",          "step/4",          "autograd",
                   "step/4.backward", "step/2.backward", "step/0.backward", "optimizer"};
  Names names;
  for (const Region& region : step.regions)
    if (region.compiled || region.first + 1 < region.last || region.name == "autograd")
      names.push_back(region.name);
  CHECK(names == want);
  CHECK(step.recompute.size() == 3);
  CHECK(fault_of(step.graph) == "");
}

TEST_CASE("every gradient comes out of the compiled step with the shape of its parameter") {
  for (const TrainingPrecision precision : {TrainingPrecision::Pure, TrainingPrecision::Autocast}) {
    const OpGraph graph = step_of(two_layers, functional(precision));
    const TrainingRegions step = training_regions(graph, options_of("inductor"), h200());
    CHECK(fault_of(step.graph) == "");
    const Op& optimizer = step.graph.ops.back();
    const auto count = static_cast<std::size_t>(optimizer.attributes.integer("count"));
    REQUIRE(count == 6);
    for (std::size_t i = 0; i < count; ++i) {
      const GraphTensor& parameter = step.graph.tensors[optimizer.inputs[i]];
      const GraphTensor& gradient = step.graph.tensors[optimizer.inputs[count + i]];
      CHECK(parameter.role == Role::Parameter);
      CHECK(gradient.role == Role::Gradient);
      CHECK(gradient.producer != graph_none);
      CHECK(gradient.type.shape == parameter.type.shape);
    }
  }
}

TEST_CASE("what a compiled backward pass reads of the forward pass is what the plan keeps") {
  const OpGraph graph = step_of(two_layers);
  const TrainingRegions step = training_regions(graph, options_of("inductor"), h200());
  REQUIRE(step.recompute.size() == 1);
  const RecomputePlan& plan = step.recompute.front().plan;
  std::set<std::string> read;
  for (OpIndex i = step.regions[2].first; i < step.regions[2].last; ++i)
    for (const TensorIndex t : step.graph.ops[i].inputs)
      if (t != graph_none) {
        const OpIndex producer = step.graph.tensors[t].producer;
        if (producer != graph_none && producer < step.regions[0].last)
          read.insert(step.graph.tensors[t].name);
      }
  std::set<std::string> kept;
  for (const TensorIndex t : plan.saved) kept.insert(step.recompute.front().joint->tensors[t].name);
  CHECK(read == kept);
  CHECK_FALSE(kept.empty());
}

/// Three blocks of 16 features, 64 inside, each with a norm and two products; one product before them.
OpGraph three_blocks() {
  return build_graph(
      network_of(
          "name: small\ninputs:\n  x: {shape: [batch, 16]}\nblocks:\n  block:\n    takes: [x]\n    body:\n"
          "      - h = gelu(linear(layer_norm(x), 64))\n      - x = x + linear(h, 16)\n    gives: [x]\n"
          "body:\n  - x = linear(x, 16)\n  - repeat: 3\n    body:\n      - x = block(x)\n  - z = x\n"
          "gives: [z]\n"),
      sizes(4, 1, StepKind::Training, {}, ElementType::Fp32));
}

TEST_CASE("equal blocks that are compiled by themselves are equal in backward too") {
  CompileOptions options = options_of("inductor");
  options.regional = true;
  const TrainingRegions step =
      training_regions(training_graph(three_blocks(), functional()), options, h200());
  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::set<std::size_t> graphs;
  for (const Region& region : step.regions) {
    if (!region.compiled) continue;
    graphs.insert(region.same_graph);
    (region.name.find(".backward") == std::string::npos ? forwards : backwards) += 1;
  }
  CHECK(forwards == 3);
  CHECK(backwards == 3);
  CHECK(graphs.size() == 2);
}

bool makes(const OpGraph& graph, const Region& region, std::string_view kind) {
  return std::any_of(graph.ops.begin() + region.first, graph.ops.begin() + region.last,
                     [&](const Op& op) { return op.kind->name == kind; });
}

TEST_CASE("FSDP's blocks are compiled one by one, between its hooks") {
  ParallelPlan plan;
  plan.data = 4;
  plan.kind = DataKind::Fsdp;
  CompileOptions options = options_of("inductor");
  options.regional = true;
  const TrainingRegions step = training_regions(
      data_parallel_step(training_graph(three_blocks(), functional()), plan), options, h200());
  CHECK(step.captured.graph_breaks == 0);
  std::int64_t compiled = 0;
  for (const Region& region : step.regions) {
    if (!region.compiled) continue;
    ++compiled;
    for (const char* hook : {"all_gather", "fsdp_gather_output", "reduce_scatter"})
      CHECK_FALSE(makes(step.graph, region, hook));
  }
  CHECK(compiled == 3 + 3);
  // What was gathered for forward is freed: backward reads what was gathered for it.
  std::int64_t read = 0;
  for (const Op& op : step.graph.ops) {
    if (op.phase != Phase::Backward) continue;
    for (const TensorIndex t : op.inputs) {
      if (t == graph_none || step.graph.tensors[t].producer == graph_none) continue;
      const Op& maker = step.graph.ops[step.graph.tensors[t].producer];
      if (maker.kind->name != "fsdp_gather_output" || op.kind->name.starts_with("fsdp")) continue;
      // The rest of the network, the first product, is gathered once.
      if (step.graph.tensors[t].name.find("block") == std::string::npos) continue;
      CHECK(maker.phase == Phase::Backward);
      ++read;
    }
  }
  CHECK(read > 0);
}

TEST_CASE(
    "DDPOptimizer cuts what is compiled at its buckets, and each piece's gradients are sent behind it") {
  ParallelPlan plan;
  plan.data = 2;
  plan.compile_wrapped = true;
  plan.compiled = CompiledPieces::Buckets;
  // A product of a block is 16 x 64 weights of 4 bytes and its bias, 4 KiB and 64 or 256 bytes. Going back:
  // the second product fills the first bucket of 4 KiB, the first one with the next block's second one of
  // 8 KiB each further one.
  plan.first_bucket = Bytes(4096);
  plan.bucket = Bytes(8192);
  const OpGraph graph = training_graph(three_blocks(), functional());
  const std::vector<OpIndex> cuts = ddp_cuts(graph, plan);
  const OpGraph wrapped = data_parallel_step(graph, plan);
  REQUIRE(cuts.size() == 3);
  for (const OpIndex cut : cuts) CHECK(wrapped.ops[cut].kind->name == "linear");
  const TrainingRegions step = training_regions(wrapped, options_of("inductor"), h200());
  CHECK(step.captured.graph_breaks == 0);
  std::int64_t pieces = 0;
  std::vector<OpIndex> backward;
  for (const Region& region : step.regions) {
    if (region.compiled) {
      ++pieces;
      CHECK_FALSE(makes(step.graph, region, "all_reduce"));
      if (step.graph.ops[region.first].phase == Phase::Backward) backward.push_back(region.last);
    }
  }
  CHECK(pieces == 4 + 4);
  // The first all-reduce starts behind the last piece, and not behind all of them.
  const auto sent = std::find_if(step.graph.ops.begin(), step.graph.ops.end(),
                                 [](const Op& op) { return op.kind->name == "all_reduce"; });
  REQUIRE(sent != step.graph.ops.end());
  const auto at = static_cast<OpIndex>(sent - step.graph.ops.begin());
  CHECK(at >= backward.front());
  CHECK(at < backward[1]);
}

TEST_CASE("a graph taken apart and joined again is the graph it was") {
  const OpGraph graph = step_of(two_layers);
  std::vector<OpIndex> odd;
  std::vector<OpIndex> first;
  std::vector<OpIndex> second;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) (i < graph.ops.size() / 2 ? first : second).push_back(i);
  const GraphPart a = take_part(graph, first);
  const GraphPart b = take_part(graph, second);
  GraphJoiner joiner(graph);
  const std::size_t pa = joiner.add(a);
  const std::size_t pb = joiner.add(b);
  joiner.append(pa, 0, static_cast<OpIndex>(first.size()));
  joiner.append(pb, 0, static_cast<OpIndex>(second.size()));
  const OpGraph again = std::move(joiner).finish();
  CHECK(fault_of(again) == "");
  REQUIRE(again.ops.size() == graph.ops.size());
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    CHECK(again.ops[i].name == graph.ops[i].name);
    CHECK(again.ops[i].like == graph.ops[i].like);
    REQUIRE(again.ops[i].inputs.size() == graph.ops[i].inputs.size());
    for (std::size_t k = 0; k < graph.ops[i].inputs.size(); ++k)
      if (graph.ops[i].inputs[k] != graph_none)
        CHECK(again.tensors[again.ops[i].inputs[k]].name == graph.tensors[graph.ops[i].inputs[k]].name);
  }
  for (const Role role : {Role::Parameter, Role::Input, Role::State, Role::Gradient, Role::Activation})
    CHECK(bytes_of(again, role) == bytes_of(graph, role));
  CHECK(again.outputs.size() == graph.outputs.size());
}

}  // namespace
