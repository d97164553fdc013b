// SPDX-License-Identifier: Apache-2.0
// Which ops may be one kernel, and the reason where they may not, in words. The seeds' rules are
// in tests/formula/fusion_test.cpp.
#include <string>

#include "models/compiler/legality.hpp"
#include "models/compiler/loop_space.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fusion.hpp"
#include "tests/support/traffic_text.hpp"

namespace gpusim::test {
namespace {

const std::string rows = "x: {shape: [16384, 4096]}, w: {shape: [4096]}";

TEST_CASE("One op is a kernel whatever it is, and views count nothing") {
  const OpGraph graph =
      fusion_graph("x: {shape: [64, 64]}, i: {shape: [64], dtype: int64}",
                   "  - v = transpose(x, 0, 1)\n  - s, p = sort(v)\n  - y = relu(s)\n", "y, p");
  BackendMode closed;
  closed.fusion = {.pointwise = false, .siblings = false, .library_norms = true, .ops_max = 1};
  for (OpIndex i = 0; i < graph.ops.size(); ++i)
    CHECK(refusal_of(graph, std::vector<OpIndex>{i}, closed) == "legal");
  CHECK(refusal_of(graph, std::vector<OpIndex>{0, 1}, closed) == "legal");
}

TEST_CASE("Eager runs each op by itself") {
  const OpGraph graph = fusion_graph(rows, "  - a = exp(x)\n  - y = cos(a)\n", "y");
  CHECK(refusal_of(graph, {"a", "y"}, {}, joining_backend(CaptureKind::None)) ==
        "'eager' runs each op by itself");
}

TEST_CASE("A kernel of a library is joined by nothing") {
  const OpGraph sorted = fusion_graph("x: {shape: [64, 64]}", "  - a = exp(x)\n  - s = cumsum(a)\n", "s");
  CHECK(refusal_of(sorted, {"a", "s"}) == "'s' is a kernel of a library, which nothing joins");
  const OpGraph norm = fusion_graph(rows, "  - n = layer_norm(x)\n  - y = gelu(n)\n", "y");
  BackendMode library;
  library.fusion.library_norms = true;
  CHECK(refusal_of(norm, {"n", "y"}, library) ==
        "'n' is a kernel of a library with this backend, which nothing joins");
  CHECK(refusal_of(norm, {"n", "y"}) == "legal");
}

TEST_CASE("A kernel takes as many ops as its backend allows, views not counted") {
  const OpGraph graph =
      fusion_graph(rows, "  - a = exp(x)\n  - v = view(a, [-1])\n  - b = cos(v)\n  - y = sin(b)\n", "y");
  BackendMode three;
  three.fusion.ops_max = 3;
  BackendMode two;
  two.fusion.ops_max = 2;
  CHECK(refusal_of(graph, {"a", "v", "b", "y"}, three) == "legal");
  CHECK(refusal_of(graph, {"a", "v", "b", "y"}, two) == "3 ops, and one kernel takes 2 (ops_max)");
}

TEST_CASE("An op outside that lies between two of the group is named") {
  const OpGraph graph =
      fusion_graph("x: {shape: [64, 64]}, w: {shape: [64, 64]}",
                   "  - a = exp(x)\n  - p = matmul(a, w)\n  - q = cos(p)\n  - y = a + q\n", "y");
  CHECK(refusal_of(graph, {"a", "y"}) ==
        "'y' needs 'q', which needs 'a' and lies outside of the group (a cycle)");
  CHECK(refusal_of(graph, {"q", "y"}) == "legal");
}

TEST_CASE("Contents that are overwritten between two readers keep them apart") {
  const OpGraph graph = fusion_graph(
      "x: {shape: [64, 64]}, w: {shape: [64, 64]}",
      "  - h = exp(x)\n  - a = cos(h)\n  - p = matmul(w, w)\n  - s = copy_(h, p)\n  - y = a + h\n", "y");
  CHECK_THAT(refusal_of(graph, {"a", "y"}), ContainsSubstring("'y' needs 's', which needs 'a'"));
}

TEST_CASE("What is written at places that data decide is read in another kernel") {
  const OpGraph graph =
      fusion_graph("x: {shape: [64, 64]}, i: {shape: [8], dtype: int64}, r: {shape: [8, 64]}",
                   "  - v = exp(r)\n  - s = index_add_(x, i, v)\n  - y = relu(x)\n", "y");
  CHECK(refusal_of(graph, {"v", "s"}) == "legal");
  CHECK(refusal_of(graph, {"s", "y"}) == "'s' writes at places that data decide, and 'y' needs all of it");
}

TEST_CASE("Memory of which a part is written is read in another kernel") {
  const OpGraph graph = fusion_graph(
      "x: {shape: [64, 64]}, r: {shape: [8, 64]}",
      "  - v = exp(r)\n  - s = copy_(slice(x, 0, 8, 16), v)\n  - y = relu(slice(x, 0, 8, 16))\n", "y");
  CHECK(refusal_of(graph, {"v", "s"}) == "legal");
  CHECK(refusal_of(graph, {"s", "y"}) == "'s' writes a part of memory, and 'y' needs all of it");
}

TEST_CASE("What a group puts into memory is not looked up by index in it") {
  // What nobody else needs is computed at the place that the index names.
  const OpGraph inlined = fusion_graph("x: {shape: [64, 64]}, i: {shape: [8], dtype: int64}",
                                       "  - a = exp(x)\n  - g = index_select(a, i)\n  - y = relu(g)\n", "y");
  CHECK(refusal_of(inlined, {"a", "g"}) == "legal");
  const OpGraph graph = fusion_graph("x: {shape: [64, 64]}, i: {shape: [8], dtype: int64}",
                                     "  - a = exp(x)\n  - g = index_select(a, i)\n  - y = relu(g)\n", "y, a");
  CHECK(refusal_of(graph, {"a", "g"}) == "'g' reads what 'a' makes at places that data decide");
  CHECK(refusal_of(graph, {"g", "y"}) == "legal");
  const OpGraph table = fusion_graph("t: {shape: [64, 64]}, i: {shape: [8], dtype: int64}",
                                     "  - j = i + 1\n  - y = embedding(j, weight=t)\n", "y");
  CHECK(refusal_of(table, {"j", "y"}) == "legal");  // the places may be computed
}

TEST_CASE("Siblings need a backend that joins them and something that both read") {
  const OpGraph graph = fusion_graph("x: {shape: [64, 64]}, z: {shape: [64, 64]}, s: {shape: [2]}",
                                     "  - a = exp(x)\n  - b = cos(x)\n  - c = sin(z)\n"
                                     "  - d = x * sum(s)\n  - e = z * sum(s)\n",
                                     "a, b, c, d, e");
  BackendMode apart;
  apart.fusion.siblings = false;
  CHECK(refusal_of(graph, {"a", "b"}) == "legal");
  CHECK(refusal_of(graph, {"a", "b"}, apart) ==
        "'a' and 'b' need nothing of each other, and this backend does not join siblings");
  CHECK(refusal_of(graph, {"a", "c"}) ==
        "'a' and 'c' need nothing of each other and read nothing in common in one order");
  // Two numbers of two bytes are below the ten bytes that make kernels worth joining.
  const OpGraph few =
      fusion_graph("x: {shape: [64, 64]}, z: {shape: [64, 64]}, s: {shape: [1]}, l: {shape: [64]}",
                   "  - a = x * s\n  - b = z * s\n  - c = x + l\n  - d = z + l\n", "a, b, c, d");
  CHECK_THAT(refusal_of(few, {"a", "b"}), ContainsSubstring("read nothing in common in one order"));
  CHECK(refusal_of(few, {"c", "d"}) == "legal");
}

TEST_CASE("Each kind of joining can be closed by the backend") {
  const OpGraph graph = fusion_graph(rows,
                                     "  - a = exp(x)\n  - b = cos(a)\n  - m = mean(b, -1, keepdim=true)\n"
                                     "  - v = amax(b, -1, keepdim=true)\n  - y = x - m\n",
                                     "y, v");
  BackendMode mode;
  mode.fusion.pointwise = false;
  CHECK(refusal_of(graph, {"a", "b"}, mode) ==
        "'a' and 'b' are elementwise, and this backend does not join such ops");
  mode.fusion = {.into_reduction = false};
  CHECK(refusal_of(graph, {"b", "m"}, mode) ==
        "the reduction 'm' takes in no elementwise ops with this backend, but 'b' feeds it");
  mode.fusion = {.after_reduction = false};
  CHECK(refusal_of(graph, {"m", "y"}, mode) ==
        "'y' follows the reduction 'm', which ends a kernel of this backend");
  mode.fusion = {.reductions_together = false};
  CHECK(refusal_of(graph, {"m", "v"}, mode) ==
        "'m' and 'v' are two reductions, which this backend does not join");
  CHECK(refusal_of(graph, {"a", "b", "m", "v", "y"}) == "legal");
}

TEST_CASE("Reductions of one kernel go over the same rows") {
  const OpGraph graph = fusion_graph(
      "x: {shape: [64, 1024]}",
      "  - a = mean(x, -1)\n  - b = sum(view(x, [16, 4096]), -1)\n"
      "  - c = sum(view(x, [16, 4096]), 0)\n  - d = sum(x, 0)\n  - e = amax(slice(x, 0, 0, 32), -1)\n"
      "  - f = amin(view(x, [8, 8, 1024]), -1)\n",
      "a, b, c, d, e, f");
  CHECK(refusal_of(graph, {"a", "b"}) == "the reduction 'a' is over 1024 columns, 'b' over 4096");
  CHECK(refusal_of(graph, {"a", "e"}) == "the reduction 'a' is of 64 rows, 'e' of 32");
  CHECK(refusal_of(graph, {"c", "d"}) == "the reduction 'c' is over 16 columns, 'd' over 64");
  CHECK(refusal_of(graph, {"a", "f"}) == "legal");
  const OpGraph square =
      fusion_graph("x: {shape: [512, 512]}", "  - a = sum(x, 0)\n  - b = sum(x, 1)\n", "a, b");
  CHECK(refusal_of(square, {"a", "b"}) ==
        "'a' and 'b' need nothing of each other and read nothing in common in one order");
}

TEST_CASE(
    "Elementwise ops of other sizes do not share a loop, unless they are computed where they are read") {
  const OpGraph graph = fusion_graph("x: {shape: [64, 1024]}, w: {shape: [1024]}",
                                     "  - g = w + 1\n  - y = x * g\n  - z = exp(g)\n", "y, z");
  CHECK(refusal_of(graph, {"g", "y"}) == "shapes differ: 'g' is over 1024 elements, 'y' over 65536");
  const OpGraph inlined =
      fusion_graph("x: {shape: [64, 1024]}, w: {shape: [1024]}", "  - g = w + 1\n  - y = x * g\n", "y");
  CHECK(refusal_of(inlined, {"g", "y"}) == "legal");
  const OpGraph rows_and_more = fusion_graph(
      "x: {shape: [64, 1024]}, z: {shape: [64]}",
      "  - m = mean(x, -1)\n  - r = rsqrt(m)\n  - y = exp(x)\n  - t = slice(x, 0, 0, 32)\n  - u = cos(t)\n",
      "m, r, y, u");
  CHECK(refusal_of(rows_and_more, {"m", "r", "y"}) == "legal");
  CHECK(refusal_of(rows_and_more, {"m", "u"}) ==
        "'u' is over 32768 elements, but the reduction 'm' has 64 rows of 1024");
}

TEST_CASE("What is in memory is read at the index at which it is made") {
  const OpGraph graph =
      fusion_graph("x: {shape: [64, 64]}, z: {shape: [64, 64]}",
                   "  - a = exp(x)\n  - y = z + transpose(a, 0, 1)\n  - h = slice(a, 1, 0, 32)\n"
                   "  - p = relu(h)\n  - q = relu(a)\n",
                   "a, y, p, q");
  CHECK(refusal_of(graph, {"a", "y"}) == "'y' reads what 'a' makes in another order");
  CHECK(refusal_of(graph, {"a", "p"}) == "shapes differ: 'a' is over 4096 elements, 'p' over 2048");
  CHECK(refusal_of(graph, {"a", "q"}) == "legal");
  // The same, where nobody else needs a: it is computed at the other place.
  const OpGraph inlined = fusion_graph("x: {shape: [64, 64]}, z: {shape: [64, 64]}",
                                       "  - a = exp(x)\n  - y = z + transpose(a, 0, 1)\n", "y");
  CHECK(refusal_of(inlined, {"a", "y"}) == "legal");
}

TEST_CASE("A row's op reads the rows' results, not the first elements of the tensor") {
  const OpGraph graph = fusion_graph("x: {shape: [64, 1024]}",
                                     "  - a = softmax(x)\n  - m = mean(x, -1)\n"
                                     "  - y = m + slice(view(a, [-1]), 0, 0, 64)\n",
                                     "y");
  CHECK(refusal_of(graph, {"a", "m"}) == "legal");
  CHECK(refusal_of(graph, {"a", "m", "y"}) == "'y' reads what 'a' makes in part");
}

TEST_CASE("Rows are written in the order of the dimensions, whatever the order in which they lie") {
  const OpGraph graph = fusion_graph("x: {shape: [8, 16, 64]}",
                                     "  - a = exp(transpose(x, 0, 1))\n  - s = sum(a, -1)\n"
                                     "  - b = exp(x)\n  - t = sum(b, -1)\n",
                                     "a, s, b, t");
  CHECK(refusal_of(graph, {"a", "s"}) == "'s' reads what 'a' makes in another order");
  CHECK(refusal_of(graph, {"b", "t"}) == "legal");
}

TEST_CASE("Reductions have as many columns as elements go into one result") {
  const OpGraph graph = fusion_graph("x: {shape: [8, 16, 32, 32]}",
                                     "  - a = sum(x)\n  - b = sum(x, [1, 3])\n  - c = softmax(x, 1)\n"
                                     "  - d = layer_norm(x)\n  - e = group_norm(x, groups=4)\n"
                                     "  - f = batch_norm(x, training=true)\n  - g = adaptive_avg_pool2d(x)\n",
                                     "a, b, c, d, e, f, g");
  const auto columns = [&](const char* name) {
    return loop_space(graph, graph.ops[op_named(graph, name)]).columns;
  };
  CHECK(columns("a") == 8 * 16 * 32 * 32);
  CHECK(columns("b") == 16 * 32);
  CHECK(columns("c") == 16);
  CHECK(columns("d") == 32);
  CHECK(columns("e") == 4 * 32 * 32);
  CHECK(columns("f") == 8 * 32 * 32);
  CHECK(columns("g") == 32 * 32);
}

TEST_CASE("A result per row is spread along its row, not across") {
  const std::string x = "x: {shape: [512, 512]}";
  const OpGraph along = fusion_graph(x, "  - m = mean(x, -1, keepdim=true)\n  - y = x - m\n", "y");
  const OpGraph across = fusion_graph(x, "  - m = mean(x, -1)\n  - y = x - m\n", "y");
  CHECK(refusal_of(along, {"m", "y"}) == "legal");
  CHECK(refusal_of(across, {"m", "y"}) == "'y' reads what 'm' makes along another axis");
  const OpGraph folded = fusion_graph("x: {shape: [8, 64, 512]}",
                                      "  - m = mean(view(x, [512, 512]), -1)\n"
                                      "  - y = x * view(m, [8, 64, 1])\n",
                                      "y");
  CHECK(refusal_of(folded, {"m", "y"}) == "legal");
}

TEST_CASE(
    "A reduction along columns takes in what is computed where it is read, and nothing that lies in memory") {
  const OpGraph graph = fusion_graph("x: {shape: [512, 64]}",
                                     "  - a = exp(x)\n  - s = sum(a, 0, keepdim=true)\n  - y = x / s\n", "y");
  CHECK(refusal_of(graph, {"a", "s"}) == "legal");
  CHECK(refusal_of(graph, {"s", "y"}) == "'y' reads what 's' makes along another axis");
  const OpGraph stored = fusion_graph("x: {shape: [512, 64]}", "  - a = exp(x)\n  - s = sum(a, 0)\n", "a, s");
  CHECK(refusal_of(stored, {"a", "s"}) == "'s' reads what 'a' makes in another order");
  const OpGraph softmax = fusion_graph("x: {shape: [512, 64]}",
                                       "  - p = softmax(x, 0)\n  - q = softmax(x)\n  - y = relu(p)\n"
                                       "  - z = relu(q)\n",
                                       "y, z");
  CHECK(refusal_of(softmax, {"p", "y"}) == "'y' reads what 'p' makes in another order");
  CHECK(refusal_of(softmax, {"q", "z"}) == "legal");
}

TEST_CASE("BatchNorm with running statistics is elementwise, in training it goes by channel") {
  const OpGraph graph = fusion_graph("x: {shape: [8, 16, 32, 32]}",
                                     "  - a = batch_norm(x)\n  - b = batch_norm(x, training=true)\n"
                                     "  - y = relu(a)\n  - z = relu(b)\n  - s = sum(x, [0, 2, 3])\n",
                                     "y, z, s");
  CHECK(refusal_of(graph, {"a", "y"}) == "legal");
  CHECK(refusal_of(graph, {"b", "s"}) == "legal");
  CHECK(refusal_of(graph, {"b", "z"}) == "'z' reads what 'b' makes in another order");
  BackendMode mode;
  mode.fusion.after_reduction = false;
  CHECK(refusal_of(graph, {"a", "y"}, mode) == "legal");
  CHECK(refusal_of(graph, {"b", "z"}, mode) ==
        "'z' follows the reduction 'b', which ends a kernel of this backend");
}

// --- Products.

const std::string product_inputs =
    "x: {shape: [512, 256]}, w: {shape: [256, 128]}, c: {shape: [128]}, r: {shape: [512, 128]}";

TEST_CASE("A library's product takes a bias, then an activation, as far as the backend says") {
  const OpGraph graph = fusion_graph(
      product_inputs, "  - p = matmul(x, w)\n  - b = p + c\n  - a = gelu(b)\n  - y = a + r\n", "y");
  BackendMode none;
  none.products.bias = false;
  BackendMode bias;
  BackendMode both;
  both.products.activation = true;
  CHECK(refusal_of(graph, {"p", "b"}, none) == "'b': products of this backend take no bias");
  CHECK(refusal_of(graph, {"p", "b"}, bias) == "legal");
  CHECK(refusal_of(graph, {"p", "b", "a"}, bias) == "'a': products of this backend take no activation");
  CHECK(refusal_of(graph, {"p", "b", "a"}, both) == "legal");
  CHECK(
      refusal_of(graph, {"p", "b", "a", "y"}, both) ==
      "'y': products of this backend are the library's, which take a bias and an activation but no other op");
  CHECK(refusal_of(graph, {"p", "b", "a", "y"}, template_mode()) == "legal");
}

TEST_CASE("A library's product writes only the last of what rides on it") {
  const OpGraph graph = fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - b = p + c\n", "p, b");
  CHECK(refusal_of(graph, {"p", "b"}) ==
        "'p' is needed outside of the group, but the library writes only 'b'");
  CHECK(refusal_of(graph, {"p", "b"}, template_mode()) == "legal");
}

TEST_CASE("A second bias, and one behind the activation, are no bias") {
  const OpGraph late =
      fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - a = relu(p)\n  - b = a + c\n", "b");
  const OpGraph two =
      fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - d = p + c\n  - e = d + c\n", "e");
  BackendMode both;
  both.products.activation = true;
  CHECK(refusal_of(late, {"p", "a", "b"}, both) == "'b': a product takes one bias, before its activation");
  CHECK(refusal_of(two, {"p", "d", "e"}, both) == "'e': a product takes one bias, before its activation");
}

TEST_CASE("What a bias is computed from rides on a template, not on the library's product") {
  const OpGraph graph =
      fusion_graph(product_inputs, "  - p = matmul(x, w)\n  - e = exp(c)\n  - b = p + e\n", "b");
  CHECK(refusal_of(graph, {"p", "e", "b"}) == "'e' neither feeds nor follows the product 'p'");
  CHECK(refusal_of(graph, {"p", "e", "b"}, template_mode()) == "legal");
}

TEST_CASE("An epilogue has the product's shape and order, and is no reduction or store") {
  const OpGraph graph =
      fusion_graph(product_inputs + ", i: {shape: [512], dtype: int64}, t: {shape: [512, 128]}",
                   "  - p = matmul(x, w)\n  - half = relu(slice(p, 0, 0, 256))\n  - s = softmax(p)\n"
                   "  - q = transpose(p, 0, 1) + transpose(r, 0, 1)\n  - u = index_copy_(t, i, p)\n",
                   "half, s, q, u");
  const OpIndex half = op_named(graph, "half");
  CHECK_THAT(refusal_of(graph, std::vector<OpIndex>{0, half}, template_mode()),
             ContainsSubstring("shapes differ"));
  CHECK(refusal_of(graph, {"p", "s"}, template_mode()) ==
        "the reduction 's' needs whole rows of the product 'p', of which a block has but a tile");
  CHECK(refusal_of(graph, {"p", "u"}, template_mode()) ==
        "'u' writes the product 'p' to places that data decide");
}

TEST_CASE("A prologue feeds one operand of the product and nothing else") {
  const OpGraph graph = fusion_graph(
      product_inputs,
      "  - a = to(x, 'bf16')\n  - e = exp(x)\n  - f = exp(w)\n  - p = matmul(e, w)\n  - q = matmul(e, f)\n",
      "p, q");
  CHECK(refusal_of(graph, {"e", "p"}) ==
        "'e' feeds the product 'p', and products of this backend take no elementwise operands");
  CHECK(refusal_of(graph, {"e", "p"}, template_mode()) ==
        "'e' is needed outside of the group, but inside of it only as the product 'p' loads it");
  CHECK(refusal_of(graph, {"f", "q"}, template_mode()) == "legal");
  const OpGraph two =
      fusion_graph(product_inputs, "  - e = exp(x)\n  - f = exp(w)\n  - p = matmul(e, f)\n", "p");
  CHECK(refusal_of(two, {"e", "p"}, template_mode()) == "legal");
  CHECK(refusal_of(two, {"e", "f", "p"}, template_mode()) ==
        "'e' and 'f' feed both operands of the product 'p'");
  const OpGraph shared = fusion_graph("x: {shape: [128, 128]}, w: {shape: [128, 128]}",
                                      "  - e = exp(x)\n  - p = matmul(e, w)\n  - y = p + e\n", "y");
  CHECK(refusal_of(shared, {"e", "p", "y"}, template_mode()) == "'e' feeds 'y' besides the product 'p'");
}

TEST_CASE("A norm rides on the next product where the backend has the pattern, no other reduction does") {
  const OpGraph graph = fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 128]}",
                                     "  - n = rms_norm(x)\n  - s = softmax(x)\n  - p = matmul(n, w)\n"
                                     "  - q = matmul(s, w)\n",
                                     "p, q");
  BackendMode pattern = template_mode();
  pattern.products.norm_prologue = true;
  CHECK(refusal_of(graph, {"n", "p"}, pattern) == "legal");
  CHECK(refusal_of(graph, {"n", "p"}, template_mode()) ==
        "the product 'p' needs whole rows of the reduction 'n'");
  CHECK(refusal_of(graph, {"s", "q"}, pattern) == "the product 'q' needs whole rows of the reduction 's'");
}

