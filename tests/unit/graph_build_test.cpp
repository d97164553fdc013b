// SPDX-License-Identifier: Apache-2.0
// How blocks, repeats and conditions become ops.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using test::network_of;
using test::sizes;

std::string stack_of_layers(const std::string& repeat) {
  return "name: n\nparameters: {layers: 6, width: 4}\ninputs:\n  h: {shape: [batch, width]}\n"
         "blocks:\n"
         "  layer:\n"
         "    takes: [x, scale]\n"
         "    body:\n"
         "      - y = linear(relu(layer_norm(x)), width) * scale\n"
         "    gives: [x + y]\n"
         "body:\n"
         "  - scale = buffer([1])\n"
         "  - x = h\n" +
         repeat + "gives: [x]\n";
}

void check_equal(const OpGraph& a, const OpGraph& b) {
  REQUIRE(a.ops.size() == b.ops.size());
  REQUIRE(a.tensors.size() == b.tensors.size());
  CHECK(a.storages == b.storages);
  CHECK(a.outputs == b.outputs);
  CHECK(a.calls == b.calls);
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op& x = a.ops[i];
    const Op& y = b.ops[i];
    CAPTURE(i, x.name, y.name);
    CHECK(x.kind == y.kind);
    CHECK(x.name == y.name);
    CHECK(x.inputs == y.inputs);
    CHECK(x.outputs == y.outputs);
    CHECK(x.attributes == y.attributes);
    CHECK(x.like == y.like);
    CHECK(x.module_calls == y.module_calls);
    CHECK(x.call == y.call);
    CHECK(x.in_repeat == y.in_repeat);
  }
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    CAPTURE(t, a.tensors[t].name, b.tensors[t].name);
    CHECK(a.tensors[t] == b.tensors[t]);
  }
}

TEST_CASE("A repeat that is folded equals the one that is run round by round, op for op", "[graph]") {
  // An index that is read keeps the rounds from being copied.
  const OpGraph folded =
      build_graph(network_of(stack_of_layers("  - repeat: layers\n    body:\n      - x = layer(x, scale)\n")),
                  sizes(2, 1));
  const OpGraph unrolled = build_graph(
      network_of(stack_of_layers("  - repeat: layers\n    index: i\n    body:\n"
                                 "      - require(i < layers, 'never')\n      - x = layer(x, scale)\n")),
      sizes(2, 1));
  check_equal(folded, unrolled);
  CHECK(folded.ops.size() == 6 * 5);
  CHECK(folded.ops.back().name == unrolled.ops.back().name);
}

TEST_CASE("Calls of blocks nest, hold their ops, and know whether they stand in a repeat", "[graph]") {
  const OpGraph graph = build_graph(
      network_of("name: n\ninputs:\n  x: {shape: [4, 4]}\n"
                 "blocks:\n"
                 "  fn:\n    function: true\n    takes: [x]\n    body:\n      - y = exp(x)\n    gives: [y]\n"
                 "  layer:\n    takes: [x]\n    body:\n      - repeat: 3\n        body:\n"
                 "          - x = fn(relu(x))\n      - x = fn(x)\n    gives: [x]\n"
                 "body:\n  - x = sin(x)\n  - repeat: 4\n    body:\n      - x = layer(x)\n  - x = layer(x)\n"
                 "gives: [x]\n"),
      sizes(1, 1));
  REQUIRE(graph.calls.size() == 1 + 5 * 5);
  CHECK(graph.calls[0] == BlockCall{.name = "", .last = 1 + 5 * 7});
  const BlockCall& layer = graph.calls[11];
  CHECK(layer == BlockCall{.name = "layer[2]",
                           .parent = 0,
                           .block = 1,
                           .first = 15,
                           .last = 22,
                           .module = true,
                           .in_repeat = true});
  const BlockCall& fn = graph.calls[13];
  CHECK(fn == BlockCall{.name = "layer[2].fn[1]",
                        .parent = 11,
                        .block = 0,
                        .first = 18,
                        .last = 19,
                        .module = false,
                        .in_repeat = true});
  CHECK_FALSE(graph.calls[15].in_repeat);
  CHECK_FALSE(graph.calls[21].in_repeat);
  for (const Op& op : graph.ops) {
    const BlockCall& call = graph.calls[op.call];
    CAPTURE(op.name);
    CHECK(op.name.rfind(call.name, 0) == 0);
    CHECK(op.in_repeat == (op.kind->name == "relu"));
  }
}

