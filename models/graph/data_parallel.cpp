// SPDX-License-Identifier: Apache-2.0
#include "models/graph/data_parallel.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/fully_shard.hpp"
#include "models/graph/sharding.hpp"

namespace gpusim {
namespace {

/// Gradients that are sent together.
struct Bucket {
  std::vector<std::size_t> members;  ///< Into Trained.
  std::int64_t elements = 0;
  ElementType element = ElementType::Fp32;
  TensorIndex tensor = graph_none;
};

class Buckets {
 public:
  Buckets(GraphInserter& step, const Trained& trained, const ParallelPlan& plan, std::vector<OpIndex> cuts)
      : step_(step), trained_(trained), plan_(plan), cuts_(std::move(cuts)) {}

  /// The buckets' ops, and behind backward `back`, if gradients are copied out of them again.
  void add(bool scatter) {
    fill();
    const OpGraph& graph = step_.graph;
    for (Bucket& bucket : buckets_) {
      const std::string name = "ddp.bucket[" + std::to_string(&bucket - buckets_.data()) + "]";
      const OpIndex first = trained_.ready[bucket.members.front()] + 1;
      const std::int64_t size = (bucket.elements + plan_.data - 1) / plan_.data * plan_.data;
      bucket.tensor =
          scatter ? step_
                        .insert(first, "empty", name, {},
                                {{"shape", Dims{size}}, {"dtype", std::string(gpusim::name(bucket.element))}},
                                Phase::Backward)
                        .front()
                  : step_.add_tensor(name, contiguous_tensor(bucket.element, Dims{size}), Role::Gradient);
      OpIndex behind = first;
      for (const std::size_t i : bucket.members) {
        behind = trained_.ready[i] + 1;
        const TensorIndex gradient = trained_.gradients[i];
        const std::int64_t cut = cut_ < cuts_.size() ? std::int64_t{cuts_[cut_++]} : -1;
        step_.insert(behind, "ddp_bucket", graph.tensors[gradient].name + ".bucket",
                     {gradient, bucket.tensor}, {{"last", true}, {"cut", cut}}, Phase::Backward);
      }
      if (scatter) {
        reduced_.push_back(step_
                               .insert(behind, "reduce_scatter", name + ".reduce_scatter", {bucket.tensor},
                                       {{"ranks", plan_.data},
                                        {"per_node", plan_.data_per_node()},
                                        {"stream", std::string("nccl")},
                                        {"last", true}},
                                       Phase::Backward)
                               .front());
      } else {
        step_.insert(behind, "all_reduce", name + ".all_reduce", {bucket.tensor},
                     {{"ranks", plan_.data},
                      {"per_node", plan_.data_per_node()},
                      {"stream", std::string("nccl")},
                      {"last", true}},
                     Phase::Backward);
      }
    }
    if (scatter) return;
    for (const Bucket& bucket : buckets_)
      for (const std::size_t i : bucket.members) {
        const TensorIndex gradient = trained_.gradients[i];
        step_.insert(trained_.backward_end, "ddp_unbucket", graph.tensors[gradient].name + ".mean",
                     {gradient, bucket.tensor}, {{"last", true}}, Phase::Backward);
      }
  }

  const std::vector<Bucket>& all() const { return buckets_; }
  TensorIndex reduced(std::size_t bucket) const { return reduced_[bucket]; }

 private:
  void fill() {
    std::vector<std::size_t> order(trained_.gradients.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return trained_.ready[a] < trained_.ready[b]; });
    std::int64_t bytes = 0;
    bool open = false;
    for (const std::size_t i : order) {
      const TensorType& type = step_.graph.tensors[trained_.gradients[i]].type;
      if (!open || buckets_.back().element != type.element) {
        buckets_.push_back({.members = {}, .element = type.element});
        bytes = 0;
      }
      Bucket& bucket = buckets_.back();
      bucket.members.push_back(i);
      bucket.elements += elements(type);
      bytes += dense_bytes(type).value();
      // A bucket takes tensors until it is full; what comes last may make it larger than that.
      const Bytes most = buckets_.size() == 1 ? plan_.first_bucket : plan_.bucket;
      open = bytes < most.value();
    }
  }

