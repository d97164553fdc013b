// SPDX-License-Identifier: Apache-2.0
// Training steps: what autocast casts, what backward launches and in which order, what it keeps.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

TrainingOptions pure(LossKind loss = LossKind::Mean) {
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  options.loss = loss;
  options.optimizer.kind = OptimizerKind::None;
  return options;
}

OpGraph step_of(const std::string& lines, TrainingOptions options = pure(),
                ElementType dtype = ElementType::Fp32) {
  return training_graph(small_graph(lines, sizes(1, 1, StepKind::Training, {}, dtype)), options);
}

std::vector<std::string> kinds(const OpGraph& graph, Phase phase) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops)
    if (op.phase == phase) names.emplace_back(op.kind->name);
  return names;
}

using Names = std::vector<std::string>;

std::int64_t count(const OpGraph& graph, Phase phase, std::string_view kind) {
  return std::count_if(graph.ops.begin(), graph.ops.end(),
                       [&](const Op& op) { return op.phase == phase && op.kind->name == kind; });
}

TEST_CASE("the backward of a linear layer is two products and a sum over the rows") {
  const OpGraph graph = step_of("  - h = linear(x, 8)\n  - z = linear(h, 6)\n");
  // Of the mean: a view and an expand to [2, 3, 6], and a division. Then each layer: rows, the product with
  // the weight, grad transposed times the input, the sum for the bias; x itself is not trained.
  const Names want{"zeros", "view",      "expand", "div",                                         //
                   "view",  "matmul",    "view",   "transpose", "view", "matmul", "sum", "view",  //
                   "view",  "transpose", "view",   "matmul",    "sum",  "view"};
  CHECK(kinds(graph, Phase::Backward) == want);
}

TEST_CASE("a gradient has the shape and dtype of what it belongs to") {
  TrainingOptions options = pure();
  options.optimizer.kind = OptimizerKind::Sgd;
  for (const TrainingPrecision precision : {TrainingPrecision::Pure, TrainingPrecision::Autocast}) {
    options.precision = precision;
    const OpGraph graph = step_of(
        "  - h = gelu(linear(layer_norm(x), 8))\n  - z = linear(h, 4) + parameter([3, 4]) * y\n", options);
    const Op& step = graph.ops.back();
    REQUIRE(step.kind->name == "sgd");
    const auto parameters = static_cast<std::size_t>(step.attributes.integer("count"));
    REQUIRE(parameters == 7);  // weight and bias of the norm and of two layers, and the one that is added
    for (std::size_t i = 0; i < parameters; ++i) {
      const GraphTensor& parameter = graph.tensors[step.inputs[i]];
      const GraphTensor& gradient = graph.tensors[step.inputs[parameters + i]];
      CHECK(parameter.role == Role::Parameter);
      CHECK(gradient.role == Role::Gradient);
      CHECK(gradient.type.shape == parameter.type.shape);
      CHECK(gradient.type.element == parameter.type.element);
    }
  }
}

TEST_CASE(
    "what reaches a tensor on two ways is added up in place unless another gradient is the same memory") {
  // w is used twice: its two gradients are products of their own.
  const OpGraph twice = step_of("  - w = parameter([4, 4])\n  - z = linear(linear(x, weight=w), weight=w)\n");
  CHECK(count(twice, Phase::Backward, "add_") == 1);
  CHECK(count(twice, Phase::Backward, "add") == 0);
  // The residual's gradient goes on to the layer and around it: by the time the layer's comes back, the layer
  // has let go of it.
  const OpGraph residual = step_of("  - h = linear(x, 4)\n  - z = h + linear(h, 4)\n");
  CHECK(count(residual, Phase::Backward, "add_") + count(residual, Phase::Backward, "add") == 1);
}

TEST_CASE("a compiler's joint graph changes nothing in place") {
  TrainingOptions options = pure();
  options.functional = true;
  const OpGraph graph =
      step_of("  - w = parameter([4, 4])\n  - z = linear(linear(x, weight=w), weight=w)\n", options);
  CHECK(count(graph, Phase::Backward, "add_") == 0);
  CHECK(count(graph, Phase::Backward, "add") == 1);
}

TEST_CASE("autocast casts each weight once a pass, and inputs as often as they are multiplied") {
  TrainingOptions options = pure();
  options.precision = TrainingPrecision::Autocast;
  const OpGraph graph = step_of(
      "  - w = parameter([4, 4])\n  - h = layer_norm(x)\n  - z = linear(h, weight=w) + linear(h, weight=w)\n",
      options);
  // The weight once; h, which is fp32 behind the norm, for each product.
  CHECK(count(graph, Phase::Forward, "to") == 3);
  // Back: both products' gradients of h and their sum of the weight's become fp32 again.
  CHECK(count(graph, Phase::Backward, "to") == 3);
}