TEST_CASE("The bias of a convolution is one number for each channel") {
  const std::string inputs = "x: {shape: [8, 16, 32, 32]}, c: {shape: [64, 1, 1]}, r: {shape: [32]}";
  const std::string conv = "  - p = conv2d(x, 64, kernel=3, padding=1, bias=false)\n";
  CHECK(refusal_of(fusion_graph(inputs, conv + "  - b = p + c\n", "b"), {"p", "b"}) == "legal");
  CHECK_THAT(refusal_of(fusion_graph(inputs, conv + "  - b = p + r\n", "b"), {"p", "b"}),
             ContainsSubstring("but no other op"));
}

TEST_CASE("What neither feeds nor follows a product is another kernel") {
  const OpGraph graph = fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 128]}",
                                     "  - p = matmul(x, w)\n  - y = exp(x)\n", "p, y");
  CHECK(refusal_of(graph, {"p", "y"}, template_mode()) == "'y' neither feeds nor follows the product 'p'");
}

TEST_CASE("Two products that need nothing of each other are two kernels too") {
  const OpGraph graph = fusion_graph("x: {shape: [512, 256]}, w: {shape: [256, 128]}, v: {shape: [256, 128]}",
                                     "  - p = matmul(x, w)\n  - q = matmul(x, v)\n", "p, q");
  CHECK(refusal_of(graph, {"p", "q"}, template_mode()) == "'p' and 'q' are two matrix products");
}

