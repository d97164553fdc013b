// SPDX-License-Identifier: Apache-2.0
#include "sim/program/compiled.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "models/graph/catalogue.hpp"
#include "models/graph/data_parallel.hpp"
#include "sim/program/eager_ops.hpp"
#include "sim/program/recent_memory.hpp"
#include "sim/program/step_layout.hpp"

namespace gpusim {
namespace {

/// Against a list scaled in place, which moves as many bytes: measured on an H200, 22.7 us for 64 MiB read
/// and written (validation/h200/compiled.csv, fma_relu) and 24 us a kernel (ln_gelu).
constexpr double input_copy_slowdown = 1.4;

class CompiledBuilder {
 public:
  CompiledBuilder(const CompiledStep& step, const CompileOptions& options, const GpuSpec& gpu,
                  const HostSpec& host, HostOpMode mode, bool marks)
      : step_(step),
        options_(options),
        gpu_(gpu),
        host_(host),
        mode_(mode),
        layout_(gpu, launch_extra(host, mode)),
        eager_(*step.graph, gpu, host, mode, layout_),
        touched_(step.memory.addresses, gpu.l2),
        marks_(marks || std::any_of(step.graph->ops.begin(), step.graph->ops.end(),
                                    [](const Op& op) { return op.phase != Phase::Forward; })) {}

  CompiledProgram build(std::int64_t accumulation) {
    // Two rounds over the step: the second one finds the cache as a step before it left it.
    for (const RegionPlan& region : step_.regions) touch(region);
    if (options_.backend.python && host_.ops.count("step") != 0) work("step", op_time(host_, "step", mode_));
    bool captured = true;
    for (std::int64_t pass = 0; pass < accumulation; ++pass) {
      const bool last = pass + 1 == accumulation;
      if (pass <= 1) pass_begin_ = piece_;
      piece_ = pass_begin_;
      for (const RegionPlan& region : step_.regions) {
        if (!last && phase_of(region) == Phase::Optimizer) break;
        if (region.region.compiled) {
          eager_.take_turn(phase_of(region));
          add(region);
        } else {
          for (OpIndex i = region.region.first; i < region.region.last; ++i)
            add(step_.graph->ops[i], pass, last);
        }
        captured = captured && region.cuda_graph != CudaGraphPolicy::None;
        leave(region.region);
      }
    }
    eager_.done();
    for (const KernelOverride& better : options_.overrides)
      if (used_.count(&better) == 0)
        throw CompileError("kernel_overrides: no compiled kernel is, or is made of, '" + better.op + "'",
                           "gpusim explain lists the kernels and their ops by name");
    result_.model_flops += eager_.model_flops();
    layout_.built.notes = layout_.slow_down(captured);
    for (std::string& note : layout_.notes(step_.memory.peak)) layout_.built.notes.push_back(std::move(note));
    result_.built = std::move(layout_.built);
    return std::move(result_);
  }

 private:
  void work(std::string_view name, Picoseconds time) {
    if (time > Picoseconds{0}) layout_.add_work(time, layout_.name(std::string(name)));
  }

  Phase phase_of(const RegionPlan& region) const {
    const Region& ops = region.region;
    return ops.first < ops.last ? step_.graph->ops[ops.first].phase : Phase::Forward;
  }

  /// An op that runs by itself.
  void add(const Op& op, std::int64_t pass, bool last) {
    if (op.phase == Phase::Optimizer && !last) return;
    const std::uint32_t piece = piece_++;
    if (op.accumulates && pass == 0) return;  // The first gradient is taken as it is.
    if (!last && only_in_last_pass(op)) return;
    eager_.add(op, touched_, marks_ ? std::optional(piece) : std::nullopt);
  }

  void touch(const RegionPlan& region) {
    if (!region.region.compiled) {
      for (OpIndex i = region.region.first; i < region.region.last; ++i)
        eager_.touch(step_.graph->ops[i], touched_);
      return;
    }
    for (const CompiledKernel& kernel : region.kernels) touch(region, kernel);
  }

  void touch(const RegionPlan& region, const CompiledKernel& kernel) {
    touched_.begin(moved(kernel));
    for (const KernelTouch& t : kernel.reads) touched_.touch(region.memory[t.buffer], t.bytes);
    for (const KernelTouch& t : kernel.writes) touched_.touch(region.memory[t.buffer], t.bytes);
  }

  static Bytes moved(const CompiledKernel& kernel) { return kernel.read() + kernel.written(); }

