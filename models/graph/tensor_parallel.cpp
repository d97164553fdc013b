// SPDX-License-Identifier: Apache-2.0
#include "models/graph/tensor_parallel.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/graph_writer.hpp"

namespace gpusim {
namespace {

/// What a rank has of a tensor.
struct Held {
  enum class What : std::uint8_t {
    Whole,
    Part,        ///< Its heads, its features.
    Rows,        ///< Its rows, of what all ranks would have alike.
    Dispatched,  ///< The rows of its experts.
  };
  What what = What::Whole;
  int dim = -1;                    ///< Of a part, or of rows.
  std::vector<OpIndex> sources{};  ///< Of a part: the products that it comes from, by Op::like.
  bool whole() const { return what == What::Whole; }
};

/// A part that cannot go on: the products that it comes from are not shared.
struct Refusal {
  std::vector<OpIndex> sources;
};

class Split {
 public:
  Split(const OpGraph& forward, const ParallelPlan& plan, const std::set<OpIndex>& refused)
      : forward_(forward), plan_(plan), refused_(refused) {}

  /// Throws Refusal, GraphError.
  OpGraph run() {
    now_ = w_.copy_given(forward_);
    held_.resize(forward_.tensors.size());
    count_readers();
    if (plan_.expert > 1) share_experts();
    std::vector<OpIndex> begin(forward_.ops.size() + 1);
    for (std::size_t i = 0; i < forward_.ops.size(); ++i) {
      begin[i] = static_cast<OpIndex>(w_.graph.ops.size());
      copy(forward_.ops[i]);
    }
    for (const TensorIndex t : forward_.outputs) {
      if (held_[t].what == Held::What::Part) throw Refusal{held_[t].sources};
      w_.graph.outputs.push_back(whole(t));
    }
    begin.back() = static_cast<OpIndex>(w_.graph.ops.size());
    w_.copy_frames(forward_, begin, now_);
    return std::move(w_.graph);
  }
  bool shares_products() const { return products_ > 0; }
  bool shares_experts() const { return experts_ > 0; }

 private:
  bool given(TensorIndex t) const { return forward_.tensors[t].producer == graph_none; }
  bool is_parameter(TensorIndex t) const {
    return t != graph_none && given(t) && forward_.tensors[t].role == Role::Parameter;
  }
  const Dims& shape(TensorIndex t) const { return forward_.tensors[t].type.shape; }

  void count_readers() {
    readers_.assign(forward_.tensors.size(), 0);
    for (const Op& op : forward_.ops)
      for (const TensorIndex t : op.inputs)
        if (t != graph_none) ++readers_[t];
  }

  /// Weights of grouped products, behind views of them.
  void share_experts() {
    for (const Op& op : forward_.ops) {
      if (op.kind->name != "grouped_mm" || op.inputs[1] == graph_none) continue;
      TensorIndex t = op.inputs[1];
      while (!given(t)) {
        const Op& view = forward_.ops[forward_.tensors[t].producer];
        if (view.kind->fusion != FusionClass::View) break;
        t = view.inputs[0];
      }
      if (!is_parameter(t) || held_[t].what == Held::What::Dispatched) continue;
      if (shape(t)[0] % plan_.expert != 0)
        throw GraphError(op.place,
                         op.name + ": " + std::to_string(shape(t)[0]) + " experts do not divide among " +
                             std::to_string(plan_.expert) + " ranks",
                         "expert must divide the number of experts");
      localize(t, 0, plan_.expert);
      held_[t] = {.what = Held::What::Dispatched, .dim = -1};
      ++experts_;
    }
  }

  /// A given tensor, of which a rank has its part along `dim`.
  void localize(TensorIndex t, int dim, std::int64_t ranks) {
    GraphTensor& tensor = w_.graph.tensors[now_[t]];
    Dims local = tensor.type.shape;
    local[dim] /= ranks;
    tensor.type = contiguous_tensor(tensor.type.element, local);
    w_.graph.storages[tensor.storage].bytes = dense_bytes(tensor.type);
  }

  // --- Between ranks.

