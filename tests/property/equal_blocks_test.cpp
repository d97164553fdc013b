// SPDX-License-Identifier: Apache-2.0
// What is worked out once for all that are equal is what each of them would have got by itself: over the
// shipped networks, and over random networks of random blocks that repeat, with an odd block among them.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "models/compiler/decompose.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/lower.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compiled.hpp"
#include "tests/support/training.hpp"

namespace gpusim {
namespace {

/// Kernels planned by rounds that ask about all pairs are those planned by rounds that ask about changed
/// ones.
/// With the last round, which asks about all of them in any case, and without it.
void check_fusion(const LoopGraph& loops, FusionRules rules) {
  for (const bool last_round : {true, false}) {
    rules.exchange_loops = last_round;
    CHECK(plan_fusion(loops, rules) == plan_fusion(loops, rules, FusionPairs::All));
  }
}

/// Each op makes what its kind says of its inputs, whichever op it is like.
void check_types(const OpGraph& graph) {
  for (const Op& op : graph.ops) {
    CAPTURE(op.name);
    const OpTypes types(graph, op);
    OpView view = types.view(op);
    view.outputs = {};
    const std::vector<MadeTensor> made = op.kind->infer(view);
    REQUIRE(made.size() == op.outputs.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const GraphTensor& tensor = graph.tensors[op.outputs[i]];
      CHECK(tensor.type == made[i].type);
      if (made[i].view_of >= 0)
        CHECK(tensor.storage == graph.tensors[op.inputs[static_cast<std::size_t>(made[i].view_of)]].storage);
    }
  }
}

void check_step(const OpGraph& graph) {
  const CompiledStep step = test::compiled(graph);
  // Passes that take ops out keep the place of those whose gradients others work out.
  for (OpIndex i = 0; i < step.graph->ops.size(); ++i)
    if (const OpIndex of = step.graph->ops[i].gradient_of; of != graph_none) CHECK(of < i);
  for (const RegionPlan& region : step.regions)
    if (region.region.compiled) check_fusion(region.loops, test::options_of("inductor").mode.fusion);
}

/// Blocks of random ops over x [8, 64], as text.
class RandomBlocks {
 public:
  explicit RandomBlocks(std::uint64_t seed) : random_(seed) {}

  /// A block that repeats, one that stands by itself, and the first one again.
  std::string network() {
    std::string text = "name: random\ninputs:\n  x: {shape: [8, 64]}\nblocks:\n";
    text += "  usual:\n    takes: [x, c]\n    body:\n" + body() + "    gives: [x]\n";
    text += "  odd:\n    takes: [x, c]\n    body:\n" + body() + "    gives: [x]\n";
    text += "body:\n  - c = buffer([8, 64])\n";
    text += repeat(2 + below(6)) + "  - x = odd(x, c)\n" + repeat(2 + below(4));
    return text + "  - y = linear(x, 64)\ngives: [y]\n";
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  static std::string repeat(int times) {
    return "  - repeat: " + std::to_string(times) + "\n    body:\n      - x = usual(x, c)\n";
  }

  std::string body() {
    static const std::vector<std::string> forms{"relu(A)",
                                                "silu(A) * B",
                                                "A + B",
                                                "A + c",
                                                "exp(A) + c",
                                                "softmax(A)",
                                                "layer_norm(A)",
                                                "rms_norm(A)",
                                                "linear(A, 64)",
                                                "A - mean(A, dim=-1, keepdim=true)",
                                                "A * sum(B, dim=0, keepdim=true)",
                                                "transpose(contiguous(transpose(A, 0, 1)), 0, 1)",
                                                "reshape(transpose(reshape(A, [64, 8]), 0, 1), [8, 64])",
                                                "to(to(A, 'fp32') * 2.0, 'bf16')"};
    std::vector<std::string> values{"x"};
    std::string text;
    const int statements = 3 + below(12);
    for (int i = 0; i < statements; ++i) {
      std::string form = forms[static_cast<std::size_t>(below(static_cast<int>(forms.size())))];
      for (const char letter : {'A', 'B'}) {
        const int size = static_cast<int>(values.size());
        const std::string& value = values[static_cast<std::size_t>(size - 1 - below(std::min(size, 4)))];
        for (std::size_t at = 0; (at = form.find(letter, at)) != std::string::npos; at += value.size())
          form.replace(at, 1, value);
      }
      values.push_back("t" + std::to_string(i));
      text += "      - " + values.back() + " = " + form + "\n";
    }
    return text + "      - x = x + " + values.back() + "\n";
  }

  std::mt19937_64 random_;
};

std::vector<std::string> shipped_networks() {
  std::vector<std::string> names;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs/networks"))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("Rounds of fusion that ask about changed kernels alone plan what rounds that ask about all do",
          "[property]") {
  SECTION("of the shipped networks, forward") {
    for (const std::string& name : shipped_networks())
      for (const StepKind step : {StepKind::Inference, StepKind::Decode}) {
        CAPTURE(name);
        std::optional<OpGraph> graph;
        try {
          graph = build_graph(test::shipped_network(name), test::sizes(2, 128, step));
        } catch (const GraphError&) {
          REQUIRE(step == StepKind::Decode);  // It has no cache.
          continue;
        }
        check_step(*graph);
      }
  }
  SECTION("of training steps") {
    for (const char* name : {"gpt2", "llama_160m", "encoder", "vit", "resnet50"}) {
      CAPTURE(name);
      const OpGraph forward =
          build_graph(test::shipped_network(name), test::sizes(2, 128, StepKind::Training));
      check_step(training_graph(forward, test::joint_options()));
    }
  }
  SECTION("of random blocks that repeat") {
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const std::string text = RandomBlocks(seed).network();
      CAPTURE(seed, text);
      const OpGraph forward = build_graph(test::network_of(text), test::sizes(1, 1, StepKind::Training));
      check_step(forward);
      check_step(training_graph(forward, test::joint_options()));
    }
  }
}

TEST_CASE("What is worked out for one op holds for all that it is like", "[property]") {
  for (const char* name : {"gpt2", "llama_160m", "encoder", "vit"}) {
    CAPTURE(name);
    const OpGraph forward = build_graph(test::shipped_network(name), test::sizes(2, 128, StepKind::Training));
    const OpGraph training = training_graph(forward, test::joint_options());
    check_types(training);
  }
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = RandomBlocks(seed).network();
    CAPTURE(seed, text);
    const OpGraph forward = build_graph(test::network_of(text), test::sizes(1, 1, StepKind::Training));
    check_types(training_graph(forward, test::joint_options()));
  }
}

}  // namespace
}  // namespace gpusim