  CacheState cache_of(const RegionPlan& region, const CompiledKernel& kernel) const {
    const Bytes turn = moved(kernel);
    double read = 0;
    double missed = 0;
    for (const KernelTouch& t : kernel.reads) {
      read += static_cast<double>(t.bytes.value());
      missed += static_cast<double>(t.bytes.value()) *
                cold_share(touched_.since(region.memory[t.buffer], turn), gpu_);
    }
    const auto rounded = [](double share) { return std::floor(share * cache_steps + 0.5) / cache_steps; };
    return {.cold_reads = rounded(read > 0 ? missed / read : 0),
            .cold_writes = rounded(cold_share(turn, gpu_))};
  }

  /// What the work runs as. Products are priced by trying many tiles: once for all that are equal.
  const std::vector<GpuOpEstimate>& priced(const KernelWork& work, const CacheState& cache) {
    const auto* product = std::get_if<MatrixProduct>(&work);
    if (product == nullptr) return estimates_ = gpu_ops(work, gpu_, cache);
    const auto& [batch, m, n, k, dtype, output, epilogue, left, right] = *product;
    const auto [known, is_new] = products_.try_emplace(ProductKey(
        batch, m, n, k, dtype, output, epilogue, left, right, cache.cold_reads, cache.cold_writes));
    if (is_new) known->second = gpu_ops(work, gpu_, cache);
    return known->second;
  }

  std::string_view host_op(const CompiledKernel& kernel) const {
    const CompiledHostOps& names = options_.backend.host;
    switch (kernel.what) {
      case KernelClass::Generated:
      case KernelClass::Template:
        return names.kernel;
      case KernelClass::Product:
      case KernelClass::Library:
        return names.library;
      case KernelClass::Attention:
        return names.attention;
    }
    return names.kernel;
  }

  /// How much longer a kernel takes than the model says, for whom somebody has a better one.
  double override_of(const CompiledKernel& kernel, const GpuOpEstimate& estimate) {
    for (const KernelOverride& better : options_.overrides) {
      bool meant = kernel.name.find(better.op) != std::string::npos;
      for (const OpIndex op : kernel.ops)
        meant =
            meant || step_.graph->ops[op].name == better.op || step_.graph->ops[op].kind->name == better.op;
      if (!meant) continue;
      used_.insert(&better);
      const auto modelled = static_cast<double>(estimate.cost.duration.count());
      if (better.speedup) return 1 / *better.speedup;
      if (better.duration) return static_cast<double>(better.duration->count()) / std::max(modelled, 1.0);
      if (better.of_roof) {
        const double memory =
            static_cast<double>(estimate.cost.hbm_bytes.value()) / gpu_.memory.bandwidth.value() * 1e12;
        double compute = 0;
        if (estimate.cost.flops.value() > 0)
          for (const KernelWork& work : kernel.work)
            if (const auto* product = std::get_if<MatrixProduct>(&work))
              compute = estimate.cost.flops.value() / peak(gpu_, product->dtype).value() * 1e12;
        return std::max(memory, compute) / *better.of_roof / std::max(modelled, 1.0);
      }
    }
    return 1;
  }

  /// The name with a suffix, where the host file knows it apart.
  std::string named(const std::string& name, const char* suffix) const {
    return host_.ops.count(name + suffix) != 0 ? name + suffix : name;
  }

  /// Gradients of parameters that a region makes.
  std::int64_t gradients_of(const RegionPlan& region) const {
    std::set<MemoryIndex> made;
    for (const CompiledKernel& kernel : region.kernels)
      for (const KernelTouch& t : kernel.writes) {
        const MemoryIndex memory = region.memory[t.buffer];
        if (memory < step_.graph->storages.size() && step_.graph->storages[memory].role == Role::Gradient)
          made.insert(memory);
      }
    return static_cast<std::int64_t>(made.size());
  }

  /// Behind a graph break a function that resumes the frame is called, not the frame itself.
  static bool resumes(const Region& region) {
    const std::size_t slash = region.name.rfind('/');
    return slash != std::string::npos && region.name.compare(slash, std::string::npos, "/1") != 0;
  }

