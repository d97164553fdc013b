// SPDX-License-Identifier: Apache-2.0
// Composite ops taken apart: which primitives they become, and that those compute what they stand for.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/compiler/decompose.hpp"
#include "models/compiler/simplify.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/tensor_run.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

using Names = std::vector<std::string>;
using Numbers = TensorRun::Numbers;

TrainingOptions training_of(TrainingPrecision precision, LossKind loss = LossKind::Mean) {
  TrainingOptions options;
  options.precision = precision;
  options.loss = loss;
  options.functional = true;
  options.optimizer.kind = OptimizerKind::Sgd;
  return options;
}

OpGraph step_of(const std::string& lines, const TrainingOptions& options) {
  return training_graph(small_graph(lines, sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)), options);
}

/// Taken apart, and what stands there twice once.
OpGraph primitives(const OpGraph& step) {
  SimplifyRules rules;
  rules.constants = false;
  return simplify(decompose(step), rules, {.regions = {}, .training = true}).graph;
}

/// Kinds of the ops taken from one op of the framework, in order.
Names taken(const OpGraph& graph, Phase phase, std::string_view from) {
  Names names;
  for (const Op& op : graph.ops)
    if (op.phase == phase && op.taken_from == from) names.emplace_back(op.kind->name);
  return names;
}

std::int64_t count(const OpGraph& graph, Phase phase, std::string_view kind) {
  return std::count_if(graph.ops.begin(), graph.ops.end(),
                       [&](const Op& op) { return op.phase == phase && op.kind->name == kind; });
}

const TrainingOptions pure = training_of(TrainingPrecision::Pure);

TEST_CASE("a layer norm's backward finds the normalized rows and the reciprocal deviation in forward") {
  const OpGraph graph = primitives(step_of("  - h = linear(x, 4)\n  - z = silu(layer_norm(h))\n", pure));
  CHECK(taken(graph, Phase::Forward, "native_layer_norm") ==
        Names{"var_mean", "add", "rsqrt", "sub", "mul", "mul", "add"});
  // grad * weight; of it n times, its sum, its product with the rows and the sum of that; both taken off;
  // rstd / n times the rest. Then the weight's gradient and the bias's.
  CHECK(taken(graph, Phase::Backward, "native_layer_norm_backward") ==
        Names{"mul", "mul", "sum", "mul", "sum", "mul", "sub", "sub", "div", "mul", "mul", "sum", "sum"});
}

TEST_CASE("an RMS norm's backward has one sum over each row and one over the rows") {
  const OpGraph graph = primitives(step_of("  - h = linear(x, 4)\n  - z = silu(rms_norm(h))\n", pure));
  CHECK(taken(graph, Phase::Forward, "_fused_rms_norm") ==
        Names{"pow", "mean", "add", "rsqrt", "mul", "mul"});
  std::vector<Dims> sums;
  for (const Op& op : graph.ops)
    if (op.kind->name == "sum" && op.taken_from == "_fused_rms_norm_backward")
      sums.push_back(graph.tensors[op.outputs[0]].type.shape);
  CHECK(sums == std::vector<Dims>{Dims{2, 3, 1}, Dims{4}});
}

TEST_CASE("the gradient of a loss by labels is written by comparing places, not scattered") {
  const TrainingOptions options = training_of(TrainingPrecision::Pure, LossKind::CrossEntropy);
  const OpGraph graph = primitives(step_of("  - z = linear(x, 4)\n", options));
  // Rows [6, 4]: -1 where the column is the label's, else 0, times the row's share of the gradient.
  std::int64_t whole = 0;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Backward && op.taken_from == "nll_loss_backward")
      whole += graph.tensors[op.outputs[0]].type.shape == Dims{6, 4} ? 1 : 0;
  CHECK(count(graph, Phase::Backward, "eq") == 1);
  CHECK(whole == 1);  // the product
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Backward) CHECK(op.kind->fusion != FusionClass::Scatter);
  // exp(log p) times the sum of the row's gradient, taken off.
  CHECK(taken(graph, Phase::Backward, "_log_softmax_backward_data") == Names{"exp", "sum", "mul", "sub"});
}

TEST_CASE("products of batches read copies of operands that do not fold, and backward reads the copies too") {
  // Two heads of [2, 3, 2, 4]: as [2, 2, 3, 4] their batches do not lie one behind the other.
  const OpGraph graph =
      decompose(step_of("  - h = transpose(reshape(linear(x, 8), [2, 3, 2, 4]), 1, 2)\n  - z = matmul(h, "
                        "transpose(h, -2, -1))\n",
                        pure));
  CHECK(count(graph, Phase::Forward, "contiguous") == 2);
  for (const Op& op : graph.ops)
    if (op.kind->name == "matmul" && op.phase == Phase::Backward)
      for (const TensorIndex t : op.inputs) {
        if (graph.tensors[t].type.shape.rank() != 4) continue;
        // A look at a copy, or at the gradient, which is made in backward.
        const Op& maker = graph.ops[graph.tensors[t].producer];
        if (maker.kind->name != "transpose") continue;
        const Op& source = graph.ops[graph.tensors[maker.inputs.front()].producer];
        CHECK((source.kind->name == "contiguous" || source.phase == Phase::Backward));
      }
}