TEST_CASE("Shipped networks fold into the same ops as round by round", "[graph][networks]") {
  const auto [name, step] = GENERATE(table<std::string, StepKind>({{"gpt2", StepKind::Decode},
                                                                   {"llama", StepKind::Decode},
                                                                   {"llama", StepKind::Inference},
                                                                   {"gemma", StepKind::Prefill},
                                                                   {"mixtral", StepKind::Inference},
                                                                   {"encoder", StepKind::Inference},
                                                                   {"vit", StepKind::Inference}}));
  CAPTURE(name, name == "vit");
  Network network = test::shipped_network(name);
  const NetworkSizes wanted = sizes(2, 16, step, {{"layers", std::int64_t{5}}});
  const OpGraph folded = build_graph(network, wanted);
  for (NetworkItem& item : network.body)
    if (auto* repeat = std::get_if<RepeatItem>(&item.what)) {
      repeat->index = "round";
      NetworkItem read{.what = parse_statement("require(round >= 0, 'never')"), .place = item.place};
      repeat->body.insert(repeat->body.begin(), std::move(read));
    }
  check_equal(folded, build_graph(network, wanted));
}

TEST_CASE("A round that differs from the one before it is not folded away", "[graph]") {
  const auto ops = [](const std::string& repeat) {
    return build_graph(network_of(stack_of_layers(repeat)), sizes(2, 1)).ops.size();
  };
  // The outer index decides, and is read only inside of an inner repeat.
  CHECK(ops("  - repeat: layers\n    index: i\n    body:\n"
            "      - repeat: 2\n        body:\n"
            "          - if: i == 5\n            then: [x = relu(x)]\n            else: [x = "
            "tanh(relu(x))]\n") == 5 * 2 * 2 + 2);
  // What a round leaves behind changes the next one.
  CHECK(ops("  - n = 1\n  - repeat: layers\n    body:\n"
            "      - n = n + 1\n      - if: n == 4\n        then: [x = relu(x)]\n        else: [x = "
            "tanh(relu(x))]\n") == 5 * 2 + 1);
}

TEST_CASE("No rounds leave no ops, and a condition runs one side", "[graph]") {
  CHECK(build_graph(network_of(stack_of_layers("  - repeat: 0\n    body:\n      - x = layer(x, scale)\n"
                                               "  - x = relu(x)\n")),
                    sizes(1, 1))
            .ops.size() == 1);
  const std::string choice = "  - if: batch > 4\n    then: [x = relu(x)]\n    else: [x = tanh(relu(x))]\n";
  CHECK(build_graph(network_of(stack_of_layers(choice)), sizes(5, 1)).ops.size() == 1);
  CHECK(build_graph(network_of(stack_of_layers(choice)), sizes(4, 1)).ops.size() == 2);
}

TEST_CASE("Names tell where an op stands, and modules are counted at their first op", "[graph]") {
  const OpGraph graph =
      build_graph(network_of(stack_of_layers("  - repeat: layers\n    body:\n      - x = layer(x, scale)\n")),
                  sizes(2, 1));
  CHECK(graph.ops[0].name == "layer[0].layer_norm");
  CHECK(graph.ops[2].name == "layer[0].linear");
  CHECK(graph.ops[5 * 3 + 2].name == "layer[3].linear");
  // The layer and its norm; relu owns nothing; the linear layer.
  CHECK(graph.ops[0].module_calls == 2);
  CHECK(graph.ops[1].module_calls == 0);
  CHECK(graph.ops[2].module_calls == 1);
  // Equal ops cost the same: all layers point to the first.
  CHECK(graph.ops[5 * 3 + 2].like == 2);
}

