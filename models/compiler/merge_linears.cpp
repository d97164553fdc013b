// SPDX-License-Identifier: Apache-2.0
// Linears that read one tensor become one product with their weights one below the other, and a split of its
// result. The tensor is read once and the product is wider; FLOPs and parameters stay.
//
// The parts are views with longer rows. Where that would change more than views, as a part that has to be
// contiguous, the linears stay as they are. TorchInductor does the same when it freezes, for two or three
// weights of one shape (fx_passes/freezing_patterns.py); vLLM and TensorRT-LLM load their weights so.
#include <functional>
#include <span>
#include <string>

#include "models/compiler/simplify_passes.hpp"

namespace gpusim {
namespace {

constexpr std::size_t x_input = 0;
constexpr std::size_t weight_input = 1;
constexpr std::size_t bias_input = 2;

/// Who reads each tensor, in the order in which the ops run.
class Readers {
 public:
  explicit Readers(const GraphEdit& edit) : begin_(edit.graph.tensors.size() + 1, 0) {
    const auto each = [&](const auto& visit) {
      for (OpIndex i = 0; i < edit.graph.ops.size(); ++i)
        if (edit.removed[i] == 0)
          for (const TensorIndex t : edit.graph.ops[i].inputs)
            if (t != graph_none) visit(i, t);
    };
    each([&](OpIndex, TensorIndex t) { ++begin_[t + 1]; });
    for (std::size_t t = 1; t < begin_.size(); ++t) begin_[t] += begin_[t - 1];
    ops_.resize(begin_.back());
    std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
    each([&](OpIndex i, TensorIndex t) { ops_[next[t]++] = i; });
  }
  std::span<const OpIndex> of(TensorIndex t) const {
    return std::span(ops_).subspan(begin_[t], begin_[t + 1] - begin_[t]);
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<OpIndex> ops_;
};

class LinearMerger {
 public:
  explicit LinearMerger(GraphEdit& edit)
      : edit_(edit),
        graph_(edit.graph),
        linear_(find_op("linear")),
        split_(find_op("split")),
        chunk_(find_op("chunk")) {
    for (Op& op : graph_.ops) edit.resolve(op);
    storage_reads_.assign(graph_.storages.size(), 0);
    for (OpIndex i = 0; i < graph_.ops.size(); ++i)
      if (edit.removed[i] == 0)
        for (const TensorIndex t : graph_.ops[i].inputs)
          if (t != graph_none) ++storage_reads_[graph_.tensors[t].storage];
    for (const TensorIndex t : graph_.outputs) ++storage_reads_[graph_.tensors[edit.same_as(t)].storage];
    find_gate_up();
  }

  /// Linears that others read come first, so that each group finds what it reads as it will be.
  void merge(Simplification* gate_up, Simplification* others) {
    find_groups(gate_up != nullptr, others != nullptr);
    if (groups_.empty()) return;
    const Readers readers(edit_);
    for (const std::vector<OpIndex>& group : groups_)
      if (group.size() > 1 && fits(group, readers))
        join(group, partner_[group.front()] != graph_none ? *gate_up : *others);
  }

 private:
  const GraphTensor& tensor(TensorIndex t) const { return graph_.tensors[t]; }

  /// The linear that makes the tensor, or graph_none.
  OpIndex linear_of(TensorIndex t) const {
    const OpIndex maker = tensor(t).producer;
    return maker != graph_none && graph_.ops[maker].kind == linear_ ? maker : graph_none;
  }

  /// The linear whose result a split cuts into parts, of which the tensor is one.
  OpIndex split_linear_of(TensorIndex t) const {
    const OpIndex maker = tensor(t).producer;
    if (maker == graph_none || (graph_.ops[maker].kind != split_ && graph_.ops[maker].kind != chunk_))
      return graph_none;
    return linear_of(graph_.ops[maker].inputs.front());
  }

