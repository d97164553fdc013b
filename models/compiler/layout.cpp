// SPDX-License-Identifier: Apache-2.0
// Layouts: one copy where many kernels would make their own, and none where copies undo each other.
#include <array>
#include <numeric>
#include <string>
#include <string_view>

#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

bool is_conv(const Op& op) {
  return op.kind->name == "conv2d";
}

Op copy_into_layout(const OpGraph& graph, TensorIndex from, TensorIndex to, bool channels_last) {
  const OpKind* const kind = find_op("contiguous");
  return {.kind = kind,
          .name = graph.tensors[to].name,
          .inputs = {from},
          .outputs = {to},
          .attributes = attributes_of(*kind, {{"channels_last", channels_last}}),
          .place = {}};
}

// --- Copies that undo each other.

/// The tensor whose copy of a transpose of a copy of a transpose... `copy` is, with every dimension back in
/// its place; none.
TensorIndex undone(const GraphEdit& edit, TensorIndex copy) {
  constexpr int chain_max = 16;
  const OpGraph& graph = edit.graph;
  const TensorType& type = graph.tensors[copy].type;
  const int rank = type.shape.rank();
  std::array<int, Dims::rank_max> from{};  // Which dimension of the tensor reached each one of the copy is.
  std::iota(from.begin(), from.end(), 0);
  const auto counted = [&](std::int64_t dim) { return static_cast<int>(dim < 0 ? dim + rank : dim); };
  TensorIndex reached = copy;
  for (int i = 0; i < chain_max; ++i) {
    const OpIndex maker = graph.tensors[reached].producer;
    if (maker == graph_none) return graph_none;
    const Op& op = graph.ops[maker];
    const std::string_view name = op.kind->name;
    if (name == "transpose") {
      const int a = counted(op.attributes.integer("dim0"));
      const int b = counted(op.attributes.integer("dim1"));
      for (int& d : from) d = d == a ? b : d == b ? a : d;
    } else if (name == "permute") {
      const Dims& order = op.attributes.dims("dims");
      for (int d = 0; d < rank; ++d) {
        int& place = from[static_cast<std::size_t>(d)];
        place = counted(order[place]);
      }
    } else if (name != "contiguous" && name != "clone" &&
               !(graph.tensors[op.outputs[0]].type == graph.tensors[op.inputs[0]].type &&
                 graph.tensors[op.outputs[0]].storage == graph.tensors[op.inputs[0]].storage)) {
      return graph_none;
    }
    // What is read later must not have changed on the way.
    if (edit.written[graph.tensors[reached].storage] != 0) return graph_none;
    reached = edit.same_as(op.inputs.front());
    bool in_place = true;
    for (int d = 0; d < rank; ++d) in_place = in_place && from[static_cast<std::size_t>(d)] == d;
    if (in_place && graph.tensors[reached].type == type && may_stand_for(edit, reached, copy)) return reached;
  }
  return graph_none;
}

}  // namespace

void remove_undone_copies(GraphEdit& edit, Simplification& report) {
  OpGraph& graph = edit.graph;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    edit.resolve(op);
    if (!edit.works(i) || (op.kind->name != "contiguous" && op.kind->name != "clone")) continue;
    if (graph.tensors[op.outputs[0]].storage == graph.tensors[op.inputs[0]].storage) continue;
    const TensorIndex same = undone(edit, op.outputs[0]);
    if (same == graph_none) continue;
    edit.remove(i, report);
    edit.replace(op.outputs[0], same);
  }
}

