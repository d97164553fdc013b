// SPDX-License-Identifier: Apache-2.0
#include "models/graph/fully_shard.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/sharding.hpp"

namespace gpusim {
namespace {

/// Parameters that are gathered together.
struct Unit {
  std::string name;
  OpIndex first = 0;  ///< Forward ops [first, last).
  OpIndex last = 0;
  OpIndex backward_first = graph_none;  ///< Of what helps to work out its gradients, or is run again.
  OpIndex backward_last = graph_none;
  std::vector<std::size_t> parameters{};  ///< Into Trained.
  std::vector<TensorIndex> whole{};       ///< For the forward pass; by `parameters`.
  std::vector<TensorIndex> again{};       ///< For the backward pass; the same where nothing was freed.
  TensorIndex forward_done = graph_none;  ///< Marks when they were taken out of what was gathered.
  TensorIndex backward_done = graph_none;
};

class FullyShard {
 public:
  FullyShard(OpGraph graph, const ParallelPlan& plan)
      : step_(std::move(graph)), plan_(plan), trained_(step_.graph) {}

  OpGraph run() {
    find_units();
    find_owners();
    find_backward();
    make_parts();
    forward_gathers();
    reduce();  // Before the next unit is taken out of what was gathered.
    backward_gathers();
    read_gathered();
    return std::move(step_).finish();
  }

 private:
  /// The outermost calls of modules in a repeat; before them all, the rest.
  void find_units() {
    units_.push_back({.name = "root", .first = 0, .last = step_.size()});
    OpIndex behind = 0;
    for (const BlockCall& call : step_.graph.calls) {
      if (!call.in_repeat || !call.module || call.first == call.last || call.first < behind) continue;
      units_.push_back({.name = call.name, .first = call.first, .last = call.last});
      behind = call.last;
    }
    unit_of_.assign(step_.size(), 0);
    for (std::size_t u = 1; u < units_.size(); ++u)
      std::fill(unit_of_.begin() + units_[u].first, unit_of_.begin() + units_[u].last, u);
  }

  /// A parameter is the unit's whose ops alone read it, else the root's.
  void find_owners() {
    const OpGraph& graph = step_.graph;
    parameter_of_.assign(graph.storages.size(), none);
    for (std::size_t i = 0; i < trained_.parameters.size(); ++i)
      parameter_of_[graph.tensors[trained_.parameters[i]].storage] = i;
    std::vector<std::size_t> owner(trained_.parameters.size(), none);
    for (OpIndex i = 0; i < step_.size(); ++i) {
      if (graph.ops[i].phase != Phase::Forward) continue;
      for (const TensorIndex t : graph.ops[i].inputs) {
        const std::size_t p = t == graph_none ? none : parameter_of_[graph.tensors[t].storage];
        if (p == none) continue;
        owner[p] = owner[p] == none || owner[p] == unit_of_[i] ? unit_of_[i] : 0;
      }
    }
    for (std::size_t p = 0; p < owner.size(); ++p)
      units_[owner[p] == none ? 0 : owner[p]].parameters.push_back(p);
  }

  void find_backward() {
    for (OpIndex i = 0; i < step_.size(); ++i) {
      const Op& op = step_.graph.ops[i];
      if (op.phase != Phase::Backward || op.gradient_of == graph_none) continue;
      Unit& unit = units_[unit_of_[op.gradient_of]];
      if (unit.backward_first == graph_none) unit.backward_first = i;
      unit.backward_last = i;
    }
    for (Unit& unit : units_) {
      if (unit.backward_last == graph_none) unit.backward_last = trained_.backward_end - 1;
      for (const std::size_t p : unit.parameters)
        if (trained_.ready[p] != graph_none)
          unit.backward_last = std::max(unit.backward_last, trained_.ready[p]);
    }
    units_.front().backward_last = trained_.backward_end - 1;
    for (std::size_t u = 1; u < units_.size(); ++u)
      if (units_[u].backward_first != graph_none && !units_[u].parameters.empty()) backward_.push_back(u);
    std::stable_sort(backward_.begin(), backward_.end(), [&](std::size_t a, std::size_t b) {
      return units_[a].backward_first < units_[b].backward_first;
    });
  }

  /// What ranks keep of parameters.
  void make_parts() {
    for (const TensorIndex p : trained_.parameters) {
      whole_.push_back(step_.graph.tensors[p].type);
      TensorType part = part_type(whole_.back(), plan_.data);
      if (plan_.shard_dtype) part.element = *plan_.shard_dtype;
      set_type(step_.graph, p, part);
    }
  }

