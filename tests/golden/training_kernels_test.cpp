// SPDX-License-Identifier: Apache-2.0
// Training steps against what TorchInductor compiled on an H200 (validation/h200/compiled/fusion.jsonl.gz):
// composites taken apart, what backward keeps chosen, forward and backward lowered and fused. Kernel by
// kernel: its class, its size, and how many ops of which kind are worked out in it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/decompose.hpp"
#include "models/compiler/fuse.hpp"
#include "models/compiler/kernels.hpp"
#include "models/compiler/lower.hpp"
#include "models/compiler/recompute.hpp"
#include "models/compiler/simplify.hpp"
#include "models/compiler/split_reduction.hpp"
#include "models/graph/training.hpp"
#include "tests/support/fused_kernels.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using test::ComparedKernel;
using test::json;

using Counts = std::map<std::string, int>;

/// Looks at memory, and numbers that stand in the code.
bool is_work(const std::string& op) {
  static const std::set<std::string> none{
      "reshape", "view",   "permute",         "transpose", "select",        "slice", "expand",
      "squeeze", "full",   "unsqueeze",       "iota",      "scalar_tensor", "split", "_unsafe_view",
      "zeros",   "arange", "split_with_sizes"};
  return none.count(op) == 0;
}

std::set<std::string> words(const Counts& counts) {
  std::set<std::string> all;
  for (const auto& [op, count] : counts)
    if (is_work(op)) all.insert(std::to_string(count) + "x" + op);
  return all;
}

/// "aten.sum.dim_IntList": sum.
std::string short_name(const std::string& op) {
  const std::size_t from = op.find('.') + 1;
  std::string name = op.substr(from, op.find('.', from) - from);
  while (name.back() == '_') name.pop_back();
  return name;
}

/// x to the power of 1, or 1 times x: x.
bool is_nothing(const json& node) {
  const std::string op = short_name(node[1]);
  const std::string arguments = node[3];
  const std::string second = arguments.substr(std::min(arguments.find(", "), arguments.size() - 2) + 2);
  return (op == "pow" && second == "1.0") || (op == "mul" && second == "1");
}

bool reads(const json& node, const std::string& value) {
  const std::string arguments = ", " + std::string(node[3]) + ",";
  for (const char* before : {" ", "["})
    for (const char* after : {",", "]", ";"})
      if (arguments.find(before + value + after) != std::string::npos) return true;
  return false;
}

/// Nodes that a kernel works out: the text names all that its inputs came from, those in memory too. `nodes`:
/// of values in memory the operation is null.
Counts counted(const json& kernel) {
  std::map<std::string, const json*> made;
  std::set<std::string> given;
  const std::set<std::string> written(kernel["writes"].begin(), kernel["writes"].end());
  for (const json& node : kernel["nodes"]) {
    if (node[1].is_string())
      made[node[0]] = &node;
    else if (written.count(node[0]) == 0)
      given.insert(node[0]);
  }
  // What is added in place stands for the memory before and after.
  for (const auto& [name, node] : made)
    if (short_name((*node)[1]) == "index_put") given.erase(name);
  std::vector<std::string> open;
  for (const auto& [name, node] : made) {
    bool used = false;
    for (const auto& [other, reader] : made) used = used || reads(*reader, name);
    if (!used || written.count(name) != 0) open.push_back(name);
  }
  Counts counts;
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (given.count(name) != 0 || !seen.insert(name).second) continue;
    const json& node = *made.at(name);
    if (!is_nothing(node)) ++counts[short_name(node[1])];
    for (const auto& [other, input] : made)
      if (reads(node, other)) open.push_back(other);
  }
  return counts;
}

/// The second of two loops of one sum: one kernel for all sums of its size, named after the first of them.
bool joins_parts(const json& kernel) {
  bool from_buffer = false;
  for (const json& node : kernel["nodes"])
    from_buffer = from_buffer || (node[1].is_null() && node[0].get<std::string>().rfind("buf", 0) == 0);
  return from_buffer && kernel["num_load"] == 1 && kernel["heuristic"] == "persistent_reduction";
}

