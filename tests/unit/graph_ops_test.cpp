// SPDX-License-Identifier: Apache-2.0
// Shapes, layouts and kernels of ops, against PyTorch's rules worked out by hand.
#include <string>

#include "models/graph/break_cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using test::given;
using test::small_graph;

TEST_CASE("Ops give the shapes that PyTorch gives", "[graph]") {
  const auto [lines, shape] = GENERATE(table<std::string, Dims>({
      {"  - z = x + y\n", {2, 3, 4}},
      {"  - z = y + x\n", {2, 3, 4}},
      {"  - z = x + 1\n", {2, 3, 4}},
      {"  - z = linear(x, 7)\n", {2, 3, 7}},
      {"  - z = matmul(x, transpose(x, 1, 2))\n", {2, 3, 3}},
      {"  - z = matmul(x, transpose(y, 0, 1))\n", {2, 3, 3}},
      {"  - z = view(x, [6, 4])\n", {6, 4}},
      {"  - z = view(x, [-1, 2])\n", {12, 2}},
      {"  - z = flatten(x, 1)\n", {2, 12}},
      {"  - z = permute(x, [2, 0, 1])\n", {4, 2, 3}},
      {"  - z = unsqueeze(x, -1)\n", {2, 3, 4, 1}},
      {"  - z = squeeze(unsqueeze(x, 0), 0)\n", {2, 3, 4}},
      {"  - z = expand(unsqueeze(y, 0), [5, -1, 4])\n", {5, 3, 4}},
      {"  - z = select(x, 1, -1)\n", {2, 4}},
      {"  - z = slice(x, 2, 1, 4, 2)\n", {2, 3, 2}},
      {"  - z = slice(x, -1, -2)\n", {2, 3, 2}},
      {"  - a, z = split(x, 3)\n", {2, 3, 1}},
      {"  - a, z = split(x, [1, 3])\n", {2, 3, 3}},
      {"  - a, z = chunk(x, 2, dim=1)\n", {2, 1, 4}},
      {"  - a, z = unbind(x)\n", {3, 4}},
      {"  - z = cat(x, x, dim=1)\n", {2, 6, 4}},
      {"  - z = stack(x, x, dim=-1)\n", {2, 3, 4, 2}},
      {"  - z = sum(x, [0, 2])\n", {3}},
      {"  - z = sum(x, [0, 2], keepdim=true)\n", {1, 3, 1}},
      {"  - z = mean(x)\n", {}},
      {"  - z = embedding(i, 10, 6)\n", {5, 6}},
      {"  - z = index(x, i)\n", {5, 3, 4}},
      {"  - z = index(x, i, i)\n", {5, 4}},
      {"  - z = index_select(x, i, 2)\n", {2, 3, 5}},
      {"  - z = one_hot(i, 9)\n", {5, 9}},
      {"  - a, z = topk(x, 2)\n", {2, 3, 2}},
      {"  - z = nonzero(x > 0, count=7)\n", {7, 3}},
      {"  - z = layer_norm(x)\n", {2, 3, 4}},
      {"  - z = softmax(x)\n", {2, 3, 4}},
      {"  - z = conv2d(unsqueeze(x, 1), 8, kernel=3, stride=2, padding=1)\n", {2, 8, 2, 2}},
      {"  - z = max_pool2d(unsqueeze(x, 1), kernel=2)\n", {2, 1, 1, 2}},
      {"  - z = adaptive_avg_pool2d(unsqueeze(x, 1))\n", {2, 1, 1, 1}},
      {"  - z = grouped_mm(y, groups=2, features=5)\n", {3, 5}},
      {"  - z = cross_entropy(y, slice(i, 0, 0, 3))\n", {}},
  }));
  CAPTURE(lines);
  CHECK(given(small_graph(lines)).shape == shape);
}

TEST_CASE("Views keep the memory and copies have their own", "[graph]") {
  const auto shares = [](const std::string& lines) {
    const OpGraph graph = small_graph(lines);
    return graph.tensors[graph.outputs[0]].storage == graph.tensors[0].storage;
  };
  CHECK(shares("  - z = transpose(x, 0, 1)\n"));
  CHECK(shares("  - z = reshape(x, [6, 4])\n"));
  CHECK(shares("  - z = slice(select(x, 0, 1), 1, 2)\n"));
  CHECK(shares("  - z = contiguous(x)\n"));
  CHECK(shares("  - z = to(x, dtype)\n"));
  CHECK(shares("  - z = add_(x, y)\n"));
  CHECK_FALSE(shares("  - z = reshape(transpose(x, 0, 1), [6, 4])\n"));
  CHECK_FALSE(shares("  - z = contiguous(transpose(x, 0, 1))\n"));
  CHECK_FALSE(shares("  - z = to(x, 'fp32')\n"));
}

