// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/training_regions.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "models/compiler/decompose.hpp"
#include "models/compiler/op_times.hpp"
#include "models/graph/catalogue.hpp"
#include "models/graph/graph_parts.hpp"

namespace gpusim {
namespace {

OpIndex first_of(const OpGraph& graph, Phase phase) {
  OpIndex i = 0;
  while (i < graph.ops.size() && graph.ops[i].phase < phase) ++i;
  return i;
}

/// PyTorch prefers cuDNN's attention on compute capability 9.0 and 10.0 (sdp_utils.cpp,
/// check_prefer_cudnn_attention): the multiprocessors with 228 KiB of shared memory.
bool runs_cudnn_attention(const GpuSpec& gpu) {
  return gpu.vendor == Vendor::Nvidia && gpu.sm && gpu.sm->shared_memory == Bytes(228 * 1024);
}

/// Ops of the backward pass that run together.
struct Piece {
  std::size_t region = graph_none;  ///< Of the forward pass; none: the engine's own.
  std::vector<OpIndex> ops;
};

class TrainingSplitter {
 public:
  TrainingSplitter(const OpGraph& graph, const CompileOptions& options, const GpuSpec& gpu)
      : graph_(graph),
        options_(options),
        gpu_(gpu),
        backward_(first_of(graph, Phase::Backward)),
        optimizer_(first_of(graph, Phase::Optimizer)) {}

  TrainingRegions run() {
    capture();
    find_pieces();
    take_parts();
    join();
    find_equal();
    return std::move(result_);
  }

 private:
  void capture() {
    result_.captured = capture_regions(graph_, options_, backward_);
    forward_ = result_.captured.regions;
  }

  /// Backward comes to a region's ops one after the other: a region's backward pass is one piece.
  void find_pieces() {
    std::vector<std::size_t> region_of(graph_.ops.size(), graph_none);
    for (std::size_t r = 0; r < forward_.size(); ++r)
      for (OpIndex i = forward_[r].first; i < forward_[r].last; ++i) region_of[i] = r;
    std::vector<std::uint8_t> seen(forward_.size(), 0);
    for (OpIndex i = backward_; i < optimizer_; ++i) {
      const OpIndex of = graph_.ops[i].gradient_of;
      const std::size_t region = of == graph_none ? graph_none : region_of[of];
      if (pieces_.empty() || pieces_.back().region != region) {
        if (region != graph_none && forward_[region].compiled && std::exchange(seen[region], 1) != 0)
          throw std::logic_error("internal error: backward returns to region '" + forward_[region].name +
                                 "'");
        pieces_.push_back({.region = region, .ops = {}});
      }
      pieces_.back().ops.push_back(i);
    }
    for (const Piece& piece : pieces_) {
      Region region;
      region.first = piece.ops.front();
      region.last = piece.ops.back() + 1;
      region.compiled = piece.region != graph_none && forward_[piece.region].compiled;
      region.name = piece.region == graph_none ? "autograd" : forward_[piece.region].name + ".backward";
      backward_regions_.push_back(region);
    }
    name_captured();
  }

  /// Which pieces of backward are compiled from the same code.
  void name_captured() {
    std::vector<Region>& all = result_.captured.regions;
    std::map<std::size_t, std::size_t> place;  // By region of the forward pass: its backward pass.
    std::map<std::vector<OpIndex>, std::size_t> graphs;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const std::size_t index = all.size();
      Region region = backward_regions_[p];
      region.like = region.same_graph = index;
      if (region.compiled) {
        std::vector<OpIndex> ops;
        for (const OpIndex i : pieces_[p].ops) ops.push_back(graph_.ops[i].like);
        region.same_graph = graphs.try_emplace(std::move(ops), index).first->second;
        // Backward comes to the first of equal regions last.
        const std::size_t code = forward_[pieces_[p].region].like;
        const auto known = place.find(code);
        if (known != place.end() && all[known->second].same_graph == region.same_graph)
          region.like = known->second;
        else
          place[code] = index;
      }
      all.push_back(std::move(region));
    }
    if (optimizer_ == graph_.ops.size()) return;
    Region region;
    region.first = optimizer_;
    region.last = static_cast<OpIndex>(graph_.ops.size());
    region.compiled = false;
    region.name = "optimizer";
    region.like = region.same_graph = all.size();
    all.push_back(std::move(region));
  }

