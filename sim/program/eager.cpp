// SPDX-License-Identifier: Apache-2.0
#include "sim/program/eager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "models/cost/power.hpp"
#include "models/graph/catalogue.hpp"
#include "models/units/text.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;

/// How much memory has been touched since each storage was touched last, itself included: what an L2 that
/// keeps the latest bytes still holds. Two rounds over the step: the second one finds the caches as a step
/// before it left them.
class Touched {
 public:
  explicit Touched(const OpGraph& graph) : last_(graph.storages.size(), -1) {}

  /// Bytes that went by since the storage was touched, `own` included; all there are if it never was.
  Bytes since(StorageIndex storage, Bytes own) const {
    if (last_[storage] < 0) return Bytes(std::numeric_limits<std::int64_t>::max() / 4);
    return Bytes(now_ - last_[storage]) + own;
  }
  void touch(StorageIndex storage, Bytes own) {
    // What is there already takes no new room, so a tensor read twice in a row counts once.
    const std::int64_t before = last_[storage] < 0 ? std::int64_t{0} : now_ - last_[storage];
    if (before != 0 || last_[storage] < 0) now_ += own.value();
    last_[storage] = now_;
  }

 private:
  std::vector<std::int64_t> last_;
  std::int64_t now_ = 0;
};

class EagerBuilder {
 public:
  EagerBuilder(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode, bool captured)
      : graph_(graph), gpu_(gpu), host_(host), mode_(mode), launch_(gpu.launch), captured_(captured) {}

