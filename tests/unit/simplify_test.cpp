// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/simplify.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/config/hardware_reader.hpp"
#include "sim/program/eager.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/graph_checks.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/simplified.hpp"

namespace gpusim {
namespace {

using test::checked;
using test::kinds;
using test::Kinds;
using test::only;
using test::pass;
using test::shipped_network;
using test::sizes;
using test::small_graph;

// --- All of it.

TEST_CASE("Without rules the graph stays as it is", "[simplify]") {
  const OpGraph graph = build_graph(shipped_network("llama_160m"), sizes(1, 16));
  const Simplified same = simplify(graph, test::no_rules);
  CHECK(test::difference(graph, same.graph) == "");
  CHECK(same.passes.empty());
  for (OpIndex i = 0; i < graph.ops.size(); ++i) CHECK(same.origin[i] == i);
}

TEST_CASE("A graph in which there is nothing to do stays as it is", "[simplify]") {
  const OpGraph graph = small_graph("  - h = linear(x, 8)\n  - z = relu(h)\n");
  const Simplified same = simplify(graph, test::all_rules);
  CHECK(test::difference(graph, same.graph) == "");
  CHECK(same.passes.size() == 9);
  for (const Simplification& p : same.passes) {
    CAPTURE(p.pass);
    CHECK(p.ops_removed == 0);
    CHECK(p.ops_added == 0);
    CHECK(p.saved == Bytes(0));
  }
}

TEST_CASE("Each op says which old one it stands for", "[simplify]") {
  const OpGraph graph = small_graph(
      "  - a = relu(x)\n  - b = dropout(a)\n  - q = linear(b, 4)\n  - k = linear(b, 4)\n  - z = q * k\n");
  const Simplified result = checked(graph, test::all_rules);
  CHECK(kinds(result.graph) == Kinds{"relu", "linear", "split", "mul"});
  CHECK(result.origin == std::vector<OpIndex>{0, 2, 2, 4});
}

// --- Dead code.

TEST_CASE("What nothing needs goes, and what only that needed", "[simplify]") {
  const OpGraph graph =
      small_graph("  - z = relu(x)\n  - s = square(z - mean(z, -1, keepdim=true))\n  - d = mean(s)\n");
  const Simplified result = simplify(graph, only(&SimplifyRules::dead_code));
  CHECK(kinds(result.graph) == Kinds{"relu"});
  const Simplification& dead = pass(result, "dead_code");
  CHECK(dead.ops_removed == 4);
  CHECK(dead.ops_added == 0);
  // 24 elements of bf16: mean reads 48 bytes and writes 12, the difference reads both and writes 48, the
  // square 48 and 48, the mean over all 48 and 2.
  CHECK(dead.saved == Bytes(48 + 12 + 48 + 12 + 48 + 48 + 48 + 48 + 2));
  CHECK(dead.examples.size() == 3);
  CHECK(result.graph.tensors.size() == 4);  // Three inputs and the result.
}

TEST_CASE("Whoever writes a state is needed, whoever acts on the host as well", "[simplify]") {
  const OpGraph graph = small_graph(
      "  - cache = state([5, 4])\n  - k = slice(x, 0, 0, 1)\n  - index_copy_(cache, slice(i, 0, 0, 3), "
      "view(k, [3, 4]))\n"
      "  - item(sum(y))\n  - z = relu(x)\n");
  CHECK(checked(graph, only(&SimplifyRules::dead_code)).graph.ops.size() == graph.ops.size());
}

TEST_CASE("A change in place is needed if somebody reads the memory after it", "[simplify]") {
  SECTION("over the tensor it changed") {
    CHECK(
        kinds(checked(small_graph("  - h = x + 1.0\n  - v = view(h, [6, 4])\n  - relu_(v)\n  - z = neg(h)\n"),
                      only(&SimplifyRules::dead_code))
                  .graph) == Kinds{"add", "view", "relu_", "neg"});
  }
  SECTION("but not if it was read before") {
    CHECK(
        kinds(checked(small_graph("  - h = x + 1.0\n  - z = neg(h)\n  - v = view(h, [6, 4])\n  - relu_(v)\n"),
                      only(&SimplifyRules::dead_code))
                  .graph) == Kinds{"add", "neg"});
  }
  SECTION("and always if the memory is the caller's") {
    CHECK(kinds(checked(small_graph("  - z = neg(x)\n  - relu_(x)\n"), only(&SimplifyRules::dead_code))
                    .graph) == Kinds{"neg", "relu_"});
  }
}

TEST_CASE("Random numbers that nobody reads are drawn in training only", "[simplify]") {
  const OpGraph graph = small_graph("  - d, m = dropout(x, training=true)\n  - z = relu(x)\n");
  CHECK(simplify(graph, only(&SimplifyRules::dead_code)).graph.ops.size() == 1);
  CHECK(
      simplify(graph, only(&SimplifyRules::dead_code), {.regions = {}, .training = true}).graph.ops.size() ==
      2);
}

// --- Nothing to do.

TEST_CASE("Dropout that drops nothing goes, dropout in training stays", "[simplify]") {
  const SimplifyRules rules = only(&SimplifyRules::inference_dropout);
  CHECK(kinds(checked(small_graph("  - h = relu(x)\n  - z = h + dropout(h, p=0.5)\n"), rules).graph) ==
        Kinds{"relu", "add"});
  CHECK(kinds(checked(small_graph("  - z = relu(dropout(x, p=0.0, training=true))\n"), rules).graph) ==
        Kinds{"relu"});
  CHECK(simplify(small_graph("  - d, m = dropout(x, training=true)\n  - z = relu(d)\n"), rules)
            .graph.ops.size() == 2);
}

TEST_CASE("Ops that change nothing go", "[simplify]") {
  const auto left = [](const std::string& line) {
    return kinds(checked(small_graph("  - h = relu(x)\n  - t = " + line + "\n  - z = neg(t)\n"),
                         only(&SimplifyRules::no_ops))
                     .graph);
  };
  const std::string line = GENERATE("to(h, 'bf16')", "type_as(h, y)", "contiguous(h)", "view(h, [2, 3, 4])",
                                    "reshape(h, [2, -1, 4])", "transpose(h, 1, 1)", "permute(h, [0, 1, 2])",
                                    "expand(h, [2, 3, 4])", "slice(h, 1, 0, 3)", "squeeze(h, 0)", "clone(h)",
                                    "cat(h)", "h + 0.0", "h - 0.0", "h * 1.0", "h / 1.0", "h ** 1");
  CAPTURE(line);
  CHECK(left(line) == Kinds{"relu", "neg"});
}

TEST_CASE("Ops that change something stay", "[simplify]") {
  const std::string line =
      GENERATE("to(h, 'fp32')", "view(h, [6, 4])", "transpose(h, 1, 2)", "slice(h, 1, 1, 3)",
               "select(h, 0, 1)", "contiguous(transpose(h, 1, 2))", "cat(h, h)", "h + 1.0", "h * 0.0",
               "0.0 - h", "h + h", "h ** 2", "i * 0.5");
  CAPTURE(line);
  const OpGraph graph = small_graph("  - h = relu(x)\n  - t = " + line + "\n  - z = neg(t)\n");
  CHECK(checked(graph, only(&SimplifyRules::no_ops)).graph.ops.size() == graph.ops.size());
}

TEST_CASE("Views that undo each other lead back to what they looked at", "[simplify]") {
  const auto ops = [](const std::string& lines) {
    SimplifyRules rules = only(&SimplifyRules::no_ops);
    rules.dead_code = true;
    return kinds(checked(small_graph("  - h = relu(x)\n" + lines), rules).graph);
  };
  CHECK(ops("  - z = neg(transpose(transpose(h, 0, 1), 0, 1))\n") == Kinds{"relu", "neg"});
  CHECK(ops("  - z = neg(view(view(transpose(transpose(h, 1, 2), 1, 2), [24]), [2, 3, 4]))\n") ==
        Kinds{"relu", "neg"});
  CHECK(ops("  - z = neg(squeeze(unsqueeze(h, 0), 0))\n") == Kinds{"relu", "neg"});
  // The second half looks like the first, but is not it.
  CHECK(ops("  - a, b = split(view(h, [24]), 12)\n  - z = neg(view(b, [1, 12])) + view(a, [12])\n").size() ==
        6);
  CHECK(ops("  - t = slice(slice(y, 0, 1, 3), 0, 1, 2)\n  - z = neg(t) + slice(y, 0, 0, 1)\n").size() == 5);
}

TEST_CASE("A copy stays if it or its source is changed, or leaves beside it", "[simplify]") {
  const auto copies = [](const std::string& lines) {
    const Kinds left = kinds(checked(small_graph(lines), only(&SimplifyRules::no_ops)).graph);
    return std::count(left.begin(), left.end(), "clone");
  };
  CHECK(copies("  - h = relu(x)\n  - c = clone(h)\n  - z = neg(c)\n") == 0);
  CHECK(copies("  - h = relu(x)\n  - c = clone(h)\n  - add_(c, y)\n  - z = neg(c) + h\n") == 1);
  CHECK(copies("  - h = relu(x)\n  - c = clone(h)\n  - add_(h, y)\n  - z = neg(c) + h\n") == 1);
  CHECK(copies("  - z = clone(x)\n") == 1);
  CHECK(copies("  - z = clone(neg(x))\n") == 0);
}

// --- Constants.

TEST_CASE("What depends on nothing is worked out once", "[simplify]") {
  // The frequencies of rotary positions: a power of a number, so an exponential here.
  const OpGraph graph = small_graph("  - f = exp(to(arange(4), 'fp32') * -2.3)\n  - z = x * f\n");
  const Simplified result = checked(graph, only(&SimplifyRules::constants));
  CHECK(kinds(result.graph) == Kinds{"mul"});
  const GraphTensor& f = result.graph.tensors[result.graph.ops[0].inputs[1]];
  CHECK(f.role == Role::Buffer);
  CHECK(f.producer == graph_none);
  CHECK(bytes_of(result.graph, Role::Buffer) == Bytes(16));
  CHECK(pass(result, "constants").ops_removed == 4);
}

TEST_CASE("Constants that change, are large, leave the step or are random stay ops", "[simplify]") {
  const auto left = [](const std::string& lines, Bytes most = Bytes(1 << 20)) {
    return checked(small_graph(lines), only(&SimplifyRules::constants),
                   {.regions = {}, .constant_bytes_max = most})
        .graph.ops.size();
  };
  CHECK(left("  - o = zeros([3, 4])\n  - z = x + o\n") == 1);
  CHECK(left("  - o = zeros([3, 4])\n  - add_(o, y)\n  - z = x + o\n") == 3);
  CHECK(left("  - o = zeros([3, 4])\n  - z = x + o\n", Bytes(23)) == 2);
  CHECK(left("  - z = zeros([3, 4])\n") == 1);
  CHECK(simplify(small_graph("  - d, m = dropout(zeros([3, 4]), training=true)\n  - z = x + d\n"),
                 only(&SimplifyRules::constants))
            .graph.ops.size() == 2);
  // Views of a constant are constants, and one that leaves looks at a buffer.
  CHECK(left("  - o = arange(12)\n  - z = x + view(o, [3, 4])\n") == 1);
  CHECK(left("  - o = arange(12)\n  - z = view(o, [3, 4])\n") == 1);
}

TEST_CASE("Parameters are constants only if they are frozen", "[simplify]") {
  const std::string lines =
      "  - w = parameter([4, 4], dtype='fp32')\n  - t = buffer([3, 4])\n"
      "  - z = linear(x + t * 2.0, weight=to(w, 'bf16'))\n";
  const OpGraph graph = small_graph(lines);
  CHECK(checked(graph, only(&SimplifyRules::constants)).graph.ops.size() == 4);
  const Simplified frozen = checked(graph, only(&SimplifyRules::freeze));
  CHECK(kinds(frozen.graph) == Kinds{"add", "linear"});
  CHECK(pass(frozen, "freeze").saved == Bytes(64 + 32 + 24 + 24));
  // In training they change.
  CHECK(simplify(graph, only(&SimplifyRules::freeze), {.regions = {}, .training = true}).graph.ops.size() ==
        4);
  // States are no constants, nor is what is written.
  CHECK(checked(small_graph("  - s = state([4])\n  - z = x + s * 2.0\n"), only(&SimplifyRules::freeze))
            .graph.ops.size() == 2);
  CHECK(checked(small_graph("  - b = buffer([4])\n  - relu_(b)\n  - z = x + b * 2.0\n"),
                only(&SimplifyRules::freeze))
            .graph.ops.size() == 3);
}

// --- Common subexpressions.

TEST_CASE("What was computed before is not computed again", "[simplify]") {
  const SimplifyRules rules = only(&SimplifyRules::common_subexpressions);
  const OpGraph graph = small_graph(
      "  - g = parameter([4])\n  - a = layer_norm(x, g)\n  - b = layer_norm(x, g)\n  - c = layer_norm(x, g, "
      "affine=true)\n"
      "  - z = relu(a) + relu(b) * relu(c)\n");
  const Simplified result = checked(graph, rules);
  CHECK(kinds(result.graph) == Kinds{"layer_norm", "relu", "mul", "add"});
  CHECK(pass(result, "common_subexpressions").ops_removed == 4);
  CHECK(pass(result, "common_subexpressions").examples == std::vector<std::string>{"b", "c", "relu_2"});
}

TEST_CASE("Ops that differ in an input, an attribute, a weight or what was written between stay",
          "[simplify]") {
  const std::string lines =
      GENERATE("  - a = relu(x)\n  - b = relu(y)\n  - z = a + b\n",
               "  - a = softmax(y, 0)\n  - b = softmax(y, 1)\n  - z = a + b\n",
               "  - a = linear(x, 4)\n  - b = linear(x, 4)\n  - z = a + b\n",
               "  - a = sum(y, -1)\n  - b = mean(y, -1)\n  - z = a + b\n",
               "  - h = relu(x)\n  - a = neg(h)\n  - add_(h, y)\n  - b = neg(h)\n  - z = a + b\n",
               // One of them is changed, so they must be two.
               "  - a = relu(x)\n  - b = relu(x)\n  - add_(b, y)\n  - z = a + b\n",
               "  - a = zeros([3, 4])\n  - b = zeros([3, 4])\n  - add_(a, y)\n  - z = a + b\n");
  CAPTURE(lines);
  const OpGraph graph = small_graph(lines);
  CHECK(checked(graph, only(&SimplifyRules::common_subexpressions)).graph.ops.size() == graph.ops.size());
}

TEST_CASE("Dropout is drawn anew each time", "[simplify]") {
  const OpGraph graph = small_graph(
      "  - a, m = dropout(x, training=true)\n  - b, n = dropout(x, training=true)\n  - z = a + b\n");
  CHECK(simplify(graph, only(&SimplifyRules::common_subexpressions)).graph.ops.size() == 3);
}

// --- Regions.

TEST_CASE("Nothing is shared across a graph break, and eager regions stay as they are", "[simplify]") {
  const OpGraph graph = small_graph(
      "  - a = relu(x)\n  - b = clone(relu(x))\n  - c = relu(x)\n  - d = clone(c)\n  - e = neg(a)\n  - z = b "
      "+ d\n");
  SimplifyRules rules;
  rules.no_ops = false;
  const auto region = [](OpIndex first, OpIndex last, bool compiled = true) {
    return Region{.first = first, .last = last, .compiled = compiled, .name = ""};
  };
  SECTION("one region") {
    CHECK(kinds(checked(graph, rules).graph) == Kinds{"relu", "clone", "add"});
  }
  SECTION("two") {
    const SimplifyOptions options{.regions = {region(0, 3), region(3, 3), region(3, 7)}};
    const Simplified result = checked(graph, rules, options);
    // The second relu of each region goes; `e` reads what the first region hands over, which stays.
    CHECK(kinds(result.graph) == Kinds{"relu", "clone", "relu", "clone", "add"});
    REQUIRE(result.regions.size() == 3);
    CHECK(result.regions[0].last == 2);
    CHECK(result.regions[1] == region(2, 2));
    CHECK(result.regions[2] == region(2, 5));
  }
  SECTION("what is handed over is computed, needed or not") {
    const OpGraph handed = small_graph("  - a = tanh(x)\n  - b = relu(x)\n  - e = neg(a)\n  - z = neg(b)\n");
    CHECK(checked(handed, rules, {.regions = {region(0, 2), region(2, 4)}}).graph.ops.size() == 3);
    CHECK(checked(handed, rules, {.regions = {region(0, 4)}}).graph.ops.size() == 2);
  }
  SECTION("an eager one") {
    const Simplified result = checked(graph, rules, {.regions = {region(0, 3, false), region(3, 7)}});
    CHECK(result.graph.ops.size() == 6);
  }
  SECTION("constants stay in the region that makes them") {
    const OpGraph constant = small_graph("  - f = exp(arange(4) * 0.5)\n  - z = x * f\n");
    CHECK(checked(constant, rules, {.regions = {region(0, 3), region(3, 4)}}).graph.ops.size() == 2);
    CHECK(checked(constant, rules, {.regions = {region(0, 2), region(2, 4)}}).graph.ops.size() == 3);
  }
}

// --- Shipped networks.

TEST_CASE("Shipped networks have little to simplify, and run as before", "[simplify]") {
  struct Case {
    std::string network;
    NetworkSizes sizes;
    std::int64_t no_ops;
    std::int64_t common;
    std::int64_t constants;
  };
  const auto one = GENERATE(values<Case>({
      // The result of attention is contiguous already; positions are counted anew in each step.
      {"gpt2", sizes(2, 128), 12, 0, 1},
      // Real and imaginary halves are looked at twice, for queries and for keys of each layer.
      {"llama_160m", sizes(1, 32), 0, 64, 0},
      {"llama_160m", sizes(1, 32, StepKind::Decode), 0, 64, 0},
      {"mixtral", sizes(1, 16, StepKind::Inference, {{"layers", NetworkValue{std::int64_t{2}}}}), 0, 8, 0},
      {"encoder", sizes(1, 32), 0, 0, 1},
      {"resnet50", sizes(1, 1), 0, 0, 0},
      {"seed_mlp", sizes(1, 16), 0, 0, 0},
  }));
  CAPTURE(one.network);
  const GpuSpec gpu = test::h200();
  const HostSpec host =
      config::read_host(config::load_text("{base: xeon-h200-cloud}", "host.yaml"), config::SearchPath{});
  const OpGraph graph = build_graph(shipped_network(one.network), one.sizes);
  const Simplified result = simplify(graph, SimplifyRules{});
  CHECK(test::fault_of(result.graph) == "");
  CHECK(pass(result, "no_ops").ops_removed == one.no_ops);
  CHECK(pass(result, "common_subexpressions").ops_removed == one.common);
  CHECK(pass(result, "constants").ops_removed == one.constants);
  CHECK(pass(result, "dead_code").ops_removed == 0);
  const EagerProgram before = build_eager(graph, gpu, host, HostOpMode::NoGrad);
  const EagerProgram after = build_eager(result.graph, gpu, host, HostOpMode::NoGrad);
  CHECK(after.model_flops == before.model_flops);
  CHECK(after.memory.parameters == before.memory.parameters);
  CHECK(after.memory.states == before.memory.states);
  // Constants stay.
  CHECK(after.memory.peak <= before.memory.peak + after.memory.buffers - before.memory.buffers);
  const auto launches = [](const EagerProgram& program) {
    const auto& instructions = program.built.program.threads.front().instructions;
    return std::count_if(instructions.begin(), instructions.end(),
                         [](const engine::Instruction& i) { return i.call == engine::Call::Launch; });
  };
  CHECK(launches(before) - launches(after) == one.constants);
}

}  // namespace
}  // namespace gpusim