  /// Marks pairs of linears of one tensor that a product joins, one of them through an elementwise function,
  /// and linears whose result is cut into two such parts.
  void find_gate_up() {
    partner_.assign(graph_.ops.size(), graph_none);
    const OpKind* const mul = find_op("mul");
    const auto argument = [&](TensorIndex t) -> TensorIndex {
      const OpIndex maker = tensor(t).producer;
      if (maker == graph_none) return graph_none;
      const Op& op = graph_.ops[maker];
      return op.kind->fusion == FusionClass::Pointwise && op.inputs.size() == 1 ? op.inputs[0] : graph_none;
    };
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (op.kind != mul || !edit_.works(i) || op.inputs[1] == graph_none) continue;
      for (const std::size_t side : {0U, 1U}) {
        const TensorIndex gated = argument(op.inputs[side]);
        if (gated == graph_none) continue;
        const OpIndex gate = linear_of(gated);
        const OpIndex up = linear_of(op.inputs[1 - side]);
        const OpIndex both = split_linear_of(gated);
        if (both != graph_none && both == split_linear_of(op.inputs[1 - side])) partner_[both] = both;
        if (gate == graph_none || up == graph_none || gate == up || partner_[gate] != graph_none ||
            partner_[up] != graph_none || graph_.ops[gate].inputs[x_input] != graph_.ops[up].inputs[x_input])
          continue;
        partner_[gate] = up;
        partner_[up] = gate;
        break;
      }
    }
  }

  /// A weight that no other op reads and that is there before the step begins.
  bool own_weight(TensorIndex t) const {
    const GraphTensor& weight = tensor(t);
    return weight.producer == graph_none && (weight.role == Role::Parameter || weight.role == Role::Buffer) &&
           is_contiguous(weight.type) && storage_reads_[weight.storage] == 1 &&
           edit_.written[weight.storage] == 0;
  }

  bool can_merge(OpIndex i) const {
    const Op& op = graph_.ops[i];
    if (op.kind != linear_ || !edit_.works(i) || !own_weight(op.inputs[weight_input])) return false;
    const TensorIndex bias = op.inputs[bias_input];
    if (bias != graph_none && (!own_weight(bias) || tensor(bias).type.shape.rank() != 1)) return false;
    return edit_.written[tensor(op.outputs[0]).storage] == 0;
  }

  bool go_together(OpIndex a, OpIndex b) const {
    const Op& one = graph_.ops[a];
    const Op& two = graph_.ops[b];
    const auto role_and_type = [&](const Op& op, std::size_t input) {
      const GraphTensor& t = tensor(op.inputs[input]);
      return std::pair(t.role, t.type.element);
    };
    if (edit_.region[a] != edit_.region[b] || version_read_[a] != version_read_[b] ||
        role_and_type(one, weight_input) != role_and_type(two, weight_input))
      return false;
    const bool bias = one.inputs[bias_input] != graph_none;
    return bias == (two.inputs[bias_input] != graph_none) &&
           (!bias || role_and_type(one, bias_input) == role_and_type(two, bias_input));
  }