  std::string unique(const std::string& base) {
    const int count = ++names_[base];
    return count == 1 ? base : base + "_" + std::to_string(count);
  }
  TensorIndex between(std::string_view kind, TensorIndex t, const std::string& name, int dim = -1) {
    const OpKind& found = *find_op(kind);
    const bool experts = kind == "all_to_all";
    Attributes attributes = attributes_of(
        found,
        {{"ranks", experts ? plan_.expert : plan_.tensor},
         {"per_node", experts ? std::min(plan_.expert, plan_.data_per_node()) : plan_.tensor_per_node()}});
    if (dim >= 0) attributes = with_attribute(attributes, "dim", static_cast<std::int64_t>(dim));
    // The module is the next op's.
    const std::int32_t calls = std::exchange(w_.module_calls, 0);
    const TensorIndex result = w_.add(found, unique(name), {t}, attributes).front();
    w_.module_calls = calls;
    return result;
  }
  /// The whole of a tensor that ranks have the rows of.
  TensorIndex whole(TensorIndex t) {
    const Held& held = held_[t];
    if (held.what == Held::What::Rows) return gathered(t);
    if (held.what == Held::What::Dispatched && !given(t)) return returned(t);
    return now_[t];
  }
  TensorIndex gathered(TensorIndex t) {
    TensorIndex& known = gathered_.try_emplace(t, graph_none).first->second;
    if (known == graph_none)
      known = between("all_gather", now_[t], forward_.tensors[t].name + ".all_gather", held_[t].dim);
    return known;
  }
  TensorIndex returned(TensorIndex t) {
    TensorIndex& known = gathered_.try_emplace(t, graph_none).first->second;
    if (known == graph_none) known = between("all_to_all", now_[t], forward_.tensors[t].name + ".combine");
    return known;
  }
  /// As column products read it.
  TensorIndex for_columns(TensorIndex t) {
    if (held_[t].what == Held::What::Rows) return gathered(t);
    TensorIndex& known = spread_.try_emplace(t, graph_none).first->second;
    if (known == graph_none) known = between("to_ranks", now_[t], forward_.tensors[t].name + ".to_ranks");
    return known;
  }

  // --- Ops.