TEST_CASE("Sizes come from parameters, what is derived from them, and the scenario", "[graph]") {
  const Network network = network_of(
      "name: n\nparameters: {width: 8, heads: 2, form: {default: a, choices: [a, b]}, share: 0.5}\n"
      "derived:\n  head: width / heads\n  rows: ceil_div(sequence, 3) * batch\n"
      "  wide: head if form == 'a' else 2 * head\n"
      "inputs:\n  x: {shape: [rows, wide]}\nbody: [z = relu(x)]\ngives: [z]\n");
  CHECK(test::given(build_graph(network, sizes(2, 7))).shape == Dims{6, 4});
  CHECK(test::given(build_graph(network, sizes(2, 7, StepKind::Inference, {{"form", std::string("b")}})))
            .shape == Dims{6, 8});
  const auto values = resolved_sizes(network, sizes(2, 7));
  CHECK(values.back() == std::pair<std::string, NetworkValue>("wide", std::int64_t{4}));
  CHECK_THROWS_AS(build_graph(network, sizes(1, 1, StepKind::Inference, {{"heads", std::int64_t{3}}})),
                  GraphError);
  CHECK_THROWS_AS(build_graph(network, sizes(1, 1, StepKind::Inference, {{"form", std::string("c")}})),
                  GraphError);
  CHECK_THROWS_AS(build_graph(network, sizes(1, 1, StepKind::Inference, {{"head", std::int64_t{3}}})),
                  GraphError);
  CHECK_THROWS_AS(build_graph(network, sizes(1, 1, StepKind::Inference, {{"width", 2.5}})), GraphError);
}

TEST_CASE("A network can be another one where a compiler traces it", "[graph]") {
  const Network network = network_of(
      "name: n\ninputs:\n  x: {shape: [4]}\nbody:\n  - z = relu(x)\n  - if: compiled\n    then:\n"
      "      - z = relu(z)\ngives: [z]\n");
  CHECK(build_graph(network, sizes(1, 1)).ops.size() == 1);
  NetworkSizes traced = sizes(1, 1);
  traced.compiled = true;
  CHECK(build_graph(network, traced).ops.size() == 2);
  CHECK(resolved_sizes(network, traced).back() == std::pair<std::string, NetworkValue>("compiled", true));
}

TEST_CASE("In decode there is one new token a sequence", "[graph]") {
  const Network network =
      network_of("name: n\ninputs:\n  x: {shape: [batch, tokens, 4]}\nbody: [z = relu(x)]\ngives: [z]\n");
  CHECK(test::given(build_graph(network, sizes(3, 9))).shape == Dims{3, 9, 4});
  CHECK(test::given(build_graph(network, sizes(3, 9, StepKind::Decode))).shape == Dims{3, 1, 4});
}

TEST_CASE("A tied weight is one parameter", "[graph]") {
  CHECK(parameter_count(test::small_graph("  - w = parameter([9, 4])\n  - a = embedding(i, w)\n"
                                          "  - z = linear(a, weight=w)\n")) == 36);
}

TEST_CASE("An input may come with its channels innermost", "[graph]") {
  const Network network = network_of(
      "name: n\nparameters: {last: true}\ninputs:\n  x: {shape: [2, 3, 4, 5], channels_last: last}\n"
      "body: [z = relu(x)]\ngives: [z]\n");
  CHECK(test::given(build_graph(network, sizes(1, 1))).strides == Dims{60, 1, 15, 3});
  CHECK(test::given(build_graph(network, sizes(1, 1, StepKind::Inference, {{"last", false}}))).strides ==
        Dims{60, 20, 5, 1});
}

}  // namespace
}  // namespace gpusim
