// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "models/compiler/simplify.hpp"
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

const SimplifyRules layout = only(&SimplifyRules::layout);

/// A network over images x [2, 4, 5, 5].
OpGraph image_graph(const std::string& lines) {
  return build_graph(
      test::network_of("name: n\ninputs:\n  x: {shape: [2, 4, 5, 5]}\nbody:\n" + lines + "gives: [z]\n"),
      test::sizes(1, 1));
}

std::int64_t layout_kernels(const OpGraph& graph) {
  const std::vector<std::string> ops = test::eager_gpu_ops(graph, test::h200());
  return std::count(ops.begin(), ops.end(), "convolution_layout");
}

// --- Convolutions.

TEST_CASE("Images are laid out with their channels innermost once, and back where they leave",
          "[simplify][layout]") {
  const OpGraph graph = image_graph(
      "  - h = relu_(batch_norm(conv2d(x, 72, kernel=3, padding=1, bias=false)))\n"
      "  - z = add_(conv2d(h, 72, kernel=3, padding=1), h)\n");
  CHECK(layout_kernels(graph) > 0);
  const Simplified result = checked(graph, layout);
  CHECK(kinds(result.graph) ==
        Kinds{"contiguous", "conv2d", "batch_norm", "relu_", "conv2d", "add_", "contiguous"});
  CHECK(layout_kernels(result.graph) == 0);
  CHECK(is_channels_last(result.graph.tensors[result.graph.ops[1].inputs[1]].type));
  // Whoever gets the result gets it as it was.
  CHECK(is_contiguous(test::given(result.graph)));
  CHECK(pass(result, "layout").ops_added == 2);
  // Images of 200 elements go in, of 3600 come out, two convolutions converted both: less the two copies that
  // are left, and one for 72 channels in between; 2 bytes, read and written.
  CHECK(pass(result, "layout").saved == Bytes(4 * (200 + 3600 + 3600 + 3600 - 200 - 3600)));
}

TEST_CASE("Images that come with their channels innermost stay as they are", "[simplify][layout]") {
  const OpGraph graph = build_graph(test::shipped_network("resnet50"), test::sizes(2, 1));
  CHECK(test::difference(simplify(graph, layout).graph, graph) == "");
}

TEST_CASE("ResNet-50 with channels first runs as with channels last, after one copy", "[simplify][layout]") {
  const auto graph_of = [](bool last) {
    return build_graph(test::shipped_network("resnet50"),
                       test::sizes(2, 1, StepKind::Inference, {{"channels_last", NetworkValue{last}}}));
  };
  const OpGraph last = graph_of(true);
  const Simplified result = simplify(graph_of(false), layout);
  CHECK(test::fault_of(result.graph) == "");
  REQUIRE(result.graph.ops.size() == last.ops.size() + 1);
  CHECK(result.graph.ops.front().kind->name == "contiguous");
  for (std::size_t i = 0; i < last.ops.size(); ++i) {
    CAPTURE(last.ops[i].name);
    CHECK(result.graph.ops[i + 1].kind == last.ops[i].kind);
    CHECK(result.graph.tensors[result.graph.ops[i + 1].outputs[0]].type ==
          last.tensors[last.ops[i].outputs[0]].type);
    CHECK(result.origin[i + 1] == i);
  }
}

TEST_CASE("A small ResNet computes the same in both layouts", "[simplify][layout]") {
  const OpGraph graph = build_graph(test::shipped_network("resnet50"),
                                    test::sizes(1, 1, StepKind::Inference,
                                                {{"channels_last", NetworkValue{false}},
                                                 {"image", NetworkValue{std::int64_t{32}}},
                                                 {"width", NetworkValue{std::int64_t{2}}},
                                                 {"layers_1", NetworkValue{std::int64_t{2}}},
                                                 {"layers_2", NetworkValue{std::int64_t{1}}},
                                                 {"layers_3", NetworkValue{std::int64_t{1}}},
                                                 {"layers_4", NetworkValue{std::int64_t{1}}},
                                                 {"classes", NetworkValue{std::int64_t{5}}}}));
  const Simplified result = checked(graph, layout);
  CHECK(pass(result, "layout").ops_added == 1);
}