  /// Copies a unit's parts together and gathers them; `after`: what has to be done before.
  TensorIndex gather(const Unit& unit, OpIndex before, TensorIndex after, const std::string& suffix,
                     Phase phase, bool joins) {
    std::vector<TensorIndex> parts;
    for (const std::size_t p : unit.parameters) parts.push_back(trained_.parameters[p]);
    const auto count = static_cast<std::int64_t>(parts.size());
    if (after != graph_none) parts.push_back(after);
    const std::string element(name(whole_[unit.parameters.front()].element));
    const TensorIndex input =
        step_
            .insert(
                before, "fsdp_gather_input", unit.name + suffix + ".copy_in", parts,
                {{"count", count}, {"dtype", element}, {"stream", std::string("gather")}, {"joins", joins}},
                phase)
            .front();
    return step_
        .insert(
            before, "all_gather", unit.name + suffix + ".all_gather", {input},
            {{"ranks", plan_.data}, {"per_node", plan_.data_per_node()}, {"stream", std::string("gather")}},
            phase)
        .front();
  }

  /// Takes whole tensors out of what was gathered; the mark of that comes last.
  std::vector<TensorIndex> take_out(const Unit& unit, OpIndex before, TensorIndex gathered,
                                    const std::string& suffix, Phase phase) {
    std::vector<TensorIndex> inputs{gathered};
    for (const std::size_t p : unit.parameters) inputs.push_back(trained_.parameters[p]);
    std::vector<TensorIndex> made =
        step_.insert(before, "fsdp_gather_output", unit.name + suffix + ".copy_out", inputs,
                     {{"ranks", plan_.data}}, phase);
    for (std::size_t k = 0; k < unit.parameters.size(); ++k) {
      const std::size_t p = unit.parameters[k];
      step_.graph.tensors[made[k]].name =
          step_.graph.tensors[trained_.parameters[p]].name + ".whole" + suffix;
      set_type(step_.graph, made[k], whole_[p]);
    }
    return made;
  }

  void forward_gathers() {
    TensorIndex done = graph_none;  // Of the unit before, and of the one before that.
    TensorIndex before_that = graph_none;
    for (Unit& unit : units_) {
      if (unit.parameters.empty()) continue;
      const bool root = &unit == &units_.front();
      // Not before what was gathered two units earlier has been taken apart: its memory is used again.
      const TensorIndex gathered =
          gather(unit, unit.first, before_that, "", Phase::Forward, root || done == graph_none);
      std::vector<TensorIndex> whole = take_out(unit, unit.first, gathered, "", Phase::Forward);
      before_that = done;
      done = unit.forward_done = whole.back();
      whole.pop_back();
      unit.whole = unit.again = std::move(whole);
    }
  }

  void backward_gathers() {
    if (!plan_.reshard) return;
    TensorIndex gathered = graph_none;
    for (std::size_t k = 0; k < backward_.size(); ++k) {
      Unit& unit = units_[backward_[k]];
      // The last block of forward has only just been freed, and comes first.
      if (k == 0) gathered = gather(unit, unit.backward_first, graph_none, ".again", Phase::Backward, false);
      std::vector<TensorIndex> whole =
          take_out(unit, unit.backward_first, gathered, ".again", Phase::Backward);
      unit.backward_done = whole.back();
      whole.pop_back();
      unit.again = std::move(whole);
      if (k + 1 < backward_.size())
        gathered = gather(units_[backward_[k + 1]], unit.backward_first, unit.backward_done, ".again",
                          Phase::Backward, false);
    }
  }

  /// Ops of forward and backward read whole parameters.
  void read_gathered() {
    OpGraph& graph = step_.graph;
    struct Whole {
      TensorIndex forward = graph_none;
      TensorIndex backward = graph_none;
    };
    std::vector<Whole> found(trained_.parameters.size());
    for (const Unit& unit : units_)
      for (std::size_t k = 0; k < unit.whole.size(); ++k)
        found[unit.parameters[k]] = {unit.whole[k], unit.again[k]};
    for (OpIndex i = 0; i < step_.size(); ++i) {
      Op& op = graph.ops[i];
      if (op.phase == Phase::Optimizer) continue;
      StorageIndex old = graph_none;
      StorageIndex now = graph_none;
      for (TensorIndex& t : op.inputs) {
        const std::size_t p = t == graph_none ? none : parameter_of_[graph.tensors[t].storage];
        if (p == none || t != trained_.parameters[p]) continue;
        old = graph.tensors[t].storage;
        t = op.phase == Phase::Forward ? found[p].forward : found[p].backward;
        now = graph.tensors[t].storage;
      }
      if (now == graph_none) continue;
      // A view of a parameter is one of what was gathered, and so is a view of that.
      for (const TensorIndex t : op.outputs)
        if (graph.tensors[t].storage == old) {
          graph.tensors[t].role = Role::Activation;
          follow(t, now);
        }
    }
  }
  void follow(TensorIndex view, StorageIndex now) {
    OpGraph& graph = step_.graph;
    const StorageIndex old = graph.tensors[view].storage;
    graph.tensors[view].storage = now;
    for (OpIndex i = graph.tensors[view].producer + 1; i < step_.size(); ++i) {
      const Op& op = graph.ops[i];
      if (std::find(op.inputs.begin(), op.inputs.end(), view) == op.inputs.end()) continue;
      for (const TensorIndex t : op.outputs)
        if (graph.tensors[t].storage == old) {
          graph.tensors[t].role = Role::Activation;
          follow(t, now);
        }
    }
  }