TEST_CASE("sums of 16 bits that end in fp32 are fp32 at once") {
  const TrainingOptions options = training_of(TrainingPrecision::Autocast);
  const OpGraph step = step_of("  - z = linear(linear(x, 8), 6)\n", options);
  const OpGraph graph = primitives(step);
  for (const OpGraph* one : {&step, &graph})
    for (const Op& op : one->ops)
      if (op.phase == Phase::Backward && op.kind->name == "sum")
        CHECK(one->tensors[op.outputs[0]].type.element ==
              (one == &step ? ElementType::Bf16 : ElementType::Fp32));
}

TEST_CASE("ops taken apart compute in fp32 and give the dtype of the op that they stand for") {
  const OpGraph graph =
      primitives(step_of("  - z = gelu(linear(x, 4))\n", training_of(TrainingPrecision::Autocast)));
  std::int64_t products = 0;
  for (const Op& op : graph.ops)
    if (op.taken_from == "gelu" || op.taken_from == "gelu_backward") {
      const ElementType made = graph.tensors[op.outputs[0]].type.element;
      if (op.kind->name == "mul") ++products;
      if (op.kind->name != "to") CHECK(made == ElementType::Fp32);
    }
  // x / 2, x / sqrt 2, their product; backward half of 1 + erf, x * x, -1/2 of it, the bell, x times it, the
  // gradient times the slope.
  CHECK(products == 9);
}

TEST_CASE("gradients keep their names and roles, and the optimizer its ops") {
  const OpGraph step = step_of("  - h = linear(x, 4)\n  - z = silu(layer_norm(h))\n", pure);
  const OpGraph graph = primitives(step);
  const Op& before = step.ops.back();
  const Op& after = graph.ops.back();
  REQUIRE(after.kind == before.kind);
  REQUIRE(after.inputs.size() == before.inputs.size());
  for (std::size_t i = 0; i < before.inputs.size(); ++i) {
    CHECK(graph.tensors[after.inputs[i]].role == step.tensors[before.inputs[i]].role);
    CHECK(graph.tensors[after.inputs[i]].type == step.tensors[before.inputs[i]].type);
  }
}

/// The loss with one number of one parameter changed by `by`.
double loss_with(const OpGraph& graph, std::map<std::string, Numbers> given, const std::string& name,
                 std::size_t at, double by) {
  given[name][at] += by;
  return TensorRun(graph, nullptr, std::move(given)).numbers(graph.outputs[0])[0];
}

/// Each gradient that the graph works out against the slope of its loss. Gives how many were not about 0.
int check_slopes(const OpGraph& graph, const std::map<std::string, Numbers>& labels) {
  const TensorRun run(graph, nullptr, labels);
  const Op& step = graph.ops.back();
  const auto parameters = static_cast<std::size_t>(step.attributes.integer("count"));
  int steep = 0;
  for (std::size_t p = 0; p < parameters; ++p) {
    const std::string name = graph.tensors[step.inputs[p]].name;
    std::map<std::string, Numbers> given = labels;
    given[name] = run.numbers(step.inputs[p]);
    const Numbers gradient = run.numbers(step.inputs[parameters + p]);
    REQUIRE(gradient.size() == given[name].size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      constexpr double h = 1e-4;
      const double slope =
          (loss_with(graph, given, name, i, h) - loss_with(graph, given, name, i, -h)) / (2 * h);
      INFO(name << " [" << i << "]");
      CHECK(gradient[i] == Approx(slope).margin(1e-6).epsilon(1e-4));
      steep += std::abs(slope) > 1e-3 ? 1 : 0;
    }
  }
  return steep;
}

TEST_CASE("the gradients that primitives compute are the slopes of the loss") {
  const char* bodies[] = {
      "  - z = silu(layer_norm(linear(x, 4)))\n",
      "  - z = gelu(rms_norm(linear(x, 4)))\n",
      "  - z = gelu(linear(x, 4), approximate='tanh')\n",
      "  - z = silu(batch_norm(linear(x, 4)))\n",
      "  - z = silu(group_norm(reshape(linear(x, 8), [2, 6, 4]), groups=3))\n",
      "  - h = linear(x, 4)\n  - z = tanh(h) * sigmoid(h) + relu(h)\n",
      "  - z = silu(softmax(linear(x, 4)))\n",
      "  - z = silu(log_softmax(linear(x, 4)))\n",
  };
  for (const char* body : bodies) {
    INFO(body);
    CHECK(check_slopes(primitives(step_of(body, pure)), {}) > 5);
  }
  const TrainingOptions options = training_of(TrainingPrecision::Pure, LossKind::CrossEntropy);
  CHECK(check_slopes(primitives(step_of("  - z = linear(x, 4)\n", options)),
                     {{"labels", {0, 1, 3, 3, 2, 1}}}) > 5);
}

}  // namespace
