// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong in a network's file, and the answer.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

/// What a user sees: reading the file, and building the graph of one step of it.
std::string answer(const std::string& yaml, const NetworkSizes& sizes = test::sizes(1, 1)) {
  return test::message_of([&] {
    const Network network = test::network_of(yaml);
    const config::Node asked = config::load_text("workload: n", "scenario.yaml").at("workload");
    config::located(network, asked, [&] { return build_graph(network, sizes); });
  });
}

/// The same of a statement at line 7 of a file; columns count from the line's first character.
std::string small(const std::string& statement) {
  return answer(test::small_network("  - z = x\n  - " + statement + "\n"));
}

TEST_CASE("Statements that make no sense are located in the network's file", "[bad_input][networks]") {
  const auto [statement, message] = GENERATE(table<std::string, std::string>({
      // Names.
      {"z = rellu(x)", "n.yaml:8:9: error: unknown op or block 'rellu'\n  hint: did you mean 'relu'?"},
      {"z = relu(w)", "n.yaml:8:14: error: unknown name 'w'"},
      {"z = linear(x, 4, bais=false)",
       "n.yaml:8:27: error: linear takes no 'bais'\n  hint: did you mean 'bias'?"},
      {"batch = x", "n.yaml:8:5: error: 'batch' is a size of the network and cannot be assigned to"},
      // Dtypes.
      {"z = to(x, 'fp12')", "n.yaml:8:15: error: unknown dtype 'fp12'\n  hint: did you mean 'fp32'?"},
      {"z = parameter([4], dtype='float')", "n.yaml:8:30: error: unknown dtype 'float'"},
      {"graph_break(cause='itm')",
       "n.yaml:8:5: error: graph_break: unknown cause 'itm'\n  hint: did you mean 'item'?"},
      // Shapes that do not go together.
      {"z = x + parameter([5])",
       "n.yaml:8:11: error: add: shapes [2, 3, 4] and [5] do not go together\n"
       "  hint: sizes must be equal or 1, counted from the last dimension"},
      {"z = matmul(x, y)",
       "n.yaml:8:9: error: matmul: shapes [2, 3, 4] and [3, 4] do not go together: 4 columns and 3 rows"},
      {"z = view(x, [5, 5])",
       "n.yaml:8:9: error: view: a tensor of shape [2, 3, 4] (24 elements) cannot be seen as [5, 5] (25)"},
      {"z = view(transpose(x, 0, 1), [6, 4])",
       "n.yaml:8:9: error: view: a tensor of shape [3, 2, 4] and strides [4, 12, 1] cannot be seen as [6, 4] "
       "without a copy\n  hint: use reshape(), which copies, or contiguous() before"},
      {"a, b = split(x, 1, dim=1)", "n.yaml:8:5: error: 2 names on the left, but the right is a list of 3"},
      {"z = transpose(x, 0, 3)",
       "n.yaml:8:9: error: transpose: there is no dimension 3 in a tensor of 3\n"
       "  hint: dimensions count from 0, or from -1 backwards"},
      {"z = linear(x, weight=parameter([7, 5]))",
       "n.yaml:8:9: error: linear: a tensor of shape [2, 3, 4] does not go with a weight of shape [7, 5]\n"
       "  hint: a weight is [outputs, inputs]"},
      {"z = embedding(x, 10, 4)", "n.yaml:8:9: error: embedding: indices must be integers, not bf16"},
      {"z = matmul(x, to(y, 'fp32'))", "n.yaml:8:9: error: matmul: shapes"},
      // Sizes.
      {"z = linear(x, 0)", "n.yaml:8:9: error: linear: the number of outputs must be at least 1, not 0"},
      {"z = linear(x, -4)", "n.yaml:8:9: error: linear: the number of outputs must be at least 1, not -4"},
      {"z = parameter([4, 0])",
       "n.yaml:8:23: error: the shape of a parameter must have sizes of at least 1, not 0"},
      {"z = parameter([1, 1, 1, 1, 1, 1, 1, 1, 1])",
       "n.yaml:8:19: error: the shape of a parameter has more than 8 dimensions (rank_max)"},
      {"z = parameter([4611686018427387904, 4])",
       "n.yaml:8:9: error: a tensor of shape [4611686018427387904, 4] has more than 2^60 bytes "
       "(tensor_bytes_max)"},
      {"z = zeros([9223372036854775807 * 2])", "n.yaml:8:36: error: the result does not fit into 64 bits"},
      {"z = zeros([5 / 2])",
       "n.yaml:8:18: error: 5 / 2 leaves a remainder\n  hint: sizes must divide; '//' rounds down"},
      {"z = zeros([5 // 0])", "n.yaml:8:18: error: division by zero"},
      // Arguments.
      {"z = relu()", "n.yaml:8:9: error: relu needs the tensor 'x'\n  hint: write relu(x)"},
      {"z = transpose(x, 0)",
       "n.yaml:8:9: error: transpose needs 'dim1'\n  hint: write transpose(x, dim0, dim1)"},
      {"z = relu(x, y)", "n.yaml:8:17: error: relu takes at most 1 tensors"},
      {"z = softmax(x, 'last')", "n.yaml:8:20: error: 'dim' of softmax is an integer, not a word"},
      {"z = x if x else y", "n.yaml:8:14: error: a condition must be true or false, but this is a tensor"},
      {"z = relu(x", "n.yaml:8:15: error: "},
  }));
  CAPTURE(statement);
  CHECK(small(statement).substr(0, message.size()) == message);
}