TEST_CASE("Attention is recognised with its scores inside, along the keys, its weights on the left") {
  const std::string inputs = "q: {shape: [16, 64, 64]}, k: {shape: [16, 64, 64]}, v: {shape: [16, 64, 64]}";
  const auto refusal = [&](const std::string& body, const std::string& gives) {
    const OpGraph graph = fusion_graph(inputs, body, gives);
    return refusal_of(graph, all_ops(graph));
  };
  const std::string two = "'s' and 'y' are two matrix products: the second needs whole rows of the first";
  CHECK(refusal("  - s = matmul(q, k)\n  - p = softmax(s)\n  - y = matmul(p, v)\n", "y") == "legal");
  CHECK(refusal("  - s = matmul(q, k)\n  - p = softmax(s)\n  - y = matmul(p, v)\n", "y, p") == two);
  CHECK(refusal("  - s = matmul(q, k)\n  - p = softmax(s, 1)\n  - y = matmul(p, v)\n", "y") == two);
  CHECK(refusal("  - s = matmul(q, k)\n  - p = softmax(s)\n  - y = matmul(v, p)\n", "y") == two);
  CHECK(refusal("  - s = matmul(q, k)\n  - p = softmax(s)\n  - r = softmax(p)\n  - y = matmul(r, v)\n",
                "y") == two);
  CHECK(refusal("  - p = softmax(q)\n  - s = matmul(p, k)\n  - y = matmul(s, v)\n", "y") == two);
}

// --- Plans.

TEST_CASE("A plan is refused as a partition, by its cycle, or by the group that is no kernel") {
  const OpGraph graph = fusion_graph(
      product_inputs, "  - p = matmul(x, w)\n  - b = p + c\n  - s = softmax(b)\n  - y = s + r\n", "y");
  const Backend backend = joining_backend();
  const BackendMode mode;
  const FusionLegality legality(graph, backend, mode);
  CHECK_NOTHROW(check_plan(legality, {{0, 1}, {2, 3}}));
  CHECK(compile_error([&] { check_plan(legality, {{0, 1}, {2}}); }) == "'y' is in no group");
  CHECK_THAT(compile_error([&] {
               check_plan(legality, {{0, 2}, {1}, {3}});
             }),
             ContainsSubstring("in a cycle"));
  CHECK(compile_error([&] { check_plan(legality, {{0}, {1, 2, 3}, {}}); }) == "group 2 is empty");
  CHECK(compile_error([&] {
          check_plan(legality, {{0, 1, 2}, {3}});
        }) ==
        "the group of 'p', 'b', 's' cannot be one kernel: the reduction 's' needs whole rows of the product "
        "'p', "
        "of which a block has but a tile");
}

}  // namespace
}  // namespace gpusim::test
