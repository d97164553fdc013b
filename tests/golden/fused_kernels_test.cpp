// SPDX-License-Identifier: Apache-2.0
// The fusion planner against what TorchInductor compiled on an H200:
// validation/h200/compiled/fusion.jsonl.gz, networks of two layers, kernel by kernel: its class, its size,
// and which ops are in it.
#include "tests/support/fused_kernels.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/simplify.hpp"
#include "models/compiler/split_reduction.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using test::ComparedKernel;
using test::differences;
using test::Differences;
using test::json;

std::vector<ComparedKernel> planned_kernels(const json& row) {
  const NetworkSizes sizes = test::sizes_of(row);
  SimplifyRules rules;
  rules.layout = true;
  rules.constants = false;  // arange() stays an expression
  const OpGraph graph = simplify(build_graph(test::shipped_network(row["network"]), sizes), rules, {}).graph;
  const LoopGraph loops =
      lower(graph, test::h200(), 0, static_cast<OpIndex>(graph.ops.size()), view_offsets(graph));
  const FusionPlan plan = plan_fusion(loops, {});
  std::vector<ComparedKernel> all;
  for (const FusionGroup& group : plan.groups) {
    const Loop& first = loops.loops[group.loops.front()];
    if (first.kind == LoopKind::Nothing) continue;
    ComparedKernel seen;
    if (first.kind == LoopKind::Library) {
      seen.what = test::library_call(std::string(graph.ops[first.op].kind->name));
    } else {
      seen.what = "poi";
      for (const LoopIndex l : group.loops) {
        const Loop& loop = loops.loops[l];
        if (loop.kind == LoopKind::Reduction) {
          seen.what = is_persistent(loop.rnumel, loop.inner) ? "per" : "red";
          seen.reduced = loop.rnumel;
        }
        seen.elements =
            std::max(seen.elements, loop.numel * (loop.kind == LoopKind::Reduction ? loop.rnumel : 1));
        for (const std::string_view name : loop.aten)
          if (test::computes(std::string(name)))
            seen.ops.insert(name == "max_pool2d" ? "max_pool2d_with_indices" : std::string(name));
      }
    }
    all.push_back(seen);
  }
  return all;
}

TEST_CASE("the planner's kernels are those that Inductor compiles, at most one in twenty apart") {
  int kernels = 0;
  int apart = 0;
  for (const json& row : test::measured_rows()) {
    if (row["network"].get<std::string>().empty() || row["step"] == "training" || row["autocast"].get<bool>())
      continue;
    // A loop over experts reads which are in use: pieces compiled one by one, see capture_regions().
    if (row["breaks"].get<int>() > 0) continue;
    const std::vector<ComparedKernel> measured = test::measured_kernels(row);
    const Differences found = differences(measured, planned_kernels(row));
    kernels += static_cast<int>(measured.size());
    apart += found.apart;
    if (found.apart > 0) std::printf("%s:%s\n", row["row"].get<std::string>().c_str(), found.text.c_str());
  }
  std::printf("%d of %d kernels apart\n", apart, kernels);
  CHECK(kernels > 800);
  CHECK(apart * 20 <= kernels);
}

}  // namespace