TEST_CASE("under autocast log_softmax keeps the format of the logits and the loss is worked out in fp32") {
  TrainingOptions options = pure(LossKind::CrossEntropy);
  options.precision = TrainingPrecision::Autocast;
  const OpGraph graph = step_of("  - z = linear(x, 10, bias=false)\n", options);
  std::map<std::string, ElementType> made;
  for (const Op& op : graph.ops)
    for (const TensorIndex t : op.outputs) made[std::string(op.kind->name)] = graph.tensors[t].type.element;
  CHECK(made["log_softmax"] == ElementType::Bf16);
  CHECK(made["nll_loss"] == ElementType::Fp32);
  CHECK(made["nll_loss_backward"] == ElementType::Fp32);
  CHECK(made["log_softmax_backward"] == ElementType::Bf16);
}

const char* const checkpointed =
    "name: small\ninputs:\n  x: {shape: [batch, 16]}\nblocks:\n  block:\n    takes: [x]\n    body:\n"
    "      - h = gelu(linear(layer_norm(x), 64))\n      - x = x + linear(h, 16)\n    gives: [x]\n"
    "body:\n  - repeat: 3\n    body:\n      - x = block(x)\n  - z = x\ngives: [z]\n";

TEST_CASE("checkpointing runs a block again up to the last tensor that its backward reads") {
  const OpGraph forward =
      build_graph(network_of(checkpointed), sizes(4, 1, StepKind::Training, {}, ElementType::Fp32));
  TrainingOptions options = pure();
  const OpGraph plain = training_graph(forward, options);
  options.checkpointing = Checkpointing::Blocks;
  const OpGraph again = training_graph(forward, options);
  Names recomputed;
  for (const Op& op : again.ops)
    if (op.recomputed) recomputed.emplace_back(op.kind->name);
  // Neither the second product nor the sum: nobody needs what they make.
  const Names each{"layer_norm", "linear", "gelu"};
  Names want;
  for (int i = 0; i < 3; ++i) want.insert(want.end(), each.begin(), each.end());
  CHECK(recomputed == want);
  CHECK(again.ops.size() == plain.ops.size() + 9);
  // Backward reads nothing that a block made in forward but what it gives.
  for (const Op& op : again.ops)
    if (op.phase == Phase::Backward)
      for (const TensorIndex t : op.inputs) {
        if (t == graph_none || again.tensors[t].producer == graph_none) continue;
        const Op& producer = again.ops[again.tensors[t].producer];
        CHECK((producer.phase == Phase::Backward || producer.kind->name == "add"));
      }
}

TEST_CASE("a loss in parts has the logits of one part at a time, and makes them again in backward") {
  TrainingOptions options = pure(LossKind::CrossEntropy);
  options.loss_chunks = 3;
  const OpGraph graph = step_of("  - z = linear(x, 10, bias=false)\n", options);
  // x has 2 x 3 rows: two to a part. Nothing keeps a tensor as large as all logits.
  for (const GraphTensor& tensor : graph.tensors)
    if (tensor.producer != graph_none && tensor.type.shape.rank() == 2 && tensor.type.shape.back() == 10)
      CHECK(elements(tensor.type) <= 4 * 10);
  CHECK(count(graph, Phase::Forward, "linear") == 3);
  std::int64_t again = 0;
  for (const Op& op : graph.ops) again += op.recomputed && op.kind->name == "linear" ? 1 : 0;
  CHECK(again == 3);
  // Each part's two products back; the weight's three gradients are added up.
  CHECK(count(graph, Phase::Backward, "add_") + count(graph, Phase::Backward, "add") >= 2);
  CHECK(given(graph).shape.rank() == 0);
}

TEST_CASE("more parts of a loss than rows, and a head that is no linear layer, are refused") {
  TrainingOptions options = pure(LossKind::CrossEntropy);
  options.loss_chunks = 7;
  CHECK_THROWS_AS(step_of("  - z = linear(x, 10)\n", options), GraphError);
  options.loss_chunks = 2;
  CHECK_THROWS_AS(step_of("  - z = gelu(linear(x, 10))\n", options), GraphError);
}

TEST_CASE("in fp8 a linear layer is three products of 8 bits, and keeps its input in 8 bits") {
  TrainingOptions options = pure();
  options.precision = TrainingPrecision::Fp8;
  const OpGraph forward =
      build_graph(network_of("name: n\ninputs:\n  x: {shape: [32, 64]}\nbody:\n  - h = linear(x, 64)\n  - z "
                             "= linear(h, 16)\ngives: [z]\n"),
                  sizes(1, 1, StepKind::Training, {}, ElementType::Fp32));
  const OpGraph graph = training_graph(forward, options);
  CHECK(count(graph, Phase::Forward, "scaled_mm") == 2);
  // x itself is not trained: two products for the second layer, one for the first.
  CHECK(count(graph, Phase::Backward, "scaled_mm") == 3);
  CHECK(count(graph, Phase::Backward, "matmul") == 0);
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Backward)
      for (const TensorIndex t : op.inputs)
        if (t != graph_none && graph.tensors[t].producer != graph_none &&
            graph.ops[graph.tensors[t].producer].phase == Phase::Forward &&
            graph.tensors[t].type.shape.rank() == 2)
          CHECK(graph.tensors[t].type.element == ElementType::Fp8);
}