std::vector<ComparedKernel> measured(const json& graph) {
  std::vector<ComparedKernel> all;
  for (const json& function : graph["functions"])
    for (const json& call : function["calls"]) {
      ComparedKernel kernel;
      const std::string name = call["kernel"];
      if (call["kind"] != "triton") {
        kernel.what = test::library_call(name);
        all.push_back(kernel);
        continue;
      }
      kernel.what = name.substr(7, 3);
      const json& sizes = call["sizes"];
      kernel.reduced = sizes.value("r0_numel", std::int64_t{1});
      kernel.elements =
          sizes.value("xnumel", std::int64_t{1}) * sizes.value("ynumel", std::int64_t{1}) * kernel.reduced;
      const json& definition = graph["kernels"][name];
      if (!joins_parts(definition)) kernel.ops = words(counted(definition));
      all.push_back(kernel);
    }
  return all;
}

/// What an op is in the framework's own graph.
std::vector<std::string> aten(const OpGraph& graph, const Op& op) {
  const std::string_view kind = op.kind->name;
  if (kind == "to" && op.taken_from == "sum") return {};  // sum(x, dtype=fp32)
  if (kind == "to" || kind == "type_as") return {"convert_element_type"};
  if (kind == "rsub") return {"sub"};
  if (kind == "embedding_backward") return {"eq", "where", "index_put"};
  if (kind == "masked_fill") return {"where"};
  if (kind == "addcmul") return {"fma"};
  if (kind == "contiguous" || kind == "clone") return {"clone"};
  if (kind == "reshape") {
    const bool view = graph.tensors[op.outputs[0]].storage == graph.tensors[op.inputs[0]].storage;
    return {view ? "view" : "clone"};
  }
  if (kind == "select_backward") return {"select_scatter"};
  if (kind == "slice_backward") return {"slice_scatter"};
  if (kind == "stack") return {"cat"};
  return {std::string(kind)};
}

/// Of a region: as the compiler plans it.
std::vector<ComparedKernel> planned(const OpGraph& graph, OpIndex first, OpIndex last) {
  const LoopGraph loops = lower(graph, test::h200(), first, last, view_offsets(graph));
  FusionRules rules;
  rules.mixed_orders = true;
  const FusionPlan plan = plan_fusion(loops, rules);
  // What a kernel of mixed orders leaves in parts the framework adds up, with no call in the generated code.
  std::set<BufferIndex> partial;
  for (const FusionGroup& group : plan.groups)
    for (const LoopIndex l : group.columns)
      if (loops.loops[l].part == SplitPart::First)
        for (const Touch& touch : loops.loops[l].writes) partial.insert(touch.buffer);
  std::vector<ComparedKernel> all;
  for (const FusionGroup& group : plan.groups) {
    const Loop& head = loops.loops[group.loops.front()];
    if (head.kind == LoopKind::Nothing) continue;
    ComparedKernel kernel;
    if (head.kind == LoopKind::Library) {
      kernel.what = test::library_call(std::string(graph.ops[head.op].kind->name));
      all.push_back(kernel);
      continue;
    }
    kernel.what = "poi";
    std::set<OpIndex> ops;
    bool any = false;
    bool online = false;
    for (const LoopIndex l : group.loops) {
      const Loop& loop = loops.loops[l];
      if (loop.part == SplitPart::Second && partial.count(loop.reads.front().buffer) != 0) continue;
      any = true;
      // A loop that reads nothing fills memory with a number; one that joins parts works nothing out.
      online = online || loop.pass == RowPass::OnlineSoftmax;
      if (!loop.reads.empty() && loop.part != SplitPart::Second)
        ops.insert(loop.origins.begin(), loop.origins.end());
      if (loop.kind == LoopKind::Reduction && !group.is_column(l)) {
        kernel.what = group.is_mixed() || is_persistent(loop.rnumel, loop.inner) ? "per" : "red";
        kernel.reduced = loop.rnumel;
      }
      kernel.elements =
          std::max(kernel.elements, loop.numel * (loop.kind == LoopKind::Reduction ? loop.rnumel : 1));
    }
    if (!any) continue;
    Counts counts;
    for (const OpIndex op : ops)
      for (const std::string& name : aten(graph, graph.ops[op])) ++counts[name];
    // The largest and the sum of a softmax in one pass.
    if (online && counts.erase("amax") > 0) counts["prepare_softmax_online"] = 1;
    kernel.ops = words(counts);
    all.push_back(kernel);
  }
  return all;
}