  void add(const RegionPlan& region) {
    const CompiledHostOps& names = options_.backend.host;
    const OpGraph& graph = *step_.graph;
    const bool replays = region.cuda_graph != CudaGraphPolicy::None;
    const bool by_hand =
        region.cuda_graph == CudaGraphPolicy::Whole || region.cuda_graph == CudaGraphPolicy::Piecewise;
    if (by_hand) {
      // Whoever recorded it replays it: nothing is checked, inputs are written where they were.
      work("replay", gpu_.launch.cuda_graph.replay_work);
    } else {
      const std::string call =
          named(replays ? names.replay : names.region, resumes(region.region) ? "_resumed" : "");
      work(call, op_time(host_, call, mode_));
      if (phase_of(region) == Phase::Backward) {
        // The engine calls one node for the region, and one for each gradient that stays.
        if (host_.ops.count("autograd_node") != 0)
          work("autograd_node",
               (1 + gradients_of(region)) * op_time(host_, "autograd_node", HostOpMode::NoGrad));
      } else {
        const std::string guard = named(names.parameter, replays ? "_replay" : "");
        work(guard, region.region.parameters * op_time(host_, guard, mode_));
      }
      if (replays && !region.copied_inputs.empty()) copy_inputs(region);
    }
    std::vector<StepLayout::Launched> nodes;
    for (const CompiledKernel& kernel : region.kernels) {
      if (marks_) layout_.mark(phase_of(region), piece_++);
      const CacheState cache = cache_of(region, kernel);
      std::vector<StepLayout::Launched> launched;
      for (const KernelWork& each : kernel.work)
        for (const GpuOpEstimate& estimate : priced(each, cache))
          launched.push_back(layout_.add(kernel.name, estimate,
                                         options_.overrides.empty() ? 1 : override_of(kernel, estimate),
                                         kernel.what == KernelClass::Generated));
      touch(region, kernel);
      result_.traffic += moved(kernel);
      if (kernel.what != KernelClass::Generated && graph.ops[kernel.op].kind->flops != nullptr) {
        const Op& op = graph.ops[kernel.op];
        const OpTypes types(graph, op);
        result_.model_flops += op.kind->flops(types.view(op));
      }
      const bool between =
          region.cuda_graph == CudaGraphPolicy::Piecewise && kernel.what == KernelClass::Attention;
      if (replays && !between) {
        nodes.insert(nodes.end(), launched.begin(), launched.end());
        continue;
      }
      if (between && !nodes.empty()) {
        layout_.launch_graph(layout_.name(region.region.name), nodes);
        nodes.clear();
      }
      const std::string_view priced = host_op(kernel);
      Picoseconds time = op_time(host_, priced, mode_);
      std::int32_t included = op_launches(host_, priced);
      for (const StepLayout::Launched& l : launched)
        if (included-- > 0) time -= l.call;
      work(priced, time);
      for (const StepLayout::Launched& l : launched) layout_.launch(l);
    }
    if (replays && !nodes.empty()) layout_.launch_graph(layout_.name(region.region.name), nodes);
  }

  /// One call copies all inputs that lie elsewhere than when the CUDA graph was recorded.
  void copy_inputs(const RegionPlan& region) {
    MultiTensor copy;
    for (const Bytes input : region.copied_inputs)
      copy.sizes.push_back(std::max<std::int64_t>(input.value() / 2, 1));
    copy.dtype = Dtype::Bf16;
    copy.lists = 2;
    for (const GpuOpEstimate& estimate : gpu_ops(copy, gpu_, cold))
      layout_.launch(layout_.add("copy of inputs", estimate, input_copy_slowdown, true));
  }

  /// What happens at the graph break behind a region.
  void leave(const Region& region) {
    for (std::int64_t i = 0; i < region.host_reads; ++i) {
      work("item", op_time(host_, "item", mode_));
      for (const GpuOpEstimate& estimate :
           gpu_ops(Memcpy{.bytes = Bytes(8), .direction = Memcpy::Direction::DeviceToHost}, gpu_, cold))
        layout_.launch(layout_.add("item", estimate));
    }
  }

  const CompiledStep& step_;
  const CompileOptions& options_;
  const GpuSpec& gpu_;
  const HostSpec& host_;
  const HostOpMode mode_;
  StepLayout layout_;
  EagerOps eager_;
  RecentMemory touched_;
  const bool marks_;
  using ProductKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, Dtype, Dtype,
                                Epilogue, bool, bool, double, double>;
  std::map<ProductKey, std::vector<GpuOpEstimate>> products_;
  std::vector<GpuOpEstimate> estimates_;  ///< Of the latest work that is no product.
  std::uint32_t piece_ = 0;               ///< Kernel, or op that runs by itself, of the step.
  std::uint32_t pass_begin_ = 0;
  std::set<const KernelOverride*> used_;  ///< Only asked for membership.
  CompiledProgram result_;
};

}  // namespace

CompiledProgram build_compiled(const CompiledStep& step, const CompileOptions& options, const GpuSpec& gpu,
                               const HostSpec& host, HostOpMode mode, const CompiledLayout& layout) {
  return CompiledBuilder(step, options, gpu, host, mode, layout.marks).build(layout.accumulation);
}

}  // namespace gpusim