TEST_CASE("A view is possible where PyTorch says so", "[graph]") {
  // The first two dimensions swapped: [3, 2, 4] with strides [4, 12, 1].
  CHECK(given(small_graph("  - z = view(transpose(x, 0, 1), [3, 2, 2, 2])\n")).strides == Dims{4, 12, 2, 1});
  CHECK_THROWS_AS(small_graph("  - z = view(transpose(x, 0, 1), [6, 4])\n"), GraphError);
  // Heads split off the last dimension and moved forward, then back: no copy.
  CHECK(given(small_graph(
                  "  - z = reshape(transpose(transpose(view(x, [2, 3, 2, 2]), 1, 2), 1, 2), [2, 3, 4])\n"))
            .strides == Dims{12, 4, 1});
  // A dimension of size 1 has any stride.
  CHECK(given(small_graph("  - z = view(transpose(unsqueeze(y, 0), 0, 1), [3, 4])\n")).shape == Dims{3, 4});
  CHECK(given(small_graph("  - z = expand(unsqueeze(y, 0), [5, 3, 4])\n")).strides == Dims{0, 4, 1});
}

TEST_CASE("Elementwise results are laid out as their operands", "[graph]") {
  // A dense operand hands its layout on.
  CHECK(given(small_graph("  - z = relu(transpose(x, 0, 1))\n")).strides == Dims{4, 12, 1});
  // So does a slice of it, made dense.
  CHECK(given(small_graph("  - z = -slice(transpose(x, 0, 1), 2, 0, 2)\n")).strides == Dims{2, 6, 1});
  // A broadcast operand leaves the choice to the other one.
  CHECK(given(small_graph("  - z = transpose(x, 1, 2) * transpose(y, 0, 1)\n")).strides == Dims{12, 1, 4});
  // Where two disagree, the first decides.
  CHECK(given(small_graph("  - a = contiguous(transpose(x, 0, 1))\n  - z = transpose(x, 0, 1) + a\n"))
            .strides == Dims{4, 12, 1});
  CHECK(given(small_graph("  - a = contiguous(transpose(x, 0, 1))\n  - z = a + transpose(x, 0, 1)\n"))
            .strides == Dims{8, 4, 1});
}

TEST_CASE("Dtypes of results follow PyTorch's promotion", "[graph]") {
  const auto element = [](const std::string& lines) { return given(small_graph(lines)).element; };
  CHECK(element("  - z = x + to(y, 'fp32')\n") == ElementType::Fp32);
  CHECK(element("  - z = x * 0.5\n") == ElementType::Bf16);
  CHECK(element("  - z = x == 0\n") == ElementType::Bool);
  CHECK(element("  - z = i * 0.5\n") == ElementType::Fp32);
  CHECK(element("  - z = i // 2\n") == ElementType::Int64);
  CHECK(element("  - z = sum(x > 0)\n") == ElementType::Int64);
  CHECK(element("  - z = type_as(to(x, 'fp32'), y)\n") == ElementType::Bf16);
  CHECK(element("  - z = softmax(x, dtype='fp32')\n") == ElementType::Fp32);
  CHECK(element("  - z = embedding(i, 4, 4)\n") == ElementType::Bf16);
  CHECK(element("  - z = zeros([3])\n") == ElementType::Bf16);
}

TEST_CASE("Products count two FLOPs a multiply-add, other ops none", "[graph]") {
  CHECK(test::model_flops(small_graph("  - z = linear(x, 7)\n")) == 2 * 6 * 4 * 7);
  CHECK(test::model_flops(small_graph("  - z = matmul(x, transpose(x, 1, 2))\n")) == 2 * 2 * 3 * 3 * 4);
  CHECK(test::model_flops(small_graph("  - z = gelu(softmax(x + y))\n")) == 0);
  // Two products over all scores: 2 x (heads x queries x keys x size) each.
  CHECK(test::model_flops(small_graph("  - q = unsqueeze(x, 0)\n"
                                      "  - z = scaled_dot_product_attention(q, q, q)\n")) ==
        2 * 2 * (2 * 3 * 3 * 4));
  CHECK(test::model_flops(small_graph("  - z = conv2d(unsqueeze(x, 1), 8, kernel=3, padding=1)\n")) ==
        2 * (2 * 8 * 3 * 4) * 9);
}