TEST_CASE("a layer whose sizes 16 does not divide stays in 16 bits") {
  TrainingOptions options = pure();
  options.precision = TrainingPrecision::Fp8;
  const OpGraph graph = step_of("  - z = linear(x, 16)\n", options);
  CHECK(count(graph, Phase::Forward, "scaled_mm") == 0);
  CHECK(count(graph, Phase::Forward, "linear") == 1);
}

TEST_CASE("selective checkpointing keeps what products make") {
  const OpGraph forward =
      build_graph(network_of(checkpointed), sizes(4, 1, StepKind::Training, {}, ElementType::Fp32));
  TrainingOptions options = pure();
  options.checkpointing = Checkpointing::Selective;
  const OpGraph graph = training_graph(forward, options);
  for (const Op& op : graph.ops)
    if (op.recomputed) CHECK(op.kind->name != "linear");
  CHECK(std::count_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.recomputed; }) == 6);
}

TEST_CASE("an op without a gradient is refused by name, with its place") {
  std::string message;
  try {
    step_of("  - z = cumsum(linear(x, 4))\n");
  } catch (const GraphError& error) {
    message = error.what();
  }
  CHECK(message.find("cumsum has no backward") != std::string::npos);
}

TEST_CASE("a step that trains nothing is refused") {
  CHECK_THROWS_AS(step_of("  - z = gelu(x)\n"), GraphError);
}

TEST_CASE("an op that lets no gradient through is named where that leaves nothing to train") {
  std::string message;
  try {
    step_of("  - z = to(argmax(linear(x, 4)), 'fp32')\n");
  } catch (const GraphError& error) {
    message = error.what();
  }
  CHECK(message.find("no gradient comes through") != std::string::npos);
  CHECK(message.find("argmax") != std::string::npos);
}

TEST_CASE("gradients go through an op that changes a tensor to whoever reads that tensor behind it") {
  // x + the layer's result, added in place: z is t behind the addition.
  const OpGraph graph = step_of("  - t = x * 1.5\n  - add_(t, linear(x, 4))\n  - z = t * 2.0\n");
  CHECK(count(graph, Phase::Backward, "matmul") == 1);
}

TEST_CASE("micro-batches add up in gradients that stay") {
  TrainingOptions options = pure();
  options.accumulation = 4;
  options.optimizer.kind = OptimizerKind::AdamW;
  const OpGraph graph = step_of("  - z = linear(x, 4)\n", options);
  std::int64_t adds = 0;
  for (const Op& op : graph.ops) adds += op.accumulates ? 1 : 0;
  CHECK(adds == 2);
  CHECK(bytes_of(graph, Role::Gradient) == Bytes(4 * (4 * 4 + 4)));
  CHECK(bytes_of(graph, Role::State) == Bytes(2 * 4 * (4 * 4 + 4)));
}

TEST_CASE("GPT-2's published 124 million parameters all get a gradient, the tied head's two added up") {
  TrainingOptions options;
  options.optimizer.loop = OptimizerLoop::Fused;
  const OpGraph forward =
      build_graph(shipped_network("gpt2"), sizes(2, 256, StepKind::Training, {}, ElementType::Fp32));
  const OpGraph graph = training_graph(forward, options);
  const auto step =
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.kind->name == "adamw"; });
  REQUIRE(step != graph.ops.end());
  CHECK(step->attributes.integer("count") == 148);
  CHECK(step->inputs.size() == 148 * 4);
  CHECK(bytes_of(graph, Role::State) == 2 * bytes_of(graph, Role::Parameter));
}

TEST_CASE("a linear layer over more than rows is four nodes for autograd") {
  // The mean; folding, transposing the weight, the product, unfolding; two parameters keep their gradient.
  std::int64_t nodes = 0;
  for (const Op& op : step_of("  - z = linear(x, 8)\n").ops) nodes += op.nodes;
  CHECK(nodes == 1 + 4 + 2);
}

TEST_CASE("a batched product copies what it cannot read once, for forward and backward") {
  const OpGraph graph = step_of(
      "  - q = transpose(view(linear(x, 4), [2, 3, 2, 2]), 1, 2)\n"
      "  - k = transpose(view(linear(x, 4), [2, 3, 2, 2]), 1, 2)\n"
      "  - z = matmul(q, transpose(k, -2, -1))\n");
  CHECK(count(graph, Phase::Forward, "contiguous") == 2);
  CHECK(count(graph, Phase::Backward, "contiguous") == 0);
  for (const Op& op : graph.ops)
    if (op.kind->name == "matmul")
      CHECK(op.kind->eager(Seen(graph, op).view(), h200()).front().work.size() == 1);
}

}  // namespace