namespace {

// --- Products that read a tensor whose rows do not lie in memory as a matrix: each would copy it first.

void share_copies(GraphEdit& edit, Simplification& report) {
  OpGraph& graph = edit.graph;
  struct Reading {
    TensorIndex tensor = 0;
    std::uint32_t version = 0;
    std::vector<OpIndex> ops;
  };
  std::vector<Reading> readings;
  std::vector<std::uint32_t> version(graph.storages.size(), 0);
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (edit.removed[i] != 0) continue;
    visit_written(graph, op, [&](StorageIndex s) { ++version[s]; });
    const bool product = op.kind->name == "linear" ||
                         (op.kind->name == "matmul" && graph.tensors[op.inputs[1]].type.shape.rank() == 2);
    if (!product || !edit.compiled(i) || is_matrix_of_rows(graph.tensors[op.inputs[0]].type)) continue;
    // A product of two matrices reads the first by columns as well.
    const TensorType& left = graph.tensors[op.inputs[0]].type;
    if (op.kind->name == "matmul" && left.shape.rank() == 2 && left.strides[0] == 1) continue;
    const TensorIndex x = op.inputs[0];
    const std::uint32_t now = version[graph.tensors[x].storage];
    const auto known = std::find_if(readings.begin(), readings.end(), [&](const Reading& r) {
      return r.tensor == x && r.version == now && edit.region[r.ops.front()] == edit.region[i];
    });
    if (known != readings.end())
      known->ops.push_back(i);
    else
      readings.push_back({x, now, {i}});
  }
  for (const Reading& reading : readings) {
    if (reading.ops.size() < 2) continue;
    const GraphTensor& x = graph.tensors[reading.tensor];
    const OpIndex first = reading.ops.front();
    const TensorType rows = contiguous_tensor(x.type.element, x.type.shape);
    const TensorIndex copy = edit.add_tensor(graph.ops[first].name + ".rows", rows, Role::Activation);
    for (const OpIndex i : reading.ops) {
      graph.ops[i].inputs[0] = copy;
      edit.retyped[i] = 1;
      report.saved += dense_bytes(rows) + dense_bytes(rows);
    }
    edit.add(copy_into_layout(graph, reading.tensor, copy, false), first, first, report);
  }
}

// --- Convolutions.

/// TorchInductor's decide_layout_opt (torch/_inductor/graph.py): few convolutions are not worth it; in
/// inference the shares of FLOPs count, weighted with how much faster (slower, grouped) channels last were in
/// its benchmarks.
bool wants_channels_last(const GraphEdit& edit, std::size_t region, bool training) {
  constexpr double grouped = 1.358;
  constexpr double small = 0.783;
  constexpr double narrowing = 0.725;
  constexpr double other = 0.823;
  constexpr std::int64_t ops_per_convolution_max = 300;
  const OpGraph& graph = edit.graph;
  std::int64_t ops = 0;
  std::int64_t convolutions = 0;
  bool any_first = false;
  bool any_grouped = false;
  bool any_narrowing = false;
  bool all_small = true;
  double flops = 0;
  double weighted = 0;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    if (edit.region[i] != region || edit.removed[i] != 0) continue;
    ++ops;
    const Op& op = graph.ops[i];
    if (!is_conv(op)) continue;
    ++convolutions;
    any_first = any_first || !is_channels_last(graph.tensors[op.inputs[0]].type);
    const Dims& w = graph.tensors[op.inputs[1]].type.shape;  // [outputs, inputs / groups, height, width]
    const bool is_grouped = op.attributes.integer("groups") > 1 && w[1] > 1;
    const bool is_small = w[0] <= 64 && w[1] <= 64;
    const bool is_narrowing = w[0] * 2 <= w[1] && w[2] > 1;
    any_grouped = any_grouped || is_grouped;
    any_narrowing = any_narrowing || is_narrowing;
    all_small = all_small && is_small;
    const OpTypes types(graph, op);
    const double own = op.kind->flops(types.view(op)).value();
    flops += own;
    weighted += own * (is_grouped ? grouped : is_small ? small : is_narrowing ? narrowing : other);
  }
  if (!any_first || ops >= ops_per_convolution_max * convolutions) return false;
  if (training) return !any_grouped && !any_narrowing && !all_small;
  return weighted <= flops;
}