  /// Each region with its backward pass, as it leaves the compiler.
  void take_parts() {
    std::map<std::size_t, std::size_t> piece_of;
    for (std::size_t p = 0; p < pieces_.size(); ++p)
      if (pieces_[p].region != graph_none && forward_[pieces_[p].region].compiled)
        piece_of[pieces_[p].region] = p;
    parts_.reserve(forward_.size());
    for (std::size_t r = 0; r < forward_.size(); ++r) {
      std::vector<OpIndex> ops;
      for (OpIndex i = forward_[r].first; i < forward_[r].last; ++i) ops.push_back(i);
      const auto piece = piece_of.find(r);
      if (piece != piece_of.end())
        ops.insert(ops.end(), pieces_[piece->second].ops.begin(), pieces_[piece->second].ops.end());
      parts_.push_back(take_part(graph_, ops));
      if (forward_[r].compiled) compile(parts_.back(), r);
    }
  }

  void compile(GraphPart& part, std::size_t r) {
    SimplifyOptions simplifying;
    simplifying.training = true;
    // Without fusion, composite ops are faster as the framework's own kernels.
    if (options_.mode.fusion.pointwise) part.graph = decompose(part.graph);
    Simplified simplified = simplify(std::move(part.graph), options_.mode.simplify, simplifying);
    note(simplified.passes);
    part.graph = std::move(simplified.graph);
    if (first_of(part.graph, Phase::Backward) == part.graph.ops.size()) return;
    RecomputeOptions recompute = options_.recompute.value_or(RecomputeOptions());
    recompute.attention_is_expensive = recompute.attention_is_expensive && !runs_cudnn_attention(gpu_);
    if (options_.recompute_by_time) recompute.times = op_times(part.graph, gpu_);
    auto joint = std::make_shared<const OpGraph>(std::move(part.graph));
    RecomputePlan plan = plan_recompute(*joint, recompute);
    part.graph = apply_recompute(*joint, plan);
    result_.recompute.push_back(
        {.region = forward_[r].name, .joint = std::move(joint), .plan = std::move(plan)});
  }

  void note(const std::vector<Simplification>& passes) {
    for (const Simplification& pass : passes) {
      const auto known = std::find_if(result_.passes.begin(), result_.passes.end(),
                                      [&](const Simplification& p) { return p.pass == pass.pass; });
      if (known == result_.passes.end()) {
        result_.passes.push_back(pass);
        continue;
      }
      known->ops_removed += pass.ops_removed;
      known->ops_added += pass.ops_added;
      known->saved = known->saved + pass.saved;
      for (const std::string& name : pass.examples)
        if (known->examples.size() < 3) known->examples.push_back(name);
    }
  }