std::string with_blocks(const std::string& blocks, const std::string& body = "x = a(h)") {
  return "name: n\ninputs:\n  h: {shape: [4]}\nblocks:\n" + blocks + "body: [" + body + "]\ngives: [x]\n";
}

TEST_CASE("Blocks that call each other in a cycle are refused at the call that closes it",
          "[bad_input][networks]") {
  CHECK(answer(with_blocks("  a: {takes: [x], body: [y = a(x)], gives: [y]}\n")) ==
        "n.yaml:5:30: error: block 'a' calls itself\n"
        "  hint: a network is a directed graph without cycles; repeat a block with 'repeat:'");
  CHECK(answer(with_blocks("  a: {takes: [x], body: [y = b(x)], gives: [y]}\n"
                           "  b: {takes: [x], body: [y = relu(c(x))], gives: [y]}\n"
                           "  c: {takes: [x], body: [{if: batch > 9, then: [x = a(x)]}], gives: [x]}\n"))
            .find("n.yaml:7:53: error: blocks call each other in a cycle") == 0);
}

TEST_CASE("A tensor cannot be used before it is made", "[bad_input][networks]") {
  CHECK(answer("name: n\ninputs:\n  h: {shape: [4]}\nbody:\n  - x = h + y\n  - y = relu(x)\ngives: [y]\n")
            .find("n.yaml:5:13: error: unknown name 'y'") == 0);
}

TEST_CASE("Sizes that come from parameters are checked where they are used", "[bad_input][networks]") {
  const auto with_layers = [](const std::string& value) {
    return answer(
        "name: n\nparameters: {layers: " + value +
        ", width: 8, heads: 3}\n"
        "inputs:\n  h: {shape: [width]}\nbody:\n  - x = h\n  - repeat: layers\n    body: [x = relu(x)]\n"
        "gives: [x]\n");
  };
  CHECK(with_layers("1000000000") ==
        "n.yaml:7:13: error: 1000000000 repeats are more than 2000000 (graph_ops_max)");
  CHECK(with_layers("2000000") == "no error");
  CHECK(with_layers("-1") == "n.yaml:7:13: error: the number of repeats must not be negative, but is -1");
  CHECK(with_layers("0").find("error: the network has no op for this step") != std::string::npos);
  CHECK(with_layers("many") ==
        "n.yaml:7:13: error: the number of repeats must be an integer, but this is a word");
  const auto input_of = [](const std::string& shape) {
    return answer("name: n\nparameters: {width: 8, heads: 3}\ninputs:\n  h: {shape: " + shape +
                  "}\nbody: [x = relu(h)]\ngives: [x]\n");
  };
  CHECK(input_of("[width - 8]") ==
        "n.yaml:4:21: error: the shape of input 'h' must have sizes of at least 1, not 0");
  CHECK(input_of("[width / heads]").find("n.yaml:4:21: error: 8 / 3 leaves a remainder") == 0);
  CHECK(input_of("[widht]").find("n.yaml:4:15: error: unknown name 'widht'\n  hint: did you mean 'width'?") ==
        0);
}

