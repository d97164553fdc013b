// SPDX-License-Identifier: Apache-2.0
#include "models/graph/training.hpp"

#include <algorithm>
#include <utility>

#include "models/graph/autograd.hpp"
#include "models/graph/training_forward.hpp"

namespace gpusim {

std::string_view name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::None:
      return "none";
    case OptimizerKind::Sgd:
      return "sgd";
    case OptimizerKind::Adam:
      return "adam";
    case OptimizerKind::AdamW:
      return "adamw";
  }
  return "?";
}
std::string_view name(OptimizerLoop loop) {
  switch (loop) {
    case OptimizerLoop::ForLoop:
      return "for";
    case OptimizerLoop::Foreach:
      return "foreach";
    case OptimizerLoop::Fused:
      return "fused";
  }
  return "?";
}
std::string_view name(TrainingPrecision precision) {
  switch (precision) {
    case TrainingPrecision::Pure:
      return "pure";
    case TrainingPrecision::Autocast:
      return "autocast";
    case TrainingPrecision::Fp8:
      return "fp8";
    case TrainingPrecision::Master:
      return "master";
  }
  return "?";
}
std::string_view name(LossKind loss) {
  switch (loss) {
    case LossKind::CrossEntropy:
      return "cross_entropy";
    case LossKind::Mean:
      return "mean";
    case LossKind::Given:
      return "given";
  }
  return "?";
}
std::string_view name(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::None:
      return "none";
    case Checkpointing::Blocks:
      return "blocks";
    case Checkpointing::Selective:
      return "selective";
  }
  return "?";
}

namespace {

/// Gradients where the optimizer finds them. They stay from step to step where zero_grad() only fills them,
/// and where they add up over micro-batches; else each step's are those that backward made.
std::vector<TensorIndex> keep_gradients(GraphWriter& w, const std::vector<Backward::ParameterGradient>& made,
                                        const TrainingOptions& options) {
  const bool stay = options.accumulation > 1 || !options.optimizer.zero_to_none;
  std::vector<TensorIndex> gradients;
  for (const auto& [parameter, gradient] : made) {
    if (!stay) {
      GraphTensor& tensor = w.graph.tensors[gradient];
      tensor.role = Role::Gradient;
      w.graph.storages[tensor.storage].role = Role::Gradient;
      gradients.push_back(gradient);
      continue;
    }
    const std::string name = w.graph.tensors[parameter].name + ".grad";
    const TensorType type = w.type(parameter);
    const TensorIndex kept = w.add_tensor(name, contiguous_tensor(type.element, type.shape), Role::Gradient);
    w.where = {.phase = Phase::Backward,
               .call = 0,
               .in_repeat = false,
               .recomputed = false,
               .accumulates = options.optimizer.zero_to_none,
               .place = {},
               .gradient_of = graph_none};
    w.add("add_", name + ".add", {kept, gradient});
    gradients.push_back(kept);
  }
  // A gradient may be a view of what an op made.
  for (GraphTensor& tensor : w.graph.tensors)
    if (w.graph.storages[tensor.storage].role == Role::Gradient) tensor.role = Role::Gradient;
  return gradients;
}

/// Whether an op adds a gradient to the one that was there before the backward pass.
bool keeps_gradient(const OpGraph& graph, const Op& op) {
  if (op.phase != Phase::Backward || op.kind->name != "add_") return false;
  const GraphTensor& kept = graph.tensors[op.inputs[0]];
  return kept.role == Role::Gradient && kept.producer == graph_none;
}

/// The engine adds a gradient to the one before as soon as nothing more comes to it, and lets go of it.
void accumulate_early(OpGraph& graph) {
  std::vector<OpIndex> last(graph.storages.size(), graph_none);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (keeps_gradient(graph, op)) continue;
    for (const std::vector<TensorIndex>* list : {&op.inputs, &op.outputs})
      for (const TensorIndex t : *list)
        if (t != graph_none) last[graph.tensors[t].storage] = static_cast<OpIndex>(i);
  }
  std::vector<std::pair<OpIndex, OpIndex>> order;  // Behind which op an op runs, and which.
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto op = static_cast<OpIndex>(i);
    const OpIndex made = keeps_gradient(graph, graph.ops[i])
                             ? last[graph.tensors[graph.ops[i].inputs[1]].storage]
                             : graph_none;
    order.emplace_back(made == graph_none ? op : made, op);
  }
  std::sort(order.begin(), order.end());
  std::vector<OpIndex> place(graph.ops.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i].second] = static_cast<OpIndex>(i);
  std::vector<Op> ops(graph.ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) ops[place[i]] = std::move(graph.ops[i]);
  std::vector<OpIndex> first(ops.size(), graph_none);  // Of equal ops, by the first one before.
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpIndex& like = first[ops[i].like];
    if (like == graph_none) like = static_cast<OpIndex>(i);
    ops[i].like = like;
    if (ops[i].gradient_of != graph_none) ops[i].gradient_of = place[ops[i].gradient_of];
  }
  for (GraphTensor& tensor : graph.tensors) {
    if (tensor.producer != graph_none) tensor.producer = place[tensor.producer];
    if (tensor.named_until != graph_none) tensor.named_until = place[tensor.named_until];
  }
  graph.ops = std::move(ops);
}

