// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/attention_patterns.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "models/graph/catalogue.hpp"
#include "models/graph/graph_writer.hpp"

namespace gpusim {
namespace {

class SiteFinder {
 public:
  explicit SiteFinder(const OpGraph& graph) : graph_(graph), readers_(graph.tensors.size(), 0) {
    for (const Op& op : graph.ops)
      for (const TensorIndex t : op.inputs)
        if (t != graph_none) ++readers_[t];
    for (const TensorIndex t : graph.outputs) ++readers_[t];
    reader_.assign(graph.tensors.size(), graph_none);
    for (OpIndex i = 0; i < graph.ops.size(); ++i)
      for (const TensorIndex t : graph.ops[i].inputs)
        if (t != graph_none) reader_[t] = i;
  }

  std::vector<AttentionSite> run() {
    std::vector<AttentionSite> sites;
    for (OpIndex i = 0; i < graph_.ops.size(); ++i)
      if (graph_.ops[i].kind->name == "softmax" && over_last(graph_.ops[i])) {
        AttentionSite site;
        site.softmax = i;
        if (!find_result(site) || !find_scores(site)) continue;
        std::sort(site.ops.begin(), site.ops.end());
        check(site);
        sites.push_back(std::move(site));
      }
    return sites;
  }

 private:
  const TensorType& type(TensorIndex t) const { return graph_.tensors[t].type; }
  OpIndex maker(TensorIndex t) const { return graph_.tensors[t].producer; }

  bool over_last(const Op& op) const {
    const std::int64_t dim = op.attributes.integer("dim");
    return dim == -1 || dim == type(op.inputs[0]).shape.rank() - 1;
  }

  static void refuse(AttentionSite& site, std::string why) {
    if (site.refusal.empty()) site.refusal = std::move(why);
  }

  /// Forward to the product with the values.
  bool find_result(AttentionSite& site) const {
    site.ops.push_back(site.softmax);
    TensorIndex t = graph_.ops[site.softmax].outputs[0];
    while (true) {
      if (readers_[t] != 1) refuse(site, "what the softmax makes is read more than once");
      const OpIndex next = reader_[t];
      if (next == graph_none) return false;
      const Op& op = graph_.ops[next];
      const std::string_view kind = op.kind->name;
      if (kind == "matmul" && op.inputs[0] == t) {
        site.ops.push_back(next);
        site.result = next;
        site.v = op.inputs[1];
        return true;
      }
      if (kind != "to" && kind != "dropout") return false;
      site.ops.push_back(next);
      t = op.outputs[0];
    }
  }

  bool is_number(TensorIndex t) const { return t == graph_none || elements(type(t)) == 1; }

  /// Back to the product of queries and keys.
  bool find_scores(AttentionSite& site) const {
    TensorIndex t = graph_.ops[site.softmax].inputs[0];
    while (true) {
      const OpIndex i = maker(t);
      if (i == graph_none) return false;
      const Op& op = graph_.ops[i];
      const std::string_view kind = op.kind->name;
      if (readers_[t] != 1) refuse(site, "the scores are read more than once");
      site.ops.push_back(i);
      if (kind == "matmul") return take_product(site, op);
      if (kind == "to") {
        t = op.inputs[0];
      } else if ((kind == "mul" || kind == "div") && is_number(op.inputs[1])) {
        t = op.inputs[0];
      } else if (kind == "add" && op.inputs[1] != graph_none && site.mask == graph_none) {
        // The scores are the operand that a product made in the end.
        const bool first = comes_from_product(op.inputs[0]);
        t = op.inputs[first ? 0 : 1];
        site.mask = op.inputs[first ? 1 : 0];
      } else if (op.kind->fusion == FusionClass::Pointwise && op.inputs[0] != graph_none) {
        refuse(site, std::string(kind) + " stands between the first product and the softmax");
        t = op.inputs[0];
      } else {
        return false;
      }
    }
  }

  bool comes_from_product(TensorIndex t) const {
    for (OpIndex i = maker(t); i != graph_none; i = maker(graph_.ops[i].inputs[0])) {
      const Op& op = graph_.ops[i];
      if (op.kind->name == "matmul") return true;
      if (op.kind->fusion != FusionClass::Pointwise || op.inputs.empty() || op.inputs[0] == graph_none)
        return false;
    }
    return false;
  }