  void join() {
    GraphJoiner joiner(graph_);
    struct Joined {
      std::size_t part = 0;
      OpIndex forward = 0;  ///< Ops up to the backward pass.
      OpIndex ops = 0;
    };
    std::vector<Joined> joined;
    for (GraphPart& part : parts_) {
      const OpIndex forward = first_of(part.graph, Phase::Backward);
      const auto ops = static_cast<OpIndex>(part.graph.ops.size());
      joined.push_back({joiner.add(std::move(part)), forward, ops});
    }
    const auto append = [&](std::size_t part, OpIndex first, OpIndex last, Region region) {
      region.first = joiner.size();
      joiner.append(part, first, last);
      region.last = joiner.size();
      if (region.first < region.last) result_.regions.push_back(std::move(region));
    };
    for (std::size_t r = 0; r < forward_.size(); ++r)
      append(joined[r].part, 0, joined[r].forward, forward_[r]);
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (backward_regions_[p].compiled) {
        const Joined& part = joined[pieces_[p].region];
        append(part.part, part.forward, part.ops, backward_regions_[p]);
      } else {
        append(joiner.add(take_part(graph_, pieces_[p].ops)), 0, static_cast<OpIndex>(pieces_[p].ops.size()),
               backward_regions_[p]);
      }
    }
    if (optimizer_ < graph_.ops.size()) {
      std::vector<OpIndex> ops;
      for (OpIndex i = optimizer_; i < graph_.ops.size(); ++i) ops.push_back(i);
      append(joiner.add(take_part(graph_, ops)), 0, static_cast<OpIndex>(ops.size()),
             result_.captured.regions.back());
    }
    result_.graph = std::move(joiner).finish();
    read_gathered_again();
  }

  /// What backward works out of FSDP's parameters once more, or looks at again, it does with those that were
  /// gathered for it: what forward had is freed.
  void read_gathered_again() {
    OpGraph& graph = result_.graph;
    const OpKind* const taken_out = find_op("fsdp_gather_output");
    std::map<std::string_view, TensorIndex> of_forward;
    std::map<StorageIndex, TensorIndex> again;  // By memory of forward's.
    for (const Op& op : graph.ops) {
      if (op.kind != taken_out) continue;
      for (const TensorIndex t : op.outputs) {
        std::string_view name = graph.tensors[t].name;
        if (op.phase == Phase::Forward) {
          of_forward.emplace(name, t);
          continue;
        }
        constexpr std::string_view suffix = ".again";
        if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
        if (const auto found = of_forward.find(name); found != of_forward.end())
          again.emplace(graph.tensors[found->second].storage, t);
      }
    }
    if (again.empty()) return;
    for (Op& op : graph.ops) {
      if (op.phase != Phase::Backward) continue;
      for (TensorIndex& t : op.inputs) {
        const auto found = t == graph_none ? again.end() : again.find(graph.tensors[t].storage);
        if (found != again.end() && graph.tensors[t].producer != graph_none &&
            graph.ops[graph.tensors[t].producer].kind == taken_out)
          t = found->second;
      }
      for (const TensorIndex t : op.outputs)
        if (const auto found = again.find(graph.tensors[t].storage); found != again.end())
          graph.tensors[t].storage = graph.tensors[found->second].storage;
    }
  }

  /// Regions that are equal after all passes. Equal forward passes may have been cut in different places.
  void find_equal() {
    std::map<std::vector<OpIndex>, std::size_t> graphs;
    std::vector<Region>& regions = result_.regions;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      Region& region = regions[r];
      region.like = region.same_graph = r;
      if (!region.compiled) continue;
      std::vector<OpIndex> ops;
      for (OpIndex i = region.first; i < region.last; ++i) ops.push_back(result_.graph.ops[i].like);
      region.like = region.same_graph = graphs.try_emplace(std::move(ops), r).first->second;
    }
  }

  const OpGraph& graph_;
  const CompileOptions& options_;
  const GpuSpec& gpu_;
  const OpIndex backward_;
  const OpIndex optimizer_;
  std::vector<Region> forward_;
  std::vector<Piece> pieces_;
  std::vector<Region> backward_regions_;  ///< By piece.
  std::vector<GraphPart> parts_;          ///< By region of the forward pass.
  TrainingRegions result_;
};

}  // namespace

bool trains(const OpGraph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.phase == Phase::Backward; });
}

TrainingRegions training_regions(const OpGraph& graph, const CompileOptions& options, const GpuSpec& gpu) {
  return TrainingSplitter(graph, options, gpu).run();
}

}  // namespace gpusim