TEST_CASE("Eager PyTorch launches a kernel for each op that moves data", "[graph]") {
  const GpuSpec gpu = test::h200();
  const auto count = [&](const std::string& lines) {
    return test::eager_gpu_ops(small_graph(lines), gpu).size();
  };
  CHECK(count("  - z = relu(x)\n") == 1);
  CHECK(count("  - z = transpose(view(x, [6, 4]), 0, 1)\n") == 0);
  CHECK(count("  - z = reshape(transpose(x, 0, 1), [6, 4])\n") == 1);
  CHECK(count("  - z = masked_fill(x, x == 0, 1.0)\n") == 3);
  CHECK(count("  - z = 1 / x\n") == 2);
  // Joined in one kernel up to four dimensions, whatever the layout; with a copy for each input above.
  CHECK(count("  - z = cat(x, x)\n") == 1);
  CHECK(count("  - a = transpose(x, 0, 1)\n  - z = cat(a, a)\n") == 1);
  CHECK(count("  - a = view(x, [2, 3, 2, 2])\n  - z = stack(a, a, dim=-1)\n") == 2);
  // Along any other dimension a stack is a cat of the parts as they are.
  CHECK(count("  - a = view(x, [2, 3, 2, 2])\n  - z = stack(a, a, dim=1)\n") == 1);
  // A search over rows that are not contiguous: a copy, the count, its way to the host, the set-up, the
  // search, and one index per dimension.
  CHECK(count("  - z = nonzero(x, count=3)\n") == 5);
  CHECK(count("  - z = nonzero(transpose(x, 0, 1), count=3)\n") == 6);
  CHECK(count("  - z = nonzero(i, count=3)\n") == 4);
}

TEST_CASE("A graph break costs eager PyTorch a copy to the host where its cause reads a number, else nothing",
          "[graph]") {
  const GpuSpec gpu = test::h200();
  for (const std::string& cause : break_cause_names()) {
    CAPTURE(cause);
    const OpGraph graph = small_graph("  - graph_break(cause='" + cause + "')\n  - z = x\n");
    REQUIRE(graph.ops.size() == 1);
    const bool reads = cause == "item" || cause == "branch" || cause == "dynamic_shape";
    CHECK(test::eager_gpu_ops(graph, gpu) ==
          (reads ? std::vector<std::string>{"copy_to_host"} : std::vector<std::string>{}));
    CHECK(graph.ops.front().kind->eager(test::Seen(graph, graph.ops.front()).view(), gpu).size() ==
          (reads ? 1 : 0));
  }
  CHECK(small_graph("  - graph_break()\n  - z = x\n").ops.front().attributes.word("cause") == "explicit");
}

TEST_CASE("A transposed operand costs strided access, a scalar and a vector of one row do not", "[graph]") {
  const GpuSpec gpu = test::h200();
  const auto access = [&](const std::string& lines) {
    const OpGraph graph = small_graph(lines);
    const Op& op = graph.ops.back();
    return std::get<Pointwise>(op.kind->eager(test::Seen(graph, op).view(), gpu).front().work.front()).access;
  };
  using Access = Pointwise::Access;
  CHECK(access("  - z = x + x\n") == Access::Vectorized);
  CHECK(access("  - z = x * parameter([1])\n") == Access::Vectorized);
  CHECK(access("  - z = slice(y, 0, 0, 1) * parameter([4])\n") == Access::Vectorized);
  CHECK(access("  - z = y * parameter([4])\n") == Access::Strided);
  CHECK(access("  - z = x + contiguous(transpose(transpose(x, 0, 1), 0, 1))\n") == Access::Vectorized);
  CHECK(access("  - z = to(x, 'fp32')\n") == Access::Unrolled);
  CHECK(access("  - z = to(to(x, 'fp32'), 'bf16')\n") == Access::Vectorized);
  CHECK(access("  - z = to(x, 'fp32') * parameter([4])\n") == Access::StridedCast);
}

}  // namespace
}  // namespace gpusim