  void reduce() {
    OpGraph& graph = step_.graph;
    std::vector<TensorIndex> parts(trained_.gradients.size(), graph_none);
    std::vector<TensorIndex> reduced;
    std::vector<std::size_t> order = backward_;
    order.push_back(0);
    TensorIndex before = graph_none;
    for (const std::size_t u : order) {
      const Unit& unit = units_[u];
      if (unit.parameters.empty()) continue;
      std::vector<TensorIndex> gradients;
      for (const std::size_t p : unit.parameters) gradients.push_back(whole_gradient(p));
      const TensorType first = graph.tensors[gradients.front()].type;
      const ElementType element = plan_.reduce_dtype.value_or(first.element);
      const auto count = static_cast<std::int64_t>(gradients.size());
      // One reduce-scatter at a time: the one before gives its memory back first.
      if (before != graph_none) gradients.push_back(before);
      const OpIndex place = unit.backward_last + 1;
      const TensorIndex input =
          step_
              .insert(place, "fsdp_scatter_input", unit.name + ".chunk_cat", gradients,
                      {{"ranks", plan_.data}, {"count", count}, {"dtype", std::string(name(element))}},
                      Phase::Backward)
              .front();
      before = step_
                   .insert(place, "reduce_scatter", unit.name + ".reduce_scatter", {input},
                           {{"ranks", plan_.data},
                            {"per_node", plan_.data_per_node()},
                            {"stream", std::string("reduce")}},
                           Phase::Backward)
                   .front();
      reduced.push_back(before);
      std::vector<TensorIndex> inputs{before};
      for (const std::size_t p : unit.parameters) inputs.push_back(trained_.parameters[p]);
      const std::vector<TensorIndex> made =
          step_.insert(place, "fsdp_scatter_output", unit.name + ".gradients", inputs,
                       {{"stream", std::string("reduce")}}, Phase::Backward);
      for (std::size_t k = 0; k < made.size(); ++k) {
        parts[unit.parameters[k]] = keep(unit.parameters[k], made[k], place);
        reduced.push_back(made[k]);
      }
    }
    std::vector<TensorIndex> whole;
    for (std::size_t p = 0; p < trained_.gradients.size(); ++p)
      if (kept_add(p) == graph_none) whole.push_back(trained_.gradients[p]);
    set_role(graph, whole, Role::Activation);
    set_role(graph, parts, Role::Gradient);
    trained_.replace(graph, trained_.parameters, parts, plan_.data, plan_.shard_dtype);
    step_.insert(trained_.optimizer, "fsdp_optimizer", "optimizer.parts", trained_.parameters, {},
                 Phase::Optimizer);
  }

  /// The op that adds a micro-batch's gradient to those before; none: there is one micro-batch.
  OpIndex kept_add(std::size_t p) const {
    const GraphTensor& gradient = step_.graph.tensors[trained_.gradients[p]];
    return gradient.producer == graph_none ? trained_.ready[p] : graph_none;
  }
  TensorIndex whole_gradient(std::size_t p) const {
    const OpIndex add = kept_add(p);
    return add == graph_none ? trained_.gradients[p] : step_.graph.ops[add].inputs[1];
  }
  /// Micro-batches add up parts, not wholes.
  TensorIndex keep(std::size_t p, TensorIndex part, OpIndex place) {
    const OpIndex add = kept_add(p);
    if (add == graph_none) return part;
    OpGraph& graph = step_.graph;
    const TensorIndex kept = trained_.gradients[p];
    set_type(graph, kept, graph.tensors[part].type);
    const bool accumulates = graph.ops[add].accumulates;
    step_.remove(add);
    step_.insert(place, "add_", graph.tensors[kept].name + ".add", {kept, part}, {}, Phase::Backward);
    graph.ops.back().accumulates = accumulates;
    return kept;
  }

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  GraphInserter step_;
  const ParallelPlan& plan_;
  const Trained trained_;
  std::vector<Unit> units_;                ///< The first one is the rest.
  std::vector<std::size_t> unit_of_;       ///< By op of the forward pass.
  std::vector<std::size_t> parameter_of_;  ///< By storage: into Trained.
  std::vector<std::size_t> backward_;      ///< Units but the first, in the order of their backward passes.
  std::vector<TensorType> whole_;          ///< By parameter.
};

}  // namespace

OpGraph fully_sharded_step(OpGraph step, const ParallelPlan& plan) {
  return FullyShard(std::move(step), plan).run();
}

}  // namespace gpusim
