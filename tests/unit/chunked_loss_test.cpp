// SPDX-License-Identifier: Apache-2.0
// Head and cross-entropy worked out in parts of the rows.
#include <string>
#include <vector>

#include "models/graph/memory.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

TrainingOptions in_parts(std::int64_t parts) {
  TrainingOptions options;
  options.loss_chunks = parts;
  options.optimizer.kind = OptimizerKind::None;
  return options;
}

OpGraph step_of(const std::string& lines, std::int64_t parts) {
  TrainingOptions options = in_parts(parts);
  options.precision = TrainingPrecision::Pure;
  return training_graph(small_graph(lines, sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)), options);
}

TEST_CASE("a loss in parts has logits, log-softmax and loss of each part, and their mean") {
  // x is [2, 3, 4]: six rows, two in each of three parts.
  const OpGraph graph = step_of("  - h = exp(x)\n  - z = linear(h, 8)\n", 3);
  std::vector<std::string> kinds;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Forward) kinds.emplace_back(op.kind->name);
  CHECK(kinds == std::vector<std::string>{"exp", "view", "chunk", "chunk",             //
                                          "linear", "log_softmax", "nll_loss",         //
                                          "linear", "log_softmax", "nll_loss", "add",  //
                                          "linear", "log_softmax", "nll_loss", "add", "div"});
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Forward && op.kind->name == "linear")
      CHECK(graph.tensors[op.outputs[0]].type.shape == Dims{2, 8});
  // As many FLOPs as in one part.
  CHECK(model_flops(graph) == model_flops(step_of("  - h = exp(x)\n  - z = linear(h, 8)\n", 1)));
}

TEST_CASE("parts of GPT-2's loss do without most of its gradient, and without one of the whole logits") {
  const OpGraph forward =
      build_graph(shipped_network("gpt2"), sizes(16, 1024, StepKind::Training, {}, ElementType::Fp32));
  const auto peak = [&](std::int64_t parts) {
    return static_cast<double>(eager_memory(training_graph(forward, in_parts(parts)), h200()).peak.value());
  };
  // L: logits in bf16. In one part the gradient of the log-probabilities in fp32 (2 L) is there beside the
  // log-softmax in bf16 (1 L) and in fp32 (2 L), which stay; in eight parts an eighth of it.
  const double logits = 16'384.0 * 50'304 * 2;
  const double less = peak(1) - peak(8);
  CHECK(less > 1.6 * logits);
  CHECK(less < 2.0 * logits);
}

TEST_CASE("logits that no layer makes, or that something else reads, are not worked out in parts") {
  CHECK_THROWS_WITH(step_of("  - z = exp(linear(x, 8))\n", 2),
                    ContainsSubstring("only logits that a linear layer makes are worked out in parts"));
  CHECK_THROWS_WITH(step_of("  - z = linear(x, 8)\n", 7), ContainsSubstring("6 rows are not 7 parts"));
}

}  // namespace