OpGraph joint(const json& row) {
  NetworkSizes sizes = test::sizes_of(row);
  TrainingOptions options;
  options.functional = true;
  options.precision = row["autocast"].get<bool>() ? TrainingPrecision::Autocast : TrainingPrecision::Pure;
  options.optimizer.kind = OptimizerKind::AdamW;
  options.optimizer.loop = OptimizerLoop::Fused;
  const OpGraph step = training_graph(build_graph(test::shipped_network(row["network"]), sizes), options);
  SimplifyRules rules;
  rules.constants = false;
  const OpGraph graph = simplify(decompose(step), rules, {.regions = {}, .training = true}).graph;
  // cuDNN's attention is not on the list of what is not run again.
  RecomputeOptions recompute;
  recompute.attention_is_expensive = false;
  return apply_recompute(graph, plan_recompute(graph, recompute));
}

TEST_CASE("a training step's kernels are those that Inductor compiles, at most one in twenty apart") {
  int kernels = 0;
  int apart = 0;
  for (const json& row : test::measured_rows()) {
    if (row["step"] != "training") continue;
    const OpGraph graph = joint(row);
    OpIndex first = 0;
    for (const Phase phase : {Phase::Forward, Phase::Backward}) {
      OpIndex last = first;
      while (last < graph.ops.size() && graph.ops[last].phase == phase) ++last;
      const json& compiled = row["graphs"][phase == Phase::Forward ? 0 : 1];
      const std::vector<ComparedKernel> real = measured(compiled);
      const test::Differences found = test::differences(real, planned(graph, first, last));
      kernels += static_cast<int>(real.size());
      apart += found.apart;
      if (found.apart > 0)
        std::printf("%s, %s:%s\n", row["row"].get<std::string>().c_str(), std::string(name(phase)).c_str(),
                    found.text.c_str());
      first = last;
    }
  }
  std::printf("%d of %d kernels apart\n", apart, kernels);
  CHECK(kernels > 200);
  CHECK(apart * 20 <= kernels);
}

/// Of the generated kernels of a compiled graph, in one step.
double measured_us(const json& row, const json& graph) {
  double us = 0;
  for (const json& function : graph["functions"])
    for (const json& call : function["calls"])
      if (call["kind"] == "triton") us += row["gpu"][call["gpu"].get<std::size_t>()][3].get<double>();
  return us;
}
double planned_us(const OpGraph& graph, OpIndex first, OpIndex last) {
  const GpuSpec gpu = test::h200();
  const LoopGraph loops = lower(graph, gpu, first, last, view_offsets(graph));
  FusionRules rules;
  rules.mixed_orders = true;
  double us = 0;
  for (const CompiledKernel& kernel : kernels_of(graph, loops, plan_fusion(loops, rules), {}))
    if (kernel.what == KernelClass::Generated)
      for (const KernelWork& work : kernel.work)
        us += static_cast<double>(estimate(work, gpu).duration.count()) / 1e6;
  return us;
}

TEST_CASE("the generated kernels of a training step together take as long as they did, within a tenth") {
  for (const json& row : test::measured_rows()) {
    if (row["step"] != "training") continue;
    const OpGraph graph = joint(row);
    const auto backward =
        static_cast<OpIndex>(std::find_if(graph.ops.begin(), graph.ops.end(),
                                          [](const Op& op) { return op.phase == Phase::Backward; }) -
                             graph.ops.begin());
    const auto optimizer =
        static_cast<OpIndex>(std::find_if(graph.ops.begin(), graph.ops.end(),
                                          [](const Op& op) { return op.phase == Phase::Optimizer; }) -
                             graph.ops.begin());
    const double measured = measured_us(row, row["graphs"][0]) + measured_us(row, row["graphs"][1]);
    const double planned = planned_us(graph, 0, backward) + planned_us(graph, backward, optimizer);
    std::printf("%s: %.0f us, planned %.0f us\n", row["row"].get<std::string>().c_str(), measured, planned);
    CHECK(planned == test::Approx(measured).epsilon(0.1));
  }
}

}  // namespace