TEST_CASE("Nested repeats stop at the limit of ops, not at the memory's", "[bad_input][networks]") {
  std::string text = "name: n\ninputs:\n  h: {shape: [4]}\nbody:\n  - x = h\n";
  std::string indent = "  ";
  for (int i = 0; i < 3; ++i) {
    text += indent + "- repeat: 1000000\n" + indent + "  body:\n";
    indent += "    ";
  }
  text += indent + "- x = relu(x)\ngives: [x]\n";
  CHECK(answer(text).find("ops (graph_ops_max)") != std::string::npos);
}

TEST_CASE("What a scenario asks of a network is refused at the scenario", "[bad_input][networks]") {
  const std::string yaml =
      "name: n\nparameters: {width: 8, form: {default: a, choices: [a, b]}}\n"
      "inputs:\n  h: {shape: [width]}\nbody: [x = relu(h)]\ngives: [x]\n";
  const auto with = [&](const std::string& name, NetworkValue value) {
    NetworkSizes sizes = test::sizes(1, 1);
    sizes.parameters.emplace(name, std::move(value));
    return answer(yaml, sizes);
  };
  CHECK(with("widht", std::int64_t{1}) ==
        "scenario.yaml:1:11: error: workload: the network n has no parameter 'widht'\n  hint: did you mean "
        "'width'?");
  CHECK(with("width", std::string("x")) ==
        "scenario.yaml:1:11: error: workload: parameter 'width' must be an integer");
  CHECK(with("form", std::string("c"))
            .find("scenario.yaml:1:11: error: workload: parameter 'form' cannot be 'c'") == 0);
}

TEST_CASE("A file that is no network says what is missing or unknown, all at once", "[bad_input][networks]") {
  CHECK(answer("name: n\n") ==
        "n.yaml:1:1: error: missing key 'inputs'\n  hint: keys given here: name\n"
        "n.yaml:1:1: error: missing key 'body'\n  hint: keys given here: name\n"
        "n.yaml:1:1: error: missing key 'gives'\n  hint: keys given here: name");
  const std::string head = "name: n\ninputs:\n  h: {shape: [4]}\n";
  CHECK(answer(head + "bodies: []\nbody: [x = relu(h)]\ngives: [x]\n")
            .find("n.yaml:4:1: error: bodies: unknown key") == 0);
  CHECK(answer(head + "body:\n  - {loop: 3, body: []}\ngives: [x]\n")
            .find("n.yaml:5:5: error: body[0]: neither a statement nor 'repeat' nor 'if'") == 0);
  CHECK(answer(head + "parameters: {h: 3}\nbody: [x = relu(h)]\ngives: [x]\n").find("'h' is defined twice") !=
        std::string::npos);
  CHECK(answer(head + "parameters: {batch: 3}\nbody: [x = relu(h)]\ngives: [x]\n")
            .find("n.yaml:4:21: error: parameters.batch: 'batch' is given by the scenario") == 0);
  CHECK(answer(head + "parameters: {1st: 3}\nbody: [x = relu(h)]\ngives: [x]\n").find("'1st' is no name") !=
        std::string::npos);
  CHECK(answer("name: n\ninputs:\n  h: {shape: [4], dtype: fp99}\nbody: [x = relu(h)]\ngives: [x]\n")
            .find("n.yaml:3:26: error: inputs.h.dtype: unknown name 'fp99'") == 0);
  CHECK(
      answer(head + "body: [x = 3]\ngives: [x]\n").find("a network gives tensors, but this is an integer") !=
      std::string::npos);
}

TEST_CASE("A condition of the file itself is an error at its place", "[bad_input][networks]") {
  CHECK(answer("name: n\ninputs:\n  h: {shape: [tokens]}\nbody:\n  - require(sequence <= 4, 'too long')\n"
               "  - x = relu(h)\ngives: [x]\n",
               test::sizes(1, 5)) == "n.yaml:5:5: error: too long\n  hint: the network's file asks for this");
}

}  // namespace
}  // namespace gpusim
