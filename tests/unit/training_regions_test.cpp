// SPDX-License-Identifier: Apache-2.0
// Training steps as a compiler splits them: forward and backward passes region by region.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/compiler/training_regions.hpp"
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

TEST_CASE("equal blocks that are compiled by themselves are equal in backward too") {
  const OpGraph forward = build_graph(
      network_of(
          "name: small\ninputs:\n  x: {shape: [batch, 16]}\nblocks:\n  block:\n    takes: [x]\n    body:\n"
          "      - h = gelu(linear(layer_norm(x), 64))\n      - x = x + linear(h, 16)\n    gives: [x]\n"
          "body:\n  - x = linear(x, 16)\n  - repeat: 3\n    body:\n      - x = block(x)\n  - z = x\n"
          "gives: [z]\n"),
      sizes(4, 1, StepKind::Training, {}, ElementType::Fp32));
  CompileOptions options = options_of("inductor");
  options.regional = true;
  const TrainingRegions step = training_regions(training_graph(forward, functional()), options, h200());
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
