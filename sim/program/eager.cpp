// SPDX-License-Identifier: Apache-2.0
#include "sim/program/eager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "models/cost/power.hpp"
#include "models/graph/catalogue.hpp"
#include "models/units/text.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;

/// The memory touched last, latest first: what an L2 that keeps the latest bytes still holds. Memory counts
/// by its address, for a tensor that takes over what another gave back finds its lines in the cache.
class RecentMemory {
 public:
  /// `addresses`: by storage. What lies further back than `horizon` is forgotten.
  RecentMemory(const std::vector<std::int64_t>& addresses, Bytes horizon)
      : addresses_(addresses), horizon_(horizon.value()) {}

  /// Begins an op that goes over `bytes` of memory.
  void begin(Bytes bytes) {
    ++op_;
    op_bytes_ = bytes.value();
  }

  /// Bytes of distinct memory that go by between the last touch of a line of the storage and its reading by
  /// an op that goes over `reader` bytes; more than the horizon if it is forgotten. An op goes over its
  /// tensors side by side, so a line waits for half of the op that touched it last and half of the one that
  /// reads it, and for all between.
  Bytes since(StorageIndex storage, Bytes reader) const {
    std::int64_t between = 0;
    std::int64_t same_op = 0;
    std::int64_t current = -1;
    for (auto it = recent_.rbegin(); it != recent_.rend(); ++it) {
      if (it->op != current) {
        between += same_op;
        same_op = 0;
        current = it->op;
      }
      if (it->address == addresses_[storage]) return Bytes(between + (it->op_bytes + reader.value()) / 2);
      same_op += it->bytes;
    }
    return Bytes(horizon_ * 4) + reader;
  }
  void touch(StorageIndex storage, Bytes own) {
    const std::int64_t address = addresses_[storage];
    const auto known = std::find_if(recent_.rbegin(), recent_.rend(),
                                    [&](const Place& place) { return place.address == address; });
    Place place{address, own.value(), op_, op_bytes_};
    if (known != recent_.rend()) {
      place.bytes = std::max(place.bytes, known->bytes);
      total_ -= known->bytes;
      recent_.erase(std::next(known).base());
    }
    recent_.push_back(place);
    total_ += place.bytes;
    std::size_t forgotten = 0;
    while (total_ - recent_[forgotten].bytes > horizon_) total_ -= recent_[forgotten++].bytes;
    recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(forgotten));
  }

 private:
  struct Place {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    std::int64_t op = 0;        ///< That touched it last.
    std::int64_t op_bytes = 0;  ///< All that this op went over.
  };
  const std::vector<std::int64_t>& addresses_;
  const std::int64_t horizon_;
  std::vector<Place> recent_;  ///< Latest at the back.
  std::int64_t total_ = 0;
  std::int64_t op_ = 0;
  std::int64_t op_bytes_ = 0;
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
    for (const GraphTensor& tensor : graph_.tensors)
      bytes_.push_back({stored_bytes(tensor.type), dense_bytes(tensor.type)});
    prices_.resize(graph_.ops.size());
    program.threads.front().instructions.reserve(2 * graph_.ops.size());
    // Two rounds over the step: the second one finds the cache as a step before it left it.
    result_.memory = eager_memory(graph_, gpu_);
    RecentMemory touched(result_.memory.addresses, gpu_.l2);
    for (const Op& op : graph_.ops) touch(op, touched);
    if (step_time() > Picoseconds{0}) add_work(step_time(), name("step"));
    for (const Op& op : graph_.ops) add(op, touched);
    slow_down();
    if (launch_.transferred)
      result_.built.notes.push_back("launch parameters of " + gpu_.name +
                                    " are transferred from another device");
    if (gpu_.calibration && !gpu_.calibration->transferred_from.empty())
      result_.built.notes.push_back(
          fmt::format("kernels of {} are priced with the measurements of {}, scaled by peaks", gpu_.name,
                      gpu_.calibration->transferred_from));
    if (result_.memory.peak > gpu_.memory.capacity)
      result_.built.notes.push_back(fmt::format("out of memory: the step needs {}, {} has {}",
                                                format_quantity(result_.memory.peak), gpu_.name,
                                                format_quantity(gpu_.memory.capacity)));
    return std::move(result_);
  }

 private:
  struct Launched {
    Index op = 0;
    Picoseconds call{0};
    bool blocking = false;  ///< The host waits for it.
  };

  /// What an op costs whichever of its equals it is.
  struct Priced {
    std::vector<EagerCall> calls;
    Picoseconds host{0};
    std::int32_t launches = 0;  ///< In `host`.
    Flops flops{0};
    Index name = engine::no_index;  ///< Of its work on the host, once it has any.
    /// What it launches, by the cache's state in steps of `cache_steps`.
    std::map<std::pair<int, int>, std::vector<Launched>> launched;
  };

  /// Shares of cold bytes are rounded so that equal ops in equal surroundings are priced once.
  static constexpr double cache_steps = 64;

  Picoseconds step_time() const {
    return host_.ops.count("step") != 0 ? op_time(host_, "step", mode_) : Picoseconds{0};
  }

  Priced& price(const Op& op) {
    if (prices_[op.like]) return *prices_[op.like];
    const Op& first = graph_.ops[op.like];
    const OpTypes types(graph_, first);
    const OpView view = types.view(first);
    Priced& priced = prices_[op.like].emplace();
    priced.calls = op.kind->eager(view, gpu_);
    for (const EagerCall& call : priced.calls) {
      priced.host += op_time(host_, call.host_op, mode_);
      priced.launches += op_launches(host_, call.host_op);
    }
    if (op.kind->flops != nullptr) priced.flops = op.kind->flops(view);
    return priced;
  }

  void touch(const Op& op, RecentMemory& touched) {
    if (op.kind->fusion == FusionClass::View) return;
    touched.begin(moved(op));
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) touched.touch(graph_.tensors[t].storage, touched_bytes(op, t));
    for (const TensorIndex t : op.outputs) touched.touch(graph_.tensors[t].storage, bytes_[t].dense);
  }

  /// A lookup touches the rows it finds, not the whole table.
  Bytes touched_bytes(const Op& op, TensorIndex t) const {
    const Bytes all = bytes_[t].stored;
    if (op.kind->fusion != FusionClass::Gather && op.kind->fusion != FusionClass::Scatter) return all;
    Bytes most{0};
    for (const TensorIndex out : op.outputs) most = std::max(most, bytes_[out].dense);
    return op.kind->fusion == FusionClass::Gather ? std::min(all, most) : all;
  }

  /// What an op goes over: its inputs and outputs.
  Bytes moved(const Op& op) const {
    Bytes sum{0};
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) sum += touched_bytes(op, t);
    for (const TensorIndex t : op.outputs) sum += bytes_[t].dense;
    return sum;
  }

  CacheState cache_of(const Op& op, const RecentMemory& touched) const {
    double read = 0;
    double cold = 0;
    const Bytes turn = moved(op);
    for (const TensorIndex t : op.inputs) {
      if (t == graph_none) continue;
      const Bytes bytes = touched_bytes(op, t);
      read += static_cast<double>(bytes.value());
      cold += static_cast<double>(bytes.value()) *
              cold_share(touched.since(graph_.tensors[t].storage, turn), gpu_);
    }
    // The allocator hands out what was freed last, so a result overwrites what the cache still holds, if it
    // holds that much.
    return {.cold_reads = read > 0 ? cold / read : 0, .cold_writes = cold_share(turn, gpu_)};
  }

  void add(const Op& op, RecentMemory& touched) {
    Priced& priced = price(op);
    result_.model_flops += priced.flops;
    const CacheState cache = cache_of(op, touched);
    const auto reads = static_cast<int>(cache.cold_reads * cache_steps + 0.5);
    const auto writes = static_cast<int>(cache.cold_writes * cache_steps + 0.5);
    const auto [known, is_new] = priced.launched.try_emplace({reads, writes});
    if (is_new) known->second = gpu_ops_of(op, priced, {reads / cache_steps, writes / cache_steps});
    Picoseconds host = priced.host + op.module_calls * module_call_;
    // An op's price has so many launch calls in it; what it launches beyond them costs a call each.
    std::int32_t included = priced.launches;
    for (const Launched& launched : known->second)
      if (included-- > 0) host -= launched.call;
    if (host > Picoseconds{0}) {
      if (priced.name == engine::no_index) priced.name = name(std::string(op.kind->name));
      add_work(host, priced.name);
    }
    for (const Launched& launched : known->second) {
      Instruction instruction;
      instruction.call = Call::Launch;
      instruction.object = launched.op;
      instruction.duration = launched.call;
      instruction.latency = launched.call + launch_.arrival_after_call;
      // A number that the host reads is waited for.
      instruction.blocking = launched.blocking;
      if (launched.blocking) instruction.return_latency = launch_.sync_return;
      result_.built.program.threads.front().add(instruction);
    }
    touch(op, touched);
  }

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
    // All that is known to move nothing still has to differ from what is not known.
    info.bytes = std::max<std::int64_t>(estimate.cost.hbm_bytes.value(), 1);
    info.flops = estimate.cost.flops.value();
    LaunchedOp kind = LaunchedOp::Kernel;
    Picoseconds call = launch_.call;
    bool programmatic = false;
    bool blocking = false;
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
        if (estimate.name == "copy_to_host" || estimate.name == "copy_to_device") kind = LaunchedOp::HostCopy;
        if (estimate.name == "copy_to_host") gpu_op.copy_engine = engine::CopyEngine::DeviceToHost;
        if (estimate.name == "copy_to_device") gpu_op.copy_engine = engine::CopyEngine::HostToDevice;
        blocking = estimate.name == "copy_to_host";
        call = launch_.copy_call;
        break;
    }
    gpu_op.gap_class = static_cast<engine::GapClass>(gap_class(kind, gpu_op.duration, programmatic));
    compute_bound_.push_back(estimate.cost.limit == KernelLimit::Compute &&
                             estimate.kind == GpuOpKind::Kernel);
    return {result_.built.program.add(gpu_op, info), call, blocking};
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

  void add_work(Picoseconds duration, Index shown) {
    Instruction work;
    work.duration = duration;
    result_.built.program.threads.front().add(work, shown);
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
  struct TensorBytes {
    Bytes stored{0};
    Bytes dense{0};
  };
  std::vector<TensorBytes> bytes_;             ///< By tensor.
  std::vector<std::optional<Priced>> prices_;  ///< By Op::like.
};

}  // namespace

EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         bool captured) {
  return EagerBuilder(graph, gpu, host, mode, captured).build();
}

}  // namespace gpusim
