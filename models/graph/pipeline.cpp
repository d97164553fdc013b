// SPDX-License-Identifier: Apache-2.0
#include "models/graph/pipeline.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/graph_inserter.hpp"
#include "models/graph/graph_parts.hpp"

namespace gpusim {
namespace {

class Stages {
 public:
  Stages(const OpGraph& step, const ParallelPlan& plan) : step_(step), plan_(plan) {
    find_blocks();
    const std::int64_t stages = plan.pipeline * plan.chunks;
    const auto blocks = static_cast<std::int64_t>(blocks_.size());
    if (blocks == 0 || blocks % stages != 0)
      throw GraphError({},
                       std::to_string(blocks) + " repeated blocks do not divide among " +
                           std::to_string(stages) + " stages",
                       "pipeline times chunks must divide the network's layers");
    rank_of_.assign(step.ops.size(), 0);
    in_block_.assign(step.ops.size(), false);
    for (OpIndex i = 0; i < step.ops.size(); ++i) rank_of_[i] = rank_of(i, blocks / stages);
  }

  std::int64_t rank(OpIndex op) const { return rank_of_[op]; }
  bool in_block(OpIndex op) const { return in_block_[op]; }

 private:
  void find_blocks() {
    OpIndex behind = 0;
    for (const BlockCall& call : step_.calls) {
      if (!call.in_repeat || call.first == call.last || call.first < behind) continue;
      blocks_.push_back({call.first, call.last});
      behind = call.last;
    }
  }
  std::int64_t rank_of(OpIndex i, std::int64_t blocks_per_stage) {
    const Op& op = step_.ops[i];
    if (op.phase == Phase::Optimizer) return 0;
    if (op.phase == Phase::Backward) {
      if (op.gradient_of != graph_none) {
        in_block_[i] = in_block_[op.gradient_of];
        return rank_of_[op.gradient_of];
      }
      // It goes on with what was made last, or begins at the loss.
      for (auto t = op.inputs.rbegin(); t != op.inputs.rend(); ++t)
        if (*t != graph_none && step_.tensors[*t].producer != graph_none)
          return rank_of_[step_.tensors[*t].producer];
      return plan_.pipeline - 1;
    }
    const auto block =
        std::upper_bound(blocks_.begin(), blocks_.end(), i,
                         [](OpIndex at, const std::pair<OpIndex, OpIndex>& b) { return at < b.first; });
    if (block == blocks_.begin()) return 0;
    if (block == blocks_.end() && i >= blocks_.back().second) return plan_.pipeline - 1;
    in_block_[i] = i < (block - 1)->second;
    return ((block - 1) - blocks_.begin()) / blocks_per_stage % plan_.pipeline;
  }