/// What the optimizer keeps of each parameter between steps.
std::vector<TensorIndex> add_states(GraphWriter& w, const std::vector<TensorIndex>& parameters,
                                    const TrainingOptions& options) {
  std::vector<std::string> names;
  switch (options.optimizer.kind) {
    case OptimizerKind::None:
      break;
    case OptimizerKind::Sgd:
      if (options.optimizer.momentum) names = {"momentum"};
      break;
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
      names = {"exp_avg", "exp_avg_sq"};
      break;
  }
  const bool master = options.precision == TrainingPrecision::Master;
  if (master) names.insert(names.begin(), "master");
  std::vector<TensorIndex> states;
  for (const std::string& state : names)
    for (const TensorIndex p : parameters) {
      const TensorType type = w.type(p);
      const ElementType element = master ? ElementType::Fp32 : type.element;
      states.push_back(w.add_tensor(w.graph.tensors[p].name + "." + state,
                                    contiguous_tensor(element, type.shape), Role::State));
    }
  return states;
}

void add_optimizer(GraphWriter& w, const std::vector<Backward::ParameterGradient>& made,
                   const std::vector<TensorIndex>& gradients, const TrainingOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  w.where = {};
  w.where.phase = Phase::Optimizer;
  const std::string loop(name(optimizer.loop));
  if (optimizer.clip_norm)
    w.add("clip_grad_norm", "optimizer.clip", gradients,
          {{"implementation", loop == "for" ? "for" : std::string("foreach")}});
  if (optimizer.kind != OptimizerKind::None) {
    std::vector<TensorIndex> tensors;
    for (const auto& each : made) tensors.push_back(each.parameter);
    const auto count = static_cast<std::int64_t>(tensors.size());
    const std::vector<TensorIndex> states = add_states(w, tensors, options);
    tensors.insert(tensors.end(), gradients.begin(), gradients.end());
    tensors.insert(tensors.end(), states.begin(), states.end());
    if (optimizer.kind != OptimizerKind::Sgd && optimizer.loop == OptimizerLoop::Fused)
      w.add("optimizer_counters", "optimizer.counters", {}, {{"count", count}});
    if (optimizer.kind == OptimizerKind::Sgd)
      w.add("sgd", "optimizer.step", tensors,
            {{"count", count}, {"implementation", loop}, {"momentum", optimizer.momentum}});
    else
      w.add(name(optimizer.kind), "optimizer.step", tensors, {{"count", count}, {"implementation", loop}});
  }
  if (!optimizer.zero_to_none) w.add("foreach_zero", "optimizer.zero_grad", gradients);
}

}  // namespace

OpGraph training_graph(const OpGraph& forward, const TrainingOptions& options) {
  GraphWriter w;
  const TensorIndex loss = write_forward(w, forward, options);
  const auto ops = static_cast<OpIndex>(w.graph.ops.size());
  Backward backward(w, options.checkpointing, options.functional);
  backward.run(loss, 0, ops);
  // What the engine enters behind the last op, to keep a gradient, is its work too, not the optimizer's.
  w.graph.ops.back().nodes += std::exchange(w.nodes, 0);
  const std::vector<Backward::ParameterGradient> made = backward.parameters();
  const std::vector<TensorIndex> gradients = keep_gradients(w, made, options);
  if (!options.functional) accumulate_early(w.graph);
  add_optimizer(w, made, gradients, options);
  // What gradients went to; the products read it only in 8 bits.
  for (Op& op : w.graph.ops)
    if (op.kind->name == "scaled_mm")
      for (std::size_t i = 5; i < op.inputs.size(); ++i) op.inputs[i] = graph_none;
  w.graph.outputs = {loss};
  return std::move(w.graph);
}

}  // namespace gpusim