  void find_groups(bool gate_up, bool others) {
    std::vector<std::uint32_t> version(graph_.storages.size(), 0);
    version_read_.assign(graph_.ops.size(), 0);
    std::vector<std::vector<std::size_t>> of_tensor;  // Groups that read it.
    std::vector<std::uint32_t> place(graph_.tensors.size(), graph_none);
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      if (edit_.removed[i] != 0) continue;
      const Op& op = graph_.ops[i];
      visit_written(graph_, op, [&](StorageIndex s) { ++version[s]; });
      if (!can_merge(i) || !(partner_[i] != graph_none ? gate_up : others)) continue;
      const TensorIndex x = op.inputs[x_input];
      version_read_[i] = version[tensor(x).storage];
      if (place[x] == graph_none) {
        place[x] = static_cast<std::uint32_t>(of_tensor.size());
        of_tensor.emplace_back();
      }
      std::vector<std::size_t>& candidates = of_tensor[place[x]];
      const auto found = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t g) {
        const OpIndex first = groups_[g].front();
        const bool one_rule = partner_[i] == (partner_[first] == graph_none ? graph_none : first);
        // Sizes of a split are dims, so there are at most eight.
        return one_rule && go_together(first, i) &&
               groups_[g].size() < static_cast<std::size_t>(Dims::rank_max);
      });
      if (found != candidates.end()) {
        groups_[*found].push_back(i);
      } else {
        candidates.push_back(groups_.size());
        groups_.push_back({i});
      }
    }
  }

  // --- Whether the parts can be views.

  struct Change {
    TensorIndex tensor = 0;
    TensorType type;
  };

  const TensorType& type_of(TensorIndex t) const {
    for (const Change& change : changes_)
      if (change.tensor == t) return change.type;
    return tensor(t).type;
  }
  bool changes(TensorIndex t) const {
    return std::any_of(changes_.begin(), changes_.end(), [&](const Change& c) { return c.tensor == t; });
  }

  /// Follows the parts through views of them. What reads those must make what it made, without copying
  /// first.
  bool fits(const std::vector<OpIndex>& group, const Readers& readers) {
    changes_.clear();
    touched_.clear();
    std::vector<OpIndex> open;  // A heap: the first op to run in front.
    const auto change = [&](TensorIndex t, const TensorType& type) {
      if (edit_.given[t] != 0) return false;
      changes_.push_back({t, type});
      for (const OpIndex reader : readers.of(t)) {
        open.push_back(reader);
        std::push_heap(open.begin(), open.end(), std::greater<>());
      }
      return true;
    };
    std::int64_t features = 0;
    for (const OpIndex i : group) features += tensor(graph_.ops[i].outputs[0]).type.shape.back();
    for (const OpIndex i : group) {
      TensorType part = tensor(graph_.ops[i].outputs[0]).type;
      Dims whole = part.shape;
      whole[whole.rank() - 1] = features;
      part.strides = contiguous_strides(whole);
      if (!change(graph_.ops[i].outputs[0], part)) return false;
    }
    while (!open.empty()) {
      const OpIndex reader = open.front();
      while (!open.empty() && open.front() == reader) {
        std::pop_heap(open.begin(), open.end(), std::greater<>());
        open.pop_back();
      }
      if (edit_.region[reader] != edit_.region[group.front()]) return false;
      touched_.push_back(reader);
      if (!reads_as_before(reader, change)) return false;
    }
    return true;
  }

  template <class Record>
  bool reads_as_before(OpIndex reader, const Record& change) {
    const Op& op = graph_.ops[reader];
    std::vector<const TensorType*> in;
    for (const TensorIndex t : op.inputs) in.push_back(t == graph_none ? nullptr : &type_of(t));
    if (op.kind == linear_ && changes(op.inputs[x_input])) {
      // A bias of rows that are not contiguous is added by a kernel of its own.
      const bool plain = op.inputs[bias_input] == graph_none || in[x_input]->shape.rank() == 2;
      if (!is_matrix_of_rows(*in[x_input]) || !plain) return false;
    }
    std::vector<MadeTensor> made;
    try {
      made = op.kind->infer({in, op.attributes, {}});
    } catch (const ShapeError&) {
      return false;  // A view that would have to copy.
    }
    for (std::size_t k = 0; k < made.size(); ++k) {
      const TensorIndex out = op.outputs[k];
      const bool was_view = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex t) {
        return t != graph_none && tensor(t).storage == tensor(out).storage;
      });
      if (was_view != (made[k].view_of >= 0)) return false;
      const bool of_part =
          was_view && changes(op.inputs[static_cast<std::size_t>(std::max(made[k].view_of, 0))]);
      if (of_part ? !change(out, made[k].type) : !(made[k].type == tensor(out).type)) return false;
    }
    return true;
  }

  // --- Joining.

  /// "block[0].q+k+v": names of one block are given without it but for the first.
  std::string joined_name(const std::vector<OpIndex>& group) const {
    const auto block = [](const std::string& name) { return name.substr(0, name.rfind('.') + 1); };
    std::string name = graph_.ops[group.front()].name;
    const std::string common = block(name);
    const bool one_block = std::all_of(group.begin(), group.end(),
                                       [&](OpIndex i) { return block(graph_.ops[i].name) == common; });
    for (std::size_t k = 1; k < group.size(); ++k)
      name += "+" + graph_.ops[group[k]].name.substr(one_block ? common.size() : 0);
    return name;
  }

  /// Makes another tensor, with memory of its own, of a weight that is not read any more. (New ones at the
  /// end would cost a copy of all tensors.)
  void make_over(TensorIndex t, std::string name, const TensorType& type, Role role) {
    GraphTensor& made = graph_.tensors[t];
    made.name = std::move(name);
    made.type = type;
    made.role = role;
    made.named_until = graph_none;
    graph_.storages[made.storage] = {.bytes = dense_bytes(type), .role = role};
    edit_.dropped[t] = 0;
  }

  /// Makes one tensor of the same input of all linears, one below the other: that of the first becomes it.
  void join_weights(const std::vector<OpIndex>& group, std::size_t input, std::string name) {
    const TensorIndex first = graph_.ops[group.front()].inputs[input];
    Dims shape = tensor(first).type.shape;
    shape[0] = 0;
    for (const OpIndex i : group) {
      const TensorIndex t = graph_.ops[i].inputs[input];
      shape[0] += tensor(t).type.shape[0];
      edit_.dropped[t] = 1;
    }
    make_over(first, std::move(name), contiguous_tensor(tensor(first).type.element, shape),
              tensor(first).role);
  }

  void join(const std::vector<OpIndex>& group, Simplification& report) {
    const OpIndex first = group.front();
    const std::string name = joined_name(group);
    Op product{.kind = linear_,
               .name = name,
               .inputs = graph_.ops[first].inputs,
               .outputs = {},
               .attributes = {},
               .place = graph_.ops[first].place};
    Op split{.kind = split_,
             .name = name + ".split",
             .inputs = {},
             .outputs = {},
             .attributes = {},
             .place = product.place};
    Dims sizes;
    std::int64_t features = 0;
    bool equal = true;
    for (const OpIndex i : group) {
      const Op& op = graph_.ops[i];
      sizes.push_back(tensor(op.outputs[0]).type.shape.back());
      features += sizes.back();
      equal = equal && sizes.back() == sizes[0];
      product.module_calls += op.module_calls;
      split.outputs.push_back(op.outputs[0]);
      edit_.remove(i, report);
    }
    const bool bias = product.inputs[bias_input] != graph_none;
    join_weights(group, weight_input, name + ".weight");
    if (bias) join_weights(group, bias_input, name + ".bias");
    TensorType whole = tensor(split.outputs[0]).type;
    whole.shape[whole.shape.rank() - 1] = features;
    whole.strides = contiguous_strides(whole.shape);
    const TensorIndex result = graph_.ops[group[1]].inputs[weight_input];
    make_over(result, name, whole, Role::Activation);
    product.outputs = {result};
    product.attributes = attributes_of(*linear_, {{"features", features}, {"bias", bias}});
    split.inputs = {result};
    // One size stands for equal parts.
    split.attributes = attributes_of(*split_, {{"sizes", equal ? Dims{sizes[0]} : sizes}});
    for (const Change& change : changes_) {
      GraphTensor& part = graph_.tensors[change.tensor];
      part.type = change.type;
      part.storage = tensor(result).storage;
    }
    // The linears are gone, but what they made is still there, made by the split.
    for (const TensorIndex t : split.outputs) graph_.tensors[t].producer = graph_none;
    for (const OpIndex i : touched_) edit_.retyped[i] = 1;
    edit_.add(std::move(product), first, first, report);
    edit_.add(std::move(split), first, first, report);
  }

  GraphEdit& edit_;
  OpGraph& graph_;
  const OpKind* linear_;
  const OpKind* split_;
  const OpKind* chunk_;
  std::vector<std::uint32_t> storage_reads_;  ///< By storage: how often ops and whoever gets results read it.
  std::vector<OpIndex> partner_;              ///< By op: the other one of a gate and up.
  std::vector<std::uint32_t> version_read_;   ///< By op: how often its input had been changed.
  std::vector<std::vector<OpIndex>> groups_;
  // Of the group that is looked at.
  std::vector<Change> changes_;
  std::vector<OpIndex> touched_;  ///< Ops that read what changes.
};

}  // namespace

void merge_linears(GraphEdit& edit, Simplification* gate_up, Simplification* others) {
  if (gate_up == nullptr && others == nullptr) return;
  const OpKind* const linear = find_op("linear");
  const std::vector<Op>& ops = edit.graph.ops;
  if (std::none_of(ops.begin(), ops.end(), [&](const Op& op) { return op.kind == linear; })) return;
  LinearMerger(edit).merge(gate_up, others);
}

}  // namespace gpusim