  const OpGraph& step_;
  const ParallelPlan& plan_;
  std::vector<std::pair<OpIndex, OpIndex>> blocks_;
  std::vector<std::int64_t> rank_of_;
  std::vector<bool> in_block_;
};

}  // namespace

OpGraph pipeline_stage(const OpGraph& whole, const ParallelPlan& plan, std::int64_t rank) {
  const Stages stages(whole, plan);
  // Parameters of the rank's own ops; the optimizer goes over those.
  std::vector<bool> own(whole.storages.size(), false);
  std::vector<OpIndex> ops;
  for (OpIndex i = 0; i < whole.ops.size(); ++i) {
    const Op& op = whole.ops[i];
    if (op.phase != Phase::Optimizer && stages.rank(i) != rank) continue;
    ops.push_back(i);
    if (op.phase == Phase::Optimizer) continue;
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && whole.tensors[t].producer == graph_none) own[whole.tensors[t].storage] = true;
  }
  OpGraph step = whole;
  for (Op& op : step.ops) {
    if (op.phase != Phase::Optimizer || !op.attributes.has("count")) continue;
    const auto count = static_cast<std::size_t>(op.attributes.integer("count"));
    std::vector<TensorIndex> kept;
    for (std::size_t k = 0; k < op.inputs.size(); ++k)
      if (own[whole.tensors[op.inputs[count > 0 ? k % count : k]].storage]) kept.push_back(op.inputs[k]);
    if (count == 0 || op.inputs.empty()) continue;
    const std::size_t lists = op.inputs.size() / count;
    op.inputs = std::move(kept);
    Attributes attributes;
    for (const auto& [name, value] : op.attributes.all())
      attributes.add(name, name == "count"
                               ? AttributeValue(static_cast<std::int64_t>(op.inputs.size() / lists))
                               : value);
    op.attributes = attributes;
  }
  GraphInserter stage(take_part(step, ops).graph);
  OpGraph& graph = stage.graph;
  // What comes from, and goes to, other stages: the tensors between blocks.
  std::set<std::string> crossing;
  const auto crosses = [&](TensorIndex t, OpIndex reader) {
    const OpIndex producer = whole.tensors[t].producer;
    return producer != graph_none && whole.ops[reader].phase != Phase::Optimizer &&
           stages.rank(producer) != stages.rank(reader) &&
           (whole.ops[producer].phase == Phase::Backward || stages.in_block(producer)) &&
           whole.ops[producer].phase == whole.ops[reader].phase;
  };
  std::vector<bool> leaves(whole.tensors.size(), false);
  for (OpIndex i = 0; i < whole.ops.size(); ++i)
    for (const TensorIndex t : whole.ops[i].inputs)
      if (t != graph_none && crosses(t, i)) {
        leaves[t] = true;
        if (stages.rank(i) == rank) crossing.insert(whole.tensors[t].name);
      }
  std::set<std::string> sent;
  for (std::size_t t = 0; t < whole.tensors.size(); ++t)
    if (leaves[t] && stages.rank(whole.tensors[t].producer) == rank) sent.insert(whole.tensors[t].name);
  const std::int64_t per_node = plan.data * plan.tensor < plan.ranks_per_node ? 2 : 1;
  const auto message = [&](OpIndex before, TensorIndex t, const char* what, Phase phase) {
    stage.insert(before, "send", graph.tensors[t].name + what, {t},
                 {{"ranks", std::int64_t{2}}, {"per_node", per_node}, {"stream", std::string("pipeline")}},
                 phase);
  };
  const std::size_t tensors = graph.tensors.size();
  std::vector<OpIndex> first_reader(tensors, graph_none);
  for (OpIndex i = 0; i < stage.size(); ++i)
    for (const TensorIndex t : graph.ops[i].inputs)
      if (t != graph_none && first_reader[t] == graph_none) first_reader[t] = i;
  for (TensorIndex t = 0; t < tensors; ++t) {
    const GraphTensor tensor = graph.tensors[t];
    if (tensor.producer == graph_none && crossing.count(tensor.name) != 0 && first_reader[t] != graph_none)
      message(first_reader[t], t, ".receive", graph.ops[first_reader[t]].phase);
    if (tensor.producer != graph_none && sent.count(tensor.name) != 0)
      message(tensor.producer + 1, t, ".send", graph.ops[tensor.producer].phase);
  }
  return std::move(stage).finish();
}

double passes_in_flight(const ParallelPlan& plan, std::int64_t rank) {
  const auto m = static_cast<double>(plan.microbatches);
  const auto from_here = static_cast<double>(plan.pipeline - rank);
  switch (plan.schedule) {
    case PipelineSchedule::Gpipe:
      return m;
    case PipelineSchedule::OneF1b:
      return std::min(m, from_here);
    case PipelineSchedule::Interleaved: {
      // 2 (p - r - 1) + (v - 1) p + 1 passes through one of v stages are begun before the first ends.
      const auto p = static_cast<double>(plan.pipeline);
      const auto v = static_cast<double>(plan.chunks);
      return std::min(m, (2 * (from_here - 1) + (v - 1) * p + 1) / v);
    }
  }
  return m;
}

}  // namespace gpusim
