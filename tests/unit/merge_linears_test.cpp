// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "models/compiler/simplify.hpp"
#include "models/graph/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/simplified.hpp"

namespace gpusim {
namespace {

using test::checked;
using test::kinds;
using test::Kinds;
using test::only;
using test::pass;
using test::small_graph;

const SimplifyRules qkv = only(&SimplifyRules::merge_qkv);
const SimplifyRules gate_up = only(&SimplifyRules::merge_gate_up);

TEST_CASE("Linears of one tensor become one product and a split", "[simplify][merge]") {
  const OpGraph graph = small_graph(
      "  - q = linear(x, 8)\n  - k = linear(x, 2)\n  - v = linear(x, 6)\n"
      "  - z = cat(relu(q), relu(k), relu(v), dim=-1)\n");
  const Simplified result = checked(graph, qkv);
  CHECK(kinds(result.graph) == Kinds{"linear", "split", "relu", "relu", "relu", "cat"});
  const Op& product = result.graph.ops[0];
  CHECK(product.name == "q+k+v");
  const GraphTensor& weight = result.graph.tensors[product.inputs[1]];
  CHECK(weight.name == "q+k+v.weight");
  CHECK(weight.type == contiguous_tensor(ElementType::Bf16, Dims{16, 4}));
  CHECK(weight.role == Role::Parameter);
  CHECK(result.graph.tensors[product.inputs[2]].type.shape == Dims{16});
  CHECK(result.graph.tensors[product.outputs[0]].type ==
        contiguous_tensor(ElementType::Bf16, Dims{2, 3, 16}));
  // Parts keep their names and shapes, and lie side by side.
  const Op& split = result.graph.ops[1];
  CHECK(split.attributes.dims("sizes") == Dims{8, 2, 6});
  const GraphTensor& k = result.graph.tensors[split.outputs[1]];
  CHECK(k.name == "k");
  CHECK(k.type.shape == Dims{2, 3, 2});
  CHECK(k.type.strides == Dims{48, 16, 1});
  CHECK(test::model_flops(result.graph) == test::model_flops(graph));
  CHECK(bytes_of(result.graph, Role::Parameter) == bytes_of(graph, Role::Parameter));
  const Simplification& merged = pass(result, "merge_qkv");
  CHECK(merged.ops_removed == 3);
  CHECK(merged.ops_added == 2);
  CHECK(merged.saved == Bytes(2 * 48));  // x is read once instead of three times.
}

TEST_CASE("Gate and up of a SwiGLU are merged by their own rule", "[simplify][merge]") {
  const OpGraph graph = small_graph(
      "  - r = linear(x, 2, bias=false)\n  - g = linear(x, 8, bias=false)\n  - u = linear(x, 8, bias=false)\n"
      "  - h = linear(silu(g) * u, 4, bias=false)\n  - z = cat(h, r, linear(x, 2, bias=false), dim=-1)\n");
  SECTION("alone") {
    const Simplified result = checked(graph, gate_up);
    CHECK(kinds(result.graph) ==
          Kinds{"linear", "linear", "split", "silu", "mul", "linear", "linear", "cat"});
    CHECK(result.graph.ops[1].name == "g+u");
    CHECK(result.graph.ops[2].attributes.dims("sizes") == Dims{8});
  }
  SECTION("the others alone") {
    const Simplified result = checked(graph, qkv);
    CHECK(result.graph.ops[0].name == "r+linear");
    CHECK(pass(result, "merge_qkv").ops_removed == 2);
  }
  SECTION("both, each with its own product") {
    SimplifyRules both = qkv;
    both.merge_gate_up = true;
    const Simplified result = checked(graph, both);
    CHECK(kinds(result.graph) == Kinds{"linear", "split", "linear", "split", "silu", "mul", "linear", "cat"});
    // And it stays so.
    CHECK(test::difference(simplify(result.graph, both).graph, result.graph) == "");
  }
}

TEST_CASE("Linears that do not go together stay", "[simplify][merge]") {
  const std::string lines = GENERATE(
      // Of other tensors, or of one that changed.
      "  - a = linear(x, 4)\n  - b = linear(y, 4)\n  - z = a + b\n",
      "  - h = relu(x)\n  - a = linear(h, 4)\n  - add_(h, y)\n  - b = linear(h, 4)\n  - z = a + b\n",
      // A weight that somebody else reads, or that is made in the step.
      "  - w = parameter([4, 4])\n  - a = linear(x, weight=w)\n  - b = linear(x, weight=w)\n  - z = a * "
      "relu(b)\n",
      "  - w = parameter([4, 4])\n  - a = linear(x, weight=w)\n  - b = linear(x, 4, bias=false)\n  - z = a * "
      "relu(b) + mean(w, -1)\n",
      "  - a = linear(x, weight=relu(parameter([4, 4])))\n  - b = linear(x, 4, bias=false)\n  - z = a + b\n",
      // One with a bias, one without.
      "  - a = linear(x, 4)\n  - b = linear(x, 4, bias=false)\n  - z = a + b\n",
      // A result that changes, that leaves the step, that has to be contiguous, whose rows a bias is added
      // to.
      "  - a = linear(x, 4)\n  - b = linear(x, 4)\n  - relu_(a)\n  - z = a + b\n",
      "  - a = linear(x, 4)\n  - z = linear(x, 4)\n  - add_(x, a)\n",
      "  - a = linear(x, 4)\n  - b = linear(x, 4)\n  - z = view(a, [24]) + view(b, [24])\n",
      "  - a = linear(x, 4)\n  - b = linear(x, 4)\n  - z = linear(a, 4) + b\n");
  CAPTURE(lines);
  const OpGraph graph = small_graph(lines);
  SimplifyRules both = qkv;
  both.merge_gate_up = true;
  const Simplified result = checked(graph, both);
  CHECK(pass(result, "merge_qkv").ops_removed == 0);
  CHECK(pass(result, "merge_gate_up").ops_removed == 0);
}

TEST_CASE("Views of the parts, and states that they are written to, follow", "[simplify][merge]") {
  const OpGraph graph = small_graph(
      "  - cache = state([2, 2, 5, 2])\n"
      "  - q = transpose(view(linear(x, 4), [2, 3, 2, 2]), 1, 2)\n"
      "  - k = transpose(view(linear(x, 4), [2, 3, 2, 2]), 1, 2)\n"
      "  - index_put_(cache, slice(i, 0, 0, 3), k, dim=2)\n"
      "  - o = scaled_dot_product_attention(q, cache, cache)\n"
      "  - z = reshape(transpose(o, 1, 2), [2, 3, 4])\n");
  const Simplified result = checked(graph, qkv);
  CHECK(kinds(result.graph) == Kinds{"linear", "split", "view", "transpose", "view", "transpose", "slice",
                                     "index_put_", "scaled_dot_product_attention", "transpose", "reshape"});
  CHECK(result.graph.tensors[result.graph.ops[3].outputs[0]].type.strides == Dims{24, 2, 8, 1});
}

TEST_CASE("Nothing is merged in training or across regions", "[simplify][merge]") {
  const OpGraph graph = small_graph("  - a = linear(x, 4)\n  - b = linear(x, 4)\n  - z = a + b\n");
  CHECK(simplify(graph, qkv, {.regions = {}, .training = true}).graph.ops.size() == 3);
  const Region first{.first = 0, .last = 1, .name = ""};
  const Region second{.first = 1, .last = 3, .name = ""};
  CHECK(checked(graph, qkv, {.regions = {first, second}}).graph.ops.size() == 3);
}

// --- Shipped networks, small enough to be computed.

NetworkSizes small_sizes(std::int64_t tokens, StepKind step,
                         std::initializer_list<std::pair<std::string_view, NetworkValue>> parameters) {
  return test::sizes(2, tokens, step, parameters, ElementType::Bf16);
}

NetworkValue number(std::int64_t value) {
  return value;
}
NetworkValue word(const char* value) {
  return std::string(value);
}

TEST_CASE("Llama with everything merged computes the same in fewer ops", "[simplify][merge]") {
  const StepKind step = GENERATE(StepKind::Inference, StepKind::Prefill, StepKind::Decode);
  const std::string form = GENERATE("written_out", "library");
  const OpGraph graph =
      build_graph(test::shipped_network("llama"), small_sizes(4, step,
                                                              {{"layers", number(3)},
                                                               {"d_model", number(8)},
                                                               {"heads", number(2)},
                                                               {"kv_heads", number(1)},
                                                               {"d_ff", number(12)},
                                                               {"vocab", number(10)},
                                                               {"context", number(8)},
                                                               {"norm", word(form.c_str())},
                                                               {"rope", word(form.c_str())}}));
  const Simplified result = checked(graph, test::all_rules);
  const Kinds left = kinds(result.graph);
  // Three layers: four products each, and the head.
  CHECK(std::count(left.begin(), left.end(), "linear") == 13);
  CHECK(std::count(left.begin(), left.end(), "split") == 6);
  CHECK(test::model_flops(result.graph) == test::model_flops(graph));
  CHECK(test::eager_traffic(result.graph, test::h200()) <= test::eager_traffic(graph, test::h200()));
  CHECK(eager_memory(result.graph, test::h200()).parameters <= eager_memory(graph, test::h200()).parameters);
  CHECK(test::difference(simplify(result.graph, test::all_rules).graph, result.graph) == "");
}

TEST_CASE("Biases are merged with their weights, as in the encoder", "[simplify][merge]") {
  const OpGraph graph = build_graph(test::shipped_network("encoder"), small_sizes(4, StepKind::Inference,
                                                                                  {{"layers", number(2)},
                                                                                   {"d_model", number(8)},
                                                                                   {"heads", number(2)},
                                                                                   {"d_ff", number(12)},
                                                                                   {"vocab", number(10)},
                                                                                   {"context", number(8)}}));
  const Simplified result = checked(graph, test::all_rules);
  CHECK(pass(result, "merge_qkv").ops_removed == 6);
  CHECK(pass(result, "merge_qkv").ops_added == 4);
  CHECK(result.graph.tensors[result.graph.ops[0].outputs[0]].name == "embedding");
}

TEST_CASE("The steps of the chapters keep their results", "[simplify]") {
  NetworkSizes traced = small_sizes(4, StepKind::Inference,
                                    {{"d_model", number(8)}, {"heads", number(2)}, {"d_ff", number(12)}});
  traced.compiled = GENERATE(false, true);
  const Simplified result =
      checked(build_graph(test::shipped_network("seed_decoder"), traced), test::all_rules);
  CHECK(pass(result, "merge_gate_up").ops_removed == 2);
}

}  // namespace
}  // namespace gpusim