  GraphInserter& step_;
  const Trained& trained_;
  const ParallelPlan& plan_;
  std::vector<OpIndex> cuts_;
  std::size_t cut_ = 0;  ///< The first one that no op says yet.
  std::vector<Bucket> buckets_;
  std::vector<TensorIndex> reduced_;  ///< By bucket.
};

/// The optimizer works on a part of each parameter, and what came of it is gathered.
void share_optimizer(GraphInserter& step, const Trained& trained, const ParallelPlan& plan,
                     const Buckets& buckets, bool scattered) {
  OpGraph& graph = step.graph;
  std::vector<TensorIndex> parts;
  for (const TensorIndex p : trained.parameters) parts.push_back(part_of(graph, p, plan.data));
  std::vector<TensorIndex> gradients(trained.gradients.size(), graph_none);
  if (scattered) {
    for (std::size_t b = 0; b < buckets.all().size(); ++b) {
      const Bucket& bucket = buckets.all()[b];
      std::vector<TensorIndex> inputs{buckets.reduced(b)};
      for (const std::size_t i : bucket.members)
        inputs.push_back(part_of(graph, trained.gradients[i], plan.data));
      const std::vector<TensorIndex> made = step.insert(trained.backward_end, "fsdp_scatter_output",
                                                        "ddp.bucket[" + std::to_string(b) + "].parts", inputs,
                                                        {{"last", true}}, Phase::Backward);
      for (std::size_t k = 0; k < made.size(); ++k) gradients[bucket.members[k]] = made[k];
      set_role(graph, {buckets.reduced(b)}, Role::Gradient);
    }
    set_role(graph, trained.gradients, Role::Activation);
  } else {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = part_of(graph, trained.gradients[i], plan.data);
  }
  trained.replace(graph, parts, gradients, plan.data, std::nullopt);
  step.insert(step.size(), "gather_parts", "zero.gather", trained.parameters,
              {{"ranks", plan.data}, {"per_node", plan.data_per_node()}}, Phase::Optimizer);
}

/// A stretch of the forward pass.
struct Piece {
  OpIndex first = 0;
  OpIndex last = 0;
  OpIndex backward_last = 0;  ///< The last op that helps to work out its gradients.
};

std::vector<Piece> blocks_of(const OpGraph& graph) {
  std::vector<Piece> pieces;
  for (const BlockCall& call : graph.calls)
    if (call.in_repeat && call.module && call.first < call.last &&
        (pieces.empty() || call.first >= pieces.back().last))
      pieces.push_back({.first = call.first, .last = call.last});
  return pieces;
}

std::vector<Piece> pieces_between(const std::vector<OpIndex>& cuts, OpIndex end) {
  std::vector<Piece> pieces;
  OpIndex first = 0;
  for (const OpIndex cut : cuts) {
    pieces.push_back({.first = first, .last = cut});
    first = cut;
  }
  pieces.push_back({.first = first, .last = end});
  return pieces;
}

/// Gradients of a piece get ready with the last of them.
void wait_for_pieces(const OpGraph& graph, std::vector<Piece> pieces, std::vector<OpIndex>& ready) {
  std::vector<Piece*> piece_of(graph.ops.size(), nullptr);  // By op of backward.
  const auto find = [&](OpIndex op) -> Piece* {
    const auto behind = std::upper_bound(pieces.begin(), pieces.end(), op,
                                         [](OpIndex at, const Piece& piece) { return at < piece.first; });
    return behind == pieces.begin() || op >= (behind - 1)->last ? nullptr : &*(behind - 1);
  };
  Piece* latest = nullptr;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].phase != Phase::Backward) continue;
    if (graph.ops[i].gradient_of != graph_none) {
      latest = find(graph.ops[i].gradient_of);
      if (latest != nullptr) latest->backward_last = i;
    }
    piece_of[i] = latest;
  }
  for (OpIndex& op : ready)
    if (op < piece_of.size() && piece_of[op] != nullptr) op = std::max(op, piece_of[op]->backward_last);
}

}  // namespace

std::vector<OpIndex> ddp_cuts(const OpGraph& step, const ParallelPlan& plan) {
  OpIndex end = 0;
  while (end < step.ops.size() && step.ops[end].phase == Phase::Forward) ++end;
  std::vector<bool> counted(step.storages.size(), false);
  std::vector<OpIndex> cuts;
  std::int64_t bytes = 0;
  for (OpIndex i = end; i-- > 0;) {
    const Bytes most = cuts.empty() ? plan.first_bucket : plan.bucket;
    if (bytes >= most.value()) {
      cuts.push_back(i + 1);
      bytes = 0;
    }
    for (const TensorIndex t : step.ops[i].inputs) {
      if (t == graph_none) continue;
      const StorageIndex s = step.tensors[t].storage;
      if (step.storages[s].role != Role::Parameter || counted[s]) continue;
      counted[s] = true;
      bytes += step.storages[s].bytes.value();
    }
  }
  // Without parameters a piece has nothing to wait for.
  if (bytes == 0 && !cuts.empty()) cuts.pop_back();
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

bool only_in_last_pass(const Op& op) {
  return op.attributes.has("last") && op.attributes.flag("last");
}

OpGraph data_parallel_step(OpGraph graph, const ParallelPlan& plan) {
  if (plan.data <= 1) return graph;
  if (plan.shards_parameters()) return fully_sharded_step(std::move(graph), plan);
  GraphInserter step(std::move(graph));
  Trained trained(step.graph);
  std::vector<OpIndex> cuts;
  switch (plan.compiled) {
    case CompiledPieces::None:
      break;
    case CompiledPieces::Whole:
      std::fill(trained.ready.begin(), trained.ready.end(), trained.backward_end - 1);
      break;
    case CompiledPieces::Buckets:
      cuts = ddp_cuts(step.graph, plan);
      wait_for_pieces(step.graph, pieces_between(cuts, step.size()), trained.ready);
      break;
    case CompiledPieces::Blocks:
      wait_for_pieces(step.graph, blocks_of(step.graph), trained.ready);
      break;
  }
  Buckets buckets(step, trained, plan, std::move(cuts));
  const bool scattered = plan.kind == DataKind::Zero2;
  buckets.add(scattered);
  if (plan.kind != DataKind::Ddp) share_optimizer(step, trained, plan, buckets, scattered);
  return std::move(step).finish();
}

}  // namespace gpusim