  void copy(const Op& op) {
    w_.where = GraphWriter::where_of(op);
    w_.module_calls = op.module_calls;
    if (plan_.expert > 1 && copy_of_experts(op)) return;
    if (plan_.tensor > 1) {
      if (op.kind->name == "linear") {
        if (is_part(op.inputs[0])) return rows_of(op);
        if (columns_fit(op)) return columns_of(op);
      }
      if (std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex t) { return is_part(t); }))
        return part_of(op);
      if (plan_.sequence) return copy_rows(op);
    }
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs) inputs.push_back(t == graph_none ? t : whole(t));
    made(op, w_.add(*op.kind, op.name, std::move(inputs), op.attributes), {});
  }

  bool is_part(TensorIndex t) const { return t != graph_none && held_[t].what == Held::What::Part; }
  bool is_rows(TensorIndex t) const { return t != graph_none && held_[t].what == Held::What::Rows; }
  bool is_dispatched(TensorIndex t) const {
    return t != graph_none && held_[t].what == Held::What::Dispatched;
  }

  void made(const Op& op, const std::vector<TensorIndex>& outputs, const Held& held) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      now_[op.outputs[i]] = outputs[i];
      held_[op.outputs[i]] = held;
      w_.graph.tensors[outputs[i]].name = forward_.tensors[op.outputs[i]].name;
    }
  }

  bool columns_fit(const Op& op) const {
    const TensorIndex weight = op.inputs[1];
    return is_parameter(weight) && readers_[weight] == 1 && shape(weight)[0] % plan_.tensor == 0 &&
           refused_.count(op.like) == 0 && !is_dispatched(op.inputs[0]);
  }
  void columns_of(const Op& op) {
    std::vector<TensorIndex> inputs{for_columns(op.inputs[0])};
    for (std::size_t i = 1; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != graph_none) localize(op.inputs[i], 0, plan_.tensor);
      inputs.push_back(op.inputs[i] == graph_none ? graph_none : now_[op.inputs[i]]);
    }
    const int last = shape(op.outputs[0]).rank() - 1;
    made(op, w_.add(*op.kind, op.name, std::move(inputs), op.attributes),
         {.what = Held::What::Part, .dim = last, .sources = {op.like}});
  }
  void rows_of(const Op& op) {
    const Held& x = held_[op.inputs[0]];
    if (x.dim != shape(op.inputs[0]).rank() - 1 || !is_parameter(op.inputs[1]) || readers_[op.inputs[1]] != 1)
      throw Refusal{x.sources};
    localize(op.inputs[1], 1, plan_.tensor);
    const TensorIndex bias = op.inputs.size() > 2 ? op.inputs[2] : graph_none;
    const TensorIndex part =
        w_.add(*op.kind, op.name, {now_[op.inputs[0]], now_[op.inputs[1]], graph_none}, op.attributes)
            .front();
    ++products_;
    const int dim = shape(op.outputs[0]).rank() - 2;
    const bool by_rows = plan_.sequence && dim >= 0;
    TensorIndex sum = by_rows ? between("reduce_scatter", part, op.name + ".reduce_scatter", dim)
                              : between("all_reduce", part, op.name + ".all_reduce");
    // Each rank would add it, and the sum has it once.
    if (bias != graph_none) sum = w_.add("add", op.name + ".bias_add", {sum, now_[bias]});
    made(op, {sum}, by_rows ? Held{.what = Held::What::Rows, .dim = dim} : Held{});
  }

  /// Ops that work on each part by itself.
  static bool works_on_parts(const Op& op, int dim, int rank) {
    const std::string_view kind = op.kind->name;
    if (op.kind->fusion == FusionClass::Pointwise || op.kind->fusion == FusionClass::View ||
        op.kind->fusion == FusionClass::Random)
      return kind != "select" && kind != "slice" ? true : along(op, "dim", rank) != dim;
    if (kind == "softmax" || kind == "log_softmax") return along(op, "dim", rank) != dim;
    if (kind == "layer_norm" || kind == "rms_norm") return dim != rank - 1;
    constexpr std::array others{
        std::string_view("matmul"),     std::string_view("scaled_dot_product_attention"),
        std::string_view("index_put_"), std::string_view("index_copy_"),
        std::string_view("sum"),        std::string_view("mean"),
        std::string_view("amax"),       std::string_view("dropout")};
    return std::find(others.begin(), others.end(), kind) != others.end();
  }
  static int along(const Op& op, std::string_view name, int rank) {
    if (!op.attributes.has(name)) return -1;
    const auto dim = static_cast<int>(op.attributes.integer(name));
    return dim < 0 ? dim + rank : dim;
  }

  /// A shape of the whole as one of a rank's part, which is cut along `dim` of `from`.
  static bool cut_view(const Dims& from, int dim, Dims& to, std::int64_t ranks) {
    std::int64_t before = 1;
    for (int i = 0; i < dim; ++i) before *= from[i];
    std::int64_t passed = 1;
    for (int j = 0; j < to.rank(); ++j) {
      if (passed * to[j] > before && to[j] > 1) {
        if (to[j] % ranks != 0) return false;
        to[j] /= ranks;
        return true;
      }
      passed *= to[j];
    }
    return false;
  }
  /// Sizes among the attributes, of a rank's part of input `t`.
  Attributes local_attributes(const Op& op, TensorIndex t, int dim) {
    const std::string_view kind = op.kind->name;
    const std::int64_t ranks = plan_.tensor;
    if (kind == "view" || kind == "reshape") {
      Dims to = shape(op.outputs[0]);
      if (!cut_view(shape(t), dim, to, ranks)) cannot_divide(op, t, dim);
      return with_attribute(op.attributes, "shape", to);
    }
    if (kind == "expand") {
      Dims to = shape(op.outputs[0]);
      const int at = dim + to.rank() - shape(t).rank();
      if (to[at] % ranks != 0) cannot_divide(op, t, dim);
      to[at] /= ranks;
      return with_attribute(op.attributes, "shape", to);
    }
    if (kind == "split" && along(op, "dim", shape(t).rank()) == dim) {
      Dims sizes = op.attributes.dims("sizes");
      for (int i = 0; i < sizes.rank(); ++i) {
        if (sizes[i] % ranks != 0) cannot_divide(op, t, dim);
        sizes[i] /= ranks;
      }
      return with_attribute(op.attributes, "sizes", sizes);
    }
    return op.attributes;
  }
  [[noreturn]] void cannot_divide(const Op& op, TensorIndex t, int dim) const {
    if (held_[t].what == Held::What::Rows)
      throw GraphError(op.place,
                       op.name + ": the rows of a tensor of shape " + to_string(shape(t)) +
                           " do not divide among " + std::to_string(plan_.tensor) + " ranks",
                       "tensor must divide the sequence, or write 'sequence: false'");
    throw GraphError(op.place,
                     op.name + ": a tensor of shape " + to_string(shape(op.outputs[0])) +
                         " does not divide among " + std::to_string(plan_.tensor) +
                         " ranks that share dimension " + std::to_string(dim) + " of " + to_string(shape(t)),
                     "tensor must divide the numbers of heads and of heads of keys and values");
  }

  /// An op on parts, or on rows: what it makes is cut along one dimension, too.
  Held local(const Op& op, const Held& held, TensorIndex t) {
    if (!works_on_parts(op, held.dim, shape(t).rank())) throw Refusal{held.sources};
    std::vector<TensorIndex> inputs;
    for (const TensorIndex in : op.inputs) {
      if (in == graph_none || held_[in].what == held.what) {
        inputs.push_back(in == graph_none ? in : now_[in]);
        continue;
      }
      // A cache, or an elementwise weight, is cut as what it meets.
      const Role role = forward_.tensors[in].role;
      const int at = held.dim + shape(in).rank() - shape(t).rank();
      if (held.what == Held::What::Part && given(in) && held_[in].whole() &&
          (role == Role::State || role == Role::Parameter) && at >= 0 &&
          shape(in)[at] == shape(t)[held.dim]) {
        localize(in, at, plan_.tensor);
        held_[in] = {.what = Held::What::Part, .dim = at, .sources = held.sources};
      }
      inputs.push_back(held_[in].whole() || held_[in].what == held.what ? now_[in] : whole(in));
    }
    const Attributes attributes = local_attributes(op, t, held.dim);
    std::vector<TensorIndex> outputs;
    try {
      outputs = w_.add(*op.kind, op.name, std::move(inputs), attributes);
    } catch (const GraphError&) {
      throw Refusal{held.sources};
    }
    Held result{.what = held.what, .dim = -1, .sources = held.sources};
    for (const TensorIndex in : op.inputs)
      if (in != graph_none && held_[in].what == held.what)
        result.sources.insert(result.sources.end(), held_[in].sources.begin(), held_[in].sources.end());
    std::sort(result.sources.begin(), result.sources.end());
    result.sources.erase(std::unique(result.sources.begin(), result.sources.end()), result.sources.end());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Dims& all = shape(op.outputs[i]);
      const Dims& mine = w_.type(outputs[i]).shape;
      int dim = -1;
      for (int d = 0; d < all.rank() && mine.rank() == all.rank(); ++d) {
        if (mine[d] == all[d]) continue;
        if (dim >= 0 || mine[d] * plan_.tensor != all[d]) throw Refusal{result.sources};
        dim = d;
      }
      // The same shape from a part: something was added up over what other ranks have.
      if (dim < 0 || (i > 0 && dim != result.dim)) throw Refusal{result.sources};
      result.dim = dim;
    }
    made(op, outputs, result);
    return result;
  }
  void part_of(const Op& op) {
    const auto first =
        std::find_if(op.inputs.begin(), op.inputs.end(), [&](TensorIndex t) { return is_part(t); });
    local(op, Held(held_[*first]), *first);
  }

  void copy_rows(const Op& op) {
    const auto first =
        std::find_if(op.inputs.begin(), op.inputs.end(), [&](TensorIndex t) { return is_rows(t); });
    if (first != op.inputs.end() && op.kind->name != "linear") {
      const OpIndex before = static_cast<OpIndex>(w_.graph.ops.size());
      try {
        local(op, Held(held_[*first]), *first);
        return;
      } catch (const Refusal&) {
        if (w_.graph.ops.size() != before)
          throw GraphError(op.place, op.name + ": cannot be shared by rows", "write 'sequence: false'");
      }
    }
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs) inputs.push_back(t == graph_none ? t : whole(t));
    std::vector<TensorIndex> outputs = w_.add(*op.kind, op.name, std::move(inputs), op.attributes);
    const int rank = op.outputs.empty() ? 0 : shape(op.outputs[0]).rank();
    if (op.kind->name == "embedding" && rank >= 2) {
      const int dim = rank - 2;
      if (shape(op.outputs[0])[dim] % plan_.tensor != 0) {
        held_[op.outputs[0]] = {.what = Held::What::Rows, .dim = dim};
        cannot_divide(op, op.outputs[0], dim);
      }
      outputs[0] = between("own_rows", outputs[0], op.name + ".own_rows", dim);
      made(op, outputs, {.what = Held::What::Rows, .dim = dim});
      return;
    }
    made(op, outputs, {});
  }

  /// Rows are sent to the ranks of their experts before the first grouped product and back behind the last.
  bool copy_of_experts(const Op& op) {
    const bool product = op.kind->name == "grouped_mm";
    bool any = product;
    bool all = true;  // Of what ops make.
    for (const TensorIndex t : op.inputs) {
      if (t == graph_none) continue;
      any = any || is_dispatched(t);
      all = all && (is_dispatched(t) || given(t));
    }
    if (!any || (!product && !all)) return false;
    std::vector<TensorIndex> inputs;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorIndex t = op.inputs[i];
      if (t == graph_none || is_dispatched(t) || i > 0) {
        inputs.push_back(t == graph_none ? t : now_[t]);
        continue;
      }
      inputs.push_back(between("all_to_all", now_[t], forward_.tensors[t].name + ".dispatch"));
    }
    made(op, w_.add(*op.kind, op.name, std::move(inputs), op.attributes),
         {.what = Held::What::Dispatched, .dim = -1});
    return true;
  }

  const OpGraph& forward_;
  const ParallelPlan& plan_;
  const std::set<OpIndex>& refused_;  ///< Products that are not shared, by Op::like.
  GraphWriter w_;
  std::vector<TensorIndex> now_;  ///< By tensor of `forward_`.
  std::vector<Held> held_;        ///< By tensor of `forward_`.
  std::vector<std::int32_t> readers_;
  std::map<TensorIndex, TensorIndex> gathered_;
  std::map<TensorIndex, TensorIndex> spread_;
  std::map<std::string, int> names_;
  std::int64_t products_ = 0;
  std::int64_t experts_ = 0;
};

}  // namespace

OpGraph tensor_parallel_forward(const OpGraph& forward, const ParallelPlan& plan) {
  if (plan.tensor <= 1 && plan.expert <= 1) return forward;
  // Every refusal names products that were shared and will not be, so this ends.
  std::set<OpIndex> refused;
  for (;;) {
    Split split(forward, plan, refused);
    try {
      OpGraph graph = split.run();
      if (plan.tensor > 1 && !split.shares_products())
        throw GraphError(
            {}, "no two products of the network can be shared by " + std::to_string(plan.tensor) + " ranks",
            "write 'tensor: 1'");
      if (plan.expert > 1 && !split.shares_experts())
        throw GraphError({}, "the network has no grouped products, so there are no experts to share",
                         "write 'expert: 1'");
      return graph;
    } catch (const Refusal& refusal) {
      const std::size_t before = refused.size();
      refused.insert(refusal.sources.begin(), refusal.sources.end());
      if (refused.size() == before)
        throw GraphError(
            {}, "the network's products cannot be shared by " + std::to_string(plan.tensor) + " ranks",
            "write 'tensor: 1'");
    }
  }
}

}  // namespace gpusim
