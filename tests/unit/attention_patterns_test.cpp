// SPDX-License-Identifier: Apache-2.0
// Attention written out op by op: what a compiler's patterns find, and what they do not.
#include <algorithm>
#include <string>
#include <vector>

#include "models/compiler/attention_patterns.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/graph_checks.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

/// z of queries, keys and values [2, 4, 8, 16], an additive mask m [8, 8] and a mask of truths b [8, 8].
OpGraph attention(const std::string& lines) {
  return build_graph(
      network_of(
          "name: n\ninputs:\n  q: {shape: [2, 4, 8, 16]}\n  k: {shape: [2, 4, 8, 16]}\n  v: {shape: [2, "
          "4, 8, 16]}\n  m: {shape: [8, 8]}\n  b: {shape: [8, 8], dtype: bool}\nbody:\n" +
          lines + "gives: [z]\n"),
      sizes(1, 1));
}

std::int64_t count(const OpGraph& graph, std::string_view kind) {
  return std::count_if(graph.ops.begin(), graph.ops.end(),
                       [&](const Op& op) { return op.kind->name == kind; });
}

const char* const scores = "  - s = matmul(q, transpose(k, -2, -1)) * 0.25\n";

TEST_CASE("scaled scores, a softmax and the product with the values become one kernel") {
  const OpGraph graph = attention(std::string(scores) + "  - z = matmul(softmax(s), v)\n");
  const OpGraph fused = fuse_attention(graph);
  CHECK(fault_of(fused) == "");
  CHECK(count(fused, "scaled_dot_product_attention") == 1);
  CHECK(count(fused, "matmul") == 0);
  CHECK(count(fused, "softmax") == 0);
  CHECK(count(fused, "mul") == 0);
  CHECK(given(fused).shape == given(graph).shape);
}

TEST_CASE("what is added to the scores becomes the kernel's mask") {
  const OpGraph fused =
      fuse_attention(attention(std::string(scores) + "  - z = matmul(softmax(s + m), v)\n"));
  REQUIRE(count(fused, "scaled_dot_product_attention") == 1);
  for (const Op& op : fused.ops)
    if (op.kind->name == "scaled_dot_product_attention") {
      REQUIRE(op.inputs.size() == 4);
      CHECK(fused.tensors[op.inputs[3]].name == "m");
    }
}

TEST_CASE(
    "no pattern has masked_fill: causal attention that is written out stays as it is, and is told why") {
  const OpGraph graph =
      attention(std::string(scores) + "  - z = matmul(softmax(masked_fill(s, b, -inf)), v)\n");
  const std::vector<AttentionSite> sites = attention_sites(graph);
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].refusal == "masked_fill stands between the first product and the softmax");
  const OpGraph same = fuse_attention(graph);
  CHECK(fault_of(same) == "");
  CHECK(same.ops.size() == graph.ops.size());
}

TEST_CASE("scores that something else reads stay") {
  const std::vector<AttentionSite> sites =
      attention_sites(attention(std::string(scores) + "  - z = matmul(softmax(s), v) + sum(s)\n"));
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].refusal == "the scores are read more than once");
}

TEST_CASE("attention that the graph breaks within stays") {
  const std::vector<AttentionSite> sites =
      attention_sites(attention(std::string(scores) + "  - graph_break()\n  - z = matmul(softmax(s), v)\n"));
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].refusal == "the graph breaks within it");
}

TEST_CASE("a softmax that no product follows is no attention") {
  CHECK(attention_sites(attention("  - z = softmax(matmul(q, transpose(k, -2, -1)))\n")).empty());
}

TEST_CASE("GPT-2 with attention written out by masked_fill is refused in each of its twelve blocks") {
  NetworkSizes s = sizes(1, 64, StepKind::Inference, {{"attention", std::string("unfused")}});
  const std::vector<AttentionSite> sites = attention_sites(build_graph(shipped_network("gpt2"), s));
  CHECK(sites.size() == 12);
  for (const AttentionSite& site : sites) CHECK_FALSE(site.refusal.empty());
}

}  // namespace