/// Lays the images of one region out with their channels innermost: converts what comes from outside where
/// the first convolution reads it, works out all layouts behind it anew, converts back what leaves.
class ChannelsLast {
 public:
  ChannelsLast(GraphEdit& edit, std::size_t region, Simplification& report)
      : edit_(edit),
        graph_(edit.graph),
        region_(region),
        report_(report),
        old_types_(graph_.tensors.size()),
        copies_(graph_.tensors.size(), graph_none),
        owner_(graph_.storages.size(), graph_none),
        weight_reads_(graph_.storages.size(), 0) {
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) old_types_[t] = graph_.tensors[t].type;
    changed_.assign(graph_.tensors.size(), 0);
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorIndex t : graph_.ops[i].outputs) {
        OpIndex& owner = owner_[graph_.tensors[t].storage];
        if (owner == graph_none && graph_.tensors[t].role == Role::Activation) owner = i;
      }
      for (const TensorIndex t : graph_.ops[i].inputs)
        if (t != graph_none) ++weight_reads_[graph_.tensors[t].storage];
    }
  }

  /// False if memory that is changed in place would come apart: then the edit is of no use any more.
  bool run() {
    OpIndex end = 0;
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      if (edit_.region[i] != region_) continue;
      end = i + 1;
      edit_.resolve(graph_.ops[i]);
      if (is_conv(graph_.ops[i])) convert_convolution(i);
      const Op& op = graph_.ops[i];
      const bool anew = std::any_of(op.inputs.begin(), op.inputs.end(),
                                    [&](TensorIndex t) { return t != graph_none && changed_[t] != 0; });
      if (anew && !retype(i)) return false;
    }
    return convert_back(end);
  }

 private:
  TensorIndex add_copy(const std::string& name, TensorIndex from, const TensorType& type, bool channels_last,
                       OpIndex before, OpIndex origin) {
    const TensorIndex copy = edit_.add_tensor(name, type, Role::Activation);
    old_types_.push_back(type);
    copies_.push_back(graph_none);
    changed_.push_back(1);
    owner_.push_back(graph_none);
    weight_reads_.push_back(0);
    edit_.add(copy_into_layout(graph_, from, copy, channels_last), before, origin, report_);
    return copy;
  }

  void convert_convolution(OpIndex i) {
    const TensorIndex x = graph_.ops[i].inputs[0];
    const TensorIndex w = graph_.ops[i].inputs[1];
    const auto bytes = [&](TensorIndex t) { return dense_bytes(graph_.tensors[t].type); };
    const bool plain =
        graph_.tensors[w].type.shape[2] == 1 && graph_.ops[i].attributes.integer("stride") == 1;
    // Kernels that wanted other layouts converted input and result.
    if (!plain && !is_channels_last(old_types_[x])) {
      report_.saved += bytes(x) + bytes(x);
      report_.saved += bytes(graph_.ops[i].outputs[0]) + bytes(graph_.ops[i].outputs[0]);
    }
    if (!is_channels_last(graph_.tensors[x].type)) {
      // A copy of what is changed later holds what it was.
      if (copies_[x] == graph_none || edit_.written[graph_.tensors[x].storage] != 0) {
        TensorType type = graph_.tensors[x].type;
        type.strides = channels_last_strides(type.shape);
        const TensorIndex copy = add_copy(graph_.ops[i].name + ".channels_last", x, type, true, i, i);
        copies_[x] = copy;
      }
      graph_.ops[i].inputs[0] = copies_[x];
    }
    GraphTensor& weight = graph_.tensors[w];
    if (weight.producer == graph_none && weight_reads_[weight.storage] == 1 && is_contiguous(weight.type) &&
        edit_.written[weight.storage] == 0)
      weight.type.strides = channels_last_strides(weight.type.shape);
  }

  /// Works out what an op makes of inputs that lie differently.
  bool retype(OpIndex i) {
    Op& op = graph_.ops[i];
    edit_.retyped[i] = 1;
    std::vector<MadeTensor> made;
    try {
      made = op.kind->infer(OpTypes(graph_, op).view(op));
    } catch (const ShapeError&) {
      if (op.kind->name != "view") return false;
      op.kind = find_op("reshape");  // Of one attribute, as view; copies where it has to.
      made = op.kind->infer(OpTypes(graph_, op).view(op));
    }
    if (in_place(*op.kind)) {
      changed_[op.outputs[0]] = 1;
      graph_.tensors[op.outputs[0]].type = made[0].type;
      graph_.tensors[op.outputs[0]].storage = graph_.tensors[op.inputs[0]].storage;
      return true;
    }
    for (std::size_t k = 0; k < made.size(); ++k) {
      GraphTensor& out = graph_.tensors[op.outputs[k]];
      const bool owned = owner_[out.storage] == i;
      const bool view = made[k].view_of >= 0;
      changed_[op.outputs[k]] = 1;
      if (view) {
        const GraphTensor& base = graph_.tensors[op.inputs[static_cast<std::size_t>(made[k].view_of)]];
        if (owned && (edit_.written[out.storage] != 0 || edit_.written[base.storage] != 0)) return false;
        out.storage = base.storage;
        out.role = base.role;
      } else if (!owned) {
        if (edit_.written[out.storage] != 0) return false;
        report_.saved -= dense_bytes(made[k].type) + dense_bytes(made[k].type);
        out.storage = edit_.add_storage(dense_bytes(made[k].type), Role::Activation);
        out.role = Role::Activation;
        owner_.push_back(i);
        weight_reads_.push_back(0);
      }
      out.type = made[k].type;
    }
    // A copy into the layout that is there already.
    const GraphTensor& out = graph_.tensors[op.outputs[0]];
    if (op.kind->name == "contiguous" && out.type == graph_.tensors[op.inputs[0]].type &&
        out.storage == graph_.tensors[op.inputs[0]].storage) {
      edit_.remove(i, report_);
      edit_.replace(op.outputs[0], op.inputs[0]);
    }
    return true;
  }

  /// Whoever gets a tensor outside of the region gets it as it was.
  bool convert_back(OpIndex end) {
    std::vector<TensorIndex> back(graph_.tensors.size(), graph_none);
    std::vector<std::uint8_t> written_after(graph_.storages.size(), 0);
    for (OpIndex i = end; i < graph_.ops.size(); ++i)
      visit_written(graph_, graph_.ops[i], [&](StorageIndex s) { written_after[s] = 1; });
    const auto outside = [&](TensorIndex& t) {
      const TensorIndex now = edit_.same_as(t);
      if (now == graph_none || changed_[now] == 0 || graph_.tensors[now].type == old_types_[t]) {
        t = now;
        return true;
      }
      if (back[now] == graph_none) {
        if (!is_contiguous(old_types_[t]) || written_after[graph_.tensors[now].storage] != 0) return false;
        const OpIndex maker = graph_.tensors[now].producer;
        back[now] = add_copy(graph_.tensors[now].name + ".contiguous", now, old_types_[t], false, end, maker);
        back.push_back(graph_none);
      }
      edit_.given[back[now]] |= edit_.given[now];
      t = back[now];
      return true;
    };
    for (TensorIndex& t : graph_.outputs)
      if (!outside(t)) return false;
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      if (edit_.region[i] == region_ || edit_.removed[i] != 0) continue;
      for (TensorIndex& t : graph_.ops[i].inputs)
        if (t != graph_none && !outside(t)) return false;
    }
    return true;
  }

  GraphEdit& edit_;
  OpGraph& graph_;
  const std::size_t region_;
  Simplification& report_;
  std::vector<TensorType> old_types_;       ///< By tensor.
  std::vector<TensorIndex> copies_;         ///< By tensor: with channels last, for convolutions.
  std::vector<std::uint8_t> changed_;       ///< By tensor: type or storage is not what it was.
  std::vector<OpIndex> owner_;              ///< By storage: the op that made it.
  std::vector<std::int32_t> weight_reads_;  ///< By storage.
};

void lay_out_convolutions(GraphEdit& edit, bool training, Simplification& report) {
  std::vector<std::size_t> regions;
  for (OpIndex i = 0; i < edit.graph.ops.size(); ++i)
    if (is_conv(edit.graph.ops[i]) && edit.works(i) && (regions.empty() || regions.back() != edit.region[i]))
      regions.push_back(edit.region[i]);
  if (!regions.empty()) edit.settle();
  for (const std::size_t region : regions) {
    if (!wants_channels_last(edit, region, training)) continue;
    GraphEdit trial = edit;
    Simplification trial_report = report;
    if (!ChannelsLast(trial, region, trial_report).run()) continue;
    trial.settle();
    edit = std::move(trial);
    report = std::move(trial_report);
  }
}

}  // namespace

void choose_layouts(GraphEdit& edit, bool training, Simplification& report) {
  lay_out_convolutions(edit, training, report);
  share_copies(edit, report);
  if (report.ops_added == 0) return;
  edit.settle();
  remove_undone_copies(edit, report);
}

}  // namespace gpusim