  EagerProgram build() {
    result_.built.machine = build_machine(gpu_);
    result_.built.work_is_dispatch = true;
    engine::Program& program = result_.built.program;
    program.threads.push_back({"main", {}, {}});
    program.streams.push_back({"default", 0});
    module_call_ =
        host_.ops.count("module_call") != 0 ? op_time(host_, "module_call", mode_) : Picoseconds{0};
    Touched touched(graph_);
    for (const Op& op : graph_.ops) touch(op, touched);
    add_work(step_time(), "step");
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) add(graph_.ops[i], touched);
    slow_down();
    result_.memory = eager_memory(graph_, gpu_);
    if (launch_.transferred)
      result_.built.notes.push_back("launch parameters of " + gpu_.name +
                                    " are transferred from another device");
    return std::move(result_);
  }

 private:
  /// What an op costs whichever of its equals it is.
  struct Priced {
    std::vector<EagerCall> calls;
    Picoseconds host{0};
    std::int32_t launches = 0;  ///< In `host`.
    Flops flops{0};
  };

  Picoseconds step_time() const {
    return host_.ops.count("step") != 0 ? op_time(host_, "step", mode_) : Picoseconds{0};
  }

  const Priced& price(const Op& op) {
    const auto known = priced_.find(op.like);
    if (known != priced_.end()) return known->second;
    const Op& first = graph_.ops[op.like];
    const OpTypes types(graph_, first);
    const OpView view = types.view(first);
    Priced priced;
    priced.calls = op.kind->eager(view, gpu_);
    for (const EagerCall& call : priced.calls) {
      priced.host += op_time(host_, call.host_op, mode_);
      priced.launches += op_launches(host_, call.host_op);
    }
    if (op.kind->flops != nullptr) priced.flops = op.kind->flops(view);
    return priced_.emplace(op.like, std::move(priced)).first->second;
  }

  static Bytes bytes_read(const GraphTensor& tensor) { return stored_bytes(tensor.type); }

  void touch(const Op& op, Touched& touched) {
    if (op.kind->fusion == FusionClass::View) return;
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) touched.touch(graph_.tensors[t].storage, touched_bytes(op, t));
    for (const TensorIndex t : op.outputs)
      touched.touch(graph_.tensors[t].storage, dense_bytes(graph_.tensors[t].type));
  }

  /// A lookup touches the rows it finds, not the whole table.
  Bytes touched_bytes(const Op& op, TensorIndex t) const {
    const Bytes all = stored_bytes(graph_.tensors[t].type);
    if (op.kind->fusion != FusionClass::Gather && op.kind->fusion != FusionClass::Scatter) return all;
    Bytes most{0};
    for (const TensorIndex out : op.outputs) most = std::max(most, dense_bytes(graph_.tensors[out].type));
    return op.kind->fusion == FusionClass::Gather ? std::min(all, most) : all;
  }

  CacheState cache_of(const Op& op, const Touched& touched) const {
    double read = 0;
    double cold = 0;
    Bytes turn{0};  ///< What the op itself moves.
    for (const TensorIndex t : op.inputs) {
      if (t == graph_none) continue;
      const Bytes bytes = touched_bytes(op, t);
      turn += bytes;
      read += static_cast<double>(bytes.value());
      cold += static_cast<double>(bytes.value()) *
              cold_share(touched.since(graph_.tensors[t].storage, bytes), gpu_);
    }
    // The allocator hands out what was freed last, so a result overwrites what the cache still holds, if it
    // holds that much.
    for (const TensorIndex t : op.outputs) turn += dense_bytes(graph_.tensors[t].type);
    return {.cold_reads = read > 0 ? cold / read : 0, .cold_writes = cold_share(turn, gpu_)};
  }

  void add(const Op& op, Touched& touched) {
    const Priced& priced = price(op);
    result_.model_flops += priced.flops;
    CacheState cache = cache_of(op, touched);
    // Shares are rounded so that equal ops in equal surroundings are priced once.
    constexpr double steps = 64;
    const auto reads = static_cast<int>(cache.cold_reads * steps + 0.5);
    const auto writes = static_cast<int>(cache.cold_writes * steps + 0.5);
    const auto [known, is_new] = ops_.try_emplace(std::tuple(op.like, reads, writes));
    if (is_new) known->second = gpu_ops_of(op, priced, {reads / steps, writes / steps});
    Picoseconds host = priced.host + op.module_calls * module_call_;
    // An op's price has so many launch calls in it; what it launches beyond them costs a call each.
    std::int32_t included = priced.launches;
    for (const Launched& launched : known->second)
      if (included-- > 0) host -= launched.call;
    add_work(std::max(host, Picoseconds{0}), op.kind->name);
    for (const Launched& launched : known->second) {
      Instruction instruction;
      instruction.call = Call::Launch;
      instruction.object = launched.op;
      instruction.duration = launched.call;
      instruction.latency = launched.call + launch_.arrival_after_call;
      result_.built.program.threads.front().add(instruction);
    }
    touch(op, touched);
  }

  struct Launched {
    Index op = 0;
    Picoseconds call{0};
  };

  std::vector<Launched> gpu_ops_of(const Op& op, const Priced& priced, CacheState cache) {
    std::vector<Launched> launched;
    for (const EagerCall& call : priced.calls)
      for (const KernelWork& work : call.work)
        for (const GpuOpEstimate& estimate : gpu_ops(work, gpu_, cache))
          launched.push_back(add(op, estimate));
    return launched;
  }

  Launched add(const Op& op, const GpuOpEstimate& estimate) {
    engine::GpuOp gpu_op;
    gpu_op.duration = estimate.cost.duration;
    engine::OpInfo info;
    info.name = name(std::string(op.kind->name) +
                     (estimate.name == op.kind->name ? "" : ": " + std::string(estimate.name)));
    info.bytes = estimate.cost.hbm_bytes.value();
    info.flops = estimate.cost.flops.value();
    LaunchedOp kind = LaunchedOp::Kernel;
    Picoseconds call = launch_.call;
    bool programmatic = false;
    switch (estimate.kind) {
      case GpuOpKind::Kernel:
        gpu_op.min_period = min_period(launch_, estimate.cost.blocks);
        info.min_period_in_graph = graph_min_period(launch_, estimate.cost.blocks);
        // cuBLASLt lets the kernel that adds up the parts start while the product drains.
        programmatic = estimate.name.find("split") != std::string_view::npos;
        break;
      case GpuOpKind::Memset:
        gpu_op.kind = engine::OpKind::Memset;
        kind = LaunchedOp::Memset;
        call = launch_.memset_call;
        break;
      case GpuOpKind::Memcpy:
        gpu_op.kind = engine::OpKind::Memcpy;
        kind = LaunchedOp::DeviceCopy;
        call = launch_.copy_call;
        break;
    }
    gpu_op.gap_class = static_cast<engine::GapClass>(gap_class(kind, gpu_op.duration, programmatic));
    compute_bound_.push_back(estimate.cost.limit == KernelLimit::Compute &&
                             estimate.kind == GpuOpKind::Kernel);
    return {result_.built.program.add(gpu_op, info), call};
  }

  /// Lowers the clock of a step that would draw more than the device may.
  void slow_down() {
    engine::Program& program = result_.built.program;
    StepWork step;
    Picoseconds host{0};
    for (const Instruction& instruction : program.threads.front().instructions) {
      host += instruction.duration;
      if (instruction.call != Call::Launch) continue;
      const engine::GpuOp& op = program.ops[instruction.object];
      const engine::OpInfo& info = program.info[instruction.object];
      (compute_bound_[instruction.object] ? step.compute : step.other) += op.duration;
      step.flops += Flops(info.flops);
      step.bytes += Bytes(info.bytes);
    }
    if (!captured_ && host > step.compute + step.other) step.other = host - step.compute;
    const double slowdown = clock_slowdown(gpu_, step);
    if (slowdown <= 1) return;
    for (std::size_t i = 0; i < program.ops.size(); ++i)
      if (compute_bound_[i])
        program.ops[i].duration =
            Picoseconds(std::llround(static_cast<double>(program.ops[i].duration.count()) * slowdown));
    result_.built.notes.push_back(
        fmt::format("at the power limit of {}: products take {:.0f} % longer than in short bursts",
                    format_quantity(gpu_.power->limit), 100 * (slowdown - 1)));
  }

  void add_work(Picoseconds duration, std::string_view shown) {
    if (duration <= Picoseconds{0}) return;
    Instruction work;
    work.duration = duration;
    result_.built.program.threads.front().add(work, name(std::string(shown)));
  }

  Index name(const std::string& text) {
    const auto [known, added] = names_.emplace(text, static_cast<Index>(result_.built.program.names.size()));
    if (added) result_.built.program.names.push_back(text);
    return known->second;
  }

  const OpGraph& graph_;
  const GpuSpec& gpu_;
  const HostSpec& host_;
  const HostOpMode mode_;
  const LaunchSpec& launch_;
  const bool captured_;
  std::vector<bool> compute_bound_;  ///< By op of the program.
  Picoseconds module_call_{0};
  EagerProgram result_;
  std::map<std::string, Index> names_;
  std::map<OpIndex, Priced> priced_;  ///< By Op::like.
  std::map<std::tuple<OpIndex, int, int>, std::vector<Launched>>
      ops_;  ///< By Op::like and the cache's state.
};

}  // namespace

EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         bool captured) {
  return EagerBuilder(graph, gpu, host, mode, captured).build();
}

}  // namespace gpusim