TEST_CASE("Views that cannot be any more become copies, needless copies go", "[simplify][layout]") {
  SECTION("view") {
    const OpGraph graph = image_graph("  - z = view(conv2d(x, 8, kernel=3), [2, 72])\n");
    const Simplified result = checked(graph, layout);
    CHECK(kinds(result.graph) == Kinds{"contiguous", "conv2d", "reshape"});
  }
  SECTION("contiguous") {
    const OpGraph graph = image_graph(
        "  - h = conv2d(x, 8, kernel=3)\n  - z = flatten(conv2d(contiguous(h, channels_last=true), 8, "
        "kernel=3), 1)\n");
    CHECK(kinds(checked(graph, layout).graph) == Kinds{"contiguous", "conv2d", "conv2d", "flatten"});
  }
  SECTION("unless that takes memory apart that changes") {
    const OpGraph graph = image_graph(
        "  - h = conv2d(x, 8, kernel=3)\n  - v = view(h, [2, 72])\n  - relu_(v)\n  - z = view(conv2d(h, 8, "
        "kernel=3), [2, 8])\n");
    CHECK(test::difference(checked(graph, layout).graph, graph) == "");
  }
}

TEST_CASE("Where channels last would not pay, images stay: TorchInductor's rule", "[simplify][layout]") {
  const auto converted = [](const std::string& lines, bool training = false) {
    return pass(simplify(image_graph(lines), layout, {.regions = {}, .training = training}), "layout")
               .ops_added > 0;
  };
  const std::string grouped = "  - z = conv2d(x, 72, kernel=3, groups=2)\n";
  const std::string depthwise = "  - z = conv2d(x, 4, kernel=3, groups=4)\n";
  const std::string wide = "  - z = conv2d(x, 72, kernel=3)\n";
  CHECK(converted(wide));
  CHECK_FALSE(converted(grouped));
  CHECK(converted(depthwise));
  // The FLOPs decide in inference, any in training.
  const std::string some =
      "  - h = conv2d(x, 72, kernel=3)\n  - z = conv2d(h, 72, kernel=3) + conv2d(h, 4, kernel=3, groups=2)\n";
  CHECK(converted("  - h = conv2d(x, 72, kernel=3)\n  - z = conv2d(h, 72, kernel=3)\n", true));
  CHECK_FALSE(
      converted("  - h = conv2d(x, 72, kernel=3)\n  - z = conv2d(h, 72, kernel=3, groups=2)\n", true));
  CHECK_FALSE(converted(depthwise, true));  // Few channels.
  // One convolution among 300 ops.
  std::string long_chain = wide;
  for (int i = 0; i < 299; ++i) long_chain += "  - z = neg(z)\n";
  CHECK_FALSE(converted(long_chain));
}

// --- Products.

TEST_CASE("Products that would each copy a badly laid out tensor share one copy", "[simplify][layout]") {
  // The rows of a transpose do not lie one after the other.
  const OpGraph graph = small_graph(
      "  - t = transpose(x, 1, 2)\n  - a = linear(t, 3)\n  - b = linear(t, 3)\n  - c = matmul(t, "
      "parameter([3, 3]))\n"
      "  - z = a + b + c\n");
  const Simplified result = checked(graph, layout);
  CHECK(kinds(result.graph) == Kinds{"transpose", "contiguous", "linear", "linear", "matmul", "add", "add"});
  CHECK(pass(result, "layout").saved == Bytes(2 * 2 * 48));
  CHECK(test::eager_traffic(result.graph, test::h200()) < test::eager_traffic(graph, test::h200()));
  // One alone copies as well as we do; a tensor that changes between is two.
  CHECK(pass(checked(small_graph("  - z = linear(transpose(x, 1, 2), 3)\n"), layout), "layout").ops_added ==
        0);
  CHECK(pass(checked(small_graph(
                         "  - h = relu(x)\n  - t = transpose(h, 1, 2)\n  - a = linear(t, 3)\n  - add_(h, y)\n"
                         "  - z = a + linear(t, 3)\n"),
                     layout),
             "layout")
            .ops_added == 0);
}

TEST_CASE("Transposed copies that undo each other go", "[simplify][layout]") {
  SimplifyRules rules = layout;
  rules.dead_code = true;
  const auto left = [&](const std::string& lines) { return kinds(checked(small_graph(lines), rules).graph); };
  CHECK(left("  - h = relu(x)\n  - t = contiguous(transpose(h, 0, 2))\n  - z = neg(contiguous(transpose(t, "
             "0, 2)))\n") == Kinds{"relu", "neg"});
  CHECK(left("  - h = relu(x)\n  - t = contiguous(permute(h, [1, 2, 0]))\n  - z = neg(contiguous(permute(t, "
             "[2, 0, 1])))\n") == Kinds{"relu", "neg"});
  // Another order, or a change in between.
  CHECK(left("  - h = relu(x)\n  - t = contiguous(permute(h, [1, 2, 0]))\n  - z = neg(contiguous(permute(t, "
             "[1, 2, 0])))\n")
            .size() == 6);
  CHECK(left("  - h = relu(x)\n  - t = contiguous(transpose(h, 0, 2))\n  - relu_(t)\n"
             "  - z = neg(contiguous(transpose(t, 0, 2)))\n")
            .size() == 7);
}

}  // namespace
}  // namespace gpusim