  bool take_product(AttentionSite& site, const Op& product) const {
    site.q = product.inputs[0];
    const OpIndex i = maker(product.inputs[1]);
    const Op* const transposed = i == graph_none ? nullptr : &graph_.ops[i];
    const int rank = type(product.inputs[1]).shape.rank();
    const auto dim = [&](const char* name) {
      const std::int64_t d = transposed->attributes.integer(name);
      return d < 0 ? d + rank : d;
    };
    const bool key = transposed != nullptr && transposed->kind->name == "transpose" && rank >= 2 &&
                     dim("dim0") + dim("dim1") == 2 * rank - 3 && dim("dim0") != dim("dim1") &&
                     std::max(dim("dim0"), dim("dim1")) == rank - 1;
    if (!key) {
      refuse(site, "the second operand of the first product is no transposed key");
      return true;
    }
    site.k = transposed->inputs[0];
    return true;
  }

  /// The kernel has to take the tensors, and all ops have to be in one graph.
  void check(AttentionSite& site) const {
    if (!site.refusal.empty()) return;
    for (OpIndex i = site.ops.front(); i < site.ops.back(); ++i)
      if (graph_.ops[i].kind->name == "graph_break" || graph_.ops[i].kind->name == "item")
        refuse(site, "the graph breaks within it");
    const OpKind& fused = *find_op("scaled_dot_product_attention");
    std::vector<const TensorType*> in{&type(site.q), &type(site.k), &type(site.v),
                                      site.mask == graph_none ? nullptr : &type(site.mask)};
    try {
      const std::vector<MadeTensor> made = fused.infer({in, attributes_of(fused, {}), {}});
      if (!(made[0].type.shape == type(graph_.ops[site.result].outputs[0]).shape))
        refuse(site, "the fused kernel would make another shape");
    } catch (const ShapeError&) {
      refuse(site, "the fused kernel takes no such shapes");
    }
  }

  const OpGraph& graph_;
  std::vector<std::int32_t> readers_;  ///< By tensor.
  std::vector<OpIndex> reader_;        ///< By tensor: the last one.
};

/// Copies a graph op by op, but for those that one kernel takes the place of.
class AttentionFuser {
 public:
  AttentionFuser(const OpGraph& graph, const std::vector<AttentionSite>& sites) : graph_(graph) {
    gone_.assign(graph.ops.size(), 0);
    for (const AttentionSite& site : sites) {
      if (!site.refusal.empty()) continue;
      for (const OpIndex i : site.ops) gone_[i] = 1;
      at_.emplace(site.result, &site);
    }
  }

  OpGraph run() && {
    now_ = w_.copy_given(graph_);
    std::vector<OpIndex> begin;
    for (OpIndex i = 0; i < graph_.ops.size(); ++i) {
      begin.push_back(static_cast<OpIndex>(w_.graph.ops.size()));
      copy(i);
    }
    begin.push_back(static_cast<OpIndex>(w_.graph.ops.size()));
    w_.copy_frames(graph_, begin, now_);
    for (const TensorIndex t : graph_.outputs) w_.graph.outputs.push_back(now_[t]);
    return std::move(w_.graph);
  }

 private:
  void copy(OpIndex i) {
    const Op& op = graph_.ops[i];
    const auto fused = at_.find(i);
    if (fused == at_.end() && gone_[i] != 0) return;
    w_.where = GraphWriter::where_of(op);
    w_.module_calls = op.module_calls;
    std::vector<TensorIndex> made;
    const auto now = [&](TensorIndex t) { return t == graph_none ? t : now_[t]; };
    if (fused != at_.end()) {
      const AttentionSite& site = *fused->second;
      const OpKind& kind = *find_op("scaled_dot_product_attention");
      made = w_.add(kind, op.name, {now(site.q), now(site.k), now(site.v), now(site.mask)},
                    attributes_of(kind, {}));
    } else {
      std::vector<TensorIndex> inputs;
      for (const TensorIndex t : op.inputs) inputs.push_back(now(t));
      made = w_.add(*op.kind, op.name, std::move(inputs), op.attributes);
    }
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      now_[op.outputs[k]] = made[k];
      w_.graph.tensors[made[k]].name = graph_.tensors[op.outputs[k]].name;
    }
  }

  const OpGraph& graph_;
  GraphWriter w_;
  std::vector<std::uint8_t> gone_;              ///< By op.
  std::map<OpIndex, const AttentionSite*> at_;  ///< By the op whose place the kernel takes.
  std::vector<TensorIndex> now_;                ///< By tensor of the old graph.
};

}  // namespace

std::vector<AttentionSite> attention_sites(const OpGraph& forward) {
  return SiteFinder(forward).run();
}

OpGraph fuse_attention(const OpGraph& forward) {
  const std::vector<AttentionSite> sites = attention_sites(forward);
  return AttentionFuser(forward, sites).run();
}

}  // namespace gpusim
